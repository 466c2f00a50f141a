// What an operation's reference evaluation sees: all ranks' tensors, the groups, and the part each rank works on.
#pragma once

#include <map>

#include "weft/ir/column.h"
#include "weft/ir/op_defs.h"

namespace weft::ir {

// A group at a launch: which group and which place in it each world rank has.
struct GroupRanks {
  std::vector<int> group_of, index_of;    // by world rank
  std::vector<std::vector<int>> members;  // by group
  int groups() const { return static_cast<int>(members.size()); }
  int size() const { return static_cast<int>(members[0].size()); }
};
GroupRanks group_ranks(const Program& program, const std::string& group, const Sizes& sizes);

expr::ScalarValue weak_value(const Program& program, const Sizes& sizes,
                             const std::string& name);  // scalar, let, size, ranks

// The rank that a root's text names: an integer, or a size or scalar.
int root_rank(const Program& program, const Sizes& sizes, const std::string& text);

struct RankTensors {
  const Program& program;
  const Sizes& sizes;
  const Types& types;
  const EvaluateOptions& options;
  const Values& values;     // all that is computed already
  std::vector<Tensor> out;  // by world rank; empty where the result is not

  const Type& type(const Name& name) const { return types.find(name)->second; }
  const std::vector<Tensor>& operand(const Op& op, size_t i) const { return values.find(op.args[i])->second; }
  int root(const std::string& text) const;  // place in the group
};

bool present(const Type& type, const GroupRanks& ranks, int rank);          // in a group that has the value
bool holds(const Type& type, const GroupRanks& ranks, int rank, int root);  // present, and the root where rooted

// ---- the part of a computation that one rank does
struct Part {
  std::vector<Tensor> operands;               // sliced ones as they are, replicated ones in their part
  std::vector<int64_t> whole, begin, extent;  // per factor: size, first index here, indices here
};
// Calls `work` for every rank that computes; what it returns is the rank's result.
void for_each_part(const Op& op, RankTensors& ranks, const std::function<Tensor(const Part&, const Factors&)>& work);

Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end);
Tensor concatenate(const std::vector<Tensor>& parts, int dim);

}  // namespace weft::ir
