// Addresses: which cells a part has in a block, and where an operand's elements lie. What binding (bind.cpp) asks for
// each operand of each step, remembered for one binding so that operands over the same part share their tables.
#pragma once

#include <map>
#include <tuple>

#include "weft/runtime/bound.h"
#include "weft/runtime/memory.h"

namespace weft::runtime {

class Addresses {
 public:
  Addresses(Loaded& loaded, BoundState& state, const Memory& memory)
      : loaded_(loaded), instance_(loaded.instance), state_(state), memory_(memory), storage_(&state.storage) {}
  // From now on everything is made anew, in this storage.
  void store_in(Storage& storage) {
    storage_ = &storage;
    known_.clear(), scattered_.clear(), meets_.clear();
  }

  const Cells* cells(const plan::Block& block, int space, int64_t part, int channel);
  // The part's own elements [0, size) are contiguous in the whole value, from this position on.
  bool contiguous(int space, int64_t part, int64_t& position) const;
  Address slice(const plan::Block& block, int buffer, int rank, int64_t part, int channel);
  // Of an operand that does not go through the step cell by cell.
  Address apart(const plan::Block& block, const OperandTyping& typing, const plan::FlatOperand& flat, bool tile);
  Address constant(Dtype dtype, double value);

 private:
  std::shared_ptr<const SegmentIndex> segments(int space);
  void strided_address(Address& address, const BufferMemory& memory, int buffer, int rank, bool own);
  void segment_address(Address& address, const BufferMemory& memory, int buffer, int rank);
  const Meet* meet(int space);

  Loaded& loaded_;
  const plan::Instance& instance_;
  BoundState& state_;
  const Memory& memory_;
  Storage* storage_;
  std::map<std::tuple<const plan::Block*, int, int64_t>, const Cells*> known_;
  std::map<const plan::SegmentTable*, std::shared_ptr<const SegmentIndex>> indexes_;
  std::map<std::pair<int, int>, const Scattered*> scattered_;  // by buffer and rank
  std::map<int, const Meet*> meets_;                           // by derived space
};

}  // namespace weft::runtime
