// Steps decoded, and programs made of them.
#include "weft/sim/steps.h"

#include <algorithm>

#include "weft/plan/machine_step.h"
#include "weft/plan/stats.h"

namespace weft::sim {
namespace {

constexpr int64_t most_classes = 4096;    // programs of so many ranks are kept
constexpr size_t most_entries = 4 << 20;  // in all programs together

// Operations per element: the kernel's own, and one for each summand but the first. Tiles are costed by their bytes.
double flops_of(const plan::Instance& instance, const plan::Lane& lane, const plan::Step& step) {
  const plan::Plan& plan = instance.plan();
  const auto dtype = [&](const plan::Operand& o) {
    if (o.kind == plan::Operand::Kind::slice) return instance.dtype(plan::find_buffer(plan, o.name));
    if (o.kind == plan::Operand::Kind::constant) return Dtype::f64;
    return plan::message_dtype(instance, plan::find_family(plan, o.name.empty() ? lane.name : o.name));
  };
  const double sums = step.reduced.empty() ? 0 : static_cast<double>(step.reduced.size()) - 1;
  if (step.kernel.name.empty()) return sums;
  const kernel::Kernel& kernel = plan.kernels[static_cast<size_t>(plan::find_kernel(plan, step.kernel.name))];
  if (kernel::kind(kernel) == kernel::Kind::tile) return sums;
  std::vector<Dtype> inputs;
  if (!step.reduced.empty()) inputs.push_back(dtype(step.reduced[0]));
  for (const plan::Operand& o : step.others) inputs.push_back(dtype(o));
  return sums + kernel::work(kernel::type(kernel, inputs)).flops;
}

bool same_cost(const StepInfo& a, const StepInfo& b) {
  return a.share == b.share && a.elements == b.elements && a.parts == b.parts && a.element_ps == b.element_ps &&
         a.block == b.block && a.receives == b.receives && a.sends == b.sends && a.source_step == b.source_step &&
         a.point == b.point && std::equal(a.links, a.links + a.receives + a.sends, b.links);
}

}  // namespace

Steps::Steps(const plan::Instance& instance, Cells& cells, const Network& network, const Options& options)
    : instance_(instance),
      cells_(cells),
      network_(network),
      ranks_(instance.ranks()),
      lanes_(static_cast<int>(instance.plan().lanes.size())),
      channels_(instance.channels()),
      awaited_(instance.plan().lanes.size()) {
  const StepCost& s = network.step;
  work_ = s.step_ns > 0 || s.read_ns_per_byte > 0 || s.write_ns_per_byte > 0 || s.read_peer_ns_per_byte > 0 ||
          s.write_peer_ns_per_byte > 0 || s.flop_ns > 0;
  read_text();
  for (size_t f = 0; f < instance.plan().families.size(); ++f)
    wire_bytes_.push_back(size_bytes(plan::message_dtype(instance, static_cast<int>(f))));
  period_ = plan::period(instance);
  const bool shared = options.fold == Fold::always || !sends_to_ranges(instance.plan());
  if (shared && !options.walk && !any_awaited() && cells.uniform() && period_ <= most_classes &&
      network.slowdown.empty())
    make_programs();
}

bool Steps::any_awaited() const { return std::find(awaited_.begin(), awaited_.end(), true) != awaited_.end(); }

bool Steps::sends_to_ranges(const plan::Plan& plan) {
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step* step : plan::text_steps(lane.body))
      for (const plan::Operand& o : step->targets)
        if (o.kind == plan::Operand::Kind::send && o.peers && o.peers->last) return true;
  return false;
}

void Steps::read_text() {
  const plan::Plan& plan = instance_.plan();
  for (const plan::Lane& lane : plan.lanes) {
    text_.emplace_back();
    for (const plan::Step* step : plan::text_steps(lane.body)) {
      for (const plan::Await& await : step->after)
        awaited_[static_cast<size_t>(plan::find_lane(plan, await.lane.empty() ? lane.name : await.lane))] = true;
      Text text;
      text.operands = step->reduced.size() + step->others.size() + step->targets.size();
      if (network_.step.flop_ns > 0) text.flops = flops_of(instance_, lane, *step);
      text_.back().push_back(text);
    }
  }
}

int Steps::main_operand(int lane, const plan::Block& block, const plan::FlatStep& flat) {
  Text& text = text_[static_cast<size_t>(lane)][flat.source_step];
  const bool whole = flat.operands.size() == text.operands;
  if (whole && text.main != -2) return text.main;
  plan::AssembledBlock assembled;
  assembled.head = block;
  const int main = plan::main_operand(instance_, assembled, flat);
  if (whole) text.main = main;
  return main;
}

