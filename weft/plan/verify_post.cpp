// A post is evaluated for one cell of its target: an operand of an aligned space means the same share, chunk and slice
// of its part; any other operand, and the operands of a fold, mean whole parts. Inputs and states mean what they held
// when the launch began (an `own` buffer: on its owner), so they are asked for when the run is over.
#include "weft/plan/verify_post.h"

#include <algorithm>
#include <map>

#include "weft/plan/instance_impl.h"

namespace weft::plan {

namespace {

[[noreturn]] void refuse_post(const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::plan, "post: " + message, remedy, "V1");
}

bool parse_integer(const std::string& text, int64_t& value) {
  if (text.empty()) return false;
  size_t used = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) { return false; }
  return used == text.size();
}

// `s(j in lo..hi: T)`: the elements of T in those parts of the space s, as a tile reads them; -1: a reduction.
int elements_of(const Plan& plan, const PostTerm& post) {
  return post.kind == PostTerm::Kind::reduce && !post.reduction_param.empty() ? find_space(plan, post.reduction_param)
                                                                              : -1;
}

}  // namespace

// ---- numbers
PostNumbers::PostNumbers(const Instance& instance) : instance_(&instance) {
  for (const auto& [name, text] : instance.impl().params) {  // with the caller's values
    int64_t value = 0;
    if (parse_integer(text, value)) params_[name] = expr::integer(value);
  }
  for (const TableText& table : instance.plan().tables) tables_[table.name] = {table.rows};
}

int64_t PostNumbers::operator()(const Expr& e) {
  Compiled& compiled = known_[e.get()];
  if (!compiled.of) {
    compiled.of = e;
    const auto slot = [&compiled](const std::string& name) {
      compiled.names.push_back(name);
      return static_cast<int>(compiled.names.size()) - 1;
    };
    compiled.code = expr::IntCode(expr::substitute(e, params_), slot, tables_);
  }
  values_.clear();
  for (const Id& name : compiled.names) values_.push_back(value_of(name));
  return compiled.code.run(values_.data());
}

int64_t PostNumbers::value_of(const Id& name) const {
  for (const auto* scope : {&bound_, &lets_})
    for (size_t k = scope->size(); k > 0; --k)
      if ((*scope)[k - 1].first == name) return (*scope)[k - 1].second;
  refuse_post(name + " is not known in a post",
              "use n, r, parameters, lets, the part's variable and those of its sums");
}

int64_t PostNumbers::bound(const Id& name) const {
  for (size_t k = bound_.size(); k > 0; --k)
    if (bound_[k - 1].first == name) return bound_[k - 1].second;
  return 0;
}

void PostNumbers::begin(int rank) {
  if (rank == rank_) return;
  rank_ = rank;
  lets_ = {{"r", rank}, {"n", instance_->ranks()}, {"c", 0}};
  for (const Let& let : instance_->plan().lets) {
    const int64_t value = (*this)(let.value);
    lets_.emplace_back(let.name, value);
  }
}

// ---- values
PostTerms::PostTerms(SymbolicRun& run) : run_(&run), numbers_(run.subject().instance) {}

std::optional<PostTerms::Value> PostTerms::evaluate(const Post& post, size_t target, int rank, const Coord& coord,
                                                    int launch) {
  numbers_.begin(rank);
  numbers_.push(post.var, coord.part);
  const int buffer = find_buffer(run_->subject().instance.plan(), post.targets[target].name);
  std::optional<Value> value =
      term(post.value, {rank, launch, run_->subject().instance.buffer_space(buffer), coord}, target);
  numbers_.pop();
  if (value) value->term = run_->subject().terms.cast(run_->subject().instance.dtype(buffer), value->term);
  return value;
}

