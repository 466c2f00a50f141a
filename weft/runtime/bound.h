// Bound form: a loaded plan with extents and memory. Everything a launch touches, flat and without expressions.
//
// Problem: a step on eight bytes must cost tens of nanoseconds. So everything that a launch does not change is decided
// here: ranges of cells in tables, addresses as base and stride, links as pointers to their ends. The common step (one
// part, contiguous operands, links of one slot) takes the fast path of cursor.cpp; any other takes the general one,
// which splits the cell into runs that are contiguous in all operands.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "weft/runtime/loaded.h"

namespace weft::runtime {

// The ranges of one part in one block: by chunk and slice in a loop, the whole part otherwise.
struct Cells {
  std::vector<plan::Range> table;  // [chunk * slices + slice]; empty: too many, asked from extents
  const plan::Extents* extents = nullptr;
  int space = 0, channel = 0, slices = 1;
  int64_t part = 0, chunks = 0;
  bool loop = false;
  plan::Range whole;
  plan::Range at(int64_t chunk, int slice) const {
    if (!loop) return whole;
    if (chunk >= chunks) return {};
    if (!table.empty()) return table[static_cast<size_t>(chunk * slices + slice)];
    return extents->slice(space, part, channel, chunk, slice, slices);
  }
  int64_t chunk_begin(int64_t chunk) const {
    return chunk >= chunks ? 0 : table.empty() ? extents->chunk(space, part, channel, chunk).begin : at(chunk, 0).begin;
  }
};

struct BoundOperand {
  Address address;
  const Cells* cells = nullptr;  // of its own part; null: not aligned
  int space = 0;
  int64_t part = 0;
};

// The same for the fast path.
struct FastOperand {
  std::byte* base = nullptr;
  int64_t stride = 0;
  const Cells* own = nullptr;
};

constexpr int64_t large_message_bytes = 16384;  // from here on each message taken is told at once

struct LinkUse {
  void* end = nullptr;              // SendEnd or RecvEnd
  uint16_t operand = 0, ahead = 0;  // ahead: messages of this link that the step handles before
  plan::Protocol protocol = plan::Protocol::simple;
  uint32_t slots = 1;       // of the family: never more under way
  uint32_t tell_every = 1;  // credits are pushed back every so many messages, and before any wait
  int64_t element_bytes = 4;
  std::byte* staging = nullptr;  // ll, ll128: the message in one piece
  std::byte* message = nullptr;  // where the present message is read or written
  int64_t progress = 0;          // lines of it that are there
};

struct BoundAwait {
  const LoadedAwait* loaded = nullptr;
  int64_t iterations = 0;  // of a peer's awaited block in this launch
};

struct BoundPiece {
  std::vector<BoundOperand> operands;
  const Cells* main = nullptr;
};

struct BoundStep {
  void (*run)(const kernel::StepArgs*, const void*) = nullptr;
  const void* self = nullptr;
  const void* hoisted = nullptr;
  const Cells* main = nullptr;  // fast path
  const FastOperand* fast = nullptr;
  LinkUse* links = nullptr;  // receives, then sends
  int64_t position = 0;      // fast path: of the part's first element in the whole value
  int64_t* done = nullptr;
  BoundAwait* awaits = nullptr;
  const Push* pushes = nullptr;
  uint16_t operand_count = 0, sources = 0, receives = 0, sends = 0, await_count = 0, push_count = 0;
  bool idle = true, is_fast = false, streams = false, counted = false;  // counted: message sizes are not agreed
  bool tile = false, splits = false;                                    // splits: the cell may have to be cut into runs
  std::vector<BoundPiece> pieces;                                       // general path
  const LoadedStep* loaded = nullptr;
};

struct Storage;
struct BoundBlock {
  std::vector<BoundStep> steps;
  bool late = false;                 // its counts are read from a buffer when it begins: bound then
  std::shared_ptr<Storage> storage;  // late: its own
  int64_t iterations = 1;
  int slices = 1;
  bool loop = false;
  BlockCounter* counter = nullptr;
  std::vector<Push> pushes;
};

// What bound steps point to.
struct Storage {
  std::shared_ptr<std::byte[]> staging;
  std::deque<Cells> cells;
  std::deque<std::vector<FastOperand>> fast;
  std::deque<std::vector<LinkUse>> links;
  std::deque<std::vector<BoundAwait>> awaits;
  std::deque<Scattered> scattered;
  std::deque<StridedView> views;
  std::deque<Meet> meets;
  std::deque<std::array<double, 2>> constants;
};

struct Cursor {
  std::vector<BoundBlock> blocks;
  const LoadedLane* loaded = nullptr;
  int channel = 0;
  size_t block = 0, step = 0;
  int slice = 0;
  int64_t chunk = 0;
  bool entered = false, finished = false;
  int64_t free_since_ns = 0;    // instrumented: when its last step ended
  std::vector<void*> pointers;  // room for the operands of the largest step
};

// One launch under way.
struct BoundState;
struct Launch {
  BoundState* state = nullptr;
  Communicator::Impl* owner = nullptr;
  std::array<uint64_t, max_channels> flags{};       // tag << 40, per channel
  int64_t number = 0;                               // of launches of this plan before this one
  uint64_t serial = 0;                              // counts the launches of the communicator
  int stranger = -1;                                // peer whose foreign tag was seen
  int64_t stranger_bytes = -1, expected_bytes = 0;  // and the size of its message, where sizes differ
  int stranger_channel = 0;
  uint64_t moves = 0;                           // grows with every step
  int64_t still_since_ns = 0, compared_ns = 0;  // poll(): when nothing moved first, and when headers were compared
  bool instrumented = false;                    // spans are recorded, or a test delays steps
};

struct BoundState {
  Launch launch;
  std::shared_ptr<Loaded> keep;  // null where Loaded itself owns this (`last`)
  Loaded* loaded = nullptr;
  plan::LaunchArgs args;
  std::unique_ptr<plan::Extents> extents;
  std::vector<Cursor> cursors;
  std::vector<int64_t> advance_by;  // per Loaded::shadows: iterations of that peer's block
  std::vector<expr::ScalarValue> scalars;
  std::vector<bool> own_scalars;  // sizes of tiles are each rank's own: not agreed
  bool prepared = false;
  uint64_t hash = 0, scalar_hash = 0, binding = 0;
  int64_t scratch_version = 0;
  std::string text;  // for disagreements
  std::shared_ptr<std::byte[]> hoisted;
  Storage storage;
  std::vector<std::shared_ptr<void>> holds;             // symmetric memory in use, scratch that was replaced
  std::function<void(Cursor&, BoundBlock&)> bind_late;  // reads counts, binds the block

  ~BoundState();
};

// Resolves everything. Collective where scratch that peers map, or slots, must grow.
std::shared_ptr<BoundState> bind(Loaded& loaded, const plan::LaunchArgs& args);
bool same_binding(const plan::LaunchArgs& a, const plan::LaunchArgs& b);

// Publishes the header, prepares hoisted values, sets the cursors. One launch of a state at a time.
Launch& begin(BoundState& state, std::span<const expr::ScalarValue> scalars);
// Runs the cursors as far as they go. True: the launch is complete.
bool advance(Launch& launch);
void end(Launch& launch);
// The same for a launch that nobody waits in: strangers are noticed, and headers compared when nothing has moved for long.
bool poll(Launch& launch);
// Until complete: spins, yields, parks, compares headers, keeps the deadline.
void drive(Launch& launch);
// "rank 1 lane main channel 0 step red(2) `red: ...` (chunk 3 of 8) waits for a message of 400 bytes from rank 0 on link
// main (number 4 of this launch)"
std::string waiting(const Launch& launch);

}  // namespace weft::runtime
