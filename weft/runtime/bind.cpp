// Binding: from a loaded plan, extents and memory to the flat form of bound.h.
#include <algorithm>
#include <map>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/plan/verify_launch.h"
#include "weft/runtime/addresses.h"

namespace weft::runtime {
namespace {

using plan::Operand;

bool uses_given(const plan::Instance& instance, const plan::Block& block) {
  return std::any_of(block.spaces.begin(), block.spaces.end(),
                     [&](uint16_t s) { return instance.plan().spaces[s].kind == plan::Space::Kind::given; });
}

class Binder {
 public:
  Binder(Loaded& loaded, BoundState& state)
      : loaded_(loaded),
        instance_(loaded.instance),
        state_(state),
        storage_(&state.storage),
        memory_(loaded, state),
        addresses_(loaded, state, memory_) {}

  void run() {
    describe();
    grow();
    state_.hoisted.reset(
        static_cast<std::byte*>(::operator new (static_cast<size_t>(loaded_.hoisted_bytes + 64), std::align_val_t{64})),
        [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); });
    for (LoadedLane& lane : loaded_.lanes) bind_lane(lane);
    for (const plan::Awaited& block : loaded_.shadows_of)
      state_.advance_by.push_back(iterations(block.lane, block.block));
    make_staging();
  }

 private:
  int64_t iterations(int lane, int block) const {
    const plan::AssembledLane& from = loaded_.assembly.lanes[static_cast<size_t>(lane)];
    const plan::Block& head = from.blocks[static_cast<size_t>(block)].head;
    if (!head.loop) return 1;
    return state_.extents->iterations(std::span<const uint16_t>(head.spaces.data(), head.spaces.size()), from.channel);
  }

  // What must be allocated by all ranks together. Peers that launch something else meanwhile would wait for us and we
  // for them: the announcement lets them see it.
  void grow() {
    const uint64_t binding = state_.binding;
    const bool alone = instance_.ranks() == 1;
    if (!alone) loaded_.owner.agreement.announce(binding, state_.text);
    memory_.allocate_scratch();
    loaded_.open_links(state_.extents.get());
    if (!alone) loaded_.owner.agreement.retract();
  }

  // ---- links
  void make_staging() {
    int64_t bytes = 0;
    const auto each = [&](auto&& f) {
      for (std::vector<LinkUse>& uses : storage_->links)
        for (LinkUse& use : uses)
          if (use.protocol != plan::Protocol::simple) f(use);
    };
    each([&](LinkUse& use) { use.progress = bytes, bytes += (staging_bytes_.at(&use) + 63) / 64 * 64; });
    storage_->staging.reset(new std::byte[static_cast<size_t>(bytes + 64)]);
    each([&](LinkUse& use) { use.staging = storage_->staging.get() + use.progress, use.progress = 0; });
  }

  // ---- steps
  void bind_lane(LoadedLane& lane) {
    Cursor& cursor = state_.cursors.emplace_back();
    cursor.loaded = &lane, cursor.channel = lane.channel;
    size_t most = 0;
    for (size_t b = 0; b < lane.blocks.size(); ++b) {
      LoadedBlock& from = lane.blocks[b];
      BoundBlock& block = cursor.blocks.emplace_back();
      block.loop = from.text->head.loop, block.slices = from.text->head.slices, block.counter = from.counter,
      block.pushes = from.pushes;
      for (LoadedStep& step : from.steps) most = std::max(most, step.typing.operands.size());
      block.late = reads_counts(from.text->head);
      if (!block.late) bind_block(lane, b, block);
    }
    cursor.pointers.resize(most + 1);
  }

  void bind_block(LoadedLane& lane, size_t index, BoundBlock& block) {
    block.iterations = iterations(lane.assembled, static_cast<int>(index));
    for (LoadedStep& step : lane.blocks[index].steps) block.steps.push_back(bind_step(lane, lane.blocks[index], step));
  }

