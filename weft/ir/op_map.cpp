// map: a pointwise expression of any depth. Dimensions are aligned from the right, as in PyTorch; every one of them is
// in the result.
#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

bool is_one(const Size& size) { return size.name.empty() && size.value == 1; }
bool coarser(const Size& a, const Size& b) { return a.per_tensor && !b.per_tensor && a.name == b.name; }

// S1: takes `size` of operand `name` into the common size `have`.
void join(const Op& op, const Name& name, const Size& size, Size& have, int from_right) {
  if (is_one(size) || size == have || coarser(size, have)) return;
  if (is_one(have) || coarser(have, size)) {
    have = size;
    return;
  }
  fail_op(op, name, "S1",
          fmt::format("{} has size {} where the others have {} (dimension {})", name, print(size), print(have),
                      -from_right),
          "sizes are equal when their names are; state a requirement or reshape outside");
}

Factors map_factors(const Program&, const Op& op, const Types& types) { return pointwise_factors(op, types); }

bool map_linear(const Op& op, const std::vector<Name>& pending, ReduceOp reduce) {
  return expr::linearity(op.value, pending, name(reduce)) == expr::Linearity::linear;
}

}  // namespace

Factors pointwise_factors(const Op& op, const Types& types) {
  Factors f;
  std::vector<const Shape*> shapes;
  size_t rank = 0;
  for (const Name& arg : op.args) {
    shapes.push_back(&types.find(arg)->second.shape);
    rank = std::max(rank, shapes.back()->size());
  }
  f.shape.assign(rank, Size{});
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < shapes[i]->size(); ++d) {
      const size_t at = rank - shapes[i]->size() + d;
      join(op, op.args[i], (*shapes[i])[d], f.shape[at], static_cast<int>(rank - at));
    }
  for (const Shape* shape : shapes) {
    std::vector<int>& factor = f.operand.emplace_back(shape->size(), -1);
    for (size_t d = 0; d < shape->size(); ++d) {
      const size_t at = rank - shape->size() + d;
      if (!is_one((*shape)[d]) && !coarser((*shape)[d], f.shape[at])) factor[d] = static_cast<int>(at);
    }
  }
  f.kind.assign(rank, FactorKind::out);
  f.size = f.shape;
  for (size_t d = 0; d < rank; ++d) f.result.push_back(static_cast<int>(d));
  return f;
}

const OpDef map_def = {"map",       OpClass::map, -1,         "",          "y = EXPRESSION", "a pointwise expression",
                       map_factors, nullptr,      map_linear, evaluate_map};

}  // namespace weft::ir
