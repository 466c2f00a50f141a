// The part of a computation that a rank does, from the factor that is cut.
#include <algorithm>

#include "weft/ir/evaluate_op.h"
#include "weft/ir/layout_rule.h"

namespace weft::ir {
namespace {

struct Strides {
  int64_t outer = 1, extent = 1, inner = 1;
};
Strides strides_of(const std::vector<int64_t>& shape, int dim) {
  Strides s;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    int64_t& at = d < dim ? s.outer : d == dim ? s.extent : s.inner;
    at *= shape[static_cast<size_t>(d)];
  }
  return s;
}

template <typename T>
void copy_rows(const std::vector<T>& from, std::vector<T>& to, const Strides& s, int64_t begin, int64_t end) {
  if (from.empty()) return;
  for (int64_t o = 0; o < s.outer; ++o) {
    const auto first = from.begin() + (o * s.extent + begin) * s.inner;
    to.insert(to.end(), first, first + (end - begin) * s.inner);
  }
}

template <typename T>
void append_rows(const std::vector<T>& from, std::vector<T>& to, const Strides& s, int64_t outer) {
  if (from.empty()) return;
  const auto first = from.begin() + outer * s.extent * s.inner;
  to.insert(to.end(), first, first + s.extent * s.inner);
}

bool is_sliced(const Type& type) { return std::holds_alternative<Sliced>(type.layout); }

// Sizes of the factors: of a sliced operand by declaration, of all others as they are here (ragged rows differ by rank).
void measure(const Op& op, const RankTensors& ranks, const Factors& factors, int rank, Part& part) {
  part.whole.assign(factors.kind.size(), 1);
  for (size_t i = 0; i < op.args.size(); ++i)
    for (size_t d = 0; d < factors.operand[i].size(); ++d) {
      const int f = factors.operand[i][d];
      if (f < 0) continue;
      const auto* sliced = std::get_if<Sliced>(&ranks.type(op.args[i]).layout);
      const bool cut = sliced && sliced->dim == static_cast<int>(d);
      part.whole[static_cast<size_t>(f)] = cut ? shape_of({factors.size[static_cast<size_t>(f)]}, ranks.sizes)[0]
                                               : ranks.operand(op, i)[static_cast<size_t>(rank)].shape[d];
    }
  part.begin.assign(factors.kind.size(), 0);
  part.extent = part.whole;
}

Part part_of(const Op& op, const RankTensors& ranks, const Factors& factors, int cut, int rank, int index, int size) {
  Part part;
  measure(op, ranks, factors, rank, part);
  std::pair<int64_t, int64_t> range;
  if (cut >= 0) {
    range = slice_of(part.whole[static_cast<size_t>(cut)], index, size);
    part.begin[static_cast<size_t>(cut)] = range.first;
    part.extent[static_cast<size_t>(cut)] = range.second - range.first;
  }
  for (size_t i = 0; i < op.args.size(); ++i) {
    part.operands.push_back(ranks.operand(op, i)[static_cast<size_t>(rank)]);
    if (cut < 0 || is_sliced(ranks.type(op.args[i]))) continue;
    for (size_t d = 0; d < factors.operand[i].size(); ++d)
      if (factors.operand[i][d] == cut)
        part.operands.back() = slice(part.operands.back(), static_cast<int>(d), range.first, range.second);
  }
  return part;
}

}  // namespace

Tensor slice(const Tensor& tensor, int dim, int64_t begin, int64_t end) {
  Tensor out;
  out.dtype = tensor.dtype;
  out.shape = tensor.shape;
  out.shape[static_cast<size_t>(dim)] = end - begin;
  const Strides s = strides_of(tensor.shape, dim);
  copy_rows(tensor.f, out.f, s, begin, end);
  copy_rows(tensor.i, out.i, s, begin, end);
  return out;
}

Tensor concatenate(const std::vector<Tensor>& parts, int dim) {
  Tensor out;
  out.dtype = parts.at(0).dtype;
  out.shape = parts[0].shape;
  int64_t& extent = out.shape[static_cast<size_t>(dim)];
  extent = 0;
  for (const Tensor& part : parts) extent += part.shape[static_cast<size_t>(dim)];
  const int64_t outer = strides_of(out.shape, dim).outer;
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor& part : parts) {
      const Strides s = strides_of(part.shape, dim);
      append_rows(part.f, out.f, s, o);
      append_rows(part.i, out.i, s, o);
    }
  return out;
}

bool present(const Type& type, const GroupRanks& ranks, int rank) {
  const int group = ranks.group_of[static_cast<size_t>(rank)];
  return group >= type.presence.first && group < ranks.groups() - type.presence.last;
}

bool holds(const Type& type, const GroupRanks& ranks, int rank, int root) {
  return present(type, ranks, rank) &&
         (!std::holds_alternative<Root>(type.layout) || ranks.index_of[static_cast<size_t>(rank)] == root);
}

void for_each_part(const Op& op, RankTensors& ranks, const std::function<Tensor(const Part&, const Factors&)>& work) {
  const Factors factors = op.def->factors(ranks.program, op, ranks.types);
  const int cut = cut_factor(op, ranks.types, factors);
  const Type& type = ranks.type(op.name);
  const GroupRanks group = group_ranks(ranks.program, type.group, ranks.sizes);
  const auto* rooted = std::get_if<Root>(&type.layout);
  const int root = rooted ? ranks.root(rooted->rank) : 0;
  for (int rank = 0; rank < ranks.sizes.ranks; ++rank)
    if (holds(type, group, rank, root))
      ranks.out[static_cast<size_t>(rank)] = work(
          part_of(op, ranks, factors, cut, rank, group.index_of[static_cast<size_t>(rank)], group.size()), factors);
}

}  // namespace weft::ir
