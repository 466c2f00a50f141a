// The reference of maps and folds: columns over the elements of a rank's part, then a fold in the order of elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/expr/body.h"
#include "weft/ir/evaluate_op.h"
#include "weft/ir/weak.h"

namespace weft::ir {
namespace {

// Element number -> indices, over a rank's part of the operands' common shape.
class Elements {
 public:
  explicit Elements(const Part& part) : part_(part) {
    for (const int64_t extent : part.extent) count_ *= extent;
  }
  int64_t count() const { return count_; }

  // sum over dimensions of at[d](global index along d, local index along d)
  template <typename F>
  std::vector<int64_t> map(F at) const {
    std::vector<int64_t> out;
    out.reserve(static_cast<size_t>(count_));
    std::vector<int64_t> index(part_.extent.size(), 0);
    for (int64_t k = 0; k < count_; ++k) {
      int64_t sum = 0;
      for (size_t d = 0; d < index.size(); ++d) sum += at(d, index[d]);
      out.push_back(sum);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < part_.extent[d]) break;
        index[d] = 0;
      }
    }
    return out;
  }

  std::vector<int64_t> positions() const {
    std::vector<int64_t> stride(part_.whole.size(), 1);
    for (size_t d = stride.size(); d-- > 1;) stride[d - 1] = stride[d] * part_.whole[d];
    return map([&](size_t d, int64_t i) { return (part_.begin[d] + i) * stride[d]; });
  }

 private:
  const Part& part_;
  int64_t count_ = 1;
};

// The tensor of the list that each element of `tensors P` belongs to.
std::vector<int64_t> owners(const Sizes& sizes, const std::string& list) {
  std::vector<int64_t> out;
  int64_t tensor = 0;
  for (const int64_t length : tensors_lengths(sizes, list))
    out.insert(out.end(), static_cast<size_t>(length), tensor++);
  return out;
}

class Pointwise {
 public:
  Pointwise(const Op& op, const RankTensors& ranks, const Part& part, const Factors& factors)
      : op_(op), ranks_(ranks), part_(part), factors_(factors), elements_(part) {}

  const Elements& elements() const { return elements_; }

  std::optional<Dtype> dtype_of(const std::string& name) const {
    if (std::find(op_.args.begin(), op_.args.end(), name) == op_.args.end()) return {};
    return ranks_.type(name).dtype;
  }

  // For a result of dtype `result`.
  Column value(Dtype result) const {
    Leaves leaves;
    leaves.result = result;
    leaves.dtype = [&](const std::string& name) { return dtype_of(name); };
    leaves.weak = weak_dtypes(ranks_.program);
    leaves.count = elements_.count();
    leaves.round_steps = ranks_.options.round_named;
    leaves.operand = [&](const std::string& name) { return operand(name); };
    leaves.positions = [&] { return integers(elements_.positions()); };
    leaves.index = [&](int64_t dim) { return index(dim); };
    return evaluate_expression(op_.value, leaves);
  }

 private:
  static Column integers(std::vector<int64_t> values) {
    Column out;
    out.is_float = false;
    out.i = std::move(values);
    return out;
  }

  Column index(int64_t dim) const {
    const auto rank = static_cast<int64_t>(part_.whole.size());
    const int64_t d = dim < 0 ? dim + rank : dim;
    if (d < 0 || d >= rank)
      throw Error(ErrorKind::user, fmt::format("{}: index({}) in a value of {} dimensions", op_.name, dim, rank),
                  "dimensions count from 0", "S2");
    return integers(
        elements_.map([&](size_t at, int64_t i) { return at == static_cast<size_t>(d) ? part_.begin[at] + i : 0; }));
  }

  Column operand(const std::string& name) const {
    const auto found = std::find(op_.args.begin(), op_.args.end(), name);
    if (found == op_.args.end()) return weak(name);
    return spread(static_cast<size_t>(found - op_.args.begin()));
  }

  Column weak(const std::string& name) const { return uniform_column(weak_value(ranks_.program, ranks_.sizes, name)); }

  // Operand i at every element of the part: broadcast along extents of 1, per tensor where it is coarser.
  Column spread(size_t i) const {
    const Tensor& tensor = part_.operands[i];
    const Column column = column_of(tensor);
    const Shape& shape = ranks_.type(op_.args[i]).shape;
    const bool per_tensor = std::any_of(shape.begin(), shape.end(), [](const Size& size) { return size.per_tensor; });
    if (tensor.shape == part_.extent && !per_tensor) return column;
    const size_t rank = part_.extent.size(), shift = rank - tensor.shape.size();
    std::vector<int64_t> stride(rank, 0);
    std::vector<std::vector<int64_t>> coarse(rank);
    int64_t step = 1;
    for (size_t d = tensor.shape.size(); d-- > 0; step *= tensor.shape[d]) {
      stride[shift + d] = step;
      const bool has_factor = factors_.operand[i][d] >= 0;
      if (!has_factor && shape[d].per_tensor)
        coarse[shift + d] = owners(ranks_.sizes, shape[d].name);
      else if (!has_factor)
        stride[shift + d] = 0;
    }
    const std::vector<int64_t> from = elements_.map([&](size_t d, int64_t k) {
      return stride[d] * (coarse[d].empty() ? k : coarse[d][static_cast<size_t>(part_.begin[d] + k)]);
    });
    Column out = column;
    out.f.clear();
    out.i.clear();
    for (const int64_t at : from) {
      if (column.is_float)
        out.f.push_back(column.f[static_cast<size_t>(at)]);
      else
        out.i.push_back(column.i[static_cast<size_t>(at)]);
    }
    return out;
  }

