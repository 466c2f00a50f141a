// all_gather gather broadcast scatter: a value moves to another layout and stays what it is.
#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

[[noreturn]] void wrong_layout(const Op& op, const Type& t, std::string_view takes) {
  fail_op(op, op.args[0], "L5", fmt::format("{} of {}, which is {}", op.def->name, op.args[0], print(t.layout)), takes);
}

Type all_gather_type(const Program&, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  if (!std::holds_alternative<Sliced>(t.layout)) wrong_layout(op, t, "it takes a sliced tensor");
  t.layout = Replicated{};
  return t;
}

Type gather_type(const Program&, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  if (!std::holds_alternative<Sliced>(t.layout))
    wrong_layout(op, t, "it takes a sliced tensor and the rank that shall have it whole");
  t.layout = Root{op.attrs.root};
  return t;
}

Type broadcast_type(const Program&, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  const auto* root = std::get_if<Root>(&t.layout);
  const bool rooted = root && (op.attrs.root.empty() || op.attrs.root == root->rank);
  const bool chosen = std::holds_alternative<Local>(t.layout) && !op.attrs.root.empty();
  if (!rooted && !chosen)
    wrong_layout(op, t, "it takes root(k), or a local tensor and the rank whose value is meant: broadcast(x, k)");
  t.layout = Replicated{};
  return t;
}

Type scatter_type(const Program&, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  if (!std::holds_alternative<Root>(t.layout))
    wrong_layout(op, t, "it takes root(k); of a replicated value every rank has its slice already: `y = x cut d`");
  const int d = *op.attrs.dim;
  if (d < 0 || d >= static_cast<int>(t.shape.size()) || t.shape[static_cast<size_t>(d)] == Size{})
    fail_op(op, std::to_string(d), "L1", fmt::format("no dimension {} to scatter in {}", d, print(t)),
            "scatter a dimension that exists and is not of extent 1");
  t.layout = Sliced{d};
  return t;
}

}  // namespace

const OpDef all_gather_def = {"all_gather",    OpClass::communication, 1,       "t",
                              "all_gather(x)", "sliced -> replicated", nullptr, all_gather_type,
                              nullptr,         evaluate_move};
const OpDef gather_def = {"gather",       OpClass::communication, 1,       "tk",
                          "gather(x, k)", "sliced -> root(k)",    nullptr, gather_type,
                          nullptr,        evaluate_move};
const OpDef broadcast_def = {"broadcast",
                             OpClass::communication,
                             1,
                             "tK",
                             "broadcast(x), broadcast(x, k)",
                             "root(k) -> replicated; local -> replicated, taking rank k's",
                             nullptr,
                             broadcast_type,
                             nullptr,
                             evaluate_move};
const OpDef scatter_def = {"scatter",       OpClass::communication, 1,       "td",
                           "scatter(x, d)", "root -> sliced(d)",    nullptr, scatter_type,
                           nullptr,         evaluate_move};

}  // namespace weft::ir
