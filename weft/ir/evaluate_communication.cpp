// The reference of the communications: within a group, reductions in the order of ranks.
#include <algorithm>
#include <cmath>

#include "weft/ir/evaluate_op.h"

namespace weft::ir {
namespace {

double reduce_real(ReduceOp op, double a, double b) {
  if (op == ReduceOp::sum || op == ReduceOp::avg) return a + b;
  if (op == ReduceOp::prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return (a > b) == (op == ReduceOp::max) ? a : b;
}

int64_t reduce_whole(ReduceOp op, Dtype dtype, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (op == ReduceOp::sum) return wrap_to(dtype, static_cast<int64_t>(x + y));
  if (op == ReduceOp::prod) return wrap_to(dtype, static_cast<int64_t>(x * y));
  return ((is_signed(dtype) ? a > b : x > y) == (op == ReduceOp::max)) ? a : b;
}

// With `rounds`: in the dtype's accumulator, and of the rounded sum the average.
Tensor reduced(const Op& op, const std::vector<const Tensor*>& all, bool rounds) {
  const ReduceOp reduce = *op.attrs.reduce;
  Tensor out = *all[0];
  const bool in_f32 = rounds && is_float(out.dtype) && out.dtype != Dtype::f64;
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r]->shape != out.shape)
      throw Error(ErrorKind::user, fmt::format("{}: {} has different shapes on the ranks", op.name, op.args[0]),
                  "ragged rows cannot be reduced over ranks: fold them first");
    for (size_t k = 0; k < out.f.size(); ++k) {
      out.f[k] = reduce_real(reduce, out.f[k], all[r]->f[k]);
      if (in_f32) out.f[k] = static_cast<double>(static_cast<float>(out.f[k]));
    }
    for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = reduce_whole(reduce, out.dtype, out.i[k], all[r]->i[k]);
  }
  if (reduce == ReduceOp::avg)
    for (double& value : out.f) {
      value = (rounds ? round_to(out.dtype, value) : value) / static_cast<double>(all.size());
      if (in_f32) value = static_cast<double>(static_cast<float>(value));
    }
  return out;
}

// Runs `whole` once per group that has the value; hands each member of it its share.
using Members = std::vector<int>;
void per_group(const Op& op, RankTensors& ranks, const std::function<Tensor(const Members&)>& whole) {
  const Type& type = ranks.type(op.name);
  const GroupRanks group = group_ranks(ranks.program, type.group, ranks.sizes);
  const auto* sliced = std::get_if<Sliced>(&type.layout);
  const auto* rooted = std::get_if<Root>(&type.layout);
  const int root = rooted ? ranks.root(rooted->rank) : 0;
  if (root >= group.size())
    throw Error(ErrorKind::user, fmt::format("{}: root {} of a group of {} ranks", op.name, root, group.size()),
                "roots count from 0");
  for (const Members& members : group.members) {
    if (!present(type, group, members[0])) continue;
    const Tensor value = whole(members);
    for (size_t i = 0; i < members.size(); ++i) {
      Tensor& out = ranks.out[static_cast<size_t>(members[i])];
      if (rooted && static_cast<int>(i) != root) continue;
      out = value;
      if (!sliced) continue;
      const auto [begin, end] = slice_of(value.shape[static_cast<size_t>(sliced->dim)], static_cast<int>(i),
                                         static_cast<int>(members.size()));
      out = slice(value, sliced->dim, begin, end);
    }
  }
}

// The value that a sliced, rooted or (rank k's) local operand stands for.
Tensor joined(const Op& op, const RankTensors& ranks, const Members& members) {
  const Type& from = ranks.type(op.args[0]);
  const std::vector<Tensor>& all = ranks.operand(op, 0);
  if (const auto* sliced = std::get_if<Sliced>(&from.layout)) {
    std::vector<Tensor> parts;
    for (const int rank : members) parts.push_back(all[static_cast<size_t>(rank)]);
    return concatenate(parts, sliced->dim);
  }
  const auto* root = std::get_if<Root>(&from.layout);
  const auto k = static_cast<size_t>(ranks.root(root ? root->rank : op.attrs.root));
  if (k >= members.size())
    throw Error(ErrorKind::user, fmt::format("{}: root {} of a group of {} ranks", op.name, k, members.size()),
                "roots count from 0");
  return all[static_cast<size_t>(members[k])];
}

