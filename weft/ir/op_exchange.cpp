// all_to_all and send: values that change hands between ranks of a group, or between groups.
#include <algorithm>

#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

bool is_ragged(const Program& program, const std::string& name) {
  return std::any_of(program.header.begin(), program.header.end(), [&](const HeaderDecl& decl) {
    const auto* ragged = std::get_if<RaggedDecl>(&decl);
    return ragged && ragged->name == name;
  });
}

// T becomes T.t (rows counted by the transposed counts) and T.t becomes T again.
Size transposed(const Program& program, Size size) {
  const bool back = size.name.size() > 2 && size.name.ends_with(".t");
  if (back)
    size.name.resize(size.name.size() - 2);
  else if (is_ragged(program, size.name))
    size.name += ".t";
  return size;
}

Type all_to_all_type(const Program& program, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  if (std::holds_alternative<Local>(t.layout) && !op.attrs.dim) {
    if (t.shape.empty() || t.shape[0] == Size{})
      fail_op(op, op.args[0], "L1", fmt::format("no dimension 0 to exchange in {}", print(t)),
              "all_to_all of a local tensor exchanges blocks of its first dimension");
    t.shape[0] = transposed(program, t.shape[0]);
    return t;
  }
  if (!std::holds_alternative<Sliced>(t.layout) || !op.attrs.dim)
    fail_op(op, op.args[0], "L5", fmt::format("all_to_all of {}, which is {}", op.args[0], print(t.layout)),
            "it takes a local tensor, or a sliced one and the new dimension: all_to_all(x, d)");
  const int d = *op.attrs.dim;
  if (d < 0 || d >= static_cast<int>(t.shape.size()) || t.shape[static_cast<size_t>(d)] == Size{})
    fail_op(op, std::to_string(d), "L1", fmt::format("no dimension {} to slice in {}", d, print(t)),
            "slice a dimension that exists and is not of extent 1");
  t.layout = Sliced{d};
  return t;
}

Type send_type(const Program&, const Op& op, const Types& types) {
  Type t = types.find(op.args[0])->second;
  if (t.group == "world")
    fail_op(op, op.args[0], "W2", "send from world: there is no next group",
            "declare `group stage = world.split(k)` and put the tensor `on stage`");
  if (op.attrs.hops != 1 && op.attrs.hops != -1)
    fail_op(op, std::to_string(op.attrs.hops), "W2", fmt::format("send by {} groups", op.attrs.hops),
            "1 sends to the next group, -1 to the previous one; chain them to go farther");
  t.presence.first = std::max(0, t.presence.first + op.attrs.hops);
  t.presence.last = std::max(0, t.presence.last - op.attrs.hops);
  return t;
}

}  // namespace

const OpDef all_to_all_def = {"all_to_all",
                              OpClass::communication,
                              1,
                              "tD",
                              "all_to_all(x), all_to_all(x, d)",
                              "local: block j of rank i becomes block i of rank j; sliced -> sliced(d)",
                              nullptr,
                              all_to_all_type,
                              nullptr,
                              evaluate_all_to_all};
const OpDef send_def = {"send",
                        OpClass::communication,
                        1,
                        "th",
                        "send(x, 1), send(x, -1)",
                        "to the next (previous) group, same layout",
                        nullptr,
                        send_type,
                        nullptr,
                        evaluate_send};

}  // namespace weft::ir
