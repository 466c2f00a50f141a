// Posts on terms: what `post y[p] = ...` says a cell must hold. See check_posts in verify_run.h.
#pragma once

#include <map>
#include <optional>

#include "weft/plan/verify_run.h"

namespace weft::plan {

// Evaluates the integer expressions of posts: over r, n, parameters, lets, the post's own variable and those of its
// sums.
class PostNumbers {
 public:
  explicit PostNumbers(const Instance& instance);
  void begin(int rank);                 // lets of that rank (channel 0)
  int64_t bound(const Id& name) const;  // 0 where it is not bound
  void push(const Id& name, int64_t value) { bound_.emplace_back(name, value); }
  void pop() { bound_.pop_back(); }
  int64_t operator()(const Expr& e);

 private:
  const Instance* instance_;
  std::map<std::string, Expr> params_;
  std::map<std::string, expr::Table> tables_;
  int rank_ = -1;
  std::vector<std::pair<Id, int64_t>> lets_, bound_;
  struct Compiled {
    Expr of;  // kept, so that its address stays its own
    expr::IntCode code;
    std::vector<Id> names;
  };
  int64_t value_of(const Id& name) const;
  std::map<const expr::Node*, Compiled> known_;
  std::vector<int64_t> values_;
};

class PostTerms {
 public:
  PostTerms(SymbolicRun& run);
  struct Value {
    Term term = no_term;
    Dtype dtype = Dtype::f32;
  };
  // What target `target` of the post must hold in this cell of its space on this rank after this launch; nothing where
  // every contribution is absent (a peer `none`) or the launch was not reached. Throws Error(plan, V1).
  std::optional<Value> evaluate(const Post& post, size_t target, int rank, const Coord& coord, int launch);

 private:
  struct Context {
    int rank, launch, space;
    Coord coord;
  };
  // What a value depends on besides the launch: for remembering values, since posts say the same for many cells.
  struct Needs {
    bool rank = false, cell = false;
    std::vector<Id> names;
  };
  const Needs& needs(const PostTerm& post);
  void collect_needs(const PostTerm& post, std::vector<Id>& bound, bool folded, Needs& needs) const;
  std::optional<Value> term(const PostTerm& post, const Context& context, size_t output);
  std::optional<Value> compute(const PostTerm& post, const Context& context, size_t output);
  std::optional<Value> cell(const PostTerm& post, const Context& context);
  std::optional<Value> reduce(const PostTerm& post, const Context& context);
  std::optional<Value> elements(const PostTerm& post, const Context& context);
  std::optional<Value> apply(const PostTerm& post, const Context& context, size_t output);
  struct Folded {
    int space;
    int64_t lo, hi;  // parts
    int rank;        // whose chunks they are
  };
  Folded folded(const PostTerm& post, const Context& context);
  std::optional<Value> fold(const PostTerm& post, const Context& context, int kernel, size_t output);
  std::optional<std::vector<TermOutput>> outputs(const PostTerm& post, const Context& context, int kernel);
  const PostTerm* first_cell(const PostTerm& post) const;
  std::optional<int> owner(int buffer, int part, int rank) const;
  Term leaf(int buffer, int rank, const Coord& coord, int launch);

  SymbolicRun* run_;
  PostNumbers numbers_;
  std::map<const PostTerm*, Needs> needs_;
  std::map<std::vector<int64_t>, std::optional<Value>> known_;
};

// Which parts of a `given` space must have equal counts, as `given from` and the posts say: (space, rank, part) pairs through `join`.
void join_given_counts(const Instance& instance, const std::function<void(int, int, int, int, int, int)>& join);

}  // namespace weft::plan