// ---- all_to_all of local tensors: blocks of rows
// How many rows member i holds for (or, transposed, has from) each member.
std::vector<int64_t> block_rows(const Op& op, const RankTensors& ranks, const Members& members, size_t i) {
  const Size& size = ranks.type(op.args[0]).shape[0];
  const int64_t rows = ranks.operand(op, 0)[static_cast<size_t>(members[i])].shape[0];
  const auto n = static_cast<int64_t>(members.size());
  if (const RaggedDecl* by = ragged_of(ranks.program, size.name)) {
    const std::vector<Tensor>& counts = ranks.values.find(by->counts)->second;
    if (!size.name.ends_with(".t")) return counts[static_cast<size_t>(members[i])].i;
    std::vector<int64_t> transposed;
    for (const int rank : members) transposed.push_back(counts[static_cast<size_t>(rank)].i.at(i));
    return transposed;
  }
  if (rows % n != 0)
    throw Error(ErrorKind::user,
                fmt::format("{}: {} rows of {} do not divide into {} equal blocks", op.name, rows, op.args[0], n),
                "declare the rows ragged: ragged T by c");
  return std::vector<int64_t>(members.size(), rows / n);
}

Tensor block(const Op& op, const RankTensors& ranks, const Members& members, size_t from, size_t to) {
  const std::vector<int64_t> rows = block_rows(op, ranks, members, from);
  int64_t begin = 0;
  for (size_t j = 0; j < to; ++j) begin += rows[j];
  return slice(ranks.operand(op, 0)[static_cast<size_t>(members[from])], 0, begin, begin + rows[to]);
}

void exchange_blocks(const Op& op, RankTensors& ranks) {
  const Type& type = ranks.type(op.name);
  const GroupRanks group = group_ranks(ranks.program, type.group, ranks.sizes);
  for (const Members& members : group.members) {
    if (!present(type, group, members[0])) continue;
    for (size_t to = 0; to < members.size(); ++to) {
      std::vector<Tensor> blocks;
      for (size_t from = 0; from < members.size(); ++from) blocks.push_back(block(op, ranks, members, from, to));
      ranks.out[static_cast<size_t>(members[to])] = concatenate(blocks, 0);
    }
  }
}

}  // namespace

void evaluate_reduction(const Op& op, RankTensors& ranks) {
  per_group(op, ranks, [&](const Members& members) {
    std::vector<const Tensor*> all;
    for (const int rank : members) all.push_back(&ranks.operand(op, 0)[static_cast<size_t>(rank)]);
    return reduced(op, all, ranks.options.round_named);
  });
}

void evaluate_move(const Op& op, RankTensors& ranks) {
  per_group(op, ranks, [&](const Members& members) { return joined(op, ranks, members); });
}

void evaluate_all_to_all(const Op& op, RankTensors& ranks) {
  if (std::holds_alternative<Local>(ranks.type(op.name).layout))
    exchange_blocks(op, ranks);
  else
    evaluate_move(op, ranks);
}

void evaluate_send(const Op& op, RankTensors& ranks) {
  const Type& type = ranks.type(op.name);
  const GroupRanks group = group_ranks(ranks.program, type.group, ranks.sizes);
  for (int rank = 0; rank < ranks.sizes.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    if (!present(type, group, rank)) continue;
    const auto from = static_cast<size_t>(group.group_of[r] - op.attrs.hops);
    ranks.out[r] =
        ranks.operand(op, 0)[static_cast<size_t>(group.members[from][static_cast<size_t>(group.index_of[r])])];
  }
}

}  // namespace weft::ir
