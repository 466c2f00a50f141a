// Terms: what a symbolic cell holds.
//
// Equality of values must be a comparison of numbers, since a run makes tens of thousands: terms are hash-consed, so
// equal terms have equal ids. A kernel is expanded expression by expression, as written, so that a fused kernel and the
// unfused ones before it give one term. Rounding is a term too (`cast`), except where it changes no value: a cast to a
// type that holds every value of its operand's is dropped inside folds and by a later cast.
//
// Ways to compare reductions: one canonical form for each promise of the plan (order, round), or exact terms that are
// normalised when they are compared. We take the second: the same run then tells a wrong sum (V11) from a right one in
// the wrong order or rounding (V12), and whether all ranks hold the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/plan/walk.h"

namespace weft::plan {

using Term = uint32_t;
constexpr Term no_term = 0;  // "nothing written"

struct Coord {
  int part = 0, share = 0, chunk = 0, slice = 0;
};                                  // a cell of a space
uint64_t pack(const Coord& coord);  // 40 bits
Coord unpack(uint64_t packed);

enum class TermKind : uint8_t {
  nothing,
  input,  // what the user wrote before a launch: buffer, rank (-1: any), cell, launch
  constant,
  scalar,
  position,
  apply,  // an operator or function of an expression, or a tile
  cast,   // rounded to a dtype
  fold,   // a left fold over the children, in the accumulator's dtype
  bag,    // contributions folded into a coarser cell, in no order
  all,    // several cells read as a whole
};

class Terms {
 public:
  explicit Terms(const Instance& instance);

  Term input(int buffer, int rank, const Coord& coord, int launch);
  Term constant(double value);
  Term scalar(const std::string& name);
  Term position(int space, const Coord& coord);
  Term apply(const std::string& what, std::span<const Term> args);
  Term cast(Dtype dtype, Term term);
  // Identities are dropped; a fold as first child is continued; bags absorb what they are folded with.
  // `cell`: the dtype in which the terms lie, whose identity a constant may be.
  Term fold(kernel::Reduction reduction, Dtype accumulator, std::span<const Term> terms,
            std::optional<Dtype> cell = {});
  Term bag(kernel::Reduction reduction, std::vector<Term> terms, std::optional<Dtype> cell = {});
  Term all(std::span<const Term> terms);

  bool has_dtype(Term term) const { return nodes_[term].dtype != untyped; }
  Dtype dtype(Term term) const { return static_cast<Dtype>(nodes_[term].dtype); }
  TermKind kind(Term term) const { return nodes_[term].kind; }

  // The form that two values share which are equal up to what is forgiven: the order of folds (any), rounding of
  // partial sums on the way (hops).
  Term normal(Term term, bool any_order, bool hops);
  // The form that two values share which have the same bits because a + b is b + a (and so for products and bits), however
  // each lies in folds. The extremes of floats are left as they are: which zero of two they give is a matter of order.
  Term commuted(Term term);
  // The shape of its reductions, without cells: equal for all cells where `order fixed` holds. no_term: it has none.
  Term skeleton(Term term);
  // A stable number for a term, the same in every run and process: counts of `given by` spaces are drawn from it.
  uint64_t fingerprint(Term term) const;
  std::string print(Term term, int depth = 4) const;

 private:
  static constexpr uint8_t untyped = 0xff;
  struct Node {
    TermKind kind = TermKind::nothing;
    uint8_t dtype = untyped, op = 0;  // op: reduction
    uint32_t first = 0, count = 0;    // children
    uint64_t key = 0;                 // leaf contents, or the symbol of `apply`
    uint64_t hash = 0;
  };
  Term make(TermKind kind, uint8_t op, uint8_t dtype, uint64_t key, std::span<const Term> children);
  void grow();
  std::span<const Term> children(Term term) const {
    return {children_.data() + nodes_[term].first, nodes_[term].count};
  }
  bool is_identity(kernel::Reduction reduction, std::optional<Dtype> cell, Term term) const;
  Term widened(Term term, Dtype accumulator) const;
  Term stripped(Term term) const;
  Term rebuild(Term term, std::vector<Term> list);
  Term shape(Term term);
  Term normal_fold(Term term, std::vector<Term> list, bool any_order, bool hops);
  uint64_t symbol(const std::string& text);

  const Instance* instance_;
  std::vector<Node> nodes_;
  std::vector<Term> children_;
  std::vector<Term> table_;  // open addressing, a power of two
  std::map<std::string, uint64_t> symbols_;
  std::vector<std::string> symbol_text_;
  std::vector<Term> memo_[4], shape_;  // by any_order + 2 * hops
  std::map<Term, Term> commuted_;
  std::vector<Term> scratch_;
};

}  // namespace weft::plan
