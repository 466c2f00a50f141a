// Plans of single collectives on numbers: what every rank holds before, what it must hold after.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "weft/algo/algorithm.h"
#include "weft/base/dtype.h"
#include "weft/plan/interpret.h"
#include "weft/plan/stats.h"
#include "weft/plan/verify.h"

namespace weft::algo {

inline const std::vector<Collective> collectives = {Collective::all_reduce, Collective::reduce_scatter,
                                                    Collective::all_gather, Collective::broadcast, Collective::reduce};

// One rank's elements of a buffer, with canaries behind.
struct Memory {
  static constexpr size_t canaries = 32;
  std::vector<unsigned char> bytes;
  int64_t count = 0;
  Memory(int64_t elements, Dtype dtype)
      : bytes(static_cast<size_t>(elements * size_bytes(dtype)) + canaries, 0xa5), count(elements) {}
  bool canaries_whole() const {
    for (size_t i = bytes.size() - canaries; i < bytes.size(); ++i)
      if (bytes[i] != 0xa5) return false;
    return true;
  }
  void* data() { return bytes.data(); }
};

// A plan of make_plan for n ranks and N elements, run once by the interpreter.
struct Trial {
  Collective collective = Collective::all_reduce;
  int ranks = 1, root = 0;
  int64_t elements = 0;
  Dtype dtype = Dtype::f32;
  uint64_t seed = 0;
  std::vector<std::vector<double>>
      inputs;  // whole contributions; all_gather: whole values, of which rank r has its part
  std::vector<std::vector<double>> outputs;        // what each rank has then; reduce: empty but on the root
  std::vector<std::pair<int64_t, int64_t>> parts;  // of the space, by rank
};

void fill_integers(Trial& trial);  // encodes (rank, index), small enough to be exact in f32
void fill_floats(Trial& trial, uint64_t seed);
// Runs and checks canaries; fills outputs and parts.
void run(Trial& trial, const plan::Plan& plan);
// The left fold over ranks (or what arrives), in the arithmetic of the dtype.
std::vector<double> wanted(const Trial& trial, int rank, bool average = false);

}  // namespace weft::algo
