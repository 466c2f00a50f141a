// Symbolic cells: which there are, which a step's operand names, what they hold and who touched them last.
//
// A space is cut into (part, share, chunk, slice) if some loop runs over it, else a part is one cell. Sizes are
// unknown: two lists of cells have the same sizes if their keys are equal, by the kind of the spaces (V2). Races (V9)
// are found as FastTrack does: a cell knows its last write and the reads since then that are not ordered before one
// another.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/machine_step.h"
#include "weft/plan/small_vec.h"
#include "weft/plan/verify_terms.h"

namespace weft::plan {

struct Variant {        // one run of the verifier
  int chunks = 1;       // L
  bool alias = false;   // in-place bindings and shared scratch as declared
  bool ragged = false;  // every other part of an even space has one chunk less
  uint64_t seed = 0;    // of the counts of `given` spaces
};

struct SpaceShape {
  Space::Kind kind = Space::Kind::even;
  bool cut = false;  // some loop runs over it
  int parts = 1, shares = 1, chunks = 1, slices = 1;
  int twin = 0;      // the first space that it is aligned with: same positions
  uint64_t key = 0;  // of sizes that do not depend on the cell
};

class Spaces {
 public:
  Spaces(const Instance& instance, const Assembly& assembly, const Variant& variant);
  const SpaceShape& operator[](int space) const { return shapes_[static_cast<size_t>(space)]; }
  size_t size() const { return shapes_.size(); }
  bool aligned(int a, int b) const {
    return shapes_[static_cast<size_t>(a)].twin == shapes_[static_cast<size_t>(b)].twin;
  }
  uint64_t size_key(int space, const Coord& coord) const;
  // Chunks of a part, for spaces that are not `given`.
  int chunks(int space, int part) const;

 private:
  void join(int a, int b);
  std::vector<SpaceShape> shapes_;
  bool ragged_;
};

// Where a step stands: what "chunk l of this part, share c" means.
struct Spot {
  bool loop = false;
  const Block* head = nullptr;
  int channel = 0, slice = 0;
  int64_t chunk = 0, turn = 0;
};

struct Epoch {
  int actor = -1;
  uint32_t time = 0;
};

struct Cell {
  Term term = no_term;
  int launch = -1;  // of the last write
  Epoch writer;
  SmallVec<Epoch, 2> readers;
};

class CellMemory {
 public:
  CellMemory(const Instance& instance, const Spaces& spaces, bool alias);
  int root(int buffer) const { return roots_[static_cast<size_t>(buffer)]; }
  size_t index(int rank, int buffer, const Coord& coord, int64_t turn) const;
  Cell& operator[](size_t index) { return cells_[index]; }
  const Cell& operator[](size_t index) const { return cells_[index]; }
  // The actor that an access by `actor` at its present clock races with, or -1.
  int access(Cell& cell, int actor, const uint32_t* clock, bool write);
  size_t buffer_cells(int buffer) const { return sizes_[static_cast<size_t>(root(buffer))]; }
  size_t buffer_base(int rank, int buffer) const {
    return bases_[static_cast<size_t>(rank) * roots_.size() + static_cast<size_t>(root(buffer))];
  }

 private:
  const Spaces* spaces_;
  const Instance* instance_;
  std::vector<int> roots_;
  std::vector<size_t> bases_, sizes_;
  std::vector<Cell> cells_;
};

}  // namespace weft::plan
