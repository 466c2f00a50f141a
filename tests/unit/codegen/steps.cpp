#include "tests/unit/codegen/steps.h"

#include <gtest/gtest.h>

#include <cstring>

namespace weft::test {

using namespace kernel;

namespace {

constexpr int64_t guard = 64;  // elements before and behind each target
constexpr char poison = 0x5d;

bool is_cell(const TargetShape& target) { return target.store == Store::accumulate; }

// Finite, of moderate size: the payload of a NaN is nobody's promise.
void fill(Dtype dtype, char* data, int64_t count, std::mt19937& random) {
  for (int64_t i = 0; i < count; i++) {
    char* at = data + i * size_bytes(dtype);
    const double number = static_cast<double>(random() % 20001) / 4000.0 - 2.5;
    if (dtype == Dtype::f64x2) {
      store_f64(Dtype::f64, at, number);
      store_f64(Dtype::f64, at + 8, -3 * number);
    } else if (is_float(dtype)) {
      store_f64(dtype, at, number);
    } else {
      store_i64(dtype, at, (static_cast<int64_t>(random()) << 32 | random()) >> (random() % 63));
    }
  }
}

}  // namespace

Kernel parse_kernel(const std::string& text) {
  const std::vector<SourceLine> lines = source_lines(text);
  Kernel kernel = parse_header(lines.at(0));
  for (size_t i = 1; i < lines.size(); i++) kernel.body.push_back(parse_assignment(lines[i]));
  return kernel;
}

SourceShape aligned(Dtype dtype) { return {dtype, Alignment::aligned}; }
SourceShape single(Dtype dtype) { return {dtype, Alignment::single}; }
std::vector<SourceShape> many(int count, Dtype dtype) {
  return std::vector<SourceShape>(static_cast<size_t>(count), aligned(dtype));
}

const char* const adam_text =
    "kernel adam(lr, step): a, m, v, w -> m1, v1, w1, w1, w1\n"
    "  a = a / ranks\n"
    "  m1 = 0.9 * m + (1 - 0.9) * a\n"
    "  v1 = 0.999 * v + (1 - 0.999) * a * a\n"
    "  u = m1 / (1 - 0.9 ^ step) / (sqrt(v1 / (1 - 0.999 ^ step)) + 1e-08)\n"
    "  w1 = w - lr * u";

StepShape adam_shape(Store parameters) {
  StepShape shape;
  shape.reduced = many(2, Dtype::f32);
  shape.others = many(3, Dtype::f32);
  shape.kernel = parse_kernel(adam_text);
  shape.targets = {
      {Dtype::f32, 0}, {Dtype::f32, 1}, {Dtype::f32, 2}, {Dtype::f32, 3, parameters}, {Dtype::f32, 4, parameters}};
  return shape;
}

std::vector<std::vector<char>> run_step(const StepShape& shape, const StepCode& code, int64_t count, int64_t offset,
                                        uint32_t seed, bool in_place) {
  std::mt19937 random(seed);
  std::vector<SourceShape> shapes = shape.reduced;
  shapes.insert(shapes.end(), shape.others.begin(), shape.others.end());
  std::vector<std::vector<char>> sources, targets;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0; i < shapes.size(); i++) {
    const int64_t bytes = size_bytes(shapes[i].dtype), shift = offset * static_cast<int64_t>(i + 1) % 17;
    sources.emplace_back(static_cast<size_t>((count + 2 * guard + 17) * bytes), poison);
    fill(shapes[i].dtype, sources[i].data() + (guard + shift) * bytes,
         shapes[i].alignment == Alignment::single ? 1 : count, random);
  }
  for (size_t i = 0; i < shapes.size(); i++)
    from.push_back(sources[i].data() +
                   (guard + offset * static_cast<int64_t>(i + 1) % 17) * size_bytes(shapes[i].dtype));
  std::vector<bool> taken(shapes.size());
  for (size_t t = 0; t < shape.targets.size(); t++) {
    const TargetShape& target = shape.targets[t];
    const int64_t bytes = size_bytes(target.dtype), shift = offset * static_cast<int64_t>(t + 3) % 17;
    targets.emplace_back(static_cast<size_t>((count + 2 * guard + 17) * bytes), poison);
    char* at = targets[t].data() + (guard + shift) * bytes;
    if (is_cell(target)) fill(target.dtype, at, 1, random);
    for (size_t i = 0; in_place && !is_cell(target) && i < shapes.size(); i++)
      if (!taken[i] && shapes[i].dtype == target.dtype && shapes[i].alignment == Alignment::aligned && at != nullptr) {
        std::memcpy(at, from[i], static_cast<size_t>(count * bytes));
        from[i] = at;
        taken[i] = true;
        break;
      }
    to.push_back(at);
  }
  std::vector<expr::ScalarValue> scalars;
  for (size_t i = 0; i < shape.kernel.scalars.size(); i++)
    scalars.push_back({i % 2 == 1, static_cast<int64_t>(7 + i), 0.0625 * static_cast<double>(i + 1)});
  alignas(64) char hoisted[1024];
  EXPECT_LE(code.hoisted_bytes, 1024);
  if (code.prepare) code.prepare(scalars.data(), 3, hoisted, code.self);
  const StepArgs args{from.data(), to.data(), count, 1000 + offset, hoisted};
  code.run(&args, code.self);
  return targets;
}

bool guards_whole(const StepShape& shape, const std::vector<std::vector<char>>& targets, int64_t count,
                  int64_t offset) {
  for (size_t t = 0; t < shape.targets.size(); t++) {
    const int64_t bytes = size_bytes(shape.targets[t].dtype), shift = offset * static_cast<int64_t>(t + 3) % 17;
    const int64_t begin = (guard + shift) * bytes, end = begin + (is_cell(shape.targets[t]) ? 1 : count) * bytes;
    for (int64_t i = 0; i < static_cast<int64_t>(targets[t].size()); i++)
      if ((i < begin || i >= end) && targets[t][i] != poison) return false;
  }
  return true;
}

}  // namespace weft::test
