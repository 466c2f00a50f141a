// What if: the product of a few choices, each point predicted, with what bounds it and the least that it could be.
#pragma once

#include <string>
#include <vector>

#include "weft/sim/collective.h"

namespace weft::sim {

// One coordinate and its values as they are written:
//   algo      ring, tree, nvls, nvlstree: NCCL's; weft: the fastest of Weft's plans; weft:NAME: that plan, simulated
//   proto     LL, LL128, Simple
//   channels  1..32 (1, 2, 4 ... 32), or a list
//   nodes     1..64, or a list: all their GPUs are ranks
//   size      64K,1M,16M
//   nic_bw, gpu_bw, memory_bw, nic_latency, gpu_latency: x2 of what the machine has, or GB/s and us
struct Axis {
  std::string name;
  std::vector<std::string> values;
};
// "channels=1..32". Error(user) for names and values that are none, and for a range that descends.
Axis parse_axis(const std::string& text);

struct WhatIfPoint {
  std::vector<size_t> at;  // of each axis, which value
  std::string impossible;  // why there is no such run; then nothing else holds
  double us = 0, busbw = 0;
  std::string bound, runs;  // runs: what was taken, in words
  Limit limit;
  Question question;
};
// Points in the order of the product, the last axis fastest. Every axis once. Error(user) for a product of more than
// 20,000 points. `wishes` hold where no axis says otherwise.
std::vector<WhatIfPoint> what_if(const topo::Cluster& cluster, const Question& question, const std::vector<Axis>& axes,
                                 const NcclWishes& wishes, bool keep_order);

}  // namespace weft::sim