  bool reads_counts(const plan::Block& block) const {
    return std::any_of(block.spaces.begin(), block.spaces.end(), [&](uint16_t s) {
      return std::holds_alternative<plan::OnDevice>(state_.args.spaces[s].extent);
    });
  }

  // A loop over counts that stand in a buffer begins: they are there now.
  void read_counts(const plan::Block& block) {
    for (const uint16_t space : block.spaces) {
      if (!std::holds_alternative<plan::OnDevice>(state_.args.spaces[space].extent)) continue;
      const int buffer = plan::find_buffer(instance_.plan(), instance_.plan().spaces[space].by_buffer),
                of = instance_.buffer_space(buffer);
      std::vector<int64_t> counts;
      for (int64_t part = 0; part < instance_.parts(space); ++part) {
        int64_t position = 0, count = 1;
        position = state_.extents->run_at(of, part, 0, 1, count);
        counts.push_back(load_i64(instance_.dtype(buffer), memory_.base(buffer, loaded_.rank()) +
                                                               position * size_bytes(instance_.dtype(buffer))));
      }
      state_.extents->set_given(space, counts);
    }
  }

 public:
  // Collective it is not: such scratch is never mapped, and rings are bounded by chunks.
  void bind_late(Cursor& cursor, BoundBlock& block) {
    const auto index = static_cast<size_t>(&block - cursor.blocks.data());
    LoadedLane& lane = *const_cast<LoadedLane*>(cursor.loaded);
    read_counts(lane.blocks[index].text->head);
    memory_.allocate_scratch();
    block.steps.clear();
    block.storage = std::make_shared<Storage>();
    storage_ = block.storage.get();
    addresses_.store_in(*block.storage);
    staging_bytes_.clear();
    bind_block(lane, index, block);
    make_staging();
  }

 private:
  BoundStep bind_step(const LoadedLane& lane, const LoadedBlock& block, LoadedStep& loaded) {
    BoundStep step;
    step.loaded = &loaded, step.done = loaded.done, step.idle = loaded.typing.idle;
    step.pushes = loaded.pushes.data(), step.push_count = static_cast<uint16_t>(loaded.pushes.size());
    std::vector<BoundAwait>& awaits = storage_->awaits.emplace_back();
    for (const LoadedAwait& await : loaded.awaits)
      awaits.push_back({&await, iterations(await.awaited.lane, await.awaited.block)});
    step.awaits = awaits.data(), step.await_count = static_cast<uint16_t>(awaits.size());
    if (step.idle) return step;
    step.run = loaded.code.run, step.self = loaded.code.self;
    step.hoisted = state_.hoisted.get() + loaded_.code_uses[static_cast<size_t>(loaded.code_use)].offset;
    step.operand_count = static_cast<uint16_t>(loaded.typing.operands.size()),
    step.sources = static_cast<uint16_t>(loaded.typing.sources);
    step.tile = loaded.typing.tile, step.counted = block.text->head.loop && uses_given(instance_, block.text->head);
    for (const kernel::TargetShape& target : loaded.typing.shape.targets)
      step.streams |= target.store == kernel::Store::stream;
    bind_links(lane, block.text->head, loaded, step);
    bind_pieces(lane, block.text->head, loaded, step);
    step.idle = step.pieces.empty() || copies_onto_itself(loaded, step);  // no parts named: no cells
    if (!step.idle) make_fast(loaded, step);
    return step;
  }

