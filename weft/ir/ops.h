// Operations: factors, linearity, evaluation; one registry line each.
//
// An operation declares which dimensions correspond (einsum letters) and in which operands it is linear; one layout
// rule for all operations follows from that (L1 to L11), so a new operation brings no layout code and ir never hears of
// rewrites. Communications convert layouts instead and never change a value.
#pragma once

#include <string_view>
#include <vector>

#include "weft/ir/program.h"

namespace weft::ir {

enum class FactorKind : uint8_t { out, whole, sum, prod, max, min };

// Factors of one statement. operand[i][d] is the factor of dimension d of args[i], -1: none (extent 1, or a coarser
// per-tensor value). result[d] likewise. kind[f] per factor. `cut d` names factor d; factors of the result come first.
struct Factors {
  std::vector<std::vector<int>> operand;
  std::vector<int> result;
  std::vector<FactorKind> kind;
  std::vector<Size> size;  // per factor; 1 where no operand has the dimension
  Shape shape;             // of the result
};

enum class OpClass : uint8_t { map, fold, whole, communication };

struct RankTensors;  // evaluate_op.h

struct OpDef {
  std::string_view name;
  OpClass op_class;
  int tensors;  // operands; -1: as many as the expression names
  // One letter per argument of the text form, in order: t tensor, r reduction, d dimension, k root, h hops; upper case:
  // may be left away. Maps and folds hold an expression and have none.
  std::string_view form;
  std::string_view signature;                                   // for `weft ops` and F5: "all_reduce(op, x)"
  std::string_view meaning;                                     // for `weft ops`: one phrase
  Factors (*factors)(const Program&, const Op&, const Types&);  // computations; S rules
  Type (*convert)(const Program&, const Op&, const Types&);     // communications; L5, L6, D3, W2
  // L7: is the operation linear (for `op`) in the pending operands together?
  bool (*linear)(const Op&, const std::vector<Name>& pending, ReduceOp op);
  void (*evaluate)(const Op&, RankTensors&);  // the reference
};

const std::vector<const OpDef*>& op_registry();
const OpDef* find_op_def(std::string_view name);  // "map" for pointwise statements

// Definitions that expand: norm mean softmax layer_norm rms_norm dropout count.
struct Definition {
  std::string_view name, signature, meaning;
};
const std::vector<Definition>& definitions();

ReduceOp reduce_of(FactorKind kind);  // sum prod max min; out and whole are internal errors

}  // namespace weft::ir