void PostTerms::collect_needs(const PostTerm& post, std::vector<Id>& bound, bool folded, Needs& needs) const {
  const Plan& plan = run_->subject().instance.plan();
  const auto read = [&](const Expr& e) {
    for (const std::string& name : e ? expr::names(e) : std::vector<std::string>()) {
      const bool let = std::any_of(plan.lets.begin(), plan.lets.end(), [&](const Let& l) { return l.name == name; });
      needs.rank |= let || name == "r";
      if (std::find(bound.begin(), bound.end(), name) == bound.end()) needs.names.push_back(name);
    }
  };
  if (post.kind == PostTerm::Kind::cell) {
    const int buffer = find_buffer(plan, post.cell.name);
    needs.cell |= !folded;
    needs.rank |= buffer < 0 || (!post.cell.peers && !at(plan.buffers, buffer).own);
    for (const Expr& e : {post.cell.parts.first, post.cell.parts.count}) read(e);
    if (post.cell.peers) read(post.cell.peers->first);
  }
  read(post.lo);
  read(post.hi);
  const int kernel = post.kind == PostTerm::Kind::kernel ? find_kernel(plan, post.call.name) : -1;
  const bool folds = kernel >= 0 && kernel::kind(at(plan.kernels, kernel)) == kernel::Kind::fold;
  needs.cell |= kernel >= 0 && !folds && !folded;
  const bool whole = elements_of(plan, post) >= 0;
  if (post.kind == PostTerm::Kind::reduce) bound.push_back(post.var);
  for (const PostTerm& arg : post.args) collect_needs(arg, bound, folded || folds || whole, needs);
  if (post.kind == PostTerm::Kind::reduce) bound.pop_back();
}

const PostTerms::Needs& PostTerms::needs(const PostTerm& post) {
  const auto known = needs_.find(&post);
  if (known != needs_.end()) return known->second;
  Needs found;
  std::vector<Id> bound;
  collect_needs(post, bound, false, found);
  return needs_[&post] = found;
}

std::optional<PostTerms::Value> PostTerms::term(const PostTerm& post, const Context& context, size_t output) {
  if (post.kind != PostTerm::Kind::kernel && post.kind != PostTerm::Kind::reduce) return compute(post, context, output);
  const Needs& depends = needs(post);
  std::vector<int64_t> key{static_cast<int64_t>(reinterpret_cast<intptr_t>(&post)),
                           context.launch,
                           static_cast<int64_t>(std::min<size_t>(output, 1 << 20)),
                           depends.rank ? context.rank : -1,
                           depends.cell ? context.space : -1,
                           depends.cell ? static_cast<int64_t>(pack(context.coord)) : -1};
  for (const Id& name : depends.names) key.push_back(numbers_.bound(name));
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_[std::move(key)] = compute(post, context, output);
}

std::optional<PostTerms::Value> PostTerms::compute(const PostTerm& post, const Context& context, size_t output) {
  switch (post.kind) {
    case PostTerm::Kind::cell: return cell(post, context);
    case PostTerm::Kind::reduce:
      return elements_of(run_->subject().instance.plan(), post) < 0 ? reduce(post, context) : elements(post, context);
    case PostTerm::Kind::kernel: return apply(post, context, output);
    case PostTerm::Kind::constant: return Value{run_->subject().terms.constant(post.value), Dtype::f64};
  }
  return std::nullopt;
}

std::optional<int> PostTerms::owner(int buffer, int part, int rank) const {
  const Instance& instance = run_->subject().instance;
  const auto owns = [&](int q) { return instance.own_part(buffer, q) == -1 || instance.own_part(buffer, q) == part; };
  if (owns(rank)) return rank;
  for (int q = 0; q < instance.ranks(); ++q)
    if (owns(q)) return q;
  return std::nullopt;
}

Term PostTerms::leaf(int buffer, int rank, const Coord& coord, int launch) {
  const Buffer& text = at(run_->subject().instance.plan().buffers, buffer);
  if (text.role == Buffer::Role::state) return run_->before(rank, launch, buffer, coord);
  if (text.role == Buffer::Role::in || text.role == Buffer::Role::inout)
    return run_->subject().terms.input(buffer, run_->holder(buffer, rank), coord, launch);
  refuse_post(text.name + " is neither an input nor a state", "write what it holds in terms of inputs and states");
}

