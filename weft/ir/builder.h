// Building a program in C++: the text form's equal in power (both make the same Program, byte for byte when printed).
//
//   Builder p("adam");
//   auto N = p.dim("N");
//   auto lr = p.scalar("lr"), step = p.scalar("step", Dtype::i64);
//   auto g = p.in("g", Dtype::f32, {N}, local);
//   auto [m, v, w] = p.states<3>(Dtype::f32, {N}, {"m", "v", "w"});
//   auto a = p("a", all_reduce(avg, g));
//   auto m1 = p("m1", b1 * m + (1 - b1) * a);
#pragma once

#include <array>

#include "weft/ir/program.h"

namespace weft::ir {

// A tensor, scalar or expression under construction: an expression tree whose leaves may be operations.
struct Term {
  expr::Expr value;                                         // pointwise; names refer to statements, scalars, lets
  std::vector<Op> hoisted;                                  // operations inside, to be given names by the builder
  std::optional<Op> op;                                     // the term is just this operation
  Term(double number);
  Term(int number);
  Term(expr::Expr e);
  explicit Term(Op o);
};
Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator<(const Term& a, const Term& b);
Term operator>(const Term& a, const Term& b);
Term pow(const Term& a, const Term& b);
Term call(std::string function, std::vector<Term> args);    // sqrt, select, f16 ..., rand(seed, k)
Term all_reduce(ReduceOp op, const Term& x);
Term reduce_scatter(ReduceOp op, const Term& x, int dim);
Term all_gather(const Term& x);
Term reduce(ReduceOp op, const Term& x, std::string root);
Term broadcast(const Term& x, std::string root = "");
Term matmul(const Term& a, const Term& b);
Term sum(const Term& x, std::vector<int> dims = {});
Term sum_by(const Term& x, std::string tensors);
Term fold(std::string function, const Term& x, std::vector<int> dims = {}, std::string by = "");
Term dropout(const Term& x, double p, const Term& seed, int k);

inline const Layout replicated = Replicated{};
inline const Layout local = Local{};
inline Layout sliced(int dim) { return Sliced{dim}; }

class Builder {
 public:
  explicit Builder(std::string name);
  Size dim(std::string name);
  Size tensors(std::string name);
  Term scalar(std::string name, Dtype dtype = Dtype::f64);
  Term let(std::string name, const Term& value);
  void require(const Term& condition);
  Term in(Name name, Dtype dtype, Shape shape, Layout layout);
  Term state(Name name, Dtype dtype, Shape shape, Layout layout = Replicated{});
  template <size_t N> std::array<Term, N> states(Dtype dtype, Shape shape, std::array<const char*, N> names) {
    return make_states<N>(dtype, shape, names, std::make_index_sequence<N>{});
  }
  Term operator()(Name name, const Term& value, std::optional<int> cut = {});       // a statement; errors as in the text form
  void update(const Term& state, const Term& value);
  void out(const Term& value);
  Program build() const;                                    // infers; throws as parse does

 private:
  template <size_t N, size_t... I>
  std::array<Term, N> make_states(Dtype d, const Shape& s, const std::array<const char*, N>& n, std::index_sequence<I...>) {
    return {state(n[I], d, s)...};
  }
  Program program_;
};

}  // namespace weft::ir
