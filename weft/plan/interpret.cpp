// What a step does, on numbers. Written for reading: elements are gathered into plain arrays one by one, reduced and
// converted there, and scattered one by one; only the kernel's mathematics is the kernel room's. Every back end is
// compared with this, so nothing here is clever. See interpret.h.
#include "weft/plan/interpret.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "weft/plan/interpret_memory.h"
#include "weft/plan/machine_step.h"

namespace weft::plan {

namespace {

template <typename T> auto& at(T& list, int index) { return list[static_cast<size_t>(index)]; }

struct Element { int64_t part = 0, offset = 0; Memory::Place place; };

// One slice operand on one rank, spelt out.
struct Cells {
  const FlatOperand* operand = nullptr;
  int rank = 0, space = 0;
  bool derived = false, aligned = false;
  std::vector<Element> elements;
};

struct Message { Values values; int launch = 0; int64_t chunk = 0; std::string from; };

class Interpreter : public Domain {
 public:
  Interpreter(const Assembly& assembly, const std::vector<LaunchArgs>& args, const std::vector<int64_t>& chunks);

  void begin_launch(int, int) override {}
  void end_launch(int, int) override {}
  void left(int, int, int) override {}
  int64_t iterations(int lane, int block, int launch) override;
  bool empty(const Event& event) override;
  void perform(const Event& event) override;
  void check_links() const;

 private:
  const AssembledLane& lane_of(const Event& event) const { return at(assembly_.lanes, event.lane); }
  const AssembledBlock& block_of(const Event& event) const { return at(lane_of(event).blocks, event.block); }
  const Id& name_of(const Cells& cells) const { return at(instance_.plan().buffers, cells.operand->name).name; }
  std::string who(const Event& event) const { return assembly_.describe(event.lane, event.block, event.step); }
  [[noreturn]] void refuse(const Event& event, const std::string& rule, const std::string& message, const std::string& remedy) const {
    throw Error(ErrorKind::plan, who(event) + " " + message, remedy, rule);
  }

  Cells spell_out(const Event& event, const FlatOperand& operand, int rank, int main) const;
  std::vector<int64_t> positions(const Cells& cells) const;
  Element meet(const Event& event, const Cells& coarse, int64_t position) const;
  Values read(const Event& event, const Cells& cells, const std::vector<int64_t>& where);
  Values read_whole(const Event& event, const Cells& cells);
  Values read_elements(const Event& event, const Cells& cells, const std::vector<Element>& elements);
  void write(const Event& event, const Cells& cells, const Values& values);
  Values receive(const Event& event, int link, int64_t count);
  void order_by_position(Cells& cells) const;
  std::vector<Values> sources(const Event& event, int main, const Cells& leading, const std::vector<int64_t>& where);
  Values reduce(const Event& event, std::vector<Values>& list, size_t reduced, Dtype& nominal);
  std::vector<Values> compute(const Event& event, const std::vector<Values>& inputs, const std::vector<int64_t>& where, std::vector<Cells>& folds);
  void run_kernel(const Event& event, const kernel::Typed& typed, const std::vector<Values>& inputs, std::vector<Values>& outputs,
                  const std::vector<int64_t>& where, std::vector<Cells>& folds);
  void fold_copy(const Event& event, const Values& value, const std::vector<int64_t>& where, std::vector<Cells>& folds);
  std::vector<Cells> fold_targets(const Event& event, int main, const std::vector<int64_t>& where);
  std::vector<std::pair<int64_t, int64_t>> runs(const std::vector<int64_t>& where, const std::vector<Cells>& folds) const;
  void deliver(const Event& event, int main, const std::vector<Values>& outputs, Dtype nominal);
  std::vector<expr::ScalarValue> scalars(const Event& event, const kernel::Kernel& kernel) const;
  const Step& text(const Event& event) const { return *at(text_, lane_of(event).lane)[event.what->flat.source_step]; }

