// What a program computes, by the reference evaluator, in a form that all its schedules share: outputs and new states as
// whole values, whoever holds which part. Inputs are made from a seed and cut as the program declares them.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"

namespace weft::schedule::test {

struct World {
  ir::Sizes sizes;
  uint64_t seed = 1;
  bool integers = false;  // whole numbers of small size, so that sums are exact
};
// n elements in [N] and three tensors in P; matrices are small. Scalars of all example programs.
World world(int ranks, int64_t n, uint64_t seed = 1, bool integers = false);

// The whole value of every output and of every state after the launch (of each rank where it is local).
using Meaning = std::map<std::string, std::vector<ir::Tensor>>;
Meaning meaning(const ir::Program& program, const World& world);
// The largest difference relative to max(1, |value|), infinity where shapes differ.
double difference(const Meaning& a, const Meaning& b);

}  // namespace weft::schedule::test