  // In place a rank's own part is often where it belongs already. Who waits for the step still sees it done.
  static bool copies_onto_itself(const LoadedStep& loaded, const BoundStep& step) {
    const kernel::StepShape& shape = loaded.typing.shape;
    if (!shape.kernel.name.empty() || !shape.reduced.empty() || shape.others.size() != 1 || shape.targets.size() != 1 ||
        shape.targets[0].store == kernel::Store::accumulate || shape.targets[0].dtype != shape.others[0].dtype ||
        shape.targets[0].through.value_or(shape.targets[0].dtype) != shape.targets[0].dtype)
      return false;
    return std::all_of(step.pieces.begin(), step.pieces.end(), [](const BoundPiece& piece) {
      const BoundOperand &from = piece.operands[0], &to = piece.operands[1];
      return from.address.kind == Address::Kind::flat && to.address.kind == Address::Kind::flat &&
             from.address.base == to.address.base && from.address.stride == to.address.stride && from.cells &&
             from.cells == to.cells;
    });
  }

  void bind_links(const LoadedLane& lane, const plan::Block&, LoadedStep& loaded, BoundStep& step) {
    std::vector<LinkUse>& uses = storage_->links.emplace_back();
    std::map<void*, int> seen;
    for (const Operand::Kind kind : {Operand::Kind::recv, Operand::Kind::send})
      for (size_t i = 0; i < loaded.typing.operands.size(); ++i) {
        const OperandTyping& typing = loaded.typing.operands[i];
        if (typing.kind != kind) continue;
        const uint16_t family = loaded.text->flat.operands[static_cast<size_t>(typing.operand)].name;
        RingSet* rings = loaded_.rings[family];
        if (!rings)
          throw Error(ErrorKind::plan, fmt::format("nobody sends on link {}", instance_.plan().families[family].name),
                      "", "V7");
        LinkUse use;
        const bool receives = kind == Operand::Kind::recv;
        use.end = receives ? static_cast<void*>(&rings->from(lane.channel, typing.peer))
                           : static_cast<void*>(&rings->to(lane.channel, typing.peer));
        use.operand = static_cast<uint16_t>(i), use.ahead = static_cast<uint16_t>(seen[use.end]++);
        use.protocol = instance_.plan().families[family].protocol;
        use.slots = static_cast<uint32_t>(instance_.plan().families[family].slots);
        use.element_bytes = size_bytes(typing.dtype);
        // Over a network a credit costs as much as a small message, in memory less than a large message's delay.
        const bool cheap = loaded_.message_bytes[family] > large_message_bytes && !loaded_.owner.mirrors;
        use.tell_every = cheap ? 1 : std::max(1u, use.slots / 2);
        uses.push_back(use);
        (receives ? step.receives : step.sends)++;
      }
    step.links = uses.data();
    for (const LinkUse& use : uses) {
      const uint16_t family =
          loaded.text->flat.operands[static_cast<size_t>(loaded.typing.operands[use.operand].operand)].name;
      staging_bytes_[&use] = loaded_.message_bytes[family];
    }
  }

  void bind_pieces(const LoadedLane& lane, const plan::Block& block, LoadedStep& loaded, BoundStep& step) {
    const plan::FlatStep& flat = loaded.text->flat;
    if (loaded.typing.main < 0)
      throw Error(ErrorKind::plan,
                  fmt::format("{} has links only, so nothing says how much it handles", describe(lane, loaded)),
                  "give it a slice", "V2");
    const plan::FlatOperand& main =
        flat.operands[static_cast<size_t>(loaded.typing.operands[static_cast<size_t>(loaded.typing.main)].operand)];
    const int main_space = instance_.buffer_space(main.name);
    const bool looped =
        std::find(block.spaces.begin(), block.spaces.end(), static_cast<uint16_t>(main_space)) != block.spaces.end();
    if (loaded.typing.tile && !looped && main.part_count > 1 && main.part_count == instance_.parts(main_space))
      return bind_whole_tile(lane, block, loaded, step, main_space);
    for (int64_t i = 0; i < main.part_count; ++i) {
      BoundPiece& piece = step.pieces.emplace_back();
      piece.main =
          addresses_.cells(block, main_space, plan::part_at(main, i, instance_.parts(main_space)), lane.channel);
      for (const OperandTyping& typing : loaded.typing.operands)
        piece.operands.push_back(
            bind_operand(lane, block, loaded, typing, flat.operands[static_cast<size_t>(typing.operand)], i));
    }
  }

