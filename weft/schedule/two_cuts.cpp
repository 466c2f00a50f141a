// The classes are those of lowering's second pass, found here from types alone: a union-find over names, in which maps
// and folds join their operands of full shape, and communications their operand and result. In each class the cuts are
// collected, counted from the right, since leading dimensions of extent 1 say nothing.
#include "weft/schedule/two_cuts.h"

#include <numeric>
#include <unordered_map>

namespace weft::schedule {
namespace {

class Classes {
 public:
  explicit Classes(const Form& form) : form_(form) {
    for (const auto& [name, type] : form.types) index_.emplace(name, index_.size());
    parent_.resize(index_.size());
    cut_.assign(index_.size(), 0);
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (const ir::Op& op : form.program.ops) join(op);
  }

  bool conflict() {
    bool found = false;
    for (const auto& [name, type] : form_.types)
      if (const auto* sliced = std::get_if<ir::Sliced>(&type.layout))
        found |= !add(name, static_cast<int>(type.shape.size()) - sliced->dim);
    for (const ir::Op& op : form_.program.ops) {  // `cut d` of a fold cuts what it reads
      if (!op.cut || op.def->op_class != ir::OpClass::fold) continue;
      const ir::Shape loop = iteration_shape(form_, op);
      for (const ir::Name& arg : op.args)
        if (form_.types.at(arg).shape == loop) found |= !add(arg, static_cast<int>(loop.size()) - *op.cut);
    }
    return found;
  }

 private:
  size_t find(const ir::Name& name) {
    size_t i = index_.at(name);
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  void join(const ir::Op& op) {
    if (op.def->op_class == ir::OpClass::whole) return;
    const bool map = op.def->op_class == ir::OpClass::map;
    const ir::Shape loop = is_computation(op) ? iteration_shape(form_, op) : form_.types.at(op.name).shape;
    const ir::Name* leader = map || !is_computation(op) ? &op.name : nullptr;
    for (const ir::Name& arg : op.args) {
      if (form_.types.at(arg).shape != loop) continue;
      if (leader == nullptr)
        leader = &arg;
      else
        parent_[find(arg)] = find(*leader);
    }
  }

  bool add(const ir::Name& name, int from_right) {  // false: the class is cut elsewhere too
    int& cut = cut_[find(name)];
    if (cut == 0) cut = from_right;
    return cut == from_right;
  }

  const Form& form_;
  std::unordered_map<std::string_view, size_t> index_;
  std::vector<size_t> parent_;
  std::vector<int> cut_;  // of a class, at its root; 0: none
};

}  // namespace

bool has_two_cuts(const Form& form) { return Classes(form).conflict(); }

}  // namespace weft::schedule
