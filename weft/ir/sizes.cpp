// What is known at a launch: sizes, groups, scalars, requirements.
//
// Sizes come from users and files and are multiplied everywhere behind this file, so they are bounded here, once: a value
// has at most 2^53 elements (a f64 counts them exactly, and their bytes on any number of ranks fit 63 bits), also when
// some other extent of it is 0. Nothing behind needs to check products again.
#include <algorithm>

#include "weft/base/plural.h"
#include "weft/ir/errors.h"
#include "weft/ir/evaluate_op.h"
#include "weft/ir/roots.h"

namespace weft::ir {
namespace {

constexpr int64_t most_elements = int64_t{1} << 53;

[[noreturn]] void too_many(const std::string& what, const std::vector<int64_t>& extents) {
  std::vector<std::string> text;
  for (const int64_t extent : extents) text.push_back(std::to_string(extent));
  throw Error(ErrorKind::user, fmt::format("{}: too many elements, {}", what, join(text, " x ")),
              "a value has at most 2^53 elements: take smaller sizes");
}

// The product, extents of 0 counted as 1.
int64_t bounded_product(const std::string& what, const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents)
    if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product) || product > most_elements)
      too_many(what, extents);
  return product;
}

const std::vector<std::vector<int64_t>>& tensors_of(const Sizes& sizes, const std::string& name) {
  const auto found = sizes.tensors.find(name);
  if (found == sizes.tensors.end())
    throw Error(ErrorKind::user, fmt::format("no shapes for tensors {}", name),
                fmt::format("hand in the list: {}=FILE of shapes", name));
  return found->second;
}

int64_t size_of(const Size& size, const Sizes& sizes) {
  if (size.name.empty()) return size.value;
  if (size.per_tensor) return static_cast<int64_t>(tensors_of(sizes, size.name).size());
  if (sizes.tensors.count(size.name)) return tensors_total(sizes, size.name);
  const auto found = sizes.dims.find(size.name);
  if (found == sizes.dims.end() && size.name.ends_with(".t"))  // at most all rows of all ranks
    return size_of({size.name.substr(0, size.name.size() - 2), 1, false}, sizes) * sizes.ranks;
  if (found == sizes.dims.end())
    throw Error(ErrorKind::user, fmt::format("no value for size {}", size.name),
                fmt::format("hand it in: {}=128", size.name));
  if (found->second < 0)
    throw Error(ErrorKind::user, fmt::format("size {} is {}", size.name, found->second), "sizes are not negative");
  return found->second;
}

expr::ScalarValue scalar_value(const ScalarDecl& decl, const Sizes& sizes) {
  const auto found = sizes.scalars.find(decl.name);
  if (found == sizes.scalars.end())
    throw Error(ErrorKind::user, fmt::format("no value for scalar {}", decl.name),
                fmt::format("hand it in: {}=1", decl.name));
  const expr::ScalarValue& value = found->second;
  if (decl.dtype != Dtype::i64) return {false, 0, value.as_f64()};
  if (!value.is_integer)
    throw Error(ErrorKind::user, fmt::format("scalar {} is i64, its value {}", decl.name, shortest(value.number)),
                "hand in an integer");
  return value;
}

// `ranks(group)` as a number.
expr::Expr with_ranks(const expr::Expr& e, const Program& program, const Sizes& sizes) {
  if (e->op == expr::Op::call && e->name == "ranks" && e->args.size() == 1)
    return expr::integer(group_ranks(program, e->args[0]->name, sizes).size());
  std::vector<expr::Expr> args;
  for (const expr::Expr& arg : e->args) args.push_back(with_ranks(arg, program, sizes));
  if (args == e->args) return e;
  if (e->op == expr::Op::call) return expr::call(e->name, std::move(args));
  return args.size() == 1 ? expr::unary(e->op, args[0]) : expr::binary(e->op, args[0], args[1]);
}

expr::ScalarValue evaluate_weak(const Program& program, const Sizes& sizes, const expr::Expr& e) {
  const expr::ScalarEnv env = [&](const std::string& name) { return weak_value(program, sizes, name); };
  return expr::evaluate_scalar(e, env);
}

// "H = 130, ranks = 4": what a refused requirement was about.
std::string values_in(const expr::Expr& e, const Program& program, const Sizes& sizes) {
  std::string text;
  for (const std::string& name : expr::names(e)) {
    const expr::ScalarValue value = weak_value(program, sizes, name);
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name,
                        value.is_integer ? std::to_string(value.integer) : shortest(value.number));
  }
  return text;
}

const GroupDecl* find_group(const Program& program, const std::string& name) {
  for (const HeaderDecl& decl : program.header)
    if (const auto* group = std::get_if<GroupDecl>(&decl); group && group->name == name) return group;
  return nullptr;
}