  // A tile that makes a whole value makes it in one piece, as it lies in memory, however it is cut: its rows go on over
  // the borders of parts.
  void bind_whole_tile(const LoadedLane& lane, const plan::Block& block, LoadedStep& loaded, BoundStep& step,
                       int space) {
    const plan::FlatStep& flat = loaded.text->flat;
    Cells& whole = storage_->cells.emplace_back();
    whole.extents = &*state_.extents, whole.space = space, whole.channel = lane.channel;
    whole.whole = {0, state_.extents->elements(space)};
    BoundPiece& piece = step.pieces.emplace_back();
    piece.main = &whole;
    for (const OperandTyping& typing : loaded.typing.operands) {
      const plan::FlatOperand& text = flat.operands[static_cast<size_t>(typing.operand)];
      BoundOperand operand = bind_operand(lane, block, loaded, typing, text, 0);
      if (operand.cells) {
        if (memory_[text.name].kind != BufferMemory::Kind::dense)
          throw Error(ErrorKind::unsupported,
                      fmt::format("buffer {} is a product of matrices and is not contiguous",
                                  instance_.plan().buffers[text.name].name),
                      "bind it densely");
        operand.cells = &whole;
        operand.address.kind = Address::Kind::flat;
        operand.address.base = memory_.base(text.name, typing.peer);
      }
      piece.operands.push_back(operand);
    }
  }

  BoundOperand bind_operand(const LoadedLane& lane, const plan::Block& block, const LoadedStep& loaded,
                            const OperandTyping& typing, const plan::FlatOperand& flat, int64_t piece) {
    BoundOperand operand;
    if (typing.kind == Operand::Kind::recv || typing.kind == Operand::Kind::send) {
      operand.address.kind = Address::Kind::message;
      return operand;
    }
    if (typing.kind == Operand::Kind::constant) {
      operand.address = addresses_.constant(typing.dtype, flat.value);
      return operand;
    }
    operand.space = instance_.buffer_space(flat.name);
    const bool is_main = &typing == &loaded.typing.operands[static_cast<size_t>(loaded.typing.main)];
    if (!typing.aligned && !is_main) {
      operand.address = addresses_.apart(block, typing, flat, loaded.typing.tile);
      return operand;
    }
    if (flat.part_count <= piece)
      throw Error(ErrorKind::plan,
                  fmt::format("{}: operands name {} and {} parts", describe(lane, loaded), flat.part_count, piece + 1),
                  "", "V2");
    operand.part = plan::part_at(flat, piece, instance_.parts(operand.space));
    operand.cells = addresses_.cells(block, operand.space, operand.part, lane.channel);
    operand.address = addresses_.slice(block, flat.name, typing.peer, operand.part, lane.channel);
    return operand;
  }

  std::string describe(const LoadedLane& lane, const LoadedStep& loaded) const {
    for (size_t b = 0; b < lane.blocks.size(); ++b)
      for (size_t s = 0; s < lane.blocks[b].steps.size(); ++s)
        if (&lane.blocks[b].steps[s] == &loaded)
          return loaded_.describe(lane, static_cast<int>(b), static_cast<int>(s));
    return "a step";
  }