  const Assembly& assembly_;
  const Instance& instance_;
  const std::vector<LaunchArgs>& args_;
  std::vector<Extents> extents_;            // per rank
  std::unique_ptr<Memory> memory_;
  std::vector<std::deque<Message>> links_;
  std::vector<std::vector<const Step*>> text_;
  std::vector<Id> scalar_names_;
};

Interpreter::Interpreter(const Assembly& assembly, const std::vector<LaunchArgs>& args, const std::vector<int64_t>& chunks)
    : assembly_(assembly), instance_(*assembly.instance), args_(args), links_(assembly.links.size()), scalar_names_(launch_scalars(instance_.plan())) {
  for (const LaunchArgs& launch : args) {
    extents_.emplace_back(instance_, launch.spaces, chunks);
    if (launch.scalars.size() != scalar_names_.size())
      throw Error(ErrorKind::user, fmt::format("{} scalars given, the plan has {}", launch.scalars.size(), scalar_names_.size()), "one value per launch_scalars(plan)");
  }
  memory_ = std::make_unique<Memory>(instance_, args, extents_);
  for (const Lane& lane : instance_.plan().lanes) text_.push_back(text_steps(lane.body));
}

// ---- which elements an operand means
Cells Interpreter::spell_out(const Event& event, const FlatOperand& operand, int rank, int main) const {
  Cells cells;
  cells.operand = &operand;
  cells.rank = rank;
  cells.space = instance_.buffer_space(operand.name);
  cells.derived = at(instance_.plan().spaces, cells.space).derived != Space::Derived::no;
  cells.aligned = is_aligned(instance_, block_of(event), event.what->flat, main, operand);
  const Block& head = block_of(event).head;
  const Extents& extents = at(extents_, rank);
  const int channel = lane_of(event).channel;
  const bool looped = head.loop && std::find(head.spaces.begin(), head.spaces.end(), static_cast<uint16_t>(cells.space)) != head.spaces.end();
  for (int64_t i = 0; i < operand.part_count; ++i) {
    const int64_t part = part_at(operand, i, instance_.parts(cells.space));
    Range range{0, looped ? 0 : extents.part_size(cells.space, part)};
    Memory::Place place;
    if (looped) {
      const Range chunk = extents.chunk(cells.space, part, channel, event.chunk);
      range = extents.slice(cells.space, part, channel, event.chunk, event.slice, head.slices);
      place = {channel, chunk.begin, chunk.size(), event.turn};
    }
    for (int64_t offset = range.begin; offset < range.end; ++offset) cells.elements.push_back({part, offset, place});
  }
  // A tile reads and writes a whole value as it lies in memory, however it is cut.
  if (!looped && operand.part_count == instance_.parts(cells.space) && is_tile(instance_, event.what->flat)) order_by_position(cells);
  return cells;
}

void Interpreter::order_by_position(Cells& cells) const {
  const std::vector<int64_t> where = positions(cells);
  std::vector<size_t> order(where.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return where[a] < where[b]; });
  const std::vector<Element> elements = cells.elements;
  for (size_t i = 0; i < order.size(); ++i) cells.elements[i] = elements[order[i]];
}

// Row-major indices in the whole value.
std::vector<int64_t> Interpreter::positions(const Cells& cells) const {
  std::vector<int64_t> list;
  int64_t count = 0;
  for (const Element& element : cells.elements)
    list.push_back(at(extents_, cells.rank).run_at(cells.space, element.part, element.offset, element.offset + 1, count));
  return list;
}

// The element of a coarser operand that an element of the step, at this position of the whole value, meets.
Element Interpreter::meet(const Event& event, const Cells& coarse, int64_t position) const {
  const Extents& extents = at(extents_, coarse.rank);
  if (!coarse.derived) {
    if (coarse.elements.size() == 1) return coarse.elements[0];
    refuse(event, "V2", fmt::format("reads {}, which does not meet its elements", at(instance_.plan().buffers, coarse.operand->name).name), "derive its space (of ... by ...)");
  }
  int64_t count = 0;
  const int64_t met = extents.meet_at(coarse.space, position, count);
  const bool fixed = at(instance_.plan().spaces, coarse.space).kind == Space::Kind::fixed;
  for (const Element& element : coarse.elements)
    if ((fixed ? element.offset : extents.run_at(coarse.space, element.part, element.offset, element.offset + 1, count)) == met) return element;
  refuse(event, "V2", fmt::format("meets element {} of {}, which is in none of the parts it names", met, at(instance_.plan().buffers, coarse.operand->name).name), "name the part that holds it");
}

// ---- reading and writing
Values Interpreter::read_elements(const Event& event, const Cells& cells, const std::vector<Element>& elements) {
  Values out(instance_.dtype(cells.operand->name), static_cast<int64_t>(elements.size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    const void* from = memory_->address(cells.rank, cells.operand->name, elements[i].part, elements[i].offset, elements[i].place);
    memory_->check_written(cells.rank, cells.operand->name, from, event.launch, who(event));
    convert_element(out.dtype, from, out.dtype, out.at(static_cast<int64_t>(i)));
  }
  return out;
}

Values Interpreter::read(const Event& event, const Cells& cells, const std::vector<int64_t>& where) {
  if (cells.aligned && !cells.derived) {
    if (cells.elements.size() != where.size())
      refuse(event, "V2", fmt::format("has {} elements, {} has {}", where.size(), name_of(cells), cells.elements.size()), "name the same parts");
    return read_elements(event, cells, cells.elements);
  }
  if (cells.aligned && cells.elements.size() == where.size()) return read_elements(event, cells, cells.elements);
  std::vector<Element> met;
  for (int64_t position : where) met.push_back(meet(event, cells, position));
  return read_elements(event, cells, met);
}

// A tile's operand: in the loop's spaces the chunk, else the parts (spell_out: row-major where they are the whole value).
Values Interpreter::read_whole(const Event& event, const Cells& cells) { return read_elements(event, cells, cells.elements); }

void Interpreter::write(const Event& event, const Cells& cells, const Values& values) {
  if (static_cast<int64_t>(cells.elements.size()) != values.count())
    refuse(event, "V2", fmt::format("makes {} elements for {} of {}", values.count(), cells.elements.size(), name_of(cells)), "name the same parts");
  const Dtype dtype = instance_.dtype(cells.operand->name);
  for (size_t i = 0; i < cells.elements.size(); ++i) {
    const Element& element = cells.elements[i];
    void* to = memory_->address(cells.rank, cells.operand->name, element.part, element.offset, element.place);
    convert_element(values.dtype, values.at(static_cast<int64_t>(i)), dtype, to);
    memory_->mark_written(cells.rank, cells.operand->name, to, event.launch);
  }
}

Values Interpreter::receive(const Event& event, int link, int64_t count) {
  Message message = std::move(at(links_, link).front());
  at(links_, link).pop_front();
  if (message.values.count() != count || message.chunk != event.chunk || message.launch != event.launch)
    refuse(event, "V7", fmt::format("expects {} elements of chunk {} in launch {} and gets {} of chunk {} in launch {} from {}", count, event.chunk, event.launch,
                                    message.values.count(), message.chunk, message.launch, message.from), "send and receive the same cells");
  return std::move(message.values);
}

// ---- loops
int64_t Interpreter::iterations(int lane, int block, int launch) {
  const AssembledLane& where = at(assembly_.lanes, lane);
  const Block& head = at(where.blocks, block).head;
  for (uint16_t space : head.spaces) {
    if (!std::holds_alternative<OnDevice>(at(args_, where.rank).spaces[space].extent)) continue;
    const int buffer = find_buffer(instance_.plan(), instance_.plan().spaces[space].by_buffer);
    std::vector<int64_t> counts;
    for (int64_t part = 0; part < instance_.parts(space); ++part) {
      const void* from = memory_->address(where.rank, buffer, part, 0, {});
      memory_->check_written(where.rank, buffer, from, launch, assembly_.describe(lane, block, 0));
      counts.push_back(load_i64(instance_.dtype(buffer), from));
    }
    at(extents_, where.rank).set_given(space, counts);
  }
  return at(extents_, where.rank).iterations({head.spaces.data(), head.spaces.size()}, where.channel);
}

bool Interpreter::empty(const Event& event) {
  const FlatStep& flat = event.what->flat;
  const int main = main_operand(instance_, block_of(event), flat);
  if (main < 0) return false;
  const FlatOperand& operand = at(flat.operands, main);
  return spell_out(event, operand, operand.here ? lane_of(event).rank : operand.peer_first, main).elements.empty();
}

// ---- one step
void Interpreter::perform(const Event& event) {
  const FlatStep& flat = event.what->flat;
  if (event.empty || flat.operands.empty()) return;
  const int main = main_operand(instance_, block_of(event), flat);
  if (main < 0) refuse(event, "V2", "names no slice of the loop's space", "a step works on the cells of one");
  const FlatOperand& leading = at(flat.operands, main);
  const Cells cells = spell_out(event, leading, leading.here ? lane_of(event).rank : leading.peer_first, main);
  const std::vector<int64_t> where = positions(cells);
  std::vector<Values> list = sources(event, main, cells, where);
  size_t reduced = 0;
  for (size_t i = 0; i < flat.reduced; ++i) reduced += flat.operands[i].kind == Operand::Kind::constant ? 1 : static_cast<size_t>(flat.operands[i].peer_count);
  Dtype nominal = list[0].dtype;
  std::vector<Values> inputs;
  if (reduced) inputs.push_back(reduce(event, list, reduced, nominal));
  for (size_t i = reduced; i < list.size(); ++i) inputs.push_back(std::move(list[i]));
  std::vector<Cells> folds = fold_targets(event, main, where);
  const std::vector<Values> outputs = compute(event, inputs, where, folds);
  deliver(event, main, outputs, nominal);
}

std::vector<Values> Interpreter::sources(const Event& event, int main, const Cells& leading, const std::vector<int64_t>& where) {
  const FlatStep& flat = event.what->flat;
  const auto count = static_cast<int64_t>(where.size());
  const bool tile = is_tile(instance_, flat);
  std::vector<Values> list;
  size_t next = 0;
  for (size_t i = 0; i < size_t{flat.reduced} + flat.others; ++i) {
    const FlatOperand& operand = flat.operands[i];
    if (operand.kind == Operand::Kind::constant) {
      Values constant(instance_.dtype(leading.operand->name), count);
      for (int64_t k = 0; k < count; ++k) store_f64(constant.dtype, constant.at(k), operand.value);
      list.push_back(std::move(constant));
      continue;
    }
    for (int p = 0; p < operand.peer_count; ++p) {
      if (operand.kind == Operand::Kind::recv) {
        list.push_back(receive(event, event.what->receives[next++], count));
        continue;
      }
      const int rank = operand.here ? lane_of(event).rank : (operand.peer_first + p) % instance_.ranks();
      const Cells cells = spell_out(event, operand, rank, main);
      list.push_back(tile ? read_whole(event, cells) : read(event, cells, where));
    }
  }
  return list;
}

// From left to right in the accumulator's dtype; a kernel gets the result rounded to the dtype of the reduced slices.
Values Interpreter::reduce(const Event& event, std::vector<Values>& list, size_t reduced, Dtype& nominal) {
  const FlatStep& flat = event.what->flat;
  std::vector<Dtype> arrived;
  size_t next = 0;
  for (size_t i = 0; i < flat.reduced; ++i)
    for (int p = 0; p < (flat.operands[i].kind == Operand::Kind::constant ? 1 : flat.operands[i].peer_count); ++p, ++next)
      if (flat.operands[i].kind == Operand::Kind::recv) arrived.push_back(list[next].dtype);
  nominal = reduced_dtype(instance_, flat, arrived);
  const Dtype accumulator = accumulator_of_step(instance_, flat, arrived);
  Values sum = converted(list[0], accumulator);
  for (size_t i = 1; i < reduced; ++i) {
    const Values next_values = converted(list[i], accumulator);
    kernel::combine(flat.reduction, accumulator, sum.at(0), next_values.at(0), sum.count());
  }
  return flat.kernel == FlatStep::no_kernel ? sum : converted(sum, nominal);
}

// Runs of elements that follow each other in the whole value and fold into the same coarser cells: (first, count).
std::vector<std::pair<int64_t, int64_t>> Interpreter::runs(const std::vector<int64_t>& where, const std::vector<Cells>& folds) const {
  std::vector<std::pair<int64_t, int64_t>> list;
  for (size_t i = 0; i < where.size(); ++i) {
    bool joined = i > 0 && where[i] == where[i - 1] + 1;
    for (const Cells& fold : folds) joined = joined && fold.elements[i].part == fold.elements[i - 1].part && fold.elements[i].offset == fold.elements[i - 1].offset;
    if (joined) ++list.back().second;
    else list.emplace_back(static_cast<int64_t>(i), 1);
  }
  return list;
}

// Accumulating targets, with the coarser element that each element of the step meets.
std::vector<Cells> Interpreter::fold_targets(const Event& event, int main, const std::vector<int64_t>& where) {
  const FlatStep& flat = event.what->flat;
  std::vector<Cells> list;
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    if (target.kind != Operand::Kind::slice || !target.accumulate) continue;
    for (int p = 0; p < target.peer_count; ++p) {
      Cells cells = spell_out(event, target, target.here ? lane_of(event).rank : (target.peer_first + p) % instance_.ranks(), main);
      std::vector<Element> met;
      for (int64_t position : where) met.push_back(meet(event, cells, position));
      cells.elements = std::move(met);
      list.push_back(std::move(cells));
    }
  }
  return list;
}

std::vector<expr::ScalarValue> Interpreter::scalars(const Event& event, const kernel::Kernel& kernel) const {
  const std::vector<Id>& names = text(event).kernel.scalars;
  std::vector<expr::ScalarValue> list;
  for (size_t i = 0; i < kernel.scalars.size(); ++i) {
    const auto name = std::find(scalar_names_.begin(), scalar_names_.end(), names.at(i));
    list.push_back(at(args_, lane_of(event).rank).scalars[static_cast<size_t>(name - scalar_names_.begin())]);
  }
  list.push_back({true, instance_.ranks(), static_cast<double>(instance_.ranks())});
  return list;
}

// One array per output; outputs that fold go straight into their coarser cells.
std::vector<Values> Interpreter::compute(const Event& event, const std::vector<Values>& inputs, const std::vector<int64_t>& where, std::vector<Cells>& folds) {
  const FlatStep& flat = event.what->flat;
  if (flat.kernel == FlatStep::no_kernel) {
    if (!folds.empty()) fold_copy(event, inputs[0], where, folds);
    return {inputs[0]};
  }
  std::vector<Dtype> dtypes;
  for (const Values& input : inputs) dtypes.push_back(input.dtype);
  const kernel::Typed typed = kernel::type(instance_.plan().kernels[flat.kernel], dtypes);
  std::vector<Values> outputs;
  for (Dtype dtype : typed.outputs) outputs.emplace_back(dtype, static_cast<int64_t>(where.size()));
  run_kernel(event, typed, inputs, outputs, where, folds);
  return outputs;
}

void Interpreter::fold_copy(const Event& event, const Values& value, const std::vector<int64_t>& where, std::vector<Cells>& folds) {
  for (const auto& [first, count] : runs(where, folds))
    for (const Cells& fold : folds) {
      const Element& element = fold.elements[static_cast<size_t>(first)];
      void* cell = memory_->address(fold.rank, fold.operand->name, element.part, element.offset, element.place);
      memory_->check_written(fold.rank, fold.operand->name, cell, event.launch, who(event));
      kernel::FoldLanes lanes(event.what->flat.reduction, value.dtype);
      lanes.add(value.dtype, value.at(first), count);
      lanes.finish(instance_.dtype(fold.operand->name), cell);
    }
}

void Interpreter::run_kernel(const Event& event, const kernel::Typed& typed, const std::vector<Values>& inputs, std::vector<Values>& outputs,
                             const std::vector<int64_t>& where, std::vector<Cells>& folds) {
  const bool tile = is_tile(instance_, event.what->flat);
  const kernel::Evaluator evaluate(typed);
  const std::vector<expr::ScalarValue> values = scalars(event, *typed.kernel);
  const std::vector<kernel::Alignment> alignment(inputs.size(), tile ? kernel::Alignment::whole : kernel::Alignment::aligned);
  const auto all = tile ? std::vector<std::pair<int64_t, int64_t>>{{0, static_cast<int64_t>(where.size())}} : runs(where, folds);
  for (const auto& [first, count] : all) {
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<std::vector<std::byte>> partial(outputs.size(), std::vector<std::byte>(8));
    for (const Values& input : inputs) from.push_back(input.at(tile ? 0 : first));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const bool folds_here = !tile && typed.fold_of_output[k] >= 0;
      if (folds_here) kernel::store_identity(typed.fold_reduction[k], kernel::accumulator_dtype(typed.outputs[k]), partial[k].data());
      to.push_back(folds_here ? partial[k].data() : outputs[k].at(first));
    }
    evaluate({from, alignment.data(), to, count, where[static_cast<size_t>(first)], values});
    size_t next = 0;
    const FlatStep& flat = event.what->flat;
    for (size_t t = 0; t < flat.targets; ++t) {
      const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
      if (target.kind != Operand::Kind::slice || !target.accumulate) continue;
      const auto k = static_cast<size_t>(output_of_target(instance_, flat, t));
      for (int p = 0; p < target.peer_count; ++p) {
        const Cells& fold = folds[next++];
        const Element& element = fold.elements[static_cast<size_t>(first)];
        void* cell = memory_->address(fold.rank, fold.operand->name, element.part, element.offset, element.place);
        memory_->check_written(fold.rank, fold.operand->name, cell, event.launch, who(event));
        const Dtype accumulator = kernel::accumulator_dtype(typed.outputs[k]), dtype = instance_.dtype(fold.operand->name);
        std::vector<std::byte> sum(8);
        convert_element(dtype, cell, accumulator, sum.data());
        kernel::combine(typed.fold_reduction[k], accumulator, sum.data(), partial[k].data(), 1);
        convert_element(accumulator, sum.data(), dtype, cell);
      }
    }
  }
}

