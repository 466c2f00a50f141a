// Cursors: running the steps of a lane until one must wait. The hot path of the runtime.
//
// Order inside a step: awaits, then links (all messages there, all slots free), then the code, then flags, credits and
// counters: what a step takes and gives happens at once as far as others can see. Flags and pushed words are stored
// with release meaning; on x86 that is a plain store, so a step's cost is its loads and stores and one indirect call.
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "weft/runtime/bound.h"
#include "weft/transport/wait.h"

namespace weft::runtime {
namespace {

// ---- what others see
void wake_if_parked(Launch& launch, std::atomic<uint32_t>& parked, int peer) {
  if (__builtin_expect(parked.load(std::memory_order_relaxed) != 0, 0)) launch.owner->transport.wake(peer);
}

void fence_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void push(Launch& launch, const Push* pushes, size_t count, uint64_t flag, int64_t value) {
  for (size_t i = 0; i < count; ++i) {
    pushes[i].word->store(flag | (static_cast<uint64_t>(value) & number_mask), std::memory_order_release);
    if (__builtin_expect(pushes[i].mirror.window != nullptr, 0))
      pushes[i].mirror.put(pushes[i].peer, pushes[i].word, sizeof *pushes[i].word);
    wake_if_parked(launch, *pushes[i].parked, pushes[i].peer);
  }
}

// ---- awaits
// A peer's word: enough has happened, and if it happened in this launch, it was the same launch there.
bool word_holds(Launch& launch, const LoadedAwait& await, const Word& word, int64_t need, int64_t last_of_launch) {
  const uint64_t seen = word.load(std::memory_order_acquire);
  const auto value = static_cast<int64_t>(number_of(seen));
  if (value < need) return false;
  const uint64_t flag = launch.flags[static_cast<size_t>(await.channel)];
  if (await.lag == 0 && value <= last_of_launch && tag_of(seen) != tag_of(flag)) {
    launch.stranger = await.rank, launch.stranger_channel = await.channel;
    return false;
  }
  return true;
}

// Here: the same chunk is done, or the lane has left the block (it may have fewer chunks, or none).
bool holds_here(const Launch& launch, const LoadedAwait& await, int64_t chunk) {
  return await.block->left >= launch.number + 1 || (await.together && *await.done >= await.block->base + chunk + 1);
}

bool holds(Launch& launch, const BoundBlock& block, int64_t chunk, const BoundAwait& bound) {
  const LoadedAwait& await = *bound.loaded;
  if (await.lag > 0) {
    const int64_t need = block.counter->base + chunk - await.lag + 1;
    return need <= 0 || (await.remote ? word_holds(launch, await, *await.done_word, need, 0) : *await.done >= need);
  }
  if (!await.remote) return holds_here(launch, await, chunk);
  const int64_t last = await.block->base + bound.iterations, need = launch.number + 1;
  if (await.together && chunk < bound.iterations)
    return word_holds(launch, await, *await.done_word, await.block->base + chunk + 1, last);
  return await.left_word ? word_holds(launch, await, *await.left_word, need, need)
                         : word_holds(launch, await, *await.done_word, last, last);
}

bool all_hold(Launch& launch, const BoundBlock& block, const BoundStep& step, int64_t chunk) {
  for (size_t i = 0; i < step.await_count; ++i)
    if (!holds(launch, block, chunk, step.awaits[i])) return false;
  return true;
}

// ---- links
uint64_t fold_count(uint64_t flag, int64_t count) {
  return flag ^ ((static_cast<uint64_t>(count) * 0x9e3779b97f4a7c15ull) >> number_bits << number_bits);
}

void stranger(Launch& launch, const Cursor& cursor, int peer, int64_t bytes) {
  launch.stranger = peer, launch.stranger_channel = cursor.channel, launch.stranger_bytes = bytes;
}

bool simple_arrived(Launch& launch, const Cursor& cursor, const BoundStep& step, const LinkUse& use, int64_t bytes,
                    std::byte*& pointer) {
  const auto& end = *static_cast<RecvEnd*>(use.end);
  auto* head = reinterpret_cast<SlotHead*>(end.slot(use.ahead));
  const uint64_t want = launch.flags[static_cast<size_t>(cursor.channel)] | ((end.taken + use.ahead + 1) & number_mask);
  const uint64_t seen = head->flag.load(std::memory_order_acquire);
  if (seen != want) {
    if (number_of(seen) == number_of(want)) stranger(launch, cursor, end.peer, -1);
    return false;
  }
  if (step.counted && static_cast<int64_t>(head->bytes.load(std::memory_order_relaxed)) != bytes) {
    launch.expected_bytes = bytes;
    stranger(launch, cursor, end.peer, static_cast<int64_t>(head->bytes.load(std::memory_order_relaxed)));
    return false;
  }
  pointer = bytes <= small_bytes ? head->small : reinterpret_cast<std::byte*>(head + 1);
  return true;
}

bool lines_arrived(Launch& launch, const Cursor& cursor, const BoundStep& step, LinkUse& use, int64_t bytes,
                   std::byte*& pointer) {
  const auto& end = *static_cast<RecvEnd*>(use.end);
  uint64_t want = launch.flags[static_cast<size_t>(cursor.channel)] | ((end.taken + use.ahead + 1) & number_mask);
  if (step.counted) want = fold_count(want, bytes);
  std::byte* slot = end.slot(use.ahead);
  if (use.protocol == plan::Protocol::ll128 && bytes <= line_bytes) {  // read in place
    auto* line = reinterpret_cast<Line128*>(slot);
    const uint64_t seen = line->flag.load(std::memory_order_acquire);
    if (seen != want && number_of(seen) == number_of(want)) stranger(launch, cursor, end.peer, -1);
    pointer = line->data;
    return seen == want;
  }
  uint64_t foreign = 0;
  const bool wide = use.protocol == plan::Protocol::ll128;
  use.progress = wide ? unpack_ll128(slot, use.staging, bytes, want, use.progress, foreign)
                      : unpack_ll(slot, use.staging, bytes, want, use.progress, foreign);
  if (foreign) stranger(launch, cursor, end.peer, -1);
  pointer = use.staging;
  return use.progress == (wide ? lines_ll128(bytes) : words_ll(bytes));
}

bool arrived(Launch& launch, const Cursor& cursor, const BoundStep& step, LinkUse& use, int64_t count,
             std::byte*& pointer) {
  const int64_t bytes = count * use.element_bytes;
  return use.protocol == plan::Protocol::simple ? simple_arrived(launch, cursor, step, use, bytes, pointer)
                                                : lines_arrived(launch, cursor, step, use, bytes, pointer);
}

bool has_room(LinkUse& use, int64_t count, std::byte*& pointer) {
  auto& end = *static_cast<SendEnd*>(use.end);
  if (!end.has_room(use.ahead, use.slots)) return false;
  const int64_t bytes = count * use.element_bytes;
  std::byte* slot = end.slot(use.ahead);
  if (use.protocol == plan::Protocol::simple)
    pointer = bytes <= small_bytes ? reinterpret_cast<SlotHead*>(slot)->small : slot + sizeof(SlotHead);
  else
    pointer = use.protocol == plan::Protocol::ll128 && bytes <= line_bytes ? slot : use.staging;
  return true;
}

void send_message(Launch& launch, const Cursor& cursor, const BoundStep& step, LinkUse& use, int64_t count) {
  auto& end = *static_cast<SendEnd*>(use.end);
  const int64_t bytes = count * use.element_bytes;
  std::byte* slot = end.slot(0);
  uint64_t flag = launch.flags[static_cast<size_t>(cursor.channel)] | ((end.sent + 1) & number_mask);
  if (use.protocol == plan::Protocol::simple) {
    auto* head = reinterpret_cast<SlotHead*>(slot);
    head->bytes.store(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
    head->flag.store(flag, std::memory_order_release);
  } else {
    if (step.counted) flag = fold_count(flag, bytes);
    if (use.protocol == plan::Protocol::ll)
      pack_ll(slot, end.slot_bytes, use.staging, bytes, flag, end.mask + 1);
    else if (bytes <= line_bytes)
      reinterpret_cast<Line128*>(slot)->flag.store(flag, std::memory_order_release);
    else
      pack_ll128(slot, use.staging, bytes, flag);
  }
  if (__builtin_expect(end.mirror.window != nullptr, 0))
    mirror_message(end, use.protocol, slot, bytes, rewrites_slot(flag, end.mask + 1));
  end.enter(launch.serial);
  ++end.sent;
  wake_if_parked(launch, *end.parked, end.peer);
}

void take_message(Launch& launch, LinkUse& use, int64_t count) {
  auto& end = *static_cast<RecvEnd*>(use.end);
  use.progress = 0;
  // Over a network it is the message that says whether a credit each is worth its packet, not what the slot could hold.
  const bool large = end.mirror.window && count * use.element_bytes > large_message_bytes;
  if (!end.take(launch.serial, large ? 1 : use.tell_every)) return;
  end.push();
  wake_if_parked(launch, *end.parked, end.peer);
}

bool links_ready(Launch& launch, Cursor& cursor, BoundStep& step, int64_t count) {
  LinkUse* use = step.links;
  for (size_t i = 0; i < step.receives; ++i, ++use)
    if (!arrived(launch, cursor, step, *use, count, use->message)) return false;
  for (size_t i = 0; i < step.sends; ++i, ++use)
    if (!has_room(*use, count, use->message)) return false;
  return true;
}

void finish_links(Launch& launch, Cursor& cursor, BoundStep& step, int64_t count) {
  LinkUse* use = step.links + step.receives;
  for (size_t i = 0; i < step.sends; ++i, ++use) send_message(launch, cursor, step, *use, count);
  use = step.links;
  for (size_t i = 0; i < step.receives; ++i, ++use) take_message(launch, *use, count);
}

// ---- one part, everything contiguous
bool run_fast(Launch& launch, Cursor& cursor, BoundStep& step) {
  const plan::Range cell = step.main->at(cursor.chunk, cursor.slice);
  const int64_t count = cell.size();
  if (count <= 0) return true;
  const bool has_links = step.receives + step.sends > 0;
  void** pointers = cursor.pointers.data();
  if (has_links) {
    if (!links_ready(launch, cursor, step, count)) return false;
    for (const LinkUse* use = step.links; use != step.links + step.receives + step.sends; ++use)
      pointers[use->operand] = use->message;
  }
  for (size_t i = 0; i < step.operand_count; ++i) {
    const FastOperand& operand = step.fast[i];
    if (!operand.base) continue;  // a message: set already
    const int64_t at = operand.own ? operand.own->at(cursor.chunk, cursor.slice).begin : cell.begin;
    pointers[i] = operand.base + at * operand.stride;
  }
  const kernel::StepArgs args{pointers, pointers + step.sources, count, step.position + cell.begin, step.hoisted};
  step.run(&args, step.self);
  if (step.streams) fence_streams();
  if (has_links) finish_links(launch, cursor, step, count);
  return true;
}

// ---- any step
std::byte* operand_at(const Cursor& cursor, const BoundBlock& block, const BoundStep& step, const BoundOperand& operand,
                      const BoundPiece& piece, plan::Range cell, int64_t at, int64_t position, int64_t& count) {
  const Address& address = operand.address;
  if (!operand.cells) return locate(address, 0, position, count);
  const plan::Range mine = operand.cells == piece.main ? cell : operand.cells->at(cursor.chunk, cursor.slice);
  int64_t in_part = mine.begin + (at - cell.begin);
  if (address.kind == Address::Kind::turn) {
    const int64_t turn = (block.counter->base + cursor.chunk) % address.depth;
    return address.base + turn * address.capacity +
           (in_part - operand.cells->chunk_begin(cursor.chunk)) * address.stride;
  }
  if (address.kind == Address::Kind::flat) return address.base + in_part * address.stride;
  if (operand.cells != piece.main || step.tile) {
    int64_t run = 0;
    position = operand.cells->extents->run_at(operand.space, operand.part, in_part, mine.end, run);
    count = std::min(count, run);
  }
  return locate(address, in_part, position, count);
}

void run_cell(Cursor& cursor, const BoundBlock& block, BoundStep& step, const BoundPiece& piece, plan::Range cell,
              int64_t message_offset) {
  std::vector<void*>& pointers = cursor.pointers;
  for (int64_t at = cell.begin; at < cell.end;) {
    int64_t count = cell.end - at, position = 0;
    if (step.splits) position = piece.main->extents->run_at(piece.main->space, piece.main->part, at, cell.end, count);
    for (size_t i = 0; i < step.operand_count; ++i) {
      const BoundOperand& operand = piece.operands[i];
      if (operand.address.kind != Address::Kind::message)
        pointers[i] = operand_at(cursor, block, step, operand, piece, cell, at, position, count);
    }
    for (const LinkUse* use = step.links; use != step.links + step.receives + step.sends; ++use)
      pointers[use->operand] = use->message + (message_offset + at - cell.begin) * use->element_bytes;
    const kernel::StepArgs args{pointers.data(), pointers.data() + step.sources, count, position, step.hoisted};
    step.run(&args, step.self);
    at += count;
  }
}

bool run_general(Launch& launch, Cursor& cursor, const BoundBlock& block, BoundStep& step) {
  int64_t total = 0;
  for (const BoundPiece& piece : step.pieces) total += piece.main->at(cursor.chunk, cursor.slice).size();
  if (total <= 0) return true;
  if (!links_ready(launch, cursor, step, total)) return false;
  int64_t offset = 0;
  for (const BoundPiece& piece : step.pieces) {
    const plan::Range cell = piece.main->at(cursor.chunk, cursor.slice);
    if (cell.size() <= 0) continue;
    run_cell(cursor, block, step, piece, cell, offset);
    offset += cell.size();
  }
  if (step.streams) fence_streams();
  finish_links(launch, cursor, step, total);
  return true;
}

void leave_block(Launch& launch, Cursor& cursor, BoundBlock& block) {
  ++block.counter->left;
  if (!block.pushes.empty())
    push(launch, block.pushes.data(), block.pushes.size(), launch.flags[static_cast<size_t>(cursor.channel)],
         block.counter->left);
}

// Passes loops without iterations. False: the lane is done.
bool enter_block(Launch& launch, Cursor& cursor) {
  for (; cursor.block < cursor.blocks.size(); ++cursor.block) {
    if (__builtin_expect(cursor.blocks[cursor.block].late, 0))
      launch.state->bind_late(cursor, cursor.blocks[cursor.block]);
    if (cursor.blocks[cursor.block].iterations > 0) return true;
    leave_block(launch, cursor, cursor.blocks[cursor.block]);
  }
  cursor.finished = true;
  return false;
}

bool run_step(Launch& launch, Cursor& cursor, const BoundBlock& block, BoundStep& step) {
  return step.idle || (step.is_fast ? run_fast(launch, cursor, step) : run_general(launch, cursor, block, step));
}

// The same with a clock around it, and with a test's delays behind it.
bool run_recorded(Launch& launch, Cursor& cursor, const BoundBlock& block, BoundStep& step) {
  Communicator::Impl& owner = *launch.owner;
  const int64_t begin_ns = transport::clock_ns();
  if (!run_step(launch, cursor, block, step)) return false;
  const int64_t end_ns = transport::clock_ns();
  if (owner.recording)
    owner.spans.push_back({launch.state->loaded->rank(), cursor.loaded->lane, cursor.channel,
                           step.loaded->text->flat.source_step, static_cast<int>(cursor.chunk), begin_ns, end_ns,
                           begin_ns - cursor.free_since_ns});
  if (owner.timeline)
    owner.timeline->add(*launch.state->loaded,
                        {cursor.loaded->lane, cursor.channel, step.loaded->text->flat.source_step, cursor.slice,
                         cursor.chunk, launch.number, begin_ns, end_ns, begin_ns - cursor.free_since_ns});
  if (owner.delay_hook) owner.delay_hook("step");
  cursor.free_since_ns = transport::clock_ns();
  return true;
}

void advance_cursor(Launch& launch, Cursor& cursor) {
  if (__builtin_expect(!cursor.entered, 0)) {
    cursor.entered = true;
    if (!enter_block(launch, cursor)) return;
  }
  for (;;) {
    BoundBlock& block = cursor.blocks[cursor.block];
    BoundStep& step = block.steps[cursor.step];
    if (step.await_count && cursor.slice == 0 && !all_hold(launch, block, step, cursor.chunk)) return;
    if (__builtin_expect(launch.instrumented, 0)) {
      if (!run_recorded(launch, cursor, block, step)) return;
    } else if (!run_step(launch, cursor, block, step)) {
      return;
    }
    ++launch.moves;
    if (++cursor.slice < block.slices) continue;
    cursor.slice = 0;
    ++*step.done;
    if (step.push_count)
      push(launch, step.pushes, step.push_count, launch.flags[static_cast<size_t>(cursor.channel)], *step.done);
    if (++cursor.step < block.steps.size()) continue;
    cursor.step = 0;
    if (++cursor.chunk < block.iterations) continue;
    cursor.chunk = 0;
    leave_block(launch, cursor, block);
    ++cursor.block;
    if (!enter_block(launch, cursor)) return;
  }
}

}  // namespace

bool advance(Launch& launch) {
  bool all_done = true;
  for (Cursor& cursor : launch.state->cursors) {
    if (cursor.finished) continue;
    advance_cursor(launch, cursor);
    all_done &= cursor.finished;
  }
  return all_done;
}

}  // namespace weft::runtime
