// The programs that schedules are tried on: the texts of docs/program.md (tests/cases/program), and one statement or two
// for single rules.
#pragma once

#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/ir/program.h"
#include "weft/schedule/schedule.h"

namespace weft::schedule::test {

inline ir::Program program(const std::string& name) {
  return ir::parse(read_file(checkout_dir() + "/tests/cases/program/" + name + ".weft"));
}
inline ir::Program example(const std::string& name) {
  return ir::parse(read_file(checkout_dir() + "/examples/" + name + ".weft"));
}
inline const std::vector<std::string>& example_names() {
  static const std::vector<std::string> names = {"adam", "adamw", "lamb", "sgd", "adam_mixed", "attention_end"};
  return names;
}
inline const std::vector<std::string>& program_names() {
  static const std::vector<std::string> names = {"adam", "adamw_clip",        "lamb",     "adam_mixed", "attention_end",
                                                 "mlp",  "sequence_parallel", "pipeline", "moe",        "sgd_int"};
  return names;
}

// Tensors of every layout, for one statement or two: "y = ...\nout y\n".
inline ir::Program small(const std::string& body) {
  static const std::string head =
      "program 1 t\ndim N B H C\ngroup stage = world.split(2)\nscalar k i64\nin g f32[N] local\nin x f32[B, H] "
      "local\nin b f32[H] replicated\n"
      "in r f32[B, H] replicated\nin q f32[B, H] sliced(0)\nin z f32[B, H] sliced(1)\nstate w f32[N] replicated\n";
  return ir::parse(head + body);
}

// "split a; reorder m1 v1; store m" one after the other.
inline ir::Program after(ir::Program program, const std::string& sentences) {
  for (const std::string& sentence : split(sentences, ';')) {
    std::vector<std::string> w = words(sentence);
    if (!w.empty()) program = apply(program, w[0], Args{{w.begin() + 1, w.end()}});
  }
  return program;
}

}  // namespace weft::schedule::test
