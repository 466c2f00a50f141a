// Who waits for whom: a blocked cursor is the hang report.
#include <utility>

#include "weft/runtime/bound.h"

namespace weft::runtime {
namespace {

bool await_holds(const Launch& launch, const Cursor& cursor, const BoundBlock& block, const BoundAwait& bound) {
  const LoadedAwait& await = *bound.loaded;
  const auto seen = [](const Word* word) {
    return word ? static_cast<int64_t>(number_of(word->load(std::memory_order_acquire))) : 0;
  };
  const int64_t done = await.remote ? seen(await.done_word) : *await.done;
  if (await.lag > 0) return done >= block.counter->base + cursor.chunk - await.lag + 1;
  if (await.together && (!await.remote || cursor.chunk < bound.iterations) &&
      done >= await.block->base + cursor.chunk + 1)
    return true;
  return (await.remote ? seen(await.left_word) : await.block->left) >= launch.number + 1;
}

int64_t elements_of(const BoundStep& step, const Cursor& cursor) {
  if (step.pieces.empty()) return step.main ? step.main->at(cursor.chunk, cursor.slice).size() : 0;
  int64_t total = 0;
  for (const BoundPiece& piece : step.pieces) total += piece.main->at(cursor.chunk, cursor.slice).size();
  return total;
}

// Lines or words of a message in pieces: those that are there, and all.
std::pair<int64_t, int64_t> pieces_there(const LinkUse& use, int64_t bytes) {
  if (use.protocol == plan::Protocol::simple) return {0, 1};
  const bool wide = use.protocol == plan::Protocol::ll128;
  return {use.progress, wide ? lines_ll128(bytes) : words_ll(bytes)};
}

bool is_there(const Launch& launch, const LinkUse& use, const RecvEnd& end, int channel, int64_t bytes) {
  const uint64_t want = launch.flags[static_cast<size_t>(channel)] | ((end.taken + use.ahead + 1) & number_mask);
  const std::byte* slot = end.slot(use.ahead);
  if (use.protocol == plan::Protocol::simple)
    return reinterpret_cast<const SlotHead*>(slot)->flag.load(std::memory_order_acquire) == want;
  if (use.protocol == plan::Protocol::ll128 && bytes <= line_bytes)
    return reinterpret_cast<const Line128*>(slot)->flag.load(std::memory_order_acquire) == want;
  const auto [there, all] = pieces_there(use, bytes);
  return there == all;
}

std::string no_message(const Launch& launch, const LinkUse& use, const plan::Id& family, int64_t bytes) {
  const auto& end = *static_cast<const RecvEnd*>(use.end);
  const uint64_t before = end.launch == launch.serial ? end.taken - end.taken_before : 0;
  const auto [there, all] = pieces_there(use, bytes);
  return fmt::format("waits for a message of {} bytes from rank {} on link {} (number {} of this launch{})", bytes,
                     end.peer, family, before + use.ahead + 1,
                     all > 1 ? fmt::format("; {} of its {} pieces are there", there, all) : "");
}

std::string no_slot(const LinkUse& use, const plan::Id& family, int64_t bytes) {
  const auto& end = *static_cast<const SendEnd*>(use.end);
  return fmt::format(
      "waits for a free slot of link {} to rank {} for {} bytes (all {} hold messages that are not taken)", family,
      end.peer, bytes, use.slots);
}

std::string link_reason(const Loaded& loaded, const BoundStep& step, const Launch& launch, const Cursor& cursor) {
  const int64_t count = elements_of(step, cursor);
  for (int i = 0; i < step.receives + step.sends; ++i) {
    const LinkUse& use = step.links[i];
    const int64_t bytes = count * use.element_bytes;
    const OperandTyping& typing = step.loaded->typing.operands[use.operand];
    const plan::Id& family = loaded.instance.plan()
                                 .families[step.loaded->text->flat.operands[static_cast<size_t>(typing.operand)].name]
                                 .name;
    if (i < step.receives) {
      const auto& end = *static_cast<const RecvEnd*>(use.end);
      if (launch.stranger == end.peer || !is_there(launch, use, end, cursor.channel, bytes))
        return no_message(launch, use, family, bytes);
      continue;
    }
    const auto& end = *static_cast<const SendEnd*>(use.end);
    if (end.sent + use.ahead - end.credit->load(std::memory_order_acquire) >= use.slots)
      return no_slot(use, family, bytes);
  }
  return "";
}

}  // namespace

std::string waiting(const Launch& launch) {
  const Loaded& loaded = *launch.state->loaded;
  for (const Cursor& cursor : launch.state->cursors) {
    if (cursor.finished || cursor.block >= cursor.blocks.size()) continue;
    const BoundBlock& block = cursor.blocks[cursor.block];
    const BoundStep& step = block.steps[cursor.step];
    const std::string who =
        fmt::format("{} (chunk {} of {})",
                    loaded.describe(*cursor.loaded, static_cast<int>(cursor.block), static_cast<int>(cursor.step)),
                    cursor.chunk, block.iterations);
    for (size_t i = 0; i < step.await_count; ++i) {
      if (cursor.slice > 0 || await_holds(launch, cursor, block, step.awaits[i])) continue;
      const plan::Awaited& awaited = step.awaits[i].loaded->awaited;
      return fmt::format("{} waits for {}", who, loaded.assembly.describe(awaited.lane, awaited.block, awaited.step));
    }
    const std::string reason = link_reason(loaded, step, launch, cursor);
    return reason.empty() ? who + " waits" : who + " " + reason;
  }
  return fmt::format("rank {} ends a launch", loaded.rank());
}

}  // namespace weft::runtime
