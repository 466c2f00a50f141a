// Inference: the types of all values. Sizes come from factors (S), dtypes from the expression (D), groups from the
// operands (W), layouts from one rule for every operation (L, layout_rule.cpp).
//
// It is called for every candidate of a schedule search, thousands of times, so it does no text work unless it fails.
#include <algorithm>

#include "weft/expr/body.h"
#include "weft/expr/functions.h"
#include "weft/ir/errors.h"
#include "weft/ir/layout_rule.h"
#include "weft/ir/names.h"
#include "weft/ir/ops.h"
#include "weft/ir/weak.h"

namespace weft::ir {
namespace {

std::string where_to_find(const Name& name, const Types& types) {
  std::vector<std::string> known;
  for (const auto& [value, type] : types) known.push_back(value);
  return did_you_mean(name, known) + "a value is computed or declared before it is used";
}

void check_operands(const Op& op, const Types& types) {
  WEFT_CHECK(op.def, "statement {} has no operation", op.name);
  for (const Name& arg : op.args)
    if (!types.count(arg)) fail_op(op, arg, "F3", fmt::format("{} is not defined", arg), where_to_find(arg, types));
  if (op.def->tensors >= 0 && op.args.size() != static_cast<size_t>(op.def->tensors))
    fail_op(op, op.def->name, "F5",
            fmt::format("{} takes {} tensor{}, not {}", op.def->name, op.def->tensors, op.def->tensors == 1 ? "" : "s",
                        op.args.size()),
            op.def->signature);
}

// W1, and presence: absent wherever an operand is.
void meet_groups(const Op& op, const Types& types, Type& type) {
  if (op.args.empty()) return;
  type.group = types.find(op.args[0])->second.group;
  for (const Name& arg : op.args) {
    const Type& t = types.find(arg)->second;
    if (t.group != type.group)
      fail_op(op, arg, "W1", fmt::format("{} lives on {}, {} on {}", op.args[0], type.group, arg, t.group),
              "a value has one group; move it with send, or compute over one group");
    type.presence.first = std::max(type.presence.first, t.presence.first);
    type.presence.last = std::max(type.presence.last, t.presence.last);
  }
}

std::string_view hint_for(std::string_view function) {
  struct Hint {
    std::string_view name, remedy;
  };
  static constexpr Hint hints[] = {
      {"sort", "sorting is not in the language: hand in sorted rows"},
      {"argsort", "sorting is not in the language: hand in sorted rows"},
      {"topk", "choosing rows is not in the language: hand in the chosen rows"},
      {"take", "gather by index is not in the language: hand in the rows"},
      {"view", "reshape at the border; matmul takes batches"},
      {"reshape", "reshape at the border; matmul takes batches"},
      {"transpose", "transpose at the border; matmul takes batches"},
      {"barrier", "a barrier has no value: call the communicator's"},
  };
  for (const Hint& hint : hints)
    if (hint.name == function) return hint.remedy;
  return "";
}

std::string unknown_function(const expr::Expr& e) {
  std::string found;
  expr::visit(e, [&](const expr::Node& node) {
    const bool known = node.op != expr::Op::call || expr::find_function(node.name) || parse_dtype(node.name) ||
                       node.name == "rand" || node.name == "index";
    if (found.empty() && !known) found = node.name;
  });
  return found;
}

// D1, D2, F4, F5 come from expr without a place: give them the statement's line and the token they mean. A message of D2
// begins with the expression that it is about.
[[noreturn]] void place_error(const Error& error, const Op& op, const Types& types) {
  std::string token, message = error.message(), remedy = error.remedy();
  if (error.rule() == "D1") {
    for (const Name& arg : op.args)
      if (token.empty() && types.find(arg)->second.dtype != types.find(op.args[0])->second.dtype) token = arg;
  } else if (error.rule() == "F4" || error.rule() == "F5") {
    token = unknown_function(op.value);
    if (token == "grad" || token == "backward")
      throw Error(ErrorKind::unsupported, fmt::format("{}: programs are not differentiated", token),
                  "write the backward pass as a program of its own");
    if (error.rule() == "F4" && !token.empty()) {
      message = fmt::format("{} is not an operation", token);
      remedy = hint_for(token);
      if (remedy.empty()) remedy = "operations are listed by `weft ops`";
    }
  }
  if (error.rule() == "D2")
    token = message.substr(0, std::min({message.find(" meets"), message.find(" does not"), message.find(": ")}));
  fail_op(op, token, error.rule(), message, remedy);
}

Dtype value_dtype(const Program& program, const Op& op, const Types& types) {
  const auto type_of = [&](const std::string& name) -> std::optional<Dtype> {
    const auto found = types.find(name);
    if (found == types.end()) return {};
    return found->second.dtype;
  };
  try {
    const Dtype dtype = expr::infer_dtype(op.value, type_of, weak_dtypes(program)).value_or(Dtype::f32);
    const bool widens = op.def->name == "sum" || op.def->name == "prod";
    if (!widens) return dtype;
    return dtype == Dtype::boolean ? Dtype::i64 : fold_dtype(dtype);  // D4; a sum of truths counts them
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    place_error(error, op, types);
  }
}

// S2 for index(d), whose d is a literal: a dimension of what the statement computes on.
void check_positions(const Op& op, const Factors& factors) {
  const auto rank = static_cast<int64_t>(factors.kind.size());
  expr::visit(op.value, [&](const expr::Node& node) {
    if (node.op != expr::Op::call || node.name != "index") return;
    const bool literal = node.args.size() == 1 && node.args[0]->op == expr::Op::integer;
    if (!literal)
      fail_op(op, "index", "F5", "index takes the number of a dimension", "index(0), or from the right: index(-1)");
    const int64_t d = node.args[0]->integer;
    if (d < -rank || d >= rank)
      fail_op(op, "index", "S2", fmt::format("index({}) in a value of {} dimensions", d, rank),
              rank == 0 ? "meet a tensor that has the dimension: x * 0 + index(0)"
                        : "dimensions count from 0, or from -1 at the right end");
  });
}

Dtype operands_dtype(const Op& op, const Types& types) {
  const Dtype first = types.find(op.args[0])->second.dtype;
  for (const Name& arg : op.args)
    if (const Dtype dtype = types.find(arg)->second.dtype; dtype != first)
      fail_op(op, arg, "D1",
              fmt::format("{} and {} meet: {} is {}, {} is {}", name(first), name(dtype), op.args[0], name(first), arg,
                          name(dtype)),
              fmt::format("cast one: {}(...) or {}(...)", name(first), name(dtype)));
  return first;
}

void check_update(const Program& program, const Update& update, const Types& types) {
  const TensorDecl* state = find_tensor(program, update.state);
  const auto states = [&] {
    std::vector<std::string> names;
    for (const TensorDecl& decl : program.tensors)
      if (decl.state) names.push_back(decl.name);
    return names;
  };
  if (!state || !state->state)
    fail_at(ErrorKind::user, update.line, update.state, "F6", fmt::format("{} is not a state", update.state),
            did_you_mean(update.state, states()) +
                fmt::format("declare it: state {} DTYPE[SIZES] replicated", update.state));
  const auto value = types.find(update.value);
  if (value == types.end())
    fail_at(ErrorKind::user, update.line, update.value, "F3", fmt::format("{} is not defined", update.value),
            where_to_find(update.value, types));
  const Type &a = state->type, &b = value->second;
  if (std::holds_alternative<Partial>(b.layout))
    fail_at(ErrorKind::user, update.line, update.value, "L8",
            fmt::format("{} is {}: nobody finished it", update.value, print(b.layout)),
            fmt::format("update with an all_reduce or reduce_scatter of {}", update.value));
  if (a.dtype != b.dtype || a.shape != b.shape || a.layout != b.layout || a.group != b.group)
    fail_at(ErrorKind::user, update.line, update.value, "F7",
            fmt::format("state {} is {}, {} is {}", update.state, print(a), update.value, print(b)),
            "convert the value (cast, all_gather) or declare the state so");
}

void check_out(const Out& out, const Types& types) {
  const auto value = types.find(out.value);
  if (value == types.end())
    fail_at(ErrorKind::user, out.line, out.value, "F3", fmt::format("{} is not defined", out.value),
            where_to_find(out.value, types));
  if (std::holds_alternative<Partial>(value->second.layout))
    fail_at(ErrorKind::user, out.line, out.value, "L8",
            fmt::format("output {} is {}: nobody finished it", out.value, print(value->second.layout)),
            fmt::format("out an all_reduce or reduce_scatter of {}", out.value));
}

}  // namespace

Type infer(const Program& program, const Op& op, const Types& types) {
  check_operands(op, types);
  if (op.def->convert) {
    if (op.cut)
      fail_op(op, "cut", "L11", fmt::format("`cut {}` of {}, which computes nothing", *op.cut, op.def->name),
              "cut what computes; a communication says itself where a value goes");
    return op.def->convert(program, op, types);
  }
  Type type;
  meet_groups(op, types, type);
  Factors factors = op.def->factors(program, op, types);
  if (op.value) check_positions(op, factors);
  type.dtype = op.value ? value_dtype(program, op, types) : operands_dtype(op, types);
  type.layout = layout_rule(op, types, factors, type.dtype);
  type.shape = std::move(factors.shape);
  return type;
}

void check_effects(const Program& program, const Types& types, size_t first_update, size_t first_out) {
  for (size_t i = first_update; i < program.updates.size(); ++i) {
    const Update& update = program.updates[i];
    check_update(program, update, types);
    for (size_t j = 0; j < i; ++j)
      if (program.updates[j].state == update.state)
        fail_at(ErrorKind::user, update.line, update.state, "F6",
                fmt::format("state {} is updated twice", update.state), "compute its new content in one value");
  }
  for (size_t i = first_out; i < program.outs.size(); ++i) check_out(program.outs[i], types);
}

Types infer(const Program& program) {
  Types types;
  for (const TensorDecl& decl : program.tensors) types.emplace(decl.name, decl.type);
  for (const Unit& unit : units(program))
    for (const Op* op : unit.ops) {
      Type type = infer(program, *op, types);
      if (!types.emplace(op->name, std::move(type)).second)
        fail_op(*op, op->name, "F2", fmt::format("{} is defined twice", op->name),
                "values never change: take another name");
    }
  check_effects(program, types);
  return types;
}

}  // namespace weft::ir