int split_size(const GroupDecl& group, const Program& program, const Sizes& sizes) {
  const expr::ScalarValue parts = evaluate_weak(program, sizes, group.parts);
  if (!parts.is_integer || parts.integer < 1 || sizes.ranks % parts.integer != 0)
    throw Error(ErrorKind::user,
                fmt::format("group {}: {} ranks do not split into {} groups", group.name, sizes.ranks,
                            parts.is_integer ? std::to_string(parts.integer) : shortest(parts.number)),
                "launch with a multiple of the number of groups");
  return static_cast<int>(sizes.ranks / parts.integer);
}

}  // namespace

const RaggedDecl* ragged_of(const Program& program, const std::string& name) {
  for (const HeaderDecl& decl : program.header)
    if (const auto* ragged = std::get_if<RaggedDecl>(&decl);
        ragged && (name == ragged->name || name == ragged->name + ".t"))
      return ragged;
  return nullptr;
}

std::vector<std::vector<int64_t>> row_counts(const Sizes& sizes, const std::string& ragged) {
  if (const auto given = sizes.counts.find(ragged); given != sizes.counts.end()) return given->second;
  const int64_t rows = size_of({ragged, 1, false}, sizes), n = sizes.ranks;
  const int64_t shares = std::max<int64_t>(1, n * (n - 1) / 2);  // n - 1 of them for rank 0, none for the last
  std::vector<std::vector<int64_t>> counts(static_cast<size_t>(n));
  for (std::vector<int64_t>& row : counts) {
    int64_t before = 0;
    for (int64_t to = 0; to < n; ++to) {
      const int64_t until = n == 1 ? 1 : before + n - 1 - to;
      row.push_back(slice_of(rows, static_cast<int>(until), static_cast<int>(shares)).first -
                    slice_of(rows, static_cast<int>(before), static_cast<int>(shares)).first);
      before = until;
    }
  }
  return counts;
}

std::vector<int64_t> ragged_parts(const Sizes& sizes, const std::string& name, int rank) {
  const bool transposed = name.ends_with(".t");
  const auto counts = row_counts(sizes, transposed ? name.substr(0, name.size() - 2) : name);
  if (!transposed) return counts.at(static_cast<size_t>(rank));
  std::vector<int64_t> parts;
  for (const std::vector<int64_t>& from : counts) parts.push_back(from.at(static_cast<size_t>(rank)));
  return parts;
}

int64_t tensors_total(const Sizes& sizes, const std::string& name) {
  int64_t total = 0;
  for (const int64_t length : tensors_lengths(sizes, name)) {
    total += length;  // two of at most 2^53
    if (total > most_elements) too_many(fmt::format("tensors {}, all together", name), {total});
  }
  return total;
}

std::vector<int64_t> tensors_lengths(const Sizes& sizes, const std::string& name) {
  std::vector<int64_t> lengths;
  for (const std::vector<int64_t>& shape : tensors_of(sizes, name)) {
    for (const int64_t extent : shape)
      if (extent < 0)
        throw Error(ErrorKind::user, fmt::format("tensors {}: a size of {}", name, extent), "sizes are not negative");
    const int64_t product = bounded_product(fmt::format("a tensor of {}", name), shape);
    lengths.push_back(std::count(shape.begin(), shape.end(), 0) > 0 ? 0 : product);
  }
  return lengths;
}

std::vector<int64_t> shape_of(const Shape& shape, const Sizes& sizes) {
  std::vector<int64_t> out;
  for (const Size& size : shape) out.push_back(size_of(size, sizes));
  bounded_product(print(shape), out);
  return out;
}

std::pair<int64_t, int64_t> slice_of(int64_t n, int rank, int ranks) {
  const __int128 wide = n;
  return {static_cast<int64_t>(wide * rank / ranks), static_cast<int64_t>(wide * (rank + 1) / ranks)};
}

GroupRanks group_ranks(const Program& program, const std::string& name, const Sizes& sizes) {
  GroupRanks out;
  int size = sizes.ranks;  // of a run of consecutive ranks
  bool across = false;
  if (name != "world") {
    const GroupDecl* group = find_group(program, name);
    if (!group)
      throw Error(ErrorKind::user, fmt::format("group {} is not declared", name),
                  fmt::format("add: group {} = world.split(k)", name), "F3");
    across = group->across;
    size = split_size(across ? *find_group(program, group->of) : *group, program, sizes);
  }
  out.members.resize(static_cast<size_t>(across ? size : sizes.ranks / size));
  for (int rank = 0; rank < sizes.ranks; ++rank) {
    const int run = rank / size, place = rank % size;
    out.group_of.push_back(across ? place : run);
    out.index_of.push_back(across ? run : place);
    out.members[static_cast<size_t>(out.group_of.back())].push_back(rank);
  }
  return out;
}