  const Op& op_;
  const RankTensors& ranks_;
  const Part& part_;
  const Factors& factors_;
  Elements elements_;
};

// ---- folds
// What changes nothing in the dtype: f8e4m3 has no infinity, only largest values.
double first_real(FactorKind kind, Dtype dtype) {
  const double inf = dtype == Dtype::f8e4m3 ? 448 : std::numeric_limits<double>::infinity();
  return kind == FactorKind::sum ? 0 : kind == FactorKind::prod ? 1 : kind == FactorKind::max ? -inf : inf;
}
double join_real(FactorKind kind, double a, double b) {
  if (kind == FactorKind::sum) return a + b;
  if (kind == FactorKind::prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return (a > b) == (kind == FactorKind::max) ? a : b;
}

struct Limits {
  int64_t least, most;
};
Limits limits(Dtype dtype) {
  if (dtype == Dtype::boolean) return {0, 1};
  const int bits = static_cast<int>(8 * size_bytes(dtype));
  if (!is_signed(dtype)) return {0, bits == 64 ? int64_t(-1) : (int64_t(1) << bits) - 1};
  const int64_t most = static_cast<int64_t>((uint64_t(1) << (bits - 1)) - 1);
  return {-most - 1, most};
}
int64_t first_whole(FactorKind kind, Dtype dtype) {
  return kind == FactorKind::sum    ? 0
         : kind == FactorKind::prod ? 1
         : kind == FactorKind::max  ? limits(dtype).least
                                    : limits(dtype).most;
}
int64_t join_whole(FactorKind kind, bool no_sign, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (kind == FactorKind::sum) return static_cast<int64_t>(x + y);
  if (kind == FactorKind::prod) return static_cast<int64_t>(x * y);
  return ((no_sign ? x > y : a > b) == (kind == FactorKind::max)) ? a : b;
}

// The result's shape on this rank and, per element, its place in it.
struct Places {
  std::vector<int64_t> shape, at;
};
Places fold_places(const Op& op, const RankTensors& ranks, const Part& part, const Factors& factors,
                   const Elements& elements) {
  Places places;
  const size_t rank = part.extent.size();
  const bool all = factors.shape.empty();
  std::vector<int64_t> owner;
  std::vector<int64_t> shape(rank, 1), stride(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    const bool by = !all && factors.kind[d] != FactorKind::out && !op.attrs.by.empty();
    if (by)
      owner = owners(ranks.sizes, op.attrs.by),
      shape[d] = static_cast<int64_t>(tensors_lengths(ranks.sizes, op.attrs.by).size());
    else if (factors.kind[d] == FactorKind::out)
      shape[d] = part.extent[d];
  }
  int64_t step = 1;
  for (size_t d = rank; d-- > 0; step *= shape[d]) stride[d] = shape[d] == 1 ? 0 : step;
  places.at = elements.map([&](size_t d, int64_t i) {
    const bool by = factors.kind[d] != FactorKind::out && !owner.empty();
    return factors.kind[d] == FactorKind::out ? stride[d] * i
           : by                               ? stride[d] * owner[static_cast<size_t>(part.begin[d] + i)]
                                              : 0;
  });
  if (!all) places.shape = std::move(shape);
  return places;
}

}  // namespace

void evaluate_map(const Op& op, RankTensors& ranks) {
  const Dtype dtype = ranks.type(op.name).dtype;
  for_each_part(op, ranks, [&](const Part& part, const Factors& factors) {
    return tensor_of(Pointwise(op, ranks, part, factors).value(dtype), dtype, part.extent);
  });
}

void evaluate_fold(const Op& op, RankTensors& ranks) {
  const Dtype dtype = ranks.type(op.name).dtype;
  const FactorKind kind = fold_kind(*op.def);
  for_each_part(op, ranks, [&](const Part& part, const Factors& factors) {
    const Pointwise pointwise(op, ranks, part, factors);
    const Column value = pointwise.value(
        expr::infer_dtype(op.value, [&](const std::string& name) { return pointwise.dtype_of(name); }).value_or(dtype));
    const Places places = fold_places(op, ranks, part, factors, pointwise.elements());
    int64_t size = 1;
    for (const int64_t extent : places.shape) size *= extent;
    Column out;
    out.is_float = is_float(dtype);
    if (out.is_float)
      out.f.assign(static_cast<size_t>(size), first_real(kind, dtype));
    else
      out.i.assign(static_cast<size_t>(size), first_whole(kind, dtype));
    for (size_t k = 0; k < places.at.size(); ++k) {
      const auto at = static_cast<size_t>(places.at[k]);
      const auto element = static_cast<int64_t>(k);
      if (out.is_float)
        out.f[at] = join_real(kind, out.f[at], value.real(element));
      else
        out.i[at] = join_whole(kind, !is_signed(dtype), out.i[at],
                               value.is_float ? truncate_to(dtype, value.real(element)) : value.whole(element));
    }
    return tensor_of(out, dtype, places.shape);
  });
}

}  // namespace weft::ir