// Targets take their outputs; a value for several of them is first rounded to the narrowest type on a wire.
void Interpreter::deliver(const Event& event, int main, const std::vector<Values>& outputs, Dtype nominal) {
  const FlatStep& flat = event.what->flat;
  const bool copied = flat.kernel == FlatStep::no_kernel;
  std::vector<Values> rounded = outputs;
  const auto wire_of = [&](const FlatOperand& target, int output) {
    return instance_.wire(target.name).value_or(copied ? nominal : at(outputs, output).dtype);
  };
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    const int output = output_of_target(instance_, flat, t);
    if (target.kind != Operand::Kind::send || target.peer_count == 0) continue;
    const Dtype wire = wire_of(target, output);
    if (size_bytes(wire) < size_bytes(at(rounded, output).dtype)) at(rounded, output) = converted(at(rounded, output), wire);
  }
  size_t next = 0;
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[size_t{flat.reduced} + flat.others + t];
    const int output = output_of_target(instance_, flat, t);
    if (target.kind == Operand::Kind::slice && target.accumulate) continue;
    for (int p = 0; p < target.peer_count; ++p) {
      if (target.kind == Operand::Kind::send)
        at(links_, event.what->sends[next++]).push_back({converted(at(rounded, output), wire_of(target, output)), event.launch, event.chunk, who(event)});
      else
        write(event, spell_out(event, target, target.here ? lane_of(event).rank : (target.peer_first + p) % instance_.ranks(), main), at(rounded, output));
    }
  }
}

