// Building a program in C++: the text form's equal in power (both make the same Program, byte for byte when printed).
//
//   Builder p("adam");
//   auto N = p.dim("N");
//   auto lr = p.scalar("lr"), step = p.scalar("step", Dtype::i64);
//   auto g = p.in("g", Dtype::f32, {N}, local);
//   auto [m, v, w] = p.states<3>(Dtype::f32, {N}, {"m", "v", "w"});
//   auto a = p("a", all_reduce(avg, g));
//   auto m1 = p("m1", b1 * m + (1 - b1) * a);
//
// A term is an expression tree whose calls may be operations; statements are made of it by the code that the parser
// uses (statements.h), which hoists operations and expands definitions.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "weft/ir/program.h"

namespace weft::ir {

// A tensor, scalar or expression under construction. Terms are values: copying one copies a shared tree, nothing is
// computed or checked before it becomes a statement.
struct Term {
  expr::Expr value;  // names refer to statements, tensors, scalars, lets, sizes
  Term(double number);
  Term(int number);
  Term(int64_t number);
  Term(expr::Expr e);
  Term(const Size& size);  // a declared size as a number: x / H
};
// Arithmetic, comparisons and logic of elements, as in the text form; `%` and the rest of the rules are checked where the
// term becomes a statement.
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator%(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator<(const Term& a, const Term& b);
Term operator>(const Term& a, const Term& b);
Term operator<=(const Term& a, const Term& b);
Term operator>=(const Term& a, const Term& b);
Term operator&&(const Term& a, const Term& b);  // no short cut: a node of the tree
Term operator||(const Term& a, const Term& b);
Term operator!(const Term& a);
Term equals(const Term& a, const Term& b);   // a == b, which C++ keeps for terms themselves
Term differs(const Term& a, const Term& b);  // a != b
Term pow(const Term& a, const Term& b);      // a ^ b
// sqrt, select, f16 ..., rand(seed, k), and every operation and definition: call("softmax", {x, -1}).
Term call(std::string function, std::vector<Term> args);
// Communications (docs/program.md, section 4). Dimensions count from 0; a root is a rank of the group or the name of a
// size or scalar; hops are 1 (the next group) or -1.
Term all_reduce(ReduceOp op, const Term& x);
Term reduce_scatter(ReduceOp op, const Term& x, int dim);
Term all_gather(const Term& x);
Term reduce(ReduceOp op, const Term& x, std::string root);
Term gather(const Term& x, std::string root);
Term broadcast(const Term& x, std::string root = "");
Term scatter(const Term& x, int dim);
Term all_to_all(const Term& x);
Term all_to_all(const Term& x, int dim);
Term send(const Term& x, int hops);
Term matmul(const Term& a, const Term& b);  // ..mk, kn -> ..mn
Term conv2d(const Term& a, const Term& w);  // bchw, ocyx -> bohw
Term index(int dim);                        // the position along a dimension, from 0 or from -1 at the right
Term rand(const Term& seed, int k);         // uniform in [0, 1), by the position in the whole value
// Folds: over everything, over dimensions (0 .. or -1 .. from the right), or per tensor of a list.
Term sum(const Term& x, std::vector<int> dims = {});
Term sum_by(const Term& x, std::string tensors);
Term fold(std::string function, const Term& x, std::vector<int> dims = {}, std::string by = "");  // also norm, mean
Term dropout(const Term& x, double p, const Term& seed, int k);  // drops with probability p, scales by 1 / (1 - p)

inline Size extent(int64_t elements) { return {"", elements, false}; }  // a size that is a number: {B, extent(3)}

inline const Layout replicated = Replicated{};
inline const Layout local = Local{};
inline Layout sliced(int dim) { return Sliced{dim}; }
inline Layout root(std::string rank) { return Root{std::move(rank)}; }
inline Layout partial(ReduceOp op) { return Partial{op}; }
inline constexpr ReduceOp avg = ReduceOp::avg;

// The program under construction. Every call is a line of the text form and is refused as that line would be, with the
// rule and the line as it would be printed; what was refused leaves nothing behind.
class Builder {
 public:
  explicit Builder(std::string name);
  ~Builder();
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;

  Size dim(std::string name);  // a header line of its own
  template <size_t N>
  std::array<Size, N> dims(std::array<const char*, N> names) {  // one line: dim B S H
    declare_dims({names.begin(), names.end()});
    std::array<Size, N> sizes;
    for (size_t i = 0; i < N; ++i) sizes[i].name = names[i];
    return sizes;
  }
  Size tensors(std::string name);  // a list of tensors whose shapes a launch brings: one element for each of theirs
  static Size per_tensor(Size tensors);                    // "#P": one for each tensor
  Size ragged(std::string name, std::string counts);       // rows: the sum of the tensor `counts`, which may come later
  static Size transposed(Size ragged);                     // "T.t": the rows after an all_to_all
  std::string group(std::string name, const Term& parts);  // world.split(parts)
  std::string across(std::string name, std::string of);    // rank i of every group of the split `of`
  Term scalar(std::string name, Dtype dtype = Dtype::f64);  // given at each launch: f64 or i64 (D0)
  Term let(std::string name, const Term& value);            // of scalars, sizes and other constants
  void require(const Term& condition);  // of the same and of call("ranks", {group}); asked at launch
  // Inputs are given at each launch, states kept; the shape is the whole value's, whatever the layout.
  Term in(Name name, Dtype dtype, Shape shape, Layout layout, std::string group = "world");
  Term state(Name name, Dtype dtype, Shape shape, Layout layout = Replicated{}, std::string group = "world");
  template <size_t N>
  std::array<Term, N> states(Dtype dtype, Shape shape, std::array<const char*, N> names) {
    return make_states<N>(dtype, shape, names, std::make_index_sequence<N>{});
  }
  Term operator()(Name name, const Term& value,
                  std::optional<int> cut = {});  // a statement; errors as in the text form
  // Blocks: the statements that `body` makes are its members. A fuse may stand in an overlap, nothing else nests.
  void fuse(std::string name, const std::function<void()>& body);
  void overlap(std::string name, const std::function<void()>& body);
  void update(const Term& state, const Term& value);  // when the launch ends, `state` is `value`: names, no expressions
  void out(const Term& value);                        // a named value
  Program build() const;                              // infers; throws as parse does

 private:
  template <size_t N, size_t... I>
  std::array<Term, N> make_states(Dtype d, const Shape& s, const std::array<const char*, N>& n,
                                  std::index_sequence<I...>) {
    return {state(n[I], d, s)...};
  }
  void declare_dims(std::vector<std::string> names);
  void block(Block::Kind kind, std::string name, const std::function<void()>& body);
  Term tensor(bool state, Name name, Dtype dtype, Shape shape, Layout layout, std::string group);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::ir
