// Running a plan on numbers: which elements an operand means, how they are read and written. Written for reading, since
// every back end is compared with this: elements are gathered into plain arrays one by one and scattered one by one.
#include "weft/plan/interpret.h"

#include <algorithm>

#include "weft/plan/interpret_run.h"

namespace weft::plan {

Interpreter::Interpreter(const Assembly& assembly, const std::vector<LaunchArgs>& args,
                         const std::vector<int64_t>& chunks)
    : assembly_(assembly),
      instance_(*assembly.instance),
      args_(args),
      links_(assembly.links.size()),
      scalar_names_(launch_scalars(instance_.plan())) {
  for (const LaunchArgs& launch : args) {
    extents_.emplace_back(instance_, launch.spaces, chunks);
    if (launch.scalars.size() != scalar_names_.size())
      throw Error(ErrorKind::user,
                  fmt::format("{} scalars given, the plan has {}", launch.scalars.size(), scalar_names_.size()),
                  "one value per launch_scalars(plan)");
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
  const bool looped = head.loop && std::find(head.spaces.begin(), head.spaces.end(),
                                             static_cast<uint16_t>(cells.space)) != head.spaces.end();
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
  if (!looped && operand.part_count == instance_.parts(cells.space) && is_tile(instance_, event.what->flat))
    order_by_position(cells);
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
    list.push_back(
        at(extents_, cells.rank).run_at(cells.space, element.part, element.offset, element.offset + 1, count));
  return list;
}

// The element of a coarser operand that an element of the step, at this position of the whole value, meets.
Element Interpreter::meet(const Event& event, const Cells& coarse, int64_t position) const {
  const Extents& extents = at(extents_, coarse.rank);
  if (!coarse.derived) {
    if (coarse.elements.size() == 1) return coarse.elements[0];
    refuse(event, "V2",
           fmt::format("reads {}, which does not meet its elements",
                       at(instance_.plan().buffers, coarse.operand->name).name),
           "derive its space (of ... by ...)");
  }
  int64_t count = 0;
  const int64_t met = extents.meet_at(coarse.space, position, count);
  const bool fixed = at(instance_.plan().spaces, coarse.space).kind == Space::Kind::fixed;
  for (const Element& element : coarse.elements)
    if ((fixed ? element.offset
               : extents.run_at(coarse.space, element.part, element.offset, element.offset + 1, count)) == met)
      return element;
  refuse(event, "V2",
         fmt::format("meets element {} of {}, which is in none of the parts it names", met,
                     at(instance_.plan().buffers, coarse.operand->name).name),
         "name the part that holds it");
}

// ---- reading and writing
Values Interpreter::read_elements(const Event& event, const Cells& cells, const std::vector<Element>& elements) {
  Values out(instance_.dtype(cells.operand->name), static_cast<int64_t>(elements.size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    const void* from =
        memory_->address(cells.rank, cells.operand->name, elements[i].part, elements[i].offset, elements[i].place);
    memory_->check_written(cells.rank, cells.operand->name, from, event.launch, who(event));
    convert_element(out.dtype, from, out.dtype, out.at(static_cast<int64_t>(i)));
  }
  return out;
}

Values Interpreter::read(const Event& event, const Cells& cells, const std::vector<int64_t>& where) {
  if (cells.aligned && !cells.derived) {
    if (cells.elements.size() != where.size())
      refuse(event, "V2",
             fmt::format("has {} elements, {} has {}", where.size(), name_of(cells), cells.elements.size()),
             "name the same parts");
    return read_elements(event, cells, cells.elements);
  }
  if (cells.aligned && cells.elements.size() == where.size()) return read_elements(event, cells, cells.elements);
  std::vector<Element> met;
  for (int64_t position : where) met.push_back(meet(event, cells, position));
  return read_elements(event, cells, met);
}

// A tile's operand: in the loop's spaces the chunk, else the parts (spell_out: row-major where they are the whole
// value).
Values Interpreter::read_whole(const Event& event, const Cells& cells) {
  return read_elements(event, cells, cells.elements);
}

void Interpreter::write(const Event& event, const Cells& cells, const Values& values) {
  if (static_cast<int64_t>(cells.elements.size()) != values.count())
    refuse(event, "V2",
           fmt::format("makes {} elements for {} of {}", values.count(), cells.elements.size(), name_of(cells)),
           "name the same parts");
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
    refuse(
        event, "V7",
        fmt::format("expects {} elements of chunk {} in launch {} and gets {} of chunk {} in launch {} from {}", count,
                    event.chunk, event.launch, message.values.count(), message.chunk, message.launch, message.from),
        "send and receive the same cells");
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

void Interpreter::check_links() const {
  for (size_t i = 0; i < links_.size(); ++i)
    if (!links_[i].empty())
      throw Error(ErrorKind::plan,
                  fmt::format("{} messages to rank {} are never received; the first is of {}", links_[i].size(),
                              assembly_.links[i].to, links_[i].front().from),
                  "receive them, or do not send them", "V7");
}

void interpret(const Instance& instance, const std::vector<LaunchArgs>& args, const InterpretOptions& options,
               const std::function<void(int)>& between) {
  if (static_cast<int>(args.size()) != instance.ranks())
    throw Error(ErrorKind::user, fmt::format("{} launch arguments for {} ranks", args.size(), instance.ranks()),
                "one per rank");
  const Assembly assembly = assemble(instance);
  const std::vector<int64_t> chunks =
      options.chunk_elements.empty() ? default_chunk(instance, options.slot_payload_bytes) : options.chunk_elements;
  Interpreter interpreter(assembly, args, chunks);
  MachineOptions how;
  how.launches = options.launches;
  how.shuffle = true;
  how.seed = options.seed;
  how.delay = options.delay;
  how.between = between;
  Machine machine(assembly, interpreter, how);
  if (!machine.run())
    throw Error(ErrorKind::plan, "the run does not end; " + machine.deadlock(),
                "verify the plan: rule V8 says which steps wait", "V8");
  interpreter.check_links();
}

}  // namespace weft::plan
