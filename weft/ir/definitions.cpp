// Definitions: norm mean softmax layer_norm rms_norm dropout count, written in terms of maps and folds.
//
// As operations of their own each would need factors, linearity, kernels and rewrites; as definitions they need ten
// lines, and a norm over a cut dimension works because a fold over a cut dimension does. Folds of narrow types are wide
// (D4), so a definition casts back before it meets its operand.
#include "weft/ir/statements.h"

namespace weft::ir {
namespace {

using expr::Expr;

Expr operator+(const Expr& a, const Expr& b) { return expr::binary(expr::Op::add, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return expr::binary(expr::Op::sub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return expr::binary(expr::Op::mul, a, b); }
Expr operator/(const Expr& a, const Expr& b) { return expr::binary(expr::Op::div, a, b); }

struct Call {
  const Expr& e;
  const Expansion& with;

  const Expr& arg(size_t i) const { return e->args[i]; }
  Expr tensor() const { return with.hoist(arg(0)); }
  const Type& type(const Expr& x) const { return with.type_of(x->name); }

  // fold(value, the call's dimensions or `by`), a statement of its own.
  Expr fold(const char* function, const Expr& value, size_t first_dim = 1) const {
    std::vector<Expr> args = {value};
    args.insert(args.end(), e->args.begin() + static_cast<ptrdiff_t>(first_dim), e->args.end());
    return with.hoist(expr::call(function, std::move(args)));
  }
  Expr fold_last(const char* function, const Expr& value) const {
    return with.hoist(expr::call(function, {value, expr::integer(-1)}));
  }

  // The wide result of a fold, back in the dtype of x.
  Expr narrow(const Expr& x, const Expr& value) const {
    const Dtype dtype = type(x).dtype;
    return fold_dtype(dtype) == dtype ? value : expr::call(std::string(name(dtype)), {value});
  }
  void demand(bool holds, std::string_view rule, const std::string& message, std::string_view remedy) const {
    if (!holds) with.refuse(rule, message, remedy);
  }
};

Expr size_expr(const Size& size) {
  if (size.per_tensor)
    throw Error(ErrorKind::unsupported, fmt::format("count over #{}: the number of tensors has no name", size.name),
                fmt::format("hand it in: scalar tensors_of_{} i64", size.name));
  return size.name.empty() ? expr::integer(size.value) : expr::name(size.name);
}

// The number of elements of x along the dimensions that are the call's arguments from 1, or of all of x.
Expr count_of(const Call& call, const Expr& x) {
  const Shape& shape = call.type(x).shape;
  const int rank = static_cast<int>(shape.size());
  Expr count;
  const auto times = [&](const Size& size) { count = count ? count * size_expr(size) : size_expr(size); };
  for (size_t i = 1; i < call.e->args.size(); ++i) {
    const Expr& dim = call.arg(i);
    if (dim->op == expr::Op::name && dim->name.starts_with(by_prefix))
      throw Error(ErrorKind::unsupported, "count and mean per tensor: the lengths of tensors have no name",
                  "sum(x by P), and divide by lengths handed in: in n f32[#P] replicated");
    call.demand(dim->op == expr::Op::integer, "F5", fmt::format("{} takes a tensor and dimensions", call.e->name),
                "count(x), count(x, d ..)");
    call.demand(dim->integer >= -rank && dim->integer < rank, "S2",
                fmt::format("no dimension {} in a tensor of {} dimensions", dim->integer, rank),
                "dimensions count from 0, or from -1 at the right end");
    times(shape[static_cast<size_t>(dim->integer < 0 ? dim->integer + rank : dim->integer)]);
  }
  if (call.e->args.size() == 1)
    for (const Size& size : shape) times(size);
  return count ? count : expr::integer(1);
}

Expr last_size(const Call& call, const Expr& x) {
  const Shape& shape = call.type(x).shape;
  call.demand(!shape.empty(), "S2", fmt::format("{} of a single number", call.e->name),
              "it works along the last dimension");
  return size_expr(shape.back());
}

void demand_floats(const Call& call, const Expr& x) {
  const Dtype dtype = call.type(x).dtype;
  call.demand(is_float(dtype), "D3", fmt::format("{} of {}", call.e->name, name(dtype)),
              "fold, then divide as you mean it; or cast: f32(x)");
}

Expr norm(const Call& call) {
  const Expr x = call.tensor();
  return expr::call("sqrt", {call.fold("sum", x * x)});
}

Expr mean(const Call& call) {
  const Expr x = call.tensor();
  demand_floats(call, x);
  const Expr count = count_of(call, x);
  return call.narrow(x, call.fold("sum", x) / count);
}

Expr softmax(const Call& call) {
  const Expr x = call.tensor();
  demand_floats(call, x);
  const Expr largest = call.fold("amax", x);
  const Expr powers = call.with.hoist(expr::call("exp", {x - largest}));
  return powers / call.narrow(x, call.fold("sum", powers));
}

Expr rms_norm(const Call& call) {
  const Expr x = call.tensor();
  demand_floats(call, x);
  const Expr size = last_size(call, x);
  const Expr eps = call.e->args.size() > 2 ? call.arg(2) : expr::number(1e-06);
  const Expr squares = call.fold_last("sum", x * x);
  return x * call.narrow(x, expr::call("rsqrt", {squares / size + eps})) * call.arg(1);
}

// Centred in the wide type: a narrow x minus its mean would lose what the variance is made of.
Expr layer_norm(const Call& call) {
  const Expr x = call.tensor();
  demand_floats(call, x);
  const Expr size = last_size(call, x);
  const Expr eps = call.e->args.size() > 3 ? call.arg(3) : expr::number(1e-05);
  const Dtype dtype = call.type(x).dtype, wide = fold_dtype(dtype);
  const Expr total = call.fold_last("sum", x);
  const Expr widened = wide == dtype ? x : expr::call(std::string(name(wide)), {x});
  const Expr centred = call.with.hoist(widened - total / size);
  const Expr variance = call.fold_last("sum", centred * centred);
  return call.narrow(x, centred * expr::call("rsqrt", {variance / size + eps})) * call.arg(1) + call.arg(2);
}

Expr dropout(const Call& call) {
  const Expr& p = call.arg(1);
  const bool literal = p->op == expr::Op::number || p->op == expr::Op::integer;
  const double value = p->op == expr::Op::number ? p->number : static_cast<double>(p->integer);
  call.demand(!literal || (value >= 0 && value < 1), "F5", fmt::format("dropout with probability {}", shortest(value)),
              "a probability of at least 0 and below 1");
  const Expr x = call.tensor();
  const Expr drop = expr::binary(expr::Op::lt, expr::call("rand", {call.arg(2), call.arg(3)}), p);
  return expr::call("select", {drop, expr::integer(0), x / (expr::integer(1) - p)});
}

Expr count(const Call& call) {
  call.demand(call.arg(0)->op == expr::Op::name, "F5", "count of an expression",
              "count the elements of a named tensor");
  return count_of(call, call.arg(0));
}

struct Row {
  Definition definition;
  size_t least, most;
  Expr (*expand)(const Call&);
};

const Row rows[] = {
    {{"norm", "norm(x), norm(x, d ..), norm(x by P)", "sqrt(sum(x * x))"}, 1, 9, norm},
    {{"mean", "mean(x), mean(x, d ..)", "sum(x) / count(x)"}, 1, 9, mean},
    {{"softmax", "softmax(x, d ..)", "exp(x - amax(x)), divided by its sum"}, 2, 9, softmax},
    {{"layer_norm", "layer_norm(x, gain, bias), layer_norm(x, gain, bias, eps)", "along the last dimension, eps 1e-05"},
     3,
     4,
     layer_norm},
    {{"rms_norm", "rms_norm(x, gain), rms_norm(x, gain, eps)", "along the last dimension, eps 1e-06"}, 2, 3, rms_norm},
    {{"dropout", "dropout(x, p, seed, k)", "select(rand(seed, k) < p, 0, x / (1 - p))"}, 4, 4, dropout},
    {{"count", "count(x), count(x, d ..)", "the number of elements, of all ranks together"}, 1, 9, count},
};

const Row* find_row(std::string_view name) {
  for (const Row& row : rows)
    if (row.definition.name == name) return &row;
  return nullptr;
}

}  // namespace

bool is_definition(std::string_view name) { return find_row(name) != nullptr; }

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = [] {
    std::vector<Definition> list;
    for (const Row& row : rows) list.push_back(row.definition);
    return list;
  }();
  return all;
}

Expr expand(const Expr& e, const Expansion& with) {
  const Row* row = find_row(e->name);
  if (e->args.size() < row->least || e->args.size() > row->most)
    with.refuse("F5", fmt::format("{} with {} argument{}", e->name, e->args.size(), e->args.size() == 1 ? "" : "s"),
                row->definition.signature);
  return row->expand(Call{e, with});
}

}  // namespace weft::ir
