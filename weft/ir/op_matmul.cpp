// matmul: ..mk, kn -> ..mn, or with a batch on both sides ..mk, ..kn -> ..mn. Factors of the result come first, then k.
#include "weft/ir/errors.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {
namespace {

bool fits(const Shape& a, const Shape& b) {
  if (a.empty() || b.size() < 2 || a.back() != b[b.size() - 2]) return false;
  if (b.size() == 2) return true;
  return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
}

Factors matmul_factors(const Program&, const Op& op, const Types& types) {
  const Shape& a = types.find(op.args[0])->second.shape;
  const Shape& b = types.find(op.args[1])->second.shape;
  if (!fits(a, b))
    fail_op(op, op.args[1], "S3",
            fmt::format("matmul of {} by {}: the last size of the first and the last but one of the second must be one "
                        "size, and batches the same",
                        print(a), print(b)),
            "..mk by kn, or ..mk by ..kn with the same leading sizes");
  Factors f;
  const int rank = static_cast<int>(a.size()), n = rank - 1, k = rank;
  f.shape = a;
  f.shape.back() = b.back();
  f.size = f.shape;
  f.size.push_back(a.back());
  f.kind.assign(a.size(), FactorKind::out);
  f.kind.push_back(FactorKind::sum);
  f.operand.resize(2);
  for (int d = 0; d < rank; ++d) f.result.push_back(d);
  for (int d = 0; d + 1 < rank; ++d) f.operand[0].push_back(d);
  f.operand[0].push_back(k);
  for (int d = 0; d + 2 < static_cast<int>(b.size()); ++d) f.operand[1].push_back(d);
  f.operand[1].push_back(k);
  f.operand[1].push_back(n);
  return f;
}

bool one_pending(const Op& op, const std::vector<Name>& pending, ReduceOp reduce) {
  return reduce == ReduceOp::sum && pending.size() == 1 && op.args[0] != op.args[1];
}

Factors conv2d_factors(const Program&, const Op& op, const Types& types) {
  const Shape& a = types.find(op.args[0])->second.shape;
  const Shape& w = types.find(op.args[1])->second.shape;
  if (a.size() != 4 || w.size() != 4 || a[1] != w[1])
    fail_op(op, op.args[1], "S3", fmt::format("conv2d of {} by {}", print(a), print(w)),
            "[batch, channels, height, width] by [out, channels, y, x], the channels one size");
  enum { b, o, h, x_, c, ky, kx };
  Factors f;
  f.operand = {{b, c, h, x_}, {o, c, ky, kx}};
  f.result = {b, o, h, x_};
  f.kind = {FactorKind::out, FactorKind::out,   FactorKind::whole, FactorKind::whole,
            FactorKind::sum, FactorKind::whole, FactorKind::whole};
  f.size = {a[0], w[0], a[2], a[3], a[1], w[2], w[3]};
  f.shape = {a[0], w[0], a[2], a[3]};
  return f;
}

}  // namespace

const OpDef matmul_def = {"matmul",       OpClass::whole, 2,
                          "tt",           "matmul(a, b)", "..mk, kn -> ..mn or ..mk, ..kn -> ..mn",
                          matmul_factors, nullptr,        one_pending,
                          evaluate_matmul};
const OpDef conv2d_def = {"conv2d",       OpClass::whole, 2,
                          "tt",           "conv2d(a, w)", "bchw, ocyx -> bohw, stride 1, zeros outside",
                          conv2d_factors, nullptr,        one_pending,
                          evaluate_conv2d};

}  // namespace weft::ir
