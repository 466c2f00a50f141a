// Pass 0: what has no step of its own is said with statements that have one, so that the passes behind know fewer cases.
//
// A product reads its operands whole, as they lie in memory; where it needs a part of one that every rank holds whole,
// and where both operands are one value, it reads a named slice or copy. States that take one another's content in a
// ring cannot all be overwritten in place: one of them is copied to a name first. The rewritten program means the same,
// by the program's own rules, and everything behind (spaces, places, posts) sees nothing special.
#include <algorithm>

#include "weft/ir/layout_rule.h"
#include "weft/lower/work.h"

namespace weft::lower {
namespace {

class Preparation {
 public:
  explicit Preparation(const ir::Program& program) : program_(program), types_(ir::infer(program)) {}

  ir::Program take() {
    std::vector<ir::Op> ops;
    for (const ir::Op& op : program_.ops) {
      ir::Op prepared = op;
      if (is_op(op, "matmul")) slice_operands(prepared, ops), part_operands(prepared, ops);
      ops.push_back(std::move(prepared));
    }
    std::vector<ir::Op> copies;
    break_rings(copies);
    program_.ops = std::move(copies);
    program_.ops.insert(program_.ops.end(), ops.begin(), ops.end());
    return std::move(program_);
  }

 private:
  ir::Name fresh(const ir::Name& base) const {
    const auto known = [&](const ir::Name& name) {
      return types_.count(name) || std::any_of(made_.begin(), made_.end(), [&](const auto& m) { return m == name; });
    };
    ir::Name name = base;
    for (int k = 2; known(name); ++k) name = base + std::to_string(k);
    return name;
  }

  // NAME = value [cut dim], as a statement of the user's would be.
  ir::Op named(const ir::Name& base, const ir::Name& value, std::optional<int> cut, const SourceLine& line) {
    ir::Op op;
    op.name = fresh(base);
    op.def = ir::find_op_def("map");
    op.args = {value};
    op.value = expr::name(value);
    op.cut = cut;
    op.line = line;
    made_.push_back(op.name);
    return op;
  }

  // The slice of a whole operand that meets the slices of the other one.
  void slice_operands(ir::Op& op, std::vector<ir::Op>& before) {
    const ir::Factors factors = op.def->factors(program_, op, types_);
    const int cut = ir::cut_factor(op, types_, factors);
    if (cut < 0) return;
    for (size_t i = 0; i < op.args.size(); ++i) {
      if (!std::holds_alternative<ir::Replicated>(types_.at(op.args[i]).layout)) continue;
      const std::vector<int>& of = factors.operand[i];
      const auto d = std::find(of.begin(), of.end(), cut);
      if (d == of.end()) continue;
      before.push_back(named(op.name + "." + op.args[i], op.args[i], static_cast<int>(d - of.begin()), op.line));
      op.args[i] = before.back().name;
    }
    op.cut = {};  // a sliced operand says it
  }

  // matmul(a, a): a kernel names its operands.
  void part_operands(ir::Op& op, std::vector<ir::Op>& before) {
    if (op.args[0] != op.args[1]) return;
    before.push_back(named(op.name + "." + op.args[1], op.args[1], {}, op.line));
    op.args[1] = before.back().name;
  }

  // State a takes b's old content, b takes c's, c takes a's: c's is named before a is overwritten.
  void break_rings(std::vector<ir::Op>& before) {
    std::vector<ir::Name> done;
    for (const ir::Update& first : program_.updates) {
      ir::Name at = first.state;
      std::vector<ir::Name> chain;
      while (!at.empty() && !std::count(done.begin(), done.end(), at) && !std::count(chain.begin(), chain.end(), at)) {
        chain.push_back(at);
        const ir::Update* next = update_from_state(at);
        at = next ? next->value : "";
      }
      const bool ring = std::count(chain.begin(), chain.end(), at) > 0;
      done.insert(done.end(), chain.begin(), chain.end());
      if (!ring) continue;
      ir::Update& update = *update_from_state(at);
      before.push_back(named(update.value + ".old", update.value, {}, update.line));
      update.value = before.back().name;
    }
  }

  // The update of this state, where another state's old content is what it takes.
  ir::Update* update_from_state(const ir::Name& state) {
    for (ir::Update& update : program_.updates)
      if (const ir::TensorDecl* decl = ir::find_tensor(program_, update.value);
          update.state == state && decl && decl->state && update.value != state)
        return &update;
    return nullptr;
  }

  ir::Program program_;
  const ir::Types types_;
  std::vector<ir::Name> made_;
};

}  // namespace

ir::Program prepared(const ir::Program& program) { return Preparation(program).take(); }

}  // namespace weft::lower
