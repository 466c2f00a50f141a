// Types of kernels by rules D1, D2, D4, D5; work per element.
#include <gtest/gtest.h>

#include "weft/kernel/step.h"

using namespace weft;
using namespace weft::kernel;

namespace {

Kernel parse_kernel(const std::string& text) {
  const std::vector<SourceLine> lines = source_lines(text);
  Kernel kernel = parse_header(lines.at(0));
  for (size_t i = 1; i < lines.size(); i++) kernel.body.push_back(parse_assignment(lines[i]));
  return kernel;
}

std::vector<Dtype> outputs(const std::string& text, std::vector<Dtype> inputs) {
  const Kernel kernel = parse_kernel(text);
  return type(kernel, inputs).outputs;
}

std::string refusal(const std::string& text, std::vector<Dtype> inputs) {
  try {
    outputs(text, std::move(inputs));
    return "accepted";
  } catch (const Error& error) { return error.rule() + " " + error.what(); }
}

constexpr Dtype f64 = Dtype::f64, f32 = Dtype::f32, f16 = Dtype::f16, i64 = Dtype::i64, i8 = Dtype::i8, u8 = Dtype::u8,
                boolean = Dtype::boolean;
using Dtypes = std::vector<Dtype>;

}  // namespace

TEST(Type, OneKernelServesManyDtypes) {
  const std::string text = "kernel k(lr): a, w -> w1\n  w1 = w - lr * a / ranks";
  for (const Dtype d : {f64, f32, f16, Dtype::bf16, Dtype::f8e5m2}) EXPECT_EQ(outputs(text, {d, d}), (Dtypes{d}));
}

TEST(Type, D1DifferentDtypesNeedACast) {
  EXPECT_NE(refusal("kernel k: a, w -> y\n  y = a + w", {f16, f32}).find("D1"), std::string::npos);
  EXPECT_EQ(outputs("kernel k: a, w -> y\n  y = f32(a) + w", {f16, f32}), (Dtypes{f32}));
  EXPECT_NE(refusal("kernel mm(rows, cols): x, w -> y\n  y = matmul(x, w)", {f16, f32}).find("D1"), std::string::npos);
}

TEST(Type, D2ScalarsAreWeak) {
  EXPECT_EQ(outputs("kernel k(lr): a -> y, c\n  c = 1 - lr\n  y = c * a", {f16}), (Dtypes{f16, f64}));
  EXPECT_EQ(outputs("kernel k(lr): a -> y\n  a = 1 - lr\n  y = a * 2", {f16}), (Dtypes{f64}));
}

TEST(Type, D4FoldsOfNarrowTypesWiden) {
  EXPECT_EQ(outputs("kernel k: a -> q, p\n  q = sum(a * a)\n  p = amax(a)", {f16}), (Dtypes{f32, f16}));
  EXPECT_EQ(outputs("kernel k: a -> q, p\n  q = sum(a)\n  p = amin(a)", {i8}), (Dtypes{i64, i8}));
  EXPECT_EQ(outputs("kernel k: a -> q\n  q = prod(a)", {u8}), (Dtypes{Dtype::u64}));
  EXPECT_EQ(outputs("kernel k: a -> q\n  q = sum(a)", {f64}), (Dtypes{f64}));
  EXPECT_EQ(outputs("kernel k: a -> q\n  q = sum(a > 0)", {f32}), (Dtypes{i64}));
  EXPECT_EQ(accumulator_dtype(Reduction::sum, f16), f64);
  EXPECT_EQ(accumulator_dtype(Reduction::prod, Dtype::u16), Dtype::u64);
  EXPECT_EQ(accumulator_dtype(Reduction::max, f16), f16);
  EXPECT_EQ(accumulator_dtype(Reduction::sum, boolean), i64);
  EXPECT_EQ(accumulator_dtype(Reduction::min, boolean), boolean);
}

TEST(Type, FoldsAndPositionsAreMarked) {
  const Kernel kernel =
      parse_kernel("kernel k(seed): a -> y, q\n  y = select(rand(seed, 3) < 0.5, a, 0)\n  q = amax(y)");
  const Dtypes inputs{f32};
  const Typed typed = type(kernel, inputs);
  EXPECT_EQ(typed.fold_of_output, (std::vector<int>{-1, 1}));
  EXPECT_EQ(typed.fold_reduction[1], Reduction::max);
  EXPECT_TRUE(typed.body.needs_positions);
  EXPECT_EQ(typed.scalars, (Dtypes{i64}));  // a seed keeps its 64 bits
  EXPECT_EQ(typed.body.scalars.back().name, "ranks");
}