void Interpreter::check_links() const {
  for (size_t i = 0; i < links_.size(); ++i)
    if (!links_[i].empty())
      throw Error(ErrorKind::plan, fmt::format("{} messages to rank {} are never received; the first is of {}", links_[i].size(), assembly_.links[i].to, links_[i].front().from),
                  "receive them, or do not send them", "V7");
}

}  // namespace

void interpret(const Instance& instance, const std::vector<LaunchArgs>& args, const InterpretOptions& options, const std::function<void(int)>& between) {
  if (static_cast<int>(args.size()) != instance.ranks())
    throw Error(ErrorKind::user, fmt::format("{} launch arguments for {} ranks", args.size(), instance.ranks()), "one per rank");
  const Assembly assembly = assemble(instance);
  const std::vector<int64_t> chunks = options.chunk_elements.empty() ? default_chunk(instance, options.slot_payload_bytes) : options.chunk_elements;
  Interpreter interpreter(assembly, args, chunks);
  MachineOptions how;
  how.launches = options.launches;
  how.shuffle = true;
  how.seed = options.seed;
  how.delay = options.delay;
  how.between = between;
  Machine machine(assembly, interpreter, how);
  if (!machine.run()) throw Error(ErrorKind::plan, "the run does not end; " + machine.deadlock(), "verify the plan: rule V8 says which steps wait", "V8");
  interpreter.check_links();
}

}  // namespace weft::plan
