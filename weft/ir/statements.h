// From an expression tree to statements: operations inside are hoisted, definitions expanded, names and types checked.
// Parser and builder both end here, so they cannot differ.
//
// Operations are calls in the tree: all_reduce(sum, g), sum(x * x, -1), norm(w by P). `x by P` is a name that begins
// with "by." among the arguments ("by" has no place in expr's grammar).
#pragma once

#include <unordered_set>

#include "weft/ir/ops.h"

namespace weft::ir {

class Statements {
 public:
  // Adds to `program`, whose declarations may grow between calls; declare() each of them.
  explicit Statements(Program& program) : program_(program) { declare_builtin(); }

  // F2: `name` is new. Weak names (scalars, lets, sizes) are no operands.
  void declare(const std::string& name, bool weak, const SourceLine& line);
  void declare_tensor(const TensorDecl& decl);
  bool declared(const std::string& name) const { return names_.count(name) != 0; }
  bool weak(const std::string& name) const { return weak_.count(name) != 0; }
  void check_weak(const expr::Expr& e,
                  const SourceLine& line) const;  // F3: lets and requirements name weak things only
  // For errors: "x is not defined", and the nearest name that is.
  std::string what_is(const std::string& name) const;
  std::string where_to_find(const std::string& name) const;

  // `name = e [cut d]`: appends its statements. Strong guarantee: nothing is appended when it throws.
  void add(const Name& name, const expr::Expr& e, std::optional<int> cut, const SourceLine& line);

  const Types& types() const { return types_; }
  const Program& program() const { return program_; }

 private:
  void declare_builtin();
  void append(Op op);
  void check_expansion(const expr::Expr& e, const SourceLine& line) const;
  void check_free(const std::string& name, const SourceLine& line) const;
  void check_derived(const Op& op, const Type& type) const;

  Program& program_;
  Types types_;
  std::unordered_set<std::string> names_, weak_;
  friend class Hoister;
};

inline constexpr std::string_view by_prefix = "by.";

// ---- definitions.cpp
bool is_definition(std::string_view name);
// What the expansion of a definition needs from the statement it stands in.
struct Expansion {
  std::function<expr::Expr(const expr::Expr&)> hoist;  // gives it a statement of its own; returns its name
  std::function<const Type&(const std::string&)> type_of;
  std::function<void(std::string_view rule, const std::string& message, std::string_view remedy)> refuse;
};
// `call`: a call of a definition whose arguments have no operations left in them.
expr::Expr expand(const expr::Expr& call, const Expansion& with);

}  // namespace weft::ir