std::optional<PostTerms::Value> PostTerms::cell(const PostTerm& post, const Context& context) {
  const Instance& instance = run_->subject().instance;
  const int buffer = find_buffer(instance.plan(), post.cell.name);
  if (buffer < 0) refuse_post(post.cell.name + " is no buffer", "declare it");
  const int space = instance.buffer_space(buffer);
  const SpaceShape& shape = run_->spaces()[space];
  const int64_t count = post.cell.parts.count ? numbers_(post.cell.parts.count) : 1;
  const int64_t first = numbers_(post.cell.parts.first);
  std::vector<Term> list;
  for (int64_t i = 0; i < count; ++i) {
    const int part = static_cast<int>(wrap(first + i, shape.parts));
    std::optional<int> rank = owner(buffer, part, context.rank);
    if (post.cell.peers) {
      const int64_t peer = numbers_(post.cell.peers->first);
      if (peer == expr::none) return std::nullopt;
      rank = static_cast<int>(wrap(peer, instance.ranks()));
    }
    if (!rank) refuse_post(fmt::format("nobody owns part {} of {}", part, post.cell.name), "name the rank: x@q[p]");
    if (run_->spaces().aligned(space, context.space)) {
      Coord coord = context.coord;
      coord.part = part;
      list.push_back(leaf(buffer, *rank, coord, context.launch));
      continue;
    }
    for (int share = 0; share < shape.shares; ++share)
      for (int chunk = 0; chunk < run_->chunks(*rank, context.launch, space, part); ++chunk)
        for (int slice = 0; slice < shape.slices; ++slice)
          list.push_back(leaf(buffer, *rank, {part, share, chunk, slice}, context.launch));
  }
  if (std::find(list.begin(), list.end(), no_term) != list.end()) return std::nullopt;
  return Value{run_->subject().terms.all(list), instance.dtype(buffer)};
}

std::optional<PostTerms::Value> PostTerms::reduce(const PostTerm& post, const Context& context) {
  const int64_t lo = numbers_(post.lo), hi = numbers_(post.hi);
  std::vector<Term> list;
  Dtype dtype = Dtype::f32;
  for (int64_t i = lo; i < hi; ++i) {
    numbers_.push(post.var, i);
    const std::optional<Value> value = term(post.args[0], context, SIZE_MAX);
    numbers_.pop();
    if (!value) continue;
    dtype = value->dtype;
    list.push_back(value->term);
  }
  if (list.empty()) return std::nullopt;
  kernel::Reduction reduction = post.reduction;
  const auto& params = run_->subject().instance.impl().params;
  if (const auto named = params.find(post.reduction_param); named != params.end())
    reduction = kernel::parse_reduction(named->second).value_or(reduction);
  return Value{run_->subject().terms.fold(reduction, accumulate_dtype(dtype), list), dtype};
}

std::optional<PostTerms::Value> PostTerms::elements(const PostTerm& post, const Context& context) {
  const int space = elements_of(run_->subject().instance.plan(), post);
  const SpaceShape& shape = run_->spaces()[space];
  std::vector<Term> list;
  Dtype dtype = Dtype::f32;
  for (int64_t i = numbers_(post.lo), hi = numbers_(post.hi); i < hi; ++i) {
    const int part = static_cast<int>(wrap(i, shape.parts));
    numbers_.push(post.var, i);
    for (int share = 0; share < shape.shares; ++share)
      for (int chunk = 0; chunk < run_->chunks(context.rank, context.launch, space, part); ++chunk)
        for (int slice = 0; slice < shape.slices; ++slice) {
          const auto value =
              term(post.args[0], {context.rank, context.launch, space, {part, share, chunk, slice}}, SIZE_MAX);
          list.push_back(value ? value->term : no_term);
          if (value) dtype = value->dtype;
        }
    numbers_.pop();
  }
  if (std::find(list.begin(), list.end(), no_term) != list.end()) return std::nullopt;
  return Value{run_->subject().terms.all(list), dtype};
}

