// Hash-consing and the normal forms of reductions. See verify_terms.h for the choice.
#include "weft/plan/verify_terms.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "weft/base/hash.h"

namespace weft::plan {

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

// Significant bits and range, enough to say whether every value of `narrow` is one of `wide`.
bool holds_all(Dtype wide, Dtype narrow) {
  if (wide == narrow) return true;
  const auto bits = [](Dtype d) { return size_bytes(d) * 8; };
  if (is_float(wide) && is_float(narrow)) return bits(wide) > bits(narrow) && bits(wide) >= 32;
  if (is_float(wide)) return bits(wide) >= 32 && (narrow == Dtype::boolean || 2 * bits(narrow) <= bits(wide));
  if (is_float(narrow) || narrow == Dtype::boolean) return narrow == Dtype::boolean && wide != Dtype::boolean;
  if (wide == Dtype::boolean) return false;
  return bits(wide) > bits(narrow) && (is_signed(wide) || !is_signed(narrow));
}

// Fields of an input's key: buffer 10 bits, rank + 1 10, launch 4, cell 40.
uint64_t input_key(int buffer, int rank, uint64_t cell, int launch) {
  return static_cast<uint64_t>(buffer) << 54 | static_cast<uint64_t>(rank + 1) << 44 |
         static_cast<uint64_t>(launch) << 40 | cell;
}
constexpr uint64_t cell_mask = (uint64_t{1} << 40) - 1;

}  // namespace

uint64_t pack(const Coord& c) {
  return static_cast<uint64_t>(c.part) << 24 | static_cast<uint64_t>(c.share) << 16 |
         static_cast<uint64_t>(c.chunk) << 8 | static_cast<uint64_t>(c.slice);
}

Coord unpack(uint64_t packed) {
  return {static_cast<int>(packed >> 24 & 0xffff), static_cast<int>(packed >> 16 & 0xff),
          static_cast<int>(packed >> 8 & 0xff), static_cast<int>(packed & 0xff)};
}

Terms::Terms(const Instance& instance) : instance_(&instance), nodes_(1), table_(4096, no_term) {}

// ---- hash-consing
Term Terms::make(TermKind kind, uint8_t op, uint8_t dtype, uint64_t key, std::span<const Term> list) {
  uint64_t hash =
      mix(mix(static_cast<uint64_t>(kind) << 16 | static_cast<uint64_t>(op) << 8 | dtype, key), list.size());
  for (Term child : list) hash = mix(hash, nodes_[child].hash);
  for (size_t at = hash & (table_.size() - 1);; at = (at + 1) & (table_.size() - 1)) {
    const Term found = table_[at];
    if (found == no_term) break;
    const Node& node = nodes_[found];
    if (node.hash == hash && node.kind == kind && node.op == op && node.dtype == dtype && node.key == key &&
        node.count == list.size() && std::equal(list.begin(), list.end(), children_.begin() + node.first))
      return found;
  }
  const Node node{kind, dtype, op, static_cast<uint32_t>(children_.size()), static_cast<uint32_t>(list.size()),
                  key,  hash};
  const std::vector<Term> copy(list.begin(), list.end());  // list may lie in children_
  children_.insert(children_.end(), copy.begin(), copy.end());
  nodes_.push_back(node);
  if (nodes_.size() * 2 > table_.size())
    grow();
  else {
    size_t at = hash & (table_.size() - 1);
    while (table_[at] != no_term) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<Term>(nodes_.size() - 1);
  }
  return static_cast<Term>(nodes_.size() - 1);
}

void Terms::grow() {
  table_.assign(table_.size() * 4, no_term);
  for (Term term = 1; term < nodes_.size(); ++term) {
    size_t at = nodes_[term].hash & (table_.size() - 1);
    while (table_[at] != no_term) at = (at + 1) & (table_.size() - 1);
    table_[at] = term;
  }
}

uint64_t Terms::symbol(const std::string& text) {
  const auto [place, fresh] = symbols_.try_emplace(text, symbol_text_.size());
  if (fresh) symbol_text_.push_back(text);
  return place->second;
}

