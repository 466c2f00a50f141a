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
#include <memory>
#include <utility>

#include "weft/ir/program.h"

namespace weft::ir {

// A tensor, scalar or expression under construction.
struct Term {
  expr::Expr value;  // names refer to statements, tensors, scalars, lets, sizes
  Term(double number);
  Term(int number);
  Term(int64_t number);
  Term(expr::Expr e);
  Term(const Size& size);  // a declared size as a number: x / H
};
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
Term equals(const Term& a, const Term& b);
Term differs(const Term& a, const Term& b);
Term pow(const Term& a, const Term& b);
// sqrt, select, f16 ..., rand(seed, k), and every operation and definition: call("softmax", {x, -1}).
Term call(std::string function, std::vector<Term> args);
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
Term matmul(const Term& a, const Term& b);
Term sum(const Term& x, std::vector<int> dims = {});
Term sum_by(const Term& x, std::string tensors);
Term fold(std::string function, const Term& x, std::vector<int> dims = {}, std::string by = "");  // also norm, mean
Term dropout(const Term& x, double p, const Term& seed, int k);

inline const Layout replicated = Replicated{};
inline const Layout local = Local{};
inline Layout sliced(int dim) { return Sliced{dim}; }
inline Layout root(std::string rank) { return Root{std::move(rank)}; }
inline constexpr ReduceOp avg = ReduceOp::avg;

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
  Size tensors(std::string name);
  static Size per_tensor(Size tensors);  // "#P"
  Size ragged(std::string name, std::string counts);
  std::string group(std::string name, const Term& parts);  // world.split(parts)
  std::string across(std::string name, std::string of);
  Term scalar(std::string name, Dtype dtype = Dtype::f64);
  Term let(std::string name, const Term& value);
  void require(const Term& condition);
  Term in(Name name, Dtype dtype, Shape shape, Layout layout, std::string group = "world");
  Term state(Name name, Dtype dtype, Shape shape, Layout layout = Replicated{}, std::string group = "world");
  template <size_t N>
  std::array<Term, N> states(Dtype dtype, Shape shape, std::array<const char*, N> names) {
    return make_states<N>(dtype, shape, names, std::make_index_sequence<N>{});
  }
  Term operator()(Name name, const Term& value,
                  std::optional<int> cut = {});  // a statement; errors as in the text form
  void update(const Term& state, const Term& value);
  void out(const Term& value);
  Program build() const;  // infers; throws as parse does

 private:
  template <size_t N, size_t... I>
  std::array<Term, N> make_states(Dtype d, const Shape& s, const std::array<const char*, N>& n,
                                  std::index_sequence<I...>) {
    return {state(n[I], d, s)...};
  }
  void declare_dims(std::vector<std::string> names);
  Term tensor(bool state, Name name, Dtype dtype, Shape shape, Layout layout, std::string group);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::ir