void Steps::decode(int channel, int lane, const plan::Block& block, const plan::FlatStep& flat, StepInfo& info,
                   std::vector<Connection>& connections) {
  info = StepInfo();
  if (block.slices > UINT8_MAX)
    throw Error(ErrorKind::unsupported, fmt::format("a loop of {} slices", block.slices),
                "the simulator counts 255 at most");
  info.source_step = flat.source_step;
  info.slices = static_cast<uint8_t>(block.slices);
  info.block = static_cast<uint32_t>(block.ordinal);
  info.awaits = !flat.after.empty();
  const int main = main_operand(lane, block, flat);
  info.point = main < 0;
  if (main >= 0) {
    const plan::FlatOperand& o = flat.operands[static_cast<size_t>(main)];
    const int space = instance_.buffer_space(o.name);
    info.parts = o.part_count;
    if (block.loop)
      info.share = cells_.share(space, channel, block.slices);
    else
      info.elements = cells_.part(space, o.part_first) * o.part_count;
    if (work_) info.element_ps = element_ps(space, flat, text_[static_cast<size_t>(lane)][flat.source_step]);
  }
  connections.clear();
  for (const bool sends : {false, true})
    for (const plan::FlatOperand& o : flat.operands) {
      if (o.kind != (sends ? plan::Operand::Kind::send : plan::Operand::Kind::recv)) continue;
      uint16_t& count = sends ? info.sends : info.receives;
      if (count + int64_t{o.peer_count} > UINT16_MAX)
        throw Error(ErrorKind::unsupported, fmt::format("a step with {} peers", count + int64_t{o.peer_count}),
                    "the simulator counts 65,535 at most: take an algorithm with fewer, such as ring or tree");
      count += static_cast<uint16_t>(o.peer_count);
      for (int32_t i = 0; i < o.peer_count; ++i)
        connections.push_back({sends, o.name, static_cast<int32_t>((o.peer_first + i) % ranks_)});
    }
}

int64_t Steps::elements(const plan::FlatOperand& main, const plan::Block& block, int channel, int64_t chunk,
                        int slice) {
  const int space = instance_.buffer_space(main.name);
  const int64_t parts = instance_.parts(space);
  int64_t sum = 0;
  for (int64_t i = 0; i < main.part_count; ++i) {
    const int64_t part = plan::part_at(main, i, parts);
    sum += block.loop ? cells_.slice(space, part, channel, chunk, slice, block.slices) : cells_.part(space, part);
  }
  return sum;
}

// Bytes of aligned slices, by where they lie; the larger of moving and computing.
double Steps::element_ps(int space, const plan::FlatStep& flat, const Text& text) const {
  const StepCost& cost = network_.step;
  const size_t sources = size_t{flat.reduced} + flat.others;
  double move = 0, flops = text.flops;
  for (size_t i = 0; i < flat.operands.size(); ++i) {
    const plan::FlatOperand& o = flat.operands[i];
    if (i < flat.reduced) flops += o.peer_count - 1;
    if (o.kind != plan::Operand::Kind::slice || instance_.buffer_space(o.name) != space) continue;
    const auto bytes = static_cast<double>(size_bytes(instance_.dtype(o.name)));
    const bool everybody = !o.here && o.peer_count == ranks_;
    const double here = o.here || everybody ? 1 : 0, peers = o.here ? 0 : o.peer_count - here;
    move += bytes * (i < sources ? here * cost.read_ns_per_byte + peers * cost.read_peer_ns_per_byte
                                 : here * cost.write_ns_per_byte + peers * cost.write_peer_ns_per_byte);
  }
  return 1000 * std::max(move, flops * cost.flop_ns);
}

// ---- programs
void Steps::make_programs() {
  size_t entries = 0;
  for (int64_t rank = 0; rank < period_; ++rank)
    for (int lane = 0; lane < lanes_; ++lane)
      for (int channel = 0; channel < channels_; ++channel) {
        all_.push_back(make_program(static_cast<int>(rank), lane, channel));
        entries += all_.back().steps.size();
        if (entries > most_entries || all_.back().connections.size() > 0xFFF0) {
          all_.clear();
          return;
        }
      }
  programs_ = true;
}

Program Steps::make_program(int rank, int lane, int channel) {
  Program program;
  plan::Walk walk(instance_, rank, lane, channel);
  plan::FlatStep flat;
  StepInfo info;
  std::vector<Connection> connections;
  while (walk.next_block()) {
    const plan::Block& block = walk.block();
    Program::BlockInfo head;
    head.first = static_cast<uint32_t>(program.steps.size());
    if (block.loop) head.iterations = cells_.extents().iterations({block.spaces.data(), block.spaces.size()}, channel);
    if (head.iterations == 0) continue;
    while (walk.next(flat) && program.steps.size() <= most_entries) {
      decode(channel, lane, block, flat, info, connections);
      info.block = static_cast<uint32_t>(program.blocks.size());
      append(program, info, connections);
    }
    program.steps.back().last = true;
    program.blocks.push_back(head);
  }
  return program;
}

void Steps::append(Program& program, StepInfo info, const std::vector<Connection>& connections) {
  auto links = std::make_unique<uint16_t[]>(connections.size());
  for (size_t i = 0; i < connections.size(); ++i) {
    auto& all = program.connections;  // looked for from the end: what was used last is used again
    const auto found = std::find(all.rbegin(), all.rend(), connections[i]);
    links[i] = static_cast<uint16_t>(found == all.rend() ? all.size()
                                                         : all.size() - 1 - static_cast<size_t>(found - all.rbegin()));
    if (found == all.rend()) all.push_back(connections[i]);
  }
  info.links = links.get();
  if (!program.steps.empty() && !program.steps.back().last && same_cost(program.steps.back(), info)) {
    ++program.steps.back().repeat;
    return;
  }
  program.steps.push_back(info);
  program.link_lists.push_back(std::move(links));
}

}  // namespace weft::sim