// ---- leaves and expressions
Term Terms::input(int buffer, int rank, const Coord& coord, int launch) {
  return make(TermKind::input, 0, static_cast<uint8_t>(instance_->dtype(buffer)),
              input_key(buffer, rank, pack(coord), launch), {});
}

Term Terms::constant(double value) {
  return make(TermKind::constant, 0, untyped, std::bit_cast<uint64_t>(value + 0.0), {});
}
Term Terms::scalar(const std::string& name) { return make(TermKind::scalar, 0, untyped, symbol(name), {}); }

Term Terms::position(int space, const Coord& coord) {
  return make(TermKind::position, 0, untyped, static_cast<uint64_t>(space) << 40 | pack(coord), {});
}

Term Terms::apply(const std::string& what, std::span<const Term> args) {
  return make(TermKind::apply, 0, untyped, symbol(what), args);
}

Term Terms::all(std::span<const Term> terms) {
  if (terms.size() == 1) return terms[0];
  return make(TermKind::all, 0, terms.empty() ? untyped : nodes_[terms[0]].dtype, 0, terms);
}

Term Terms::cast(Dtype dtype, Term term) {
  const Node& node = nodes_[term];
  if (node.dtype == static_cast<uint8_t>(dtype) || node.kind == TermKind::bag || node.kind == TermKind::constant ||
      term == no_term)
    return term;
  if (node.kind == TermKind::cast) {
    const Term inner = children_[node.first];
    if (has_dtype(inner) && holds_all(this->dtype(term), this->dtype(inner))) return cast(dtype, inner);
  }
  return make(TermKind::cast, 0, static_cast<uint8_t>(dtype), 0, std::span<const Term>(&term, 1));
}

// ---- reductions
// A constant is one where the cell's dtype stores it as what changes nothing: -128 begins a maximum of i8, not of i16.
bool Terms::is_identity(kernel::Reduction reduction, std::optional<Dtype> cell, Term term) const {
  const Node& node = nodes_[term];
  if (node.kind != TermKind::constant) return false;
  const double value = std::bit_cast<double>(node.key);
  const bool integer_bits = reduction == kernel::Reduction::bit_and || reduction == kernel::Reduction::bit_or ||
                            reduction == kernel::Reduction::bit_xor;
  Dtype dtype = cell.value_or(integer_bits ? Dtype::i64 : Dtype::f64);
  if (dtype == Dtype::f64x2) dtype = Dtype::f64;
  if (integer_bits && is_float(dtype)) return false;
  char stored[8] = {}, identity[8] = {};
  store_f64(dtype, stored, value);
  kernel::store_identity(reduction, dtype, identity);
  return std::memcmp(stored, identity, sizeof stored) == 0;
}

// What was folded before it was widened on a link is the same number.
Term Terms::widened(Term term, Dtype accumulator) const {
  const Node& node = nodes_[term];
  if (node.kind != TermKind::cast) return term;
  const Term inner = children_[node.first];
  return has_dtype(inner) && holds_all(dtype(term), dtype(inner)) && holds_all(accumulator, dtype(inner)) ? inner
                                                                                                          : term;
}

Term Terms::fold(kernel::Reduction reduction, Dtype accumulator, std::span<const Term> terms,
                 std::optional<Dtype> cell) {
  const auto op = static_cast<uint8_t>(reduction);
  std::vector<Term> list;
  bool bags = false;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term term = widened(terms[i], accumulator);
    if (is_identity(reduction, cell, term)) continue;
    const Node& node = nodes_[term];
    bags |= node.kind == TermKind::bag && node.op == op;
    if (node.kind == TermKind::fold && node.op == op && list.empty() &&
        node.dtype == static_cast<uint8_t>(accumulator)) {
      const auto inner = children(term);
      list.insert(list.end(), inner.begin(), inner.end());
    } else {
      list.push_back(term);
    }
  }
  if (bags || list.empty()) return bag(reduction, std::move(list), cell);
  if (list.size() == 1) return list[0];
  return make(TermKind::fold, op, static_cast<uint8_t>(accumulator), 0, list);
}

