// What is known at a launch: sizes, groups, scalars, requirements.
#include <charconv>

#include "weft/ir/evaluate_op.h"

namespace weft::ir {
namespace {

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

int64_t tensors_total(const Sizes& sizes, const std::string& name) {
  int64_t total = 0;
  for (const int64_t length : tensors_lengths(sizes, name)) total += length;
  return total;
}

std::vector<int64_t> tensors_lengths(const Sizes& sizes, const std::string& name) {
  std::vector<int64_t> lengths;
  for (const std::vector<int64_t>& shape : tensors_of(sizes, name)) {
    int64_t length = 1;
    for (const int64_t extent : shape) length *= extent;
    lengths.push_back(length);
  }
  return lengths;
}

std::vector<int64_t> shape_of(const Shape& shape, const Sizes& sizes) {
  std::vector<int64_t> out;
  for (const Size& size : shape) out.push_back(size_of(size, sizes));
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

int RankTensors::root(const std::string& text) const {
  int value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size()) return value;
  const expr::ScalarValue named = weak_value(program, sizes, text);
  if (!named.is_integer || named.integer < 0)
    throw Error(ErrorKind::user, fmt::format("root {} is no rank", text), "a root is a rank of the group");
  return static_cast<int>(named.integer);
}

void check_requirements(const Program& program, const Sizes& sizes) {
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
