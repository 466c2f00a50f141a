// Laying a plan out for n ranks. Walks are generators and a machine jumps between lanes and looks back, so it wants
// arrays; n is small where it runs (up to 64), and nothing here is on a fast path.
#include <map>
#include <tuple>

#include "weft/plan/machine.h"

namespace weft::plan {

namespace {

void drop_operands(FlatStep& flat) {
  flat.operands.clear();
  flat.target_slot.clear();
  flat.reduced = flat.others = flat.targets = 0;
  flat.kernel = FlatStep::no_kernel;
}

// A range of peers that is empty names nobody: the operand is absent.
void normalise(FlatStep& flat) {
  int sources = 0, targets = 0;
  for (size_t i = 0; i < flat.operands.size(); ++i) {
    const bool present = flat.operands[i].kind == Operand::Kind::constant || flat.operands[i].peer_count > 0;
    (i < size_t{flat.reduced} + flat.others ? sources : targets) += present;
  }
  if (sources == 0 || targets == 0) drop_operands(flat);
}

// Laid out, steps take some hundreds of bytes each; numbers of ranks for which there are more are for the simulator.
constexpr int64_t most_steps = 1 << 20;

AssembledLane walk_lane(const Instance& instance, int rank, int lane, int channel, int64_t& steps) {
  AssembledLane out{rank, lane, channel, {}};
  Walk walk(instance, rank, lane, channel);
  while (walk.next_block()) {
    AssembledBlock block;
    block.head = walk.block();
    FlatStep flat;
    while (walk.next(flat)) {
      if (++steps > most_steps)
        throw Error(ErrorKind::plan,
                    fmt::format("plan {} has more than {} steps on {} ranks (reached in lane {} of rank {})",
                                instance.plan().name, most_steps, instance.ranks(),
                                instance.plan().lanes[static_cast<size_t>(lane)].name, rank),
                    "shorten its `for`s, or use fewer ranks", "V14");
      AssembledStep step;
      step.flat = flat;
      normalise(step.flat);
      block.steps.push_back(std::move(step));
    }
    if (!block.steps.empty()) out.blocks.push_back(std::move(block));
  }
  return out;
}

class Linker {
 public:
  explicit Linker(Assembly& assembly) : assembly_(assembly) {}

  void connect(const AssembledLane& lane, AssembledStep& step) {
    const int n = assembly_.instance->ranks();
    for (const FlatOperand& operand : step.flat.operands) {
      if (operand.kind != Operand::Kind::recv && operand.kind != Operand::Kind::send) continue;
      const bool receives = operand.kind == Operand::Kind::recv;
      for (int i = 0; i < operand.peer_count; ++i) {
        const int peer = (operand.peer_first + i) % n;
        const int from = receives ? peer : lane.rank, to = receives ? lane.rank : peer;
        (receives ? step.receives : step.sends).push_back(link(operand.name, lane.channel, from, to));
      }
    }
  }

 private:
  int link(int family, int channel, int from, int to) {
    const auto [place, fresh] =
        known_.try_emplace({family, channel, from, to}, static_cast<int>(assembly_.links.size()));
    if (fresh) assembly_.links.push_back({family, channel, from, to});
    return place->second;
  }

  Assembly& assembly_;
  std::map<std::tuple<int, int, int, int>, int> known_;
};

bool named_by(const FlatStep& flat, const FlatAwait& await) {
  return flat.label == await.label && (!await.has_index || flat.index == await.index);
}

void resolve_awaits(const Assembly& assembly, AssembledStep& step) {
  const int n = assembly.instance->ranks(), channels = assembly.instance->channels();
  for (const FlatAwait& await : step.flat.after)
    for (int p = 0; p < await.peer_count; ++p)
      for (int c = 0; c < await.channel_count; ++c) {
        const int target = assembly.find((await.peer_first + p) % n, await.lane, (await.channel_first + c) % channels);
        if (target < 0) continue;
        const auto& blocks = assembly.lanes[static_cast<size_t>(target)].blocks;
        for (size_t b = 0; b < blocks.size(); ++b)
          for (size_t s = 0; s < blocks[b].steps.size(); ++s)
            if (named_by(blocks[b].steps[s].flat, await))
              step.after.push_back({target, static_cast<int>(b), static_cast<int>(s), await.lag});
      }
}

}  // namespace

int Assembly::find(int rank, int lane, int channel) const {
  const size_t lanes_in_text = instance->plan().lanes.size();
  const size_t channels = static_cast<size_t>(instance->channels());
  return at[(static_cast<size_t>(rank) * lanes_in_text + static_cast<size_t>(lane)) * channels +
            static_cast<size_t>(channel)];
}

Assembly assemble(const Instance& instance) {
  Assembly assembly;
  assembly.instance = &instance;
  const int lanes = static_cast<int>(instance.plan().lanes.size());
  int64_t steps = 0;
  for (int rank = 0; rank < instance.ranks(); ++rank)
    for (int lane = 0; lane < lanes; ++lane)
      for (int channel = 0; channel < instance.channels(); ++channel) {
        AssembledLane assembled = walk_lane(instance, rank, lane, channel, steps);
        assembly.at.push_back(assembled.blocks.empty() ? -1 : static_cast<int>(assembly.lanes.size()));
        if (!assembled.blocks.empty()) assembly.lanes.push_back(std::move(assembled));
      }
  Linker linker(assembly);
  for (AssembledLane& lane : assembly.lanes)
    for (AssembledBlock& block : lane.blocks)
      for (AssembledStep& step : block.steps) {
        linker.connect(lane, step);
        resolve_awaits(assembly, step);
      }
  return assembly;
}

std::string Assembly::describe_step(int lane, int block, int step) const {
  const AssembledLane& where = lanes[static_cast<size_t>(lane)];
  const FlatStep& flat = where.blocks[static_cast<size_t>(block)].steps[static_cast<size_t>(step)].flat;
  if (flat.label == FlatStep::no_label) return std::to_string(flat.source_step + 1);
  std::string text = instance->label(flat.label);
  for (size_t i = 0; i < flat.index.size(); ++i) text += (i ? "," : "(") + std::to_string(flat.index[i]);
  return flat.index.empty() ? text : text + ")";
}

std::string Assembly::describe(int lane, int block, int step) const {
  const AssembledLane& where = lanes[static_cast<size_t>(lane)];
  return fmt::format("rank {} lane {} channel {} step {}", where.rank,
                     instance->plan().lanes[static_cast<size_t>(where.lane)].name, where.channel,
                     describe_step(lane, block, step));
}

}  // namespace weft::plan