// ---- kernels
const PostTerm* PostTerms::first_cell(const PostTerm& post) const {
  if (post.kind == PostTerm::Kind::cell) return &post;
  for (const PostTerm& arg : post.args)
    if (const PostTerm* found = first_cell(arg)) return found;
  return nullptr;
}

std::optional<std::vector<TermOutput>> PostTerms::outputs(const PostTerm& post, const Context& context, int kernel) {
  std::vector<Dtype> dtypes;
  std::vector<Term> inputs;
  bool any_aligned = false;
  Terms& terms = run_->subject().terms;
  const bool folds = kernel::kind(at(run_->subject().instance.plan().kernels, kernel)) == kernel::Kind::fold;
  for (const PostTerm& arg : post.args) {
    const bool here = folds && elements_of(run_->subject().instance.plan(), arg) >= 0;  // cell by cell
    if (here) numbers_.push(arg.var, context.coord.part);
    const std::optional<Value> value = term(here ? arg.args[0] : arg, context, SIZE_MAX);
    if (here) numbers_.pop();
    if (!value) return std::nullopt;
    dtypes.push_back(value->dtype);
    const bool sum = arg.kind == PostTerm::Kind::reduce && elements_of(run_->subject().instance.plan(), arg) < 0;
    inputs.push_back(sum ? terms.cast(value->dtype, value->term) : value->term);
    const PostTerm* cell = elements_of(run_->subject().instance.plan(), arg) < 0 ? first_cell(arg) : nullptr;
    const int buffer = cell ? find_buffer(run_->subject().instance.plan(), cell->cell.name) : -1;
    any_aligned |= buffer >= 0 && run_->spaces().aligned(run_->subject().instance.buffer_space(buffer), context.space);
  }
  const bool tile = kernel::kind(at(run_->subject().instance.plan().kernels, kernel)) == kernel::Kind::tile;
  const Term position =
      tile && any_aligned ? no_term : terms.position(run_->spaces()[context.space].twin, context.coord);
  return run_->subject().kernels.apply(kernel, post.call.scalars, dtypes, inputs, position);
}

// A folding kernel in a post folds all elements of the parts that its operands name: of the first buffer's space, or of
// the space that an operand names, `s(j in lo..hi: T)`, where what is folded lies in another one than what it is made of.
PostTerms::Folded PostTerms::folded(const PostTerm& post, const Context& context) {
  const Instance& instance = run_->subject().instance;
  for (const PostTerm& arg : post.args)
    if (const int space = elements_of(instance.plan(), arg); space >= 0)
      return {space, numbers_(arg.lo), numbers_(arg.hi), context.rank};
  const PostTerm* cell = first_cell(post);
  if (!cell) refuse_post("a fold of constants", "give it a buffer");
  const int buffer = find_buffer(instance.plan(), cell->cell.name);
  const int space = instance.buffer_space(buffer);
  const int64_t part = wrap(numbers_(cell->cell.parts.first), run_->spaces()[space].parts);
  return {space, part, part + 1, owner(buffer, static_cast<int>(part), context.rank).value_or(context.rank)};
}