  // The fast path: one part, flat operands, and positions that are as contiguous as the memory is.
  void make_fast(const LoadedStep& loaded, BoundStep& step) {
    const BoundPiece& first = step.pieces.front();
    bool all_flat = step.pieces.size() == 1;
    for (const BoundPiece& piece : step.pieces)
      for (const BoundOperand& operand : piece.operands) {
        const bool flat = operand.address.kind == Address::Kind::flat || operand.address.kind == Address::Kind::message;
        all_flat &= flat;
        step.splits |= !flat && operand.address.kind != Address::Kind::turn;
      }
    int64_t position = 0;
    const bool in_order = addresses_.contiguous(first.main->space, first.main->part, position);
    step.splits |= loaded.typing.needs_positions;
    step.main = first.main;
    step.position = position;
    if (!all_flat || step.tile || (loaded.typing.needs_positions && !in_order)) return;
    std::vector<FastOperand>& fast = storage_->fast.emplace_back();
    for (const BoundOperand& operand : first.operands)
      fast.push_back({operand.address.base, operand.cells ? operand.address.stride : 0,
                      operand.cells == first.main ? nullptr : operand.cells});
    step.fast = fast.data();
    step.is_fast = true;
  }

  // ---- what the header says
  void describe() {
    std::string text = fmt::format("plan {} ({:08x}):", loaded_.name(), static_cast<uint32_t>(loaded_.identity)),
                agreed;
    for (size_t s = 0; s < state_.args.spaces.size(); ++s) {
      const plan::SpaceExtent& extent = state_.args.spaces[s];
      const plan::Id& name = instance_.plan().spaces[s].name;
      if (const auto* cut = std::get_if<plan::Cut>(&extent.extent); cut && cut->axis > 0)
        text += cut->outer == 1 && cut->inner == 1
                    ? fmt::format(" {} = {}", name, cut->axis)
                    : fmt::format(" {} = {}x{}x{}", name, cut->outer, cut->axis, cut->inner);
      if (extent.meeting)
        for (size_t d = 0; d < extent.meeting->shape.size(); ++d)
          agreed += fmt::format(" {}*{}", extent.meeting->shape[d],
                                d < extent.meeting->stride.size() ? extent.meeting->stride[d] : 0);
      if (extent.segments) {
        std::string lengths;
        for (int64_t length : extent.segments->lengths) lengths += std::to_string(length) + " ";
        text += fmt::format(" ({} tensors, {:08x})", extent.segments->lengths.size(),
                            static_cast<uint32_t>(hash64(lengths)));
      }
    }
    text += agreed;
    const std::string registered = memory_.registered();
    if (!registered.empty())
      text += fmt::format(", registered{}",
                          registered.size() < 200 ? registered : fmt::format(" {:016x}", hash64(registered)));
    state_.text = text;
    state_.hash = hash64(text + registered, loaded_.identity);
    state_.binding = loaded_.owner.agreement.next_binding();
  }

  Loaded& loaded_;
  const plan::Instance& instance_;
  BoundState& state_;
  Storage* storage_;  // where what is bound now goes
  Memory memory_;
  Addresses addresses_;
  std::map<const LinkUse*, int64_t> staging_bytes_;
};

bool equal(const plan::SpaceExtent& a, const plan::SpaceExtent& b) {
  if (a.extent.index() != b.extent.index() || a.segments != b.segments ||
      a.meeting.has_value() != b.meeting.has_value())
    return false;
  if (a.meeting && (a.meeting->shape != b.meeting->shape || a.meeting->stride != b.meeting->stride)) return false;
  if (const auto* cut = std::get_if<plan::Cut>(&a.extent)) {
    const auto& other = std::get<plan::Cut>(b.extent);
    return cut->outer == other.outer && cut->axis == other.axis && cut->inner == other.inner;
  }
  if (const auto* given = std::get_if<plan::Given>(&a.extent))
    return given->counts == std::get<plan::Given>(b.extent).counts;
  return true;
}

bool equal(const plan::Binding& a, const plan::Binding& b) {
  if (a.index() != b.index()) return false;
  if (const auto* dense = std::get_if<plan::Dense>(&a)) return dense->data == std::get<plan::Dense>(b).data;
  if (const auto* segments = std::get_if<plan::Segments>(&a)) return segments->data == std::get<plan::Segments>(b).data;
  if (const auto* strided = std::get_if<plan::Strided>(&a)) {
    const auto& other = std::get<plan::Strided>(b);
    return strided->data == other.data && strided->shape == other.shape &&
           strided->stride_elements == other.stride_elements;
  }
  return true;
}

}  // namespace