expr::ScalarValue weak_value(const Program& program, const Sizes& sizes, const std::string& name) {
  if (name == "ranks") return {true, sizes.ranks, 0};
  for (const HeaderDecl& decl : program.header) {
    if (const auto* scalar = std::get_if<ScalarDecl>(&decl); scalar && scalar->name == name)
      return scalar_value(*scalar, sizes);
    if (const auto* let = std::get_if<LetDecl>(&decl); let && let->name == name)
      return evaluate_weak(program, sizes, let->value);
  }
  return {true, size_of({name, 1, false}, sizes), 0};
}

int root_rank(const Program& program, const Sizes& sizes, const std::string& text) {
  constexpr int64_t most = 1 << 30;
  expr::ScalarValue value{true, most, 0};
  if (text.find_first_not_of("0123456789") != std::string::npos)
    value = weak_value(program, sizes, text);
  else if (text.size() < 10)
    value.integer = std::stoll(text);
  if (!value.is_integer || value.integer < 0 || value.integer >= most)
    throw Error(ErrorKind::user, fmt::format("root {} is no rank", text), "a root is a rank of the group, from 0");
  return static_cast<int>(value.integer);
}

int RankTensors::root(const std::string& text) const { return root_rank(program, sizes, text); }

namespace {

// The rows of ragged sizes are counted later.
void check_shape(const Program& program, const Sizes& sizes, const Shape& shape) {
  Shape known;
  for (const Size& size : shape)
    if (!ragged_of(program, size.name)) known.push_back(size);
  shape_of(known, sizes);
}

[[noreturn]] void refuse_root(const SourceLine& line, const std::string& root, const Name& value,
                              const RootRefusal& refusal) {
  const std::string message = fmt::format("{}: {}", value, refusal.message);
  if (line.text.empty()) throw Error(ErrorKind::user, message, refusal.remedy, "L3");
  fail_at(ErrorKind::user, line, root, "L3", message, refusal.remedy);
}

// A value and its operands live on one group, or on the next of its kind.
std::string group_of(const Program& program, const Op& op) {
  Name from = op.args[0];
  for (const Op* maker = find_op(program, from); maker && !maker->args.empty(); maker = find_op(program, from))
    from = maker->args[0];
  const TensorDecl* decl = find_tensor(program, from);
  return decl ? decl->type.group : "world";
}

}  // namespace

std::optional<RootRefusal> refused_root(const Program& program, const Sizes& sizes, const std::string& root,
                                        int ranks) {
  const int rank = root_rank(program, sizes, root);
  if (rank < ranks) return {};
  const std::string which = root == std::to_string(rank) ? root : fmt::format("{} = {}", root, rank);
  return RootRefusal{fmt::format("root {} of a group of {}", which, counted(ranks, "rank")),
                     fmt::format("roots count from 0: take one below {}, or launch on more ranks", ranks)};
}

void check_roots(const Program& program, const Sizes& sizes) {
  const auto refused = [&](const std::string& root, const std::string& group) {
    return refused_root(program, sizes, root, group_ranks(program, group, sizes).size());
  };
  for (const TensorDecl& decl : program.tensors)
    if (const auto* root = std::get_if<Root>(&decl.type.layout))
      if (const auto refusal = refused(root->rank, decl.type.group))
        refuse_root(decl.line, root->rank, decl.name, *refusal);
  for (const Op& op : program.ops) {
    if (op.attrs.root.empty()) continue;
    const auto refusal = refused(op.attrs.root, group_of(program, op));
    if (refusal && op.line.text.empty()) refuse_root({}, op.attrs.root, op.name, *refusal);
    if (refusal) fail_op(op, op.attrs.root, "L3", fmt::format("{}: {}", op.name, refusal->message), refusal->remedy);
  }
}

void check_requirements(const Program& program, const Sizes& sizes) {
  for (const TensorDecl& decl : program.tensors) check_shape(program, sizes, decl.type.shape);
  check_roots(program, sizes);
  for (const HeaderDecl& decl : program.header) {
    const auto* require = std::get_if<RequireDecl>(&decl);
    if (!require) continue;
    const expr::Expr condition = with_ranks(require->condition, program, sizes);
    const expr::ScalarValue holds = evaluate_weak(program, sizes, condition);
    if (holds.is_integer ? holds.integer != 0 : holds.number != 0) continue;
    throw Error(
        ErrorKind::user,
        fmt::format("program {} requires {}; here {}", program.name,
                    expr::print(require->condition, expr::Syntax::program), values_in(condition, program, sizes)),
        "launch with other sizes or another number of ranks");
  }
}

}  // namespace weft::ir
