// Who waits for whom: a blocked cursor is the hang report.
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

std::string link_reason(const Loaded& loaded, const BoundStep& step, const Launch& launch, int channel) {
  for (int i = 0; i < step.receives + step.sends; ++i) {
    const LinkUse& use = step.links[i];
    const OperandTyping& typing = step.loaded->typing.operands[use.operand];
    const plan::Id& family = loaded.instance.plan()
                                 .families[step.loaded->text->flat.operands[static_cast<size_t>(typing.operand)].name]
                                 .name;
    if (i >= step.receives) {
      const auto& end = *static_cast<const SendEnd*>(use.end);
      if (end.sent + use.ahead - end.credit->load(std::memory_order_acquire) >= use.slots)
        return fmt::format("waits for a free slot of link {} to rank {}", family, typing.peer);
      continue;
    }
    const auto& end = *static_cast<const RecvEnd*>(use.end);
    const bool wide = use.protocol == plan::Protocol::simple;
    const uint64_t want = launch.flags[static_cast<size_t>(channel)] | ((end.taken + use.ahead + 1) & number_mask);
    const uint64_t seen =
        wide ? reinterpret_cast<SlotHead*>(end.slot(use.ahead))->flag.load(std::memory_order_acquire) : 0;
    if (seen != want || launch.stranger == typing.peer)
      return fmt::format("waits for a message from rank {} on link {}", typing.peer, family);
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
    const std::string who = fmt::format(
        "{} (chunk {})", loaded.describe(*cursor.loaded, static_cast<int>(cursor.block), static_cast<int>(cursor.step)),
        cursor.chunk);
    for (size_t i = 0; i < step.await_count; ++i) {
      if (cursor.slice > 0 || await_holds(launch, cursor, block, step.awaits[i])) continue;
      const plan::Awaited& awaited = step.awaits[i].loaded->awaited;
      return fmt::format("{} waits for {}", who, loaded.assembly.describe(awaited.lane, awaited.block, awaited.step));
    }
    const std::string reason = link_reason(loaded, step, launch, cursor.channel);
    return reason.empty() ? who + " waits" : who + " " + reason;
  }
  return fmt::format("rank {} ends a launch", loaded.rank());
}

}  // namespace weft::runtime
