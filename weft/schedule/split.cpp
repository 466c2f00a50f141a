// split x [d | root k]
//
//   x = all_reduce(op, e)   ->   x.s = reduce_scatter(op, e, d)          or   x.s = reduce(op, e, k)
//                                x = all_gather(x.s)                          x = broadcast(x.s)
//
//   P1  x is an all_reduce of the program (one that finishes a pending fold belongs to its fold)
//   P2  dimension d exists and is not 1
//   P3  x is in no block
// Bits: kept under `order rank, round once`; else the plan's order decides.
#include "weft/schedule/form.h"

namespace weft::schedule {
namespace {

bool has_dimension(const ir::Type& type, int dim) {
  if (dim < 0 || static_cast<size_t>(dim) >= type.shape.size()) return false;
  const ir::Size& size = type.shape[static_cast<size_t>(dim)];
  return !(size.name.empty() && size.value == 1);
}

// x.p of a fold that was cut; one that commute made is an ordinary contribution.
bool finishes_cut(const Form& form, const ir::Name& arg) {
  const ir::Op* producer = is_pending_name(arg) ? ir::find_op(form.program, arg) : nullptr;
  return producer != nullptr && cut_of(form, *producer).kind != Cut::Kind::whole;
}

struct Target {
  ir::Name x;
  ir::Layout cut = ir::Sliced{0};
};
std::optional<Target> target(const Args& args) {
  const std::vector<std::string>& words = args.words;
  if (words.size() == 1) return Target{words[0]};
  if (words.size() == 3 && words[1] == "root") return Target{words[0], ir::Root{words[2]}};
  if (words.size() != 2) return {};
  std::optional<int> dim = parse_dimension(words[1]);
  return dim ? std::optional<Target>(Target{words[0], ir::Sliced{*dim}}) : std::nullopt;
}

class Split : public Rewrite {
 public:
  std::string_view name() const override { return "split"; }
  std::optional<Refusal> check(const ir::Program& program, const Args& args) const override {
    std::optional<Target> t = target(args);
    if (!t) return malformed("split", "split x, split x 1, or split x root 0");
    return check_split(form_of(program), t->x, t->cut);
  }
  ir::Program apply(const ir::Program& program, const Args& args) const override {
    Target t = *target(args);
    Form form = form_of(program);
    apply_split(form, t.x, t.cut);
    return form.program;
  }
  Bits bits(const ir::Program&, const Args&) const override { return Bits::order; }
};

}  // namespace

std::optional<Refusal> check_split(const Form& form, const ir::Name& x, const ir::Layout& cut) {
  const ir::Op* op = ir::find_op(form.program, x);
  if (op == nullptr) return no_statement(form, "P1", x, x);
  if (!is_op(*op, "all_reduce"))
    return Refusal{"P1",
                   x,
                   fmt::format("split takes an all_reduce; {} is {}", x, op->def->name),
                   is_computation(*op) ? fmt::format("divide a computation by `reorder {0}` or `cut {0} 0`", x)
                                       : fmt::format("leave {} as it is", x),
                   {x}};
  if (ir::find_op(form.program, x + ".s") != nullptr)
    return Refusal{"P1", x, fmt::format("there is an {}.s already", x), fmt::format("leave {} whole", x), {x}};
  if (finishes_cut(form, op->args[0]))
    return Refusal{"P1",
                   x,
                   fmt::format("{} finishes the pending {}, which was cut from it", x, op->args[0]),
                   fmt::format("leave {} whole", x),
                   {x, op->args[0]}};
  const ir::Type& type = form.types.at(op->args[0]);
  const auto* sliced = std::get_if<ir::Sliced>(&cut);
  if (sliced != nullptr && !has_dimension(type, sliced->dim))
    return Refusal{"P2",
                   x,
                   fmt::format("{} has no dimension {} to cut: {}", x, sliced->dim, ir::print(type)),
                   fmt::format("split {} root 0, or leave it whole", x),
                   {x}};
  if (const ir::Block* block = block_of(form.program, x))
    return Refusal{"P3", x, fmt::format("{} is in the block {}", x, block->name), "split before fusing", {x}};
  return {};
}

void apply_split(Form& form, const ir::Name& x, const ir::Layout& cut) {
  size_t at = position(form.program, x);
  ir::Op whole = form.program.ops[at];
  ir::Name slice = x + ".s";
  ir::Attrs attrs;
  attrs.reduce = whole.attrs.reduce;
  bool sliced = std::holds_alternative<ir::Sliced>(cut);
  if (sliced)
    attrs.dim = std::get<ir::Sliced>(cut).dim;
  else
    attrs.root = std::get<ir::Root>(cut).rank;
  ir::Type type = form.types.at(x);
  type.layout = cut;
  form.types[slice] = type;
  form.program.ops[at] = communication(sliced ? "all_gather" : "broadcast", x, slice, {}, whole.line);
  form.program.ops.insert(form.program.ops.begin() + static_cast<ptrdiff_t>(at),
                          communication(sliced ? "reduce_scatter" : "reduce", slice, whole.args[0], attrs, whole.line));
  canonicalize(form);
}

const Rewrite& split_rewrite() {
  static const Split rewrite;
  return rewrite;
}

}  // namespace weft::schedule