BoundState::~BoundState() = default;

bool same_binding(const plan::LaunchArgs& a, const plan::LaunchArgs& b) {
  return std::equal(a.spaces.begin(), a.spaces.end(), b.spaces.begin(), b.spaces.end(),
                    [](const auto& x, const auto& y) { return equal(x, y); }) &&
         std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                    [](const auto& x, const auto& y) { return equal(x, y); });
}

// Rows and columns of a product are sizes of what this rank has; with uneven slices ranks differ, and must not be taken
// for ranks that disagree. Read off the text, which is the same on all ranks.
static std::vector<bool> sizes_of_tiles(const Loaded& loaded) {
  const plan::Plan& plan = loaded.instance.plan();
  std::vector<bool> tiles(loaded.scalar_names.size(), false), others = tiles;
  for (const plan::Lane& lane : plan.lanes)
    for (const plan::Step* step : plan::text_steps(lane.body))
      for (const plan::Id& scalar : step->kernel.scalars) {
        const auto at =
            std::find(loaded.scalar_names.begin(), loaded.scalar_names.end(), scalar) - loaded.scalar_names.begin();
        const kernel::Kernel& kernel = plan.kernels[static_cast<size_t>(plan::find_kernel(plan, step->kernel.name))];
        (kernel::kind(kernel) == kernel::Kind::tile ? tiles : others)[static_cast<size_t>(at)] = true;
      }
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = tiles[i] && !others[i];
  return tiles;
}

namespace {

// WEFT_VERIFY: what only a launch shows of the verifier's rules. Cursors give way, so lanes always fit.
void verify_for_this_machine(const Loaded& loaded, const plan::LaunchArgs& args) {
  plan::Device device;
  device.memory_bytes = free_memory_bytes();
  const std::vector<plan::Finding> findings =
      plan::verify_launch(loaded.instance, args.spaces, loaded.chunk_elements, device);
  if (findings.empty()) return;
  throw Error(ErrorKind::plan,
              fmt::format("a launch of plan {} breaks a rule\n  {}", loaded.name(), print(findings[0])), "",
              findings[0].rule);
}

}  // namespace

std::shared_ptr<BoundState> bind(Loaded& loaded, const plan::LaunchArgs& args) {
  const plan::Plan& plan = loaded.instance.plan();
  if (args.spaces.size() != plan.spaces.size())
    throw Error(ErrorKind::user, fmt::format("plan {} has {} spaces, the launch gives {} extents", loaded.name(),
                                             plan.spaces.size(), args.spaces.size()));
  if (args.scalars.size() != loaded.scalar_names.size())
    throw Error(ErrorKind::user,
                fmt::format("plan {} takes {} scalars ({}), the launch gives {}", loaded.name(),
                            loaded.scalar_names.size(), join(loaded.scalar_names, ", "), args.scalars.size()));
  if (env_flag("WEFT_VERIFY")) verify_for_this_machine(loaded, args);
  auto state = std::make_shared<BoundState>();
  state->loaded = &loaded;
  state->args = args;
  state->scalars = args.scalars;
  state->own_scalars = sizes_of_tiles(loaded);
  state->extents = std::make_unique<plan::Extents>(loaded.instance, args.spaces, loaded.chunk_elements);
  const auto binder = std::make_shared<Binder>(loaded, *state);
  binder->run();
  const bool late = std::any_of(args.spaces.begin(), args.spaces.end(),
                                [](const auto& s) { return std::holds_alternative<plan::OnDevice>(s.extent); });
  if (late) state->bind_late = [binder](Cursor& cursor, BoundBlock& block) { binder->bind_late(cursor, block); };
  return state;
}

}  // namespace weft::runtime