std::optional<PostTerms::Value> PostTerms::fold(const PostTerm& post, const Context& context, int kernel,
                                                size_t output) {
  const Folded what = folded(post, context);
  const SpaceShape& shape = run_->spaces()[what.space];
  std::vector<Term> list;
  kernel::Reduction reduction = kernel::Reduction::sum;
  for (int64_t p = what.lo; p < what.hi; ++p) {
    const int part = static_cast<int>(wrap(p, shape.parts));
    for (int share = 0; share < shape.shares; ++share)
      for (int chunk = 0; chunk < run_->chunks(what.rank, context.launch, what.space, part); ++chunk)
        for (int slice = 0; slice < shape.slices; ++slice) {
          const auto values =
              outputs(post, {context.rank, context.launch, what.space, {part, share, chunk, slice}}, kernel);
          if (!values) return std::nullopt;
          const TermOutput& value = (*values)[std::min(output, values->size() - 1)];
          reduction = value.reduction;
          list.push_back(value.term);
        }
  }
  return Value{run_->subject().terms.bag(reduction, std::move(list)), Dtype::f64};
}

std::optional<PostTerms::Value> PostTerms::apply(const PostTerm& post, const Context& context, size_t output) {
  const Plan& plan = run_->subject().instance.plan();
  const int kernel = find_kernel(plan, post.call.name);
  if (kernel < 0) refuse_post(post.call.name + " is no kernel", "write its body into the plan");
  if (kernel::kind(at(plan.kernels, kernel)) == kernel::Kind::fold) return fold(post, context, kernel, output);
  const auto values = outputs(post, context, kernel);
  if (!values) return std::nullopt;
  const TermOutput& value = (*values)[std::min(output, values->size() - 1)];
  Terms& terms = run_->subject().terms;
  return Value{value.term, terms.has_dtype(value.term) ? terms.dtype(value.term) : value.dtype};
}

// ---- counts of given spaces
namespace {

void join_cells(const Instance& instance, PostNumbers& numbers, const PostTerm& post, int space, int rank, int part,
                const std::function<void(int, int, int, int, int, int)>& join) {
  if (post.kind == PostTerm::Kind::cell) {
    const int buffer = find_buffer(instance.plan(), post.cell.name);
    if (buffer < 0) return;
    const int other = instance.buffer_space(buffer);
    if (at(instance.plan().spaces, other).kind != Space::Kind::given) return;
    const int64_t peer = post.cell.peers ? numbers(post.cell.peers->first) : rank;
    if (peer == expr::none) return;
    join(space, rank, part, other, static_cast<int>(wrap(peer, instance.ranks())),
         static_cast<int>(wrap(numbers(post.cell.parts.first), instance.parts(other))));
    return;
  }
  const bool sum = post.kind == PostTerm::Kind::reduce;
  const int64_t lo = sum ? numbers(post.lo) : 0, hi = sum ? numbers(post.hi) : 1;
  for (int64_t i = lo; i < hi; ++i) {
    if (sum) numbers.push(post.var, i);
    for (const PostTerm& arg : post.args) join_cells(instance, numbers, arg, space, rank, part, join);
    if (sum) numbers.pop();
  }
}

}  // namespace

void join_given_counts(const Instance& instance, const std::function<void(int, int, int, int, int, int)>& join) {
  const std::vector<Space>& spaces = instance.plan().spaces;
  for (int s = 0; s < static_cast<int>(spaces.size()); ++s)
    for (int rank = 0; !at(spaces, s).from.empty() && rank < instance.ranks(); ++rank)
      for (int part = 0; part < instance.ranks(); ++part)
        join(s, rank, part, find_space(instance.plan(), at(spaces, s).from), part, rank);
  PostNumbers numbers(instance);
  for (const Post& post : instance.plan().posts) {
    const int buffer = post.targets.empty() ? -1 : find_buffer(instance.plan(), post.targets[0].name);
    const int space = buffer < 0 ? -1 : instance.buffer_space(buffer);
    if (space < 0 || at(instance.plan().spaces, space).kind != Space::Kind::given) continue;
    for (int rank = 0; rank < instance.ranks(); ++rank)
      for (int part = 0; part < static_cast<int>(instance.parts(space)); ++part) {
        numbers.begin(rank);
        numbers.push(post.var, part);
        join_cells(instance, numbers, post.value, space, rank, part, join);
        numbers.pop();
      }
  }
}

}  // namespace weft::plan
