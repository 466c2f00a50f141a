// The text form: every complete program reads back byte for byte; so does what the builder and rewrites may make.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/ir/support.h"
#include "weft/base/file.h"

namespace weft::ir {
namespace {

class CompletePrograms : public testing::TestWithParam<const char*> {};

TEST_P(CompletePrograms, ReadsBackByteForByte) {
  const std::string text = read_file(std::filesystem::path(WEFT_SOURCE_DIR) / "tests/cases/program" / (std::string(GetParam()) + ".weft"));
  const Program program = parse(text);
  EXPECT_EQ(print(program), text);
  EXPECT_EQ(infer(program).size(), program.tensors.size() + program.ops.size());
}

INSTANTIATE_TEST_SUITE_P(All, CompletePrograms,
                         testing::Values("adam", "adam_mixed", "adamw_clip", "lamb", "mlp", "sequence_parallel", "attention_end", "pipeline", "moe", "sgd_int"));

}  // namespace
}  // namespace weft::ir
