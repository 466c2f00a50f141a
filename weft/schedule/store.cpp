// store m ..: keep a state in parts, one after the other.
//
//   state m f32[N] replicated   ->   state m f32[N] sliced(0)        1/k of the memory; checkpoints gather
//   update m = m1                    update m = m1.s                 (m1 = all_gather(m1.s) goes if nobody else reads it)
//
//   T1  a replicated state
//   T2  updated with a gather
//   T3  every reader works on slices that have m's factor
//   T4  all in one cut
//   T5  m is no output
// Bits: kept.
#include <algorithm>

#include "weft/ir/names.h"
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

std::string hint(const Form& form, const ir::Op& reader, const ir::Name& state) {
  for (const ir::Name& arg : reader.args)
    if (arg != state && gather_of_slice(form.program, arg) != nullptr)
      return fmt::format("reorder {} first", reader.name);
  return fmt::format("reorder {} first ({} has no gathered operand: `cut {} 0`)", reader.name, reader.name,
                     reader.name);
}

// T3: the layout of m's part that this reader needs, or why it needs all of it.
std::optional<Refusal> part_read(const Form& form, const ir::Op& reader, const ir::Name& state, ir::Layout* part) {
  Refusal whole{"T3",
                reader.name,
                fmt::format("{} reads all of {}", reader.name, state),
                fmt::format("leave {} whole", state),
                {reader.name, state}};
  if (!is_computation(reader)) return whole;
  if (reader.cut && !is_derived_name(reader.name)) {
    whole.message = fmt::format("{} says `cut {}` itself, so {} must stay whole", reader.name, *reader.cut, state);
    return whole;
  }
  Cut cut = cut_of(form, reader);
  whole.remedy = hint(form, reader, state);
  if (cut.kind == Cut::Kind::whole) return whole;
  if (cut.kind == Cut::Kind::root) {
    *part = ir::Root{cut.root};
    return {};
  }
  ir::Factors factors = reader.def->factors(form.program, reader, form.types);
  size_t operand = static_cast<size_t>(std::find(reader.args.begin(), reader.args.end(), state) - reader.args.begin());
  const std::vector<int>& own = factors.operand[operand];
  auto found = std::find(own.begin(), own.end(), cut.factor);
  if (found == own.end()) {
    whole.message =
        fmt::format("{} reads all of {}, which has no dimension like the one that is cut", reader.name, state);
    whole.remedy = fmt::format("leave {} whole", state);
    return whole;
  }
  *part = ir::Sliced{static_cast<int>(found - own.begin())};
  return {};
}

std::optional<Refusal> check_readers(const Form& form, const ir::Name& state, const ir::Name& update) {
  const ir::Op* gather = gather_of_slice(form.program, update);
  const ir::Layout first = form.types.at(gather->args[0]).layout;
  for (const ir::Op* reader : ir::uses(form.program, state)) {
    ir::Layout part;
    if (std::optional<Refusal> refusal = part_read(form, *reader, state, &part)) return refusal;
    if (!(part == first))
      return Refusal{
          "T4",
          state,
          fmt::format("{} is written {} and read {} by {}", state, ir::print(first), ir::print(part), reader->name),
          "cut all its readers alike",
          {state, reader->name}};
  }
  return {};
}

class Store : public Rewrite {
 public:
  std::string_view name() const override { return "store"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    if (args.words.empty()) return malformed("store", "store m, or store m v ...");
    Form form = form_of(program);
    for (const std::string& state : args.words) {
      if (std::optional<Refusal> refusal = check_store(form, state)) return refusal;
      apply_store(form, state);
    }
    return {};
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Form form = form_of(program);
    for (const std::string& state : args.words) {
      if (std::optional<Refusal> refusal = check_store(form, state)) refuse(*refusal);
      apply_store(form, state);
    }
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::kept; }
};

Refusal not_a_state(const Form& form, const ir::Name& name) {
  std::vector<std::string> states;
  for (const ir::TensorDecl& decl : form.program.tensors)
    if (decl.state) states.push_back(decl.name);
  const std::string known = states.empty() ? "the program has no states" : "states are " + join(states, ", ");
  return {"T1", name, fmt::format("{} is not a state", name), ir::did_you_mean(name, states) + known, {name}};
}

}  // namespace

std::optional<Refusal> check_store(const Form& form, const ir::Name& state) {
  const ir::TensorDecl* decl = ir::find_tensor(form.program, state);
  if (decl == nullptr || !decl->state) return not_a_state(form, state);
  if (!is_replicated(decl->type))
    return Refusal{"T1",
                   state,
                   fmt::format("{} is {} already", state, ir::print(decl->type.layout)),
                   fmt::format("leave {} out", state),
                   {state}};
  auto update = std::find_if(form.program.updates.begin(), form.program.updates.end(),
                             [&state](const ir::Update& u) { return u.state == state; });
  bool updated = update != form.program.updates.end();
  if (!updated || gather_of_slice(form.program, update->value) == nullptr) {
    std::string value = updated ? update->value : "nothing";
    return Refusal{"T2",
                   state,
                   fmt::format("{} is updated with {}, which is not a gather of slices", state, value),
                   updated ? fmt::format("reorder {} first", value) : "a state that never changes is an `in`",
                   {state, value}};
  }
  if (std::optional<Refusal> refusal = check_readers(form, state, update->value)) return refusal;
  if (ir::is_out(form.program, state))
    return Refusal{"T5",
                   state,
                   fmt::format("{} is an output", state),
                   fmt::format("leave {} whole, or output a copy of it", state),
                   {state}};
  for (const ir::Update& other : form.program.updates)
    if (other.value == state)
      return Refusal{"T3",
                     state,
                     fmt::format("state {} becomes all of {}", other.state, state),
                     fmt::format("leave {} whole", state),
                     {other.state, state}};
  return {};
}

void apply_store(Form& form, const ir::Name& state) {
  ir::Layout part;
  for (ir::Update& update : form.program.updates) {
    if (update.state != state) continue;
    update.value = gather_of_slice(form.program, update.value)->args[0];
    part = form.types.at(update.value).layout;
  }
  for (ir::TensorDecl& decl : form.program.tensors)
    if (decl.name == state) decl.type.layout = part;
  form.types.at(state).layout = part;
  canonicalize(form);
}

const Rewrite& store_rewrite() {
  static const Store rewrite;
  return rewrite;
}

}  // namespace weft::schedule
