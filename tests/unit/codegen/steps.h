// Shapes of steps for tests, and running one on made-up data with guards around every target.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "weft/kernel/step.h"

namespace weft::test {

kernel::Kernel parse_kernel(const std::string& text);
kernel::SourceShape aligned(Dtype dtype);
kernel::SourceShape single(Dtype dtype);
std::vector<kernel::SourceShape> many(int count, Dtype dtype);

// Fused Adam as it is lowered: a sum over ranks, moments, weights; state and parameters written, parameters to two
// places.
kernel::StepShape adam_shape(kernel::Store parameters = kernel::Store::normal);
extern const char* const adam_text;

// The targets' bytes, with guards, after running `code` on data that only depends on the shape, count, offset and seed.
// `in_place`: target t lies where a source of its dtype lies, for as many targets as find one.
std::vector<std::vector<char>> run_step(const kernel::StepShape& shape, const kernel::StepCode& code, int64_t count,
                                        int64_t offset, uint32_t seed, bool in_place);
// Positions at which guards are damaged: none is right.
bool guards_whole(const kernel::StepShape& shape, const std::vector<std::vector<char>>& targets, int64_t count,
                  int64_t offset);

}  // namespace weft::test
