// Two implementations of pointwise mathematics, written apart: the reference evaluator and the code of expr that kernels
// run. Random expressions in every kind of dtype; integers exactly, floats to what one rounding per node explains.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/unit/ir/support.h"
#include "weft/expr/body.h"

namespace weft::ir {
namespace {

class Writer {
 public:
  Writer(unsigned seed, bool floats) : random_(seed), floats_(floats) {}

  std::string number(int depth) {
    if (depth == 0)
      return pick(floats_ ? std::vector<std::string>{"a", "b", "a", "b", "2", "0.5", "s", "k"}
                          : std::vector<std::string>{"a", "b", "a", "b", "2", "k", "3"});
    const std::string x = number(depth - 1), y = number(depth - 1);
    switch (random_() % 11) {
      case 0: return "(" + x + " + " + y + ")";
      case 1: return "(" + x + " - " + y + ")";
      case 2: return "(" + x + " * " + y + ")";
      case 3: return floats_ ? "(" + x + " / (1.5 + abs(" + y + ")))" : "(" + x + " / " + y + ")";
      case 4: return floats_ ? "tanh(" + x + ")" : "(" + x + " % " + y + ")";
      case 5: return "max(" + x + ", " + y + ")";
      case 6: return "min(" + x + ", " + y + ")";
      case 7: return "select(" + truth() + ", " + x + ", " + y + ")";
      case 8: return "abs(" + x + ")";
      case 9: return "-(a + " + x + ")";
      default: return "relu(" + x + ")";
    }
  }

 private:
  // Of operands alone, so that a rounding cannot change the branch.
  std::string truth() { return pick({"a < b", "a >= b and b != 2", "not a == b", "b > 2 or a > b"}); }
  std::string pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }

  std::mt19937 random_;
  bool floats_;
};

double tolerance(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return 1e-10;
    case Dtype::f32: return 1e-3;
    default: return 3e-2;
  }
}

void compare(const std::string& expression, Dtype dtype, unsigned seed) {
  constexpr int64_t count = 37;
  std::mt19937 random(seed);
  const auto value = [&](int64_t) {
    return is_float(dtype) ? static_cast<double>(static_cast<int>(random() % 65) - 32) / 8 : 0.0;
  };
  const auto whole_value = [&](int64_t) {
    unsigned char memory[8];
    store_i64(dtype, memory, static_cast<int64_t>(random() % 300) - 150);
    return load_i64(dtype, memory);
  };
  const auto make = [&] {
    return is_float(dtype) ? reals({count}, value, dtype) : integers({count}, whole_value, dtype);
  };
  const Tensor a = make(), b = make();
  const std::string dtype_name(name(dtype));
  const std::string text = "program 1 t\nscalar k i64\nscalar s f64\nin a " + dtype_name + "[37] replicated\nin b " +
                           dtype_name + "[37] replicated\ny = (" + expression + ") + a - a\nout y\n";
  const Program program = parse(text);
  Sizes sizes = launch(1);
  sizes.scalars = {{"k", whole(5)}, {"s", real(0.75)}};
  const Tensor expected = evaluate(program, sizes, {{"a", {a}}, {"b", {b}}}, {true}).values.at("y")[0];

  expr::Body body;
  body.inputs = {{"a", dtype}, {"b", dtype}};
  body.scalars = {{"k", Dtype::i64}, {"s", Dtype::f64}};
  body.assignments = {{"y", program.ops[0].value, dtype}};
  body.outputs = {"y"};
  const auto bytes = [&](const Tensor& t) {
    std::vector<unsigned char> out(static_cast<size_t>(count * size_bytes(dtype)));
    for (int64_t i = 0; i < count; ++i) {
      unsigned char* at = out.data() + i * size_bytes(dtype);
      if (is_float(dtype))
        store_f64(dtype, at, t.f[static_cast<size_t>(i)]);
      else
        store_i64(dtype, at, t.i[static_cast<size_t>(i)]);
    }
    return out;
  };
  const std::vector<unsigned char> in_a = bytes(a), in_b = bytes(b);
  std::vector<unsigned char> out(in_a.size());
  const expr::ScalarValue scalars[] = {whole(5), real(0.75)};
  const void* inputs[] = {in_a.data(), in_b.data()};
  void* outputs[] = {out.data()};
  const bool broadcast[] = {false, false};
  expr::BodyCode(body).run(scalars, inputs, broadcast, outputs, count, 0);
  for (int64_t i = 0; i < count; ++i) {
    const unsigned char* at = out.data() + i * size_bytes(dtype);
    if (!is_float(dtype)) {
      ASSERT_EQ(load_i64(dtype, at), expected.i[static_cast<size_t>(i)]) << text << "element " << i;
      continue;
    }
    const double x = load_f64(dtype, at), y = expected.f[static_cast<size_t>(i)];
    if (!std::isfinite(x) || !std::isfinite(y)) continue;  // overflow of the narrow dtype
    ASSERT_NEAR(x, y, tolerance(dtype) * (32 + std::fabs(y))) << text << "element " << i;
  }
}

class Agree : public testing::TestWithParam<Dtype> {};
TEST_P(Agree, RandomExpressions) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    Writer writer(seed, is_float(GetParam()));
    compare(writer.number(static_cast<int>(1 + seed % 4)), GetParam(), seed);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Dtypes, Agree,
                         testing::Values(Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64, Dtype::i32,
                                         Dtype::i16, Dtype::i8, Dtype::u64, Dtype::u32, Dtype::u16, Dtype::u8),
                         [](const testing::TestParamInfo<Dtype>& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weft::ir
