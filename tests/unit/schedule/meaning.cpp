// What a program computes; see meaning.h.
#include "tests/unit/schedule/meaning.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft::schedule::test {
namespace {

int64_t product(const std::vector<int64_t>& shape, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= shape[i];
  return n;
}

template <typename T>
void copy_part(const std::vector<T>& whole, std::vector<T>& part, int64_t outer, int64_t length, int64_t inner,
               int64_t begin, int64_t end) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = begin * inner; i < end * inner; ++i)
      part.push_back(whole[static_cast<size_t>(o * length * inner + i)]);
}

ir::Tensor part_of(const ir::Tensor& whole, int dim, int rank, int ranks) {
  size_t d = static_cast<size_t>(dim);
  auto [begin, end] = ir::slice_of(whole.shape[d], rank, ranks);
  int64_t outer = product(whole.shape, 0, d), inner = product(whole.shape, d + 1, whole.shape.size());
  ir::Tensor part{whole.dtype, whole.shape, {}, {}};
  part.shape[d] = end - begin;
  if (is_float(whole.dtype))
    copy_part(whole.f, part.f, outer, whole.shape[d], inner, begin, end);
  else
    copy_part(whole.i, part.i, outer, whole.shape[d], inner, begin, end);
  return part;
}

template <typename T>
void paste(std::vector<T>& whole, const std::vector<T>& part, int64_t outer, int64_t length, int64_t inner,
           int64_t begin, int64_t end) {
  size_t at = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = begin * inner; i < end * inner; ++i)
      whole[static_cast<size_t>(o * length * inner + i)] = part[at++];
}

ir::Tensor joined(const std::vector<ir::Tensor>& parts, const ir::Sizes& sizes, const ir::Type& type, int dim) {
  size_t d = static_cast<size_t>(dim);
  ir::Tensor whole{type.dtype, ir::shape_of(type.shape, sizes), {}, {}};
  int64_t n = product(whole.shape, 0, whole.shape.size()), outer = product(whole.shape, 0, d);
  int64_t inner = product(whole.shape, d + 1, whole.shape.size());
  (is_float(type.dtype) ? whole.f.resize(static_cast<size_t>(n)) : void(whole.i.resize(static_cast<size_t>(n))));
  for (int r = 0; r < sizes.ranks; ++r) {
    auto [begin, end] = ir::slice_of(whole.shape[d], r, sizes.ranks);
    if (is_float(type.dtype))
      paste(whole.f, parts[static_cast<size_t>(r)].f, outer, whole.shape[d], inner, begin, end);
    else
      paste(whole.i, parts[static_cast<size_t>(r)].i, outer, whole.shape[d], inner, begin, end);
  }
  return whole;
}

// The value depends on the name, the rank and the index alone, so all schedules of a program get the same.
ir::Tensor filled(const ir::TensorDecl& decl, const World& w, int rank) {
  ir::Tensor t{decl.type.dtype, ir::shape_of(decl.type.shape, w.sizes), {}, {}};
  int64_t n = product(t.shape, 0, t.shape.size());
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = hash64(fmt::format("{} {} {}", decl.name, rank, i), w.seed);
    int64_t whole = static_cast<int64_t>(bits % 17) - 8;
    double value =
        w.integers ? static_cast<double>(whole) : static_cast<double>(bits >> 12) / static_cast<double>(1ull << 51) - 1;
    if (decl.name == "v") value = std::abs(value);  // second moments are not negative
    if (is_float(t.dtype))
      t.f.push_back(value);
    else
      t.i.push_back(whole);
  }
  return t;
}

std::vector<ir::Tensor> held(const ir::TensorDecl& decl, const World& w) {
  const bool local = std::holds_alternative<ir::Local>(decl.type.layout);
  const ir::Tensor whole = filled(decl, w, -1);
  std::vector<ir::Tensor> ranks;
  for (int r = 0; r < w.sizes.ranks; ++r) {
    if (local)
      ranks.push_back(filled(decl, w, r));
    else if (const auto* sliced = std::get_if<ir::Sliced>(&decl.type.layout))
      ranks.push_back(part_of(whole, sliced->dim, r, w.sizes.ranks));
    else if (const auto* root = std::get_if<ir::Root>(&decl.type.layout))
      ranks.push_back(std::to_string(r) == root->rank ? whole : ir::Tensor{decl.type.dtype, {}, {}, {}});
    else
      ranks.push_back(whole);
  }
  return ranks;
}

std::vector<ir::Tensor> whole_values(const std::vector<ir::Tensor>& ranks, const ir::Type& type,
                                     const ir::Sizes& sizes) {
  if (std::holds_alternative<ir::Local>(type.layout)) return ranks;
  if (const auto* sliced = std::get_if<ir::Sliced>(&type.layout)) return {joined(ranks, sizes, type, sliced->dim)};
  if (const auto* root = std::get_if<ir::Root>(&type.layout))
    return {ranks[static_cast<size_t>(std::stoi(root->rank))]};
  return {ranks[0]};
}

double difference(const ir::Tensor& a, const ir::Tensor& b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (a.dtype != b.dtype || a.shape != b.shape || a.f.size() != b.f.size() || a.i.size() != b.i.size()) return infinity;
  if (a.i != b.i) return infinity;
  double largest = 0;
  for (size_t k = 0; k < a.f.size(); ++k) {
    if (std::isnan(a.f[k]) && std::isnan(b.f[k])) continue;
    if (a.f[k] == b.f[k]) continue;
    double d = std::abs(a.f[k] - b.f[k]) / std::max(1.0, std::abs(a.f[k]));
    largest = std::isnan(d) ? infinity : std::max(largest, d);
  }
  return largest;
}

}  // namespace

World world(int ranks, int64_t n, uint64_t seed, bool integers) {
  World w;
  w.seed = seed;
  w.integers = integers;
  w.sizes.ranks = ranks;
  w.sizes.dims = {{"N", n}, {"B", 2}, {"S", 5}, {"K", 7}, {"H", 3}, {"F", 6}, {"C", 2}, {"A", 5}};
  w.sizes.tensors = {{"P", {{n / 3}, {0}, {n - n / 3}, {2, 3}}}};
  auto real = [](double x) { return expr::ScalarValue{false, 0, x}; };
  auto whole = [](int64_t x) { return expr::ScalarValue{true, x, 0}; };
  w.sizes.scalars = {{"lr", real(0.1)}, {"step", whole(3)}, {"scale", real(8)}, {"seed", whole(42)}, {"k", whole(2)}};
  return w;
}

Meaning meaning(const ir::Program& program, const World& w) {
  ir::Values inputs;
  for (const ir::TensorDecl& decl : program.tensors) inputs[decl.name] = held(decl, w);
  ir::Result result = ir::evaluate(program, w.sizes, inputs);
  ir::Types types = ir::infer(program);
  Meaning m;
  for (const ir::Out& out : program.outs)
    m["out:" + out.value] = whole_values(result.values.at(out.value), types.at(out.value), w.sizes);
  for (const ir::Update& update : program.updates)
    m["state:" + update.state] =
        whole_values(result.values.at("update:" + update.state), types.at(update.value), w.sizes);
  return m;
}

double difference(const Meaning& a, const Meaning& b) {
  double largest = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (const auto& [name, values] : a) {
    auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < values.size(); ++i) largest = std::max(largest, difference(values[i], other->second[i]));
  }
  return largest;
}

}  // namespace weft::schedule::test
