// Pass 4: where each value lives.
//
// A value that only its own step uses lives in a register. A state's new content is written straight into the state if
// nobody reads the old one later, else copied at the end; an output that is written so lies there too (a training step
// puts out the weights that it keeps: one copy, written once), any other has memory of its own. "Later" is decided on
// the order of steps, which units, phases and loops have fixed by now.
#include <algorithm>
#include <tuple>

#include "weft/lower/work.h"

namespace weft::lower {
namespace {

// When a statement happens: unit, phase, loop (folds stand behind the loop's main step, small values behind the loop).
using Time = std::tuple<int, int, int, int>;

Time time_of(const Work& work, const Value& v) {
  const int space = loop_space(work, *v.op);
  if (space < 0) return {v.unit, v.phase, 1 << 20, 0};
  return {v.unit, v.phase, space, is_fold(*v.op) ? 1 : 0};
}

bool same_step(const Work& work, const Value& a, const Value& b) {
  return time_of(work, a) == time_of(work, b) && loop_space(work, *a.op) >= 0 && !is_fold(*a.op);
}

// Does somebody read the state's old content when `value` is written, or after?
bool read_later(Work& work, const ir::Name& state, const Value& value) {
  for (const ir::Update& update : work.program->updates)
    if (update.value == state) return true;  // copied into another state, at the end
  for (const Value* reader : work.readers(state))
    if (time_of(work, *reader) >= time_of(work, value) && !same_step(work, *reader, value)) return true;
  return false;
}

plan::Expr owner(const Work& work, const Value& v) {
  if (v.grade != Grade::big) return nullptr;  // whole on every rank
  const bool in_parts = work.spaces[static_cast<size_t>(v.space)].in_parts;
  const GroupMap& group = work.group(v.name);
  if (std::holds_alternative<ir::Sliced>(v.type->layout)) return group.place(algo::number("r"));
  if (const auto* root = std::get_if<ir::Root>(&v.type->layout); root && !in_parts)
    return group.place(algo::number(fmt::format("sel(r == {}, 0, none)", root->rank)));
  return nullptr;
}

plan::Id add_buffer(Work& work, const Value& v, plan::Buffer::Role role) {
  plan::Buffer buffer;
  buffer.name = work.id(v.name);
  buffer.space = work.out.plan.spaces[static_cast<size_t>(v.space)].name;
  const bool pending_fold =
      v.op && is_fold(*v.op) && v.grade != Grade::big && std::holds_alternative<ir::Partial>(v.type->layout);
  buffer.dtype = weft::name(pending_fold ? fold_accumulator(*v.op, v.type->dtype) : v.type->dtype);
  buffer.role = role;
  buffer.repl = v.decl && std::holds_alternative<ir::Replicated>(v.type->layout);
  if (buffer.repl && !work.group(v.name).is_world()) buffer.repl_of = algo::number(work.group(v.name).id());
  buffer.own = owner(work, v);
  work.out.plan.buffers.push_back(buffer);
  BufferRecipe recipe;
  recipe.input = role == plan::Buffer::Role::in;
  recipe.output = role == plan::Buffer::Role::out || (v.decl && ir::is_out(*work.program, v.name));
  recipe.state = role == plan::Buffer::Role::state;
  if (role != plan::Buffer::Role::scratch) recipe.value = v.name;
  if (recipe.state) recipe.state_name = v.name;
  work.out.buffers.push_back(recipe);
  return buffer.name;
}

// Read in another step than the one that makes it. A gather made in the same step takes it from the register.
bool read_elsewhere(Work& work, const Value& v) {
  const std::vector<Value*> readers = work.readers(v.name);
  return std::any_of(readers.begin(), readers.end(),
                     [&](const Value* reader) { return is_move(*reader->op) || !same_step(work, *reader, v); });
}

// A pending fold that the same phase finishes lives among the partial folds (emit_small.cpp).
bool lives_in_bundle(Work& work, const Value& v) {
  if (!is_fold(*v.op) || loop_space(work, *v.op) < 0 || !std::holds_alternative<ir::Partial>(v.type->layout))
    return false;
  const std::vector<Value*> readers = work.readers(v.name);
  return readers.size() == 1 && is_op(*readers[0]->op, "all_reduce") && readers[0]->unit == v.unit &&
         readers[0]->phase == v.phase;
}

// An output whose first home is a state is found in that state's memory, under both names.
bool lies_in_state(Work& work, const Value& v) {
  if (v.homes.empty()) return false;
  const int state = plan::find_buffer(work.out.plan, v.homes[0].buffer);
  BufferRecipe& recipe = work.out.buffers[static_cast<size_t>(state)];
  recipe.value = v.name;
  recipe.output = true;
  return true;
}

void place(Work& work, Value& v) {
  const plan::Parts zero = algo::part("0");
  for (const ir::Update& update : work.program->updates) {
    if (update.value != v.name) continue;
    const plan::Id state = work.id(update.state);
    if (v.op && !read_later(work, update.state, v))
      v.homes.push_back({state, zero});
    else
      v.copies.push_back(state);
  }
  if (!v.op) return;
  if (ir::is_out(*work.program, v.name) && !lies_in_state(work, v))
    v.homes.push_back({add_buffer(work, v, plan::Buffer::Role::out), zero});
  const bool needs = v.grade != Grade::big || !v.copies.empty() || read_elsewhere(work, v);
  if (needs && v.homes.empty() && !lives_in_bundle(work, v))
    v.homes.push_back({add_buffer(work, v, plan::Buffer::Role::scratch), zero});
}

// What comes in may go out: it is the same memory. A state that is overwritten has no memory for what it held.
void check_out(const Work& work, const ir::Name& name) {
  for (const ir::Update& update : work.program->updates)
    if (update.state == name)
      unsupported(name, "the old content of a state that is updated, as an output",
                  fmt::format("name it: {0}_old = {0}, and out {0}_old", name));
}

}  // namespace

void find_places(Work& work) {
  for (const ir::Out& out : work.program->outs)
    if (!ir::find_op(*work.program, out.value)) check_out(work, out.value);
  for (Value& v : work.values)
    if (v.decl)
      v.homes.push_back(
          {add_buffer(work, v, v.decl->state ? plan::Buffer::Role::state : plan::Buffer::Role::in), algo::part("0")});
  for (Value& v : work.values) place(work, v);
}

}  // namespace weft::lower