Term Terms::bag(kernel::Reduction reduction, std::vector<Term> terms, std::optional<Dtype> cell) {
  const auto op = static_cast<uint8_t>(reduction);
  std::vector<Term> list;
  for (Term term : terms) {
    if (is_identity(reduction, cell, term)) continue;
    if (nodes_[term].kind == TermKind::bag && nodes_[term].op == op) {
      const auto inner = children(term);
      list.insert(list.end(), inner.begin(), inner.end());
    } else {
      list.push_back(term);
    }
  }
  std::sort(list.begin(), list.end());
  return make(TermKind::bag, op, untyped, 0, list);
}

// ---- normal forms
Term Terms::stripped(Term term) const {
  while (nodes_[term].kind == TermKind::cast) term = children_[nodes_[term].first];
  return term;
}

Term Terms::rebuild(Term term, std::vector<Term> list) {
  const Node node = nodes_[term];
  switch (node.kind) {
    case TermKind::cast: return cast(static_cast<Dtype>(node.dtype), list[0]);
    case TermKind::fold: return fold(static_cast<kernel::Reduction>(node.op), static_cast<Dtype>(node.dtype), list);
    case TermKind::bag: return bag(static_cast<kernel::Reduction>(node.op), std::move(list));
    case TermKind::all: return all(list);
    default: return make(node.kind, node.op, node.dtype, node.key, list);
  }
}

Term Terms::normal_fold(Term term, std::vector<Term> list, bool any_order, bool hops) {
  const Node node = nodes_[term];
  if (hops)
    for (Term& child : list) child = stripped(child);
  if (!any_order) return rebuild(term, std::move(list));
  std::vector<Term> flat;
  for (Term child : list) {
    const Node& inner = nodes_[child];
    if (inner.kind == TermKind::fold && inner.op == node.op && inner.dtype == node.dtype) {
      const auto grand = children(child);
      flat.insert(flat.end(), grand.begin(), grand.end());
    } else {
      flat.push_back(child);
    }
  }
  std::sort(flat.begin(), flat.end());
  return rebuild(term, std::move(flat));
}

Term Terms::normal(Term term, bool any_order, bool hops) {
  if (!any_order && !hops) return term;
  std::vector<Term>& memo = memo_[any_order + 2 * hops];
  if (memo.size() <= term) memo.resize(std::max(nodes_.size(), memo.size() * 2), no_term);
  if (memo[term] != no_term || nodes_[term].count == 0) return memo[term] != no_term ? memo[term] : term;
  std::vector<Term> list;
  for (uint32_t i = 0; i < nodes_[term].count; ++i)
    list.push_back(normal(children_[nodes_[term].first + i], any_order, hops));
  const TermKind kind = nodes_[term].kind;
  Term result;
  if (kind == TermKind::fold)
    result = normal_fold(term, std::move(list), any_order, hops);
  else if (kind == TermKind::cast && hops && nodes_[list[0]].kind == TermKind::fold)
    result = list[0];
  else
    result = rebuild(term, std::move(list));
  if (memo.size() <= term) memo.resize(nodes_.size(), no_term);
  memo[term] = result;
  return result;
}

// Left folds become trees of two, whose children have an order of their own: (a + b) + c, c + (b + a) are one tree, and
// a + (b + c) is another.
Term Terms::commuted(Term term) {
  const Node node = nodes_[term];
  if (node.count == 0) return term;
  if (const auto known = commuted_.find(term); known != commuted_.end()) return known->second;
  std::vector<Term> list;
  for (uint32_t i = 0; i < node.count; ++i) list.push_back(commuted(children_[node.first + i]));
  const auto reduction = static_cast<kernel::Reduction>(node.op);
  const bool ordered = reduction == kernel::Reduction::min || reduction == kernel::Reduction::max;
  constexpr uint64_t tree = 1;  // key: never a fold that a plan makes
  Term result = list[0];
  if (node.kind != TermKind::fold || ordered)
    result = make(node.kind, node.op, node.dtype, node.key, list);
  else
    for (size_t i = 1; i < list.size(); ++i) {
      const std::pair<Term, Term> sorted = std::minmax(result, list[i]);
      result = make(TermKind::fold, node.op, node.dtype, tree, std::vector<Term>{sorted.first, sorted.second});
    }
  return commuted_[term] = result;
}