TEST(Type, V1ArityAndPairs) {
  EXPECT_NE(refusal("kernel k: a, b -> y\n  y = a + b", {f32}).find("V1"), std::string::npos);
  EXPECT_NE(refusal("kernel k: a -> y\n  y = a", {Dtype::f64x2}).find("two f64 buffers"), std::string::npos);
}

TEST(Type, WorkCountsBytesAndOperations) {
  const Kernel adam = parse_kernel("kernel k(lr): a, w -> w1, w1\n  w1 = w - lr * a");
  const Dtypes two{f32, f32};
  const Work w = work(type(adam, two));
  EXPECT_EQ(w.bytes_read, 8);
  EXPECT_EQ(w.bytes_written, 8);
  EXPECT_EQ(w.flops, 2);
  const Kernel squares = parse_kernel("kernel k: a -> q\n  q = sum(a * a)");
  const Dtypes one{f16};
  const Work s = work(type(squares, one));
  EXPECT_EQ(s.bytes_read, 2);
  EXPECT_EQ(s.bytes_written, 0);
  EXPECT_EQ(s.flops, 2);
}

namespace {

StepShape good() {
  StepShape s;
  s.reduced = {{f32}, {f32}};
  s.others = {{f32}};
  s.kernel = parse_kernel("kernel k: a, m -> y, q\n  y = a + m\n  q = sum(y)");
  s.targets = {{f32, 0}, {f64, 1, Store::accumulate}};
  return s;
}

void expect_refused(const StepShape& shape, const std::string& part) {
  try {
    type_step(shape);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty());
  }
}

}  // namespace

TEST(StepShape, KeysTellShapesApart) {
  const StepShape a = good();
  EXPECT_EQ(a.key(), good().key());
  std::vector<StepShape> others(9, a);
  others[0].reduced.pop_back();
  others[1].reduced[0].alignment = Alignment::single;
  others[2].reduced_dtype = f16;
  others[3].targets[0].store = Store::stream;
  others[4].targets[0].dtype = f16;
  others[5].kernel.body[0].value = parse_kernel("kernel k: a -> y\n  y = a - m").body[0].value;
  others[6].reduction = Reduction::max;
  others[7].others[0].dtype = f64;
  others[8].targets[0].through = f16;
  for (const StepShape& other : others) EXPECT_NE(other.key(), a.key());
}

TEST(StepShape, V1WhatIsNoStep) {
  EXPECT_NO_THROW(type_step(good()));
  StepShape s = good();
  s.targets.clear();
  expect_refused(s, "no targets");
  s = good();
  s.targets[0].output = 2;
  expect_refused(s, "output 2 of 2");
  s = good();
  s.targets[1].store = Store::normal;
  expect_refused(s, "+q[p]");
  s = good();
  s.targets[0].store = Store::accumulate;
  expect_refused(s, "no fold");
  s = good();
  s.targets[1].through = f16;
  expect_refused(s, "rounds on the way");
  s = good();
  s.others[0].alignment = Alignment::whole;
  expect_refused(s, "read whole");
  s = good();
  s.others.clear();
  expect_refused(s, "takes 2 values and gets 1");
  s = good();
  s.kernel = {};
  s.targets = {{f32}};
  expect_refused(s, "2 values and no kernel");
  s.others.clear();
  EXPECT_NO_THROW(type_step(s));
  s.reduction = Reduction::bit_or;
  expect_refused(s, "bits");
  s.reduction = Reduction::sum;
  s.targets = {{Dtype::f64x2}};
  expect_refused(s, "pairs");
}

TEST(StepShape, V1TilesReadWholeOperands) {
  StepShape s;
  s.others = {{f32, Alignment::whole}, {f32, Alignment::whole}};
  s.kernel = parse_kernel("kernel mm(rows, cols): x, w -> y\n  y = matmul(x, w)");
  s.targets = {{f32}};
  EXPECT_NO_THROW(type_step(s));
  s.targets[0].store = Store::accumulate;
  expect_refused(s, "accumulates");
  s.targets[0].store = Store::normal;
  s.others[0].alignment = Alignment::aligned;
  expect_refused(s, "whole");
}
