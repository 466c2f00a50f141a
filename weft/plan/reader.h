// The reader of plan text: what parse.cpp (statements) and parse_step.cpp (lanes, posts) share. Internal.
//
// Two passes over the lines, because `given by BUFFER`, kernels and families may be named above their line: first the
// declarations in order, then posts and lanes. Names are checked while they are read (V1), so every error has a caret.
#pragma once

#include <set>

#include "weft/plan/plan.h"
#include "weft/plan/scan.h"

namespace weft::plan {

class Reader {
 public:
  explicit Reader(std::string_view text);
  Plan read();

 private:
  using Piece = scan::Piece;
  // What an expression may name: n and parameters; also r, c, lets and the variables around it.
  enum class Scope { instance, rank };

  // ---- parse.cpp: declarations
  void first_line();
  void declaration();
  void order(Piece rest);
  void round(Piece rest);
  void param(Piece rest);
  void table(Piece rest);
  void table_sizes(TableText& table, Piece head);
  void let(Piece rest);
  void space(Piece rest);
  void space_kind(Space& space, Piece& rest);
  void derived(Space& space, Piece& rest);
  void buffer(Piece rest);
  void buffer_option(Buffer& buffer, Piece word, Piece& rest);
  void family(Piece rest);
  void kernel();
  void once(Piece statement);
  void resolve_givens();
  size_t lane_end(size_t at) const;

  // ---- parse_step.cpp: posts, lanes
  void post(Piece rest);
  PostTerm term(Piece text);
  PostTerm reduce_term(Piece text, size_t open);
  PostTerm call_term(Piece text, size_t open);
  void lane();
  Body body(int indent);
  Item item();
  For for_item(Piece text);
  Loop loop_item(Piece text);
  Step step(Piece text);
  void sources(Step& step, Piece text);
  void check_arity(const Step& step, Piece at) const;
  std::vector<Operand> operands(Piece list, bool target);
  Operand operand(Piece text, bool target);
  Operand link_operand(Piece text, size_t sign);
  Operand slice_operand(Piece text);
  Peers peers(Piece text);
  Parts parts(Piece text);
  KernelCall kernel_call(Piece text);
  std::vector<Id> scalar_names(Piece list) const;
  std::vector<Await> awaits(Piece list);
  Await await(Piece text);
  void await_lane(Await& await, Piece text);
  bool names_reduction(Piece text, kernel::Reduction& reduction, Id& param) const;

  // ---- names and numbers (reader.cpp)
  Expr expression(Piece text, Scope scope = Scope::rank);
  void check_names(const Expr& e, Piece text, Scope scope) const;
  void check_call(const expr::Node& node, Piece text) const;
  bool known_number(const std::string& name, Scope scope) const;
  Id declare(Piece name, std::set<Id>& among, std::string_view what);
  Id declare_number(Piece name);
  Id declared(Piece name, int index, std::string_view what) const;
  std::string dtype(Piece text) const;
  int64_t literal(Piece text, int64_t least, std::string_view what) const;
  Piece required(Piece text, Piece near, std::string_view what) const;
  void finished(Piece rest) const;
  void expect_word(Piece& rest, Piece word, Piece near) const;
  const Param* find_param(Piece name) const;
  int column(Piece at) const;
  [[noreturn]] void refuse_name(Piece text, const std::string& name, std::string_view message,
                                std::string_view remedy) const;
  [[noreturn]] void refuse(Piece at, std::string_view message, std::string_view remedy = "") const;

  std::vector<SourceLine> lines_;
  size_t at_ = 0;  // the line being read
  const SourceLine* line_ = nullptr;
  Plan plan_;
  std::set<Id> numbers_;  // params, tables, lets
  std::set<Id> spaces_, buffers_, families_, kernels_, lanes_, once_;
  std::vector<Id> variables_;         // of `for` and `post`, around this place
  std::map<Id, size_t> given_lines_;  // space -> line, for `given by` a buffer that comes later
  Id lane_;
  bool in_loop_ = false;
};

// An integer as a parameter's value, or nothing (then it is a dtype or a reduction).
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace weft::plan