// The term without its cells and launches: what is left is who contributed, and how it was combined.
Term Terms::shape(Term term) {
  if (shape_.size() <= term) shape_.resize(std::max(nodes_.size(), shape_.size() * 2), no_term);
  if (shape_[term] != no_term) return shape_[term];
  const Node node = nodes_[term];
  Term result = term;
  if (node.kind == TermKind::input) {
    uint64_t key = node.key & ~cell_mask & ~(uint64_t{0xf} << 40);
    if (instance_->plan().buffers[node.key >> 54].own) key &= ~(uint64_t{0x3ff} << 44);
    result = make(node.kind, node.op, node.dtype, key, {});
  } else if (node.kind == TermKind::position || node.kind == TermKind::bag) {
    result = constant(0);  // positions are cells; contributions to coarser cells have no order
  } else if (node.count > 0) {
    std::vector<Term> list;
    for (uint32_t i = 0; i < node.count; ++i) list.push_back(shape(children_[node.first + i]));
    result = make(node.kind, node.op, node.dtype, node.key, list);
  }
  if (shape_.size() <= term) shape_.resize(nodes_.size(), no_term);
  shape_[term] = result;
  return result;
}

Term Terms::skeleton(Term term) {
  const Node node = nodes_[term];
  if (node.kind == TermKind::fold) return shape(term);
  std::vector<Term> list;
  bool folds = false;
  for (uint32_t i = 0; node.kind != TermKind::bag && i < node.count; ++i) {
    const Term child = skeleton(children_[node.first + i]);
    folds |= child != no_term;
    list.push_back(child == no_term ? constant(0) : child);
  }
  return folds ? make(node.kind, node.op, node.dtype, node.key, list) : no_term;
}

uint64_t Terms::fingerprint(Term term) const {
  const Node& node = nodes_[term];
  if (node.kind == TermKind::cast) return fingerprint(children_[node.first]);
  return node.hash;
}

// ---- reports
std::string Terms::print(Term term, int depth) const {
  const Node& node = nodes_[term];
  const auto list = [&] {
    std::string text;
    size_t shown = 0;
    for (Term child : children(term)) {
      if (shown == 10) return text + fmt::format(", and {} more", node.count - shown);
      text += (shown++ ? ", " : "") + (depth > 0 ? print(child, depth - 1) : "..");
    }
    return text;
  };
  switch (node.kind) {
    case TermKind::nothing: return "nothing";
    case TermKind::input: {
      const Coord c = unpack(node.key & cell_mask);
      const int rank = static_cast<int>(node.key >> 44 & 0x3ff) - 1, launch = static_cast<int>(node.key >> 40 & 0xf);
      std::string text = instance_->plan().buffers[node.key >> 54].name + (rank < 0 ? "" : fmt::format("@{}", rank));
      text += fmt::format("[{}]", c.part);
      if (c.share || c.chunk || c.slice)
        text += fmt::format("{{channel {} chunk {} slice {}}}", c.share, c.chunk, c.slice);
      return launch ? text + fmt::format(" of launch {}", launch) : text;
    }
    case TermKind::constant: return fmt::format("{}", std::bit_cast<double>(node.key));
    case TermKind::scalar: return symbol_text_[node.key];
    case TermKind::position: return "position";
    case TermKind::apply: return symbol_text_[node.key] + "(" + list() + ")";
    case TermKind::cast: return fmt::format("{}({})", name(static_cast<Dtype>(node.dtype)), list());
    case TermKind::fold: return fmt::format("{}({})", kernel::name(static_cast<kernel::Reduction>(node.op)), list());
    case TermKind::bag:
      return fmt::format("{} in any order of ({})", kernel::name(static_cast<kernel::Reduction>(node.op)), list());
    case TermKind::all: return "all of (" + list() + ")";
  }
  return "";
}

}  // namespace weft::plan
