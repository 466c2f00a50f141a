// Bodies: typing rules, the vectorised evaluator against an oracle that rounds after every operation, edges of blocks.
#include "weft/expr/body.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "weft/expr/philox.h"

using namespace weft;
using namespace weft::expr;

namespace {

Expr e(const std::string& text) { return parse(text, Syntax::program); }

std::optional<Dtype> dtype(const std::string& text) {
  static const std::map<std::string, Dtype> types = {{"x", Dtype::f32}, {"y", Dtype::f32}, {"h", Dtype::f16},
                                                     {"i", Dtype::i32}, {"c", Dtype::u8},  {"b", Dtype::boolean}};
  return infer_dtype(e(text), [&](const std::string& n) {
    const auto it = types.find(n);
    return it == types.end() ? std::nullopt : std::optional(it->second);
  });
}

std::string rule(const std::string& text) {
  try {
    dtype(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.rule();
  }
  return "none";
}

// One input x, one output y = text.
Body body_of(const std::string& text, Dtype in, Dtype out) {
  Body b;
  b.inputs = {{"x", in}};
  b.scalars = {{"s", Dtype::f64}, {"k", Dtype::i64}};
  b.assignments = {{"y", e(text), out}};
  b.outputs = {"y"};
  return b;
}

double run_one(const std::string& text, Dtype in, double x, Dtype out, double s = 0, int64_t k = 0,
               int64_t position = 0) {
  alignas(16) unsigned char from[16], to[16];
  store_f64(in, from, x);
  const ScalarValue scalars[] = {{false, 0, s}, {true, k, 0}};
  const void* inputs[] = {from};
  void* outputs[] = {to};
  BodyCode(body_of(text, in, out)).run(scalars, inputs, nullptr, outputs, 1, position);
  return load_f64(out, to);
}

}  // namespace

TEST(Infer, D1AndD2Accept) {
  EXPECT_EQ(dtype("x * y + 1"), Dtype::f32);
  EXPECT_EQ(dtype("lr * h"), Dtype::f16);
  EXPECT_EQ(dtype("f32(h) + x"), Dtype::f32);
  EXPECT_EQ(dtype("x > y"), Dtype::boolean);
  EXPECT_EQ(dtype("not b and x > 0"), Dtype::boolean);
  EXPECT_EQ(dtype("select(x > 0 and b, h, 0)"), Dtype::f16);
  EXPECT_EQ(dtype("i / 2 % 3 + abs(i)"), Dtype::i32);
  EXPECT_EQ(dtype("1 - b1 ^ step"), std::nullopt);
  EXPECT_EQ(dtype("lr > 0"), std::nullopt);
  EXPECT_EQ(dtype("rand(seed, 1)"), std::nullopt);
  EXPECT_EQ(dtype("rand(seed, 1) < 0.1"), Dtype::boolean);
  EXPECT_EQ(dtype("select(rand(seed, 1) < 0.1, 0, x / (1 - 0.1))"), Dtype::f32);
  EXPECT_EQ(dtype("index(0) + i"), Dtype::i32);
  EXPECT_EQ(dtype("f16(lr)"), Dtype::f16);
  EXPECT_EQ(dtype("select(lr > 0, i, 3.0)"), Dtype::i32);
}

TEST(Infer, Refuses) {
  for (const char* text : {"x + h", "x + f16(x)", "f16(lr) * x", "b + b", "-b", "x * (x > 0)", "not x", "x and b",
                           "select(x, y, y)", "select(b, x, h)", "sqrt(i)", "exp(c)", "min(b, b)", "x > h", "x == i"})
    EXPECT_EQ(rule(text), "D1") << text;
  for (const char* text : {"i * 0.5", "c + 300", "c - -1", "rand(seed, 1) * i", "rand(x, 1)", "index(i)"})
    EXPECT_EQ(rule(text), "D2") << text;
  for (const char* text : {"sum(x)", "foo(x)", "x % y", "f64x2(x)"}) EXPECT_EQ(rule(text), "F4") << text;
  for (const char* text : {"sqrt(x, y)", "min(x)", "rand(1)", "f16(x, y)", "select(b, x)", "pow(x)"})
    EXPECT_EQ(rule(text), "F5") << text;
  try {
    dtype("x + h");
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "f32 and f16 meet: x and h");
    EXPECT_EQ(error.remedy(), "cast one: f32(...) or f16(...)");
  }
}

TEST(BodyCode, RefusesWhatIsNotTyped) {
  EXPECT_THROW(BodyCode(body_of("x + q", Dtype::f32, Dtype::f32)), Error);         // F3
  EXPECT_THROW(BodyCode(body_of("f16(x)", Dtype::f32, Dtype::f32)), Error);        // D1
  EXPECT_THROW(BodyCode(body_of("x + index(1)", Dtype::f32, Dtype::f32)), Error);  // unsupported
}

TEST(BodyCode, ScalarsAreComputedWideAndRoundedOnce) {
  const float x = 1.7f;
  EXPECT_EQ(run_one("(1 - s) * x", Dtype::f32, x, Dtype::f32, 0.9), static_cast<float>(1 - 0.9) * x);
  EXPECT_NE(static_cast<float>(1 - 0.9), 1 - 0.9f);
  EXPECT_EQ(run_one("x / (1 - s ^ k)", Dtype::f32, x, Dtype::f32, 0.999, 3),
            x / static_cast<float>(1 - std::pow(0.999, 3)));
  EXPECT_EQ(run_one("x * 16777217", Dtype::f64, 1, Dtype::f64), 16777217.0);
  EXPECT_EQ(run_one("x + k", Dtype::i64, 1, Dtype::i64, 0, int64_t{1} << 40), std::ldexp(1, 40) + 1);
}

TEST(BodyCode, NamedNarrowValuesAreRoundedAndInnerOnesAreNot) {
  const double big = 60000;  // f16: 60000 + 60000 overflows, f32 does not
  EXPECT_EQ(run_one("(x + x) / 2", Dtype::f16, big, Dtype::f16), big);
  EXPECT_EQ(run_one("f16(x + x) / 2", Dtype::f16, big, Dtype::f16), INFINITY);
  Body b = body_of("x + x", Dtype::f16, Dtype::f16);
  b.assignments.push_back({"z", e("y / 2"), Dtype::f16});
  b.outputs = {"z"};
  uint16_t in = 0, out = 0;
  store_f64(Dtype::f16, &in, big);
  const ScalarValue scalars[2] = {};
  const void* inputs[] = {&in};
  void* outputs[] = {&out};
  BodyCode(b).run(scalars, inputs, nullptr, outputs, 1, 0);
  EXPECT_EQ(load_f64(Dtype::f16, &out), INFINITY);
  EXPECT_EQ(run_one("f16(x)", Dtype::f64, 1 + 0x1p-11 + 0x1p-40, Dtype::f16), 1 + 0x1p-10);  // one rounding from f64
}

TEST(BodyCode, IntegersFloorWrapAndNeverTrap) {
  EXPECT_EQ(run_one("x / 2", Dtype::i32, -7, Dtype::i32), -4);
  EXPECT_EQ(run_one("x % 2", Dtype::i32, -7, Dtype::i32), 1);
  EXPECT_EQ(run_one("x / 0", Dtype::i8, 7, Dtype::i8), 0);
  EXPECT_EQ(run_one("x / -1", Dtype::i8, -128, Dtype::i8), -128);
  EXPECT_EQ(run_one("x + 1", Dtype::u8, 255, Dtype::u8), 0);
  EXPECT_EQ(run_one("x * x", Dtype::i16, 300, Dtype::i16), static_cast<int16_t>(90000));
  EXPECT_EQ(run_one("x ^ 2", Dtype::i16, 300, Dtype::i16), static_cast<int16_t>(90000));
  EXPECT_EQ(run_one("x ^ 3", Dtype::i64, -5, Dtype::i64), -125);
  EXPECT_EQ(run_one("i8(x)", Dtype::f32, 300.7, Dtype::i8), 44);
  EXPECT_EQ(run_one("i32(x)", Dtype::f64, NAN, Dtype::i32), 0);
  EXPECT_EQ(run_one("bool(x)", Dtype::f32, NAN, Dtype::boolean), 1);
  EXPECT_EQ(run_one("select(not (x > 3), 1, 0)", Dtype::i32, 3, Dtype::i32), 1);
}

TEST(BodyCode, RandomNumbersDependOnPositionOnly) {
  for (int64_t at : {int64_t{0}, int64_t{7}, int64_t{1} << 40}) {
    const float u = uniform(9, 4, static_cast<uint64_t>(at));
    EXPECT_EQ(run_one("rand(k, 4) * x", Dtype::f32, 1, Dtype::f32, 0, 9, at), u);
    EXPECT_EQ(run_one("select(rand(k, 4) < s, 1, 0) + 0 * x", Dtype::f64, 1, Dtype::f64, u, 9, at), 0);
    EXPECT_EQ(run_one("select(rand(k, 4) <= s, 1, 0) + 0 * x", Dtype::f64, 1, Dtype::f64, u, 9, at), 1);
    EXPECT_EQ(run_one("index() + x", Dtype::f64, 1, Dtype::f64, 0, 0, at), static_cast<double>(at + 1));
    EXPECT_EQ(run_one("index(0) + x", Dtype::f64, 1, Dtype::f64, 0, 0, at), static_cast<double>(at + 1));
    EXPECT_EQ(run_one("index(4, 3) + x", Dtype::i64, 0, Dtype::i64, 0, 0, at), static_cast<double>(at / 4 % 3));
  }
}

// A bound between two f32: the comparison of a mask is exact, as in the reference evaluator.
TEST(BodyCode, MaskBoundsAreNotRounded) {
  for (uint64_t at = 0; at < 2000; ++at) {
    const double u = uniform(3, 1, at);
    for (double bound : {u + 1e-12, u - 1e-12})
      ASSERT_EQ(run_one("select(rand(k, 1) < s, 1, 0) + 0 * x", Dtype::f32, 1, Dtype::f32, bound, 3,
                        static_cast<int64_t>(at)),
                u < bound ? 1 : 0);
  }
}

// ---- Adam, element by element in plain C++, at every count around the block's borders, in place, with canaries.

namespace {

Body adam() {
  Body b;
  for (const char* n : {"a", "m", "v", "w"}) b.inputs.push_back({n, Dtype::f32});
  b.scalars = {{"lr", Dtype::f64}, {"step", Dtype::i64}, {"ranks", Dtype::i64}};
  b.assignments = {{"a", e("a / ranks"), Dtype::f32},
                   {"m1", e("0.9 * m + (1 - 0.9) * a"), Dtype::f32},
                   {"v1", e("0.999 * v + (1 - 0.999) * a * a"), Dtype::f32},
                   {"u", e("m1 / (1 - 0.9 ^ step) / (sqrt(v1 / (1 - 0.999 ^ step)) + 1e-08)"), Dtype::f32},
                   {"w1", e("w - lr * u"), Dtype::f32},
                   {"p", e("f16(w1)"), Dtype::f16}};
  b.outputs = {"m1", "v1", "w1", "w1", "p"};
  return b;
}

struct AdamState {
  float m, v, w;
};
AdamState adam_by_hand(float a, AdamState s, double lr, int step, int ranks) {
  a = a / static_cast<float>(ranks);
  const float m1 = 0.9f * s.m + static_cast<float>(1 - 0.9) * a;
  const float v1 = 0.999f * s.v + static_cast<float>(1 - 0.999) * a * a;
  const float c1 = static_cast<float>(1 - std::pow(0.9, step)), c2 = static_cast<float>(1 - std::pow(0.999, step));
  const float u = m1 / c1 / (std::sqrt(v1 / c2) + 1e-08f);
  return {m1, v1, s.w - static_cast<float>(lr) * u};
}

}  // namespace

TEST(BodyCode, AdamInPlaceAtEveryCount) {
  const BodyCode code(adam());
  constexpr int64_t pad = 16;
  for (int64_t count :
       {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 129, 130, 511, 512, 513, 1023, 1024, 1025, 1537}) {
    std::vector<float> g, m, v, w, copy;
    std::mt19937 random(static_cast<uint32_t>(count));
    for (int64_t i = 0; i < count + 2 * pad; ++i) {
      g.push_back(static_cast<float>(random()) * 0x1p-31f - 1);
      m.push_back(g.back() * 0.5f), v.push_back(g.back() * g.back()), w.push_back(static_cast<float>(i));
    }
    std::vector<AdamState> before;
    for (int64_t i = 0; i < count + 2 * pad; ++i)
      before.push_back({m[static_cast<size_t>(i)], v[static_cast<size_t>(i)], w[static_cast<size_t>(i)]});
    copy.assign(static_cast<size_t>(count + 2 * pad), -7);
    std::vector<uint16_t> half(static_cast<size_t>(count + 2 * pad), 0xdead);
    const ScalarValue scalars[] = {{false, 0, 0.01}, {true, 3, 0}, {true, 4, 0}};
    const void* inputs[] = {g.data() + pad, m.data() + pad, v.data() + pad, w.data() + pad};
    void* outputs[] = {m.data() + pad, v.data() + pad, w.data() + pad, copy.data() + pad, half.data() + pad};
    code.run(scalars, inputs, nullptr, outputs, count, 0);
    for (int64_t i = 0; i < count + 2 * pad; ++i) {
      const auto k = static_cast<size_t>(i);
      const bool inside = i >= pad && i < pad + count;
      const AdamState want = inside ? adam_by_hand(g[k], before[k], 0.01, 3, 4) : before[k];
      ASSERT_EQ(m[k], want.m) << count << " " << i;
      ASSERT_EQ(v[k], want.v) << count << " " << i;
      ASSERT_EQ(w[k], want.w) << count << " " << i;
      ASSERT_EQ(copy[k], inside ? want.w : -7) << count << " " << i;
      ASSERT_EQ(half[k], inside ? f32_to_f16(want.w) : 0xdead) << count << " " << i;
    }
  }
}

TEST(BodyCode, BroadcastInputsAndSeveralCodesInTurn) {
  Body b;
  b.inputs = {{"x", Dtype::f32}, {"h", Dtype::bf16}, {"q", Dtype::f32}};
  b.assignments = {{"y", e("x * q + f32(h)"), Dtype::f32}, {"z", e("h"), Dtype::bf16}};
  b.outputs = {"y", "z", "x"};
  const BodyCode code(b), other(adam());
  for (int64_t count : {1, 5, 512, 700}) {
    for (int mask = 0; mask < 8; ++mask) {
      const bool broadcast[] = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      std::vector<float> x, q, y(static_cast<size_t>(count)), again(static_cast<size_t>(count));
      std::vector<uint16_t> h, z(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i)
        x.push_back(static_cast<float>(i) + 0.25f), q.push_back(static_cast<float>(3 * i)),
            h.push_back(f32_to_bf16(static_cast<float>(i)));
      const void* inputs[] = {x.data(), h.data(), q.data()};
      void* outputs[] = {y.data(), z.data(), again.data()};
      code.run({}, inputs, broadcast, outputs, count, 0);
      for (int64_t i = 0; i < count; ++i) {
        const auto k = static_cast<size_t>(i);
        const size_t kx = mask & 1 ? 0 : k, kh = mask & 2 ? 0 : k, kq = mask & 4 ? 0 : k;
        ASSERT_EQ(y[k], x[kx] * q[kq] + bf16_to_f32(h[kh])) << count << " " << mask << " " << i;
        ASSERT_EQ(z[k], h[kh]);
        ASSERT_EQ(again[k], x[kx]);
      }
      float one[4] = {1, 1, 1, 1}, out[5];
      const void* adam_inputs[] = {one, one, one, one};
      void* adam_outputs[] = {out, out + 1, out + 2, out + 3, out + 4};
      const ScalarValue scalars[] = {{false, 0, 0.01}, {true, 1, 0}, {true, 1, 0}};
      other.run(scalars, adam_inputs, nullptr, adam_outputs, 1, 0);  // overwrites this thread's registers
    }
  }
}

// ---- random expressions against an oracle

namespace {

bool is_tree_scalar(const Expr& x) {
  for (const std::string& n : names(x))
    if (n == "x" || n == "y" || n == "z") return false;
  return true;
}

// Rounds after every operation: f32 by way of f64 (which is exact enough for + - * / to round once), integers by 128 bits.
struct Oracle {
  Dtype dtype;                            // of the tensors
  std::map<std::string, double> tensors;  // floats
  std::map<std::string, int64_t> integers;
  ScalarValue s, k;

  ScalarValue scalar(const Expr& x) const {
    return evaluate_scalar(x, [&](const std::string& n) { return n == "s" ? s : k; });
  }

  double real(const Expr& x) const {
    const auto round = [&](double v) {
      return compute_dtype(dtype) == Dtype::f32 ? static_cast<double>(static_cast<float>(v)) : v;
    };
    if (is_tree_scalar(x)) return round(scalar(x).as_f64());
    if (x->op == Op::name) return tensors.at(x->name);
    if (x->op == Op::neg) return -real(x->args[0]);
    if (x->op == Op::call && x->name == "select") return condition(x->args[0]) ? real(x->args[1]) : real(x->args[2]);
    if (x->op == Op::call && parse_dtype(x->name)) {
      unsigned char memory[8];
      store_f64(dtype, memory, real(x->args[0]));
      return load_f64(dtype, memory);
    }
    const double a = real(x->args[0]), b = x->args.size() > 1 ? real(x->args[1]) : 0;
    switch (x->op) {
      case Op::add: return round(a + b);
      case Op::sub: return round(a - b);
      case Op::mul: return round(a * b);
      case Op::div: return round(a / b);
      default: break;
    }
    if (x->name == "abs") return std::fabs(a);
    if (x->name == "sqrt") return round(std::sqrt(a));
    if (std::isnan(a) || std::isnan(b)) return NAN;
    return x->name == "min" ? (a < b ? a : b) : (a > b ? a : b);
  }

  int64_t wrap(__int128 v) const {
    unsigned char memory[8];
    store_i64(dtype, memory, static_cast<int64_t>(v));
    return load_i64(dtype, memory);
  }
  __int128 wide(int64_t v) const { return dtype == Dtype::u64 ? static_cast<__int128>(static_cast<uint64_t>(v)) : v; }

  int64_t whole(const Expr& x) const {
    if (is_tree_scalar(x)) {
      const ScalarValue v = scalar(x);
      return wrap(v.is_integer ? v.integer : static_cast<int64_t>(v.number));
    }
    if (x->op == Op::name) return integers.at(x->name);
    if (x->op == Op::call && x->name == "select") return condition(x->args[0]) ? whole(x->args[1]) : whole(x->args[2]);
    if (x->op == Op::call && parse_dtype(x->name)) return whole(x->args[0]);
    const __int128 a = wide(whole(x->args[0])), b = x->args.size() > 1 ? wide(whole(x->args[1])) : 0;
    const __int128 m = b == 0 ? a : a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
    switch (x->op) {
      case Op::neg: return wrap(-a);
      case Op::add: return wrap(a + b);
      case Op::sub: return wrap(a - b);
      case Op::mul:
        return wrap(static_cast<__int128>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)));
      case Op::div: return b == 0 ? 0 : wrap((a - m) / b);
      case Op::mod: return wrap(m);
      default: break;
    }
    if (x->name == "abs") return wrap(a < 0 ? -a : a);
    return static_cast<int64_t>(x->name == "min" ? (a < b ? a : b) : (a > b ? a : b));
  }

  bool condition(const Expr& x) const {
    if (x->op == Op::and_) return condition(x->args[0]) && condition(x->args[1]);
    if (x->op == Op::or_) return condition(x->args[0]) || condition(x->args[1]);
    if (x->op == Op::not_) return !condition(x->args[0]);
    if (is_float(dtype)) return compare(x->op, real(x->args[0]), real(x->args[1]));
    return compare(x->op, wide(whole(x->args[0])), wide(whole(x->args[1])));
  }
  static bool compare(Op op, auto a, auto b) {
    return op == Op::lt   ? a < b
           : op == Op::gt ? a > b
           : op == Op::le ? a <= b
           : op == Op::ge ? a >= b
           : op == Op::eq ? a == b
                          : a != b;
  }
};

struct Maker {
  std::mt19937 random;
  Dtype dtype;
  int pick(int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); }

  Expr tensor() { return name(std::string(1, "xyz"[pick(3)])); }
  Expr leaf() {
    switch (pick(6)) {
      case 0: return integer(pick(5) + 1);
      case 1: return is_float(dtype) ? number(pick(100) / 8.0) : integer(pick(100));
      case 2: return is_float(dtype) ? e("1 - s") : e("k + 1");
      default: return tensor();
    }
  }
  Expr tree(int depth) {
    if (depth == 0) return leaf();
    switch (pick(9)) {
      case 0: return unary(Op::neg, binary(Op::add, tensor(), tree(depth - 1)));
      case 1: return call("select", {condition(depth - 1), tree(depth - 1), tree(depth - 1)});
      case 2: return call(pick(2) ? "min" : "max", {binary(Op::sub, tree(depth - 1), tensor()), tree(depth - 1)});
      case 3: return call("abs", {binary(Op::mul, tensor(), tree(depth - 1))});
      case 4:
        return is_float(dtype) ? call("sqrt", {binary(Op::mul, tensor(), tensor())})
                               : binary(Op::mod, tree(depth - 1), tensor());
      case 5: return call(std::string(weft::name(dtype)), {binary(Op::add, tensor(), tree(depth - 1))});
      default: return infix(depth);
    }
  }
  Expr infix(int depth) {
    static constexpr Op ops[] = {Op::add, Op::sub, Op::mul, Op::div};
    const Op op = ops[pick(4)];
    const Expr a = tree(depth - 1);
    return binary(
        op, a,
        binary(Op::add, tensor(), tree(depth - 1)));  // never scalar-only, so that integers do not divide by 0 there
  }
  Expr condition(int depth) {
    static constexpr Op ops[] = {Op::lt, Op::gt, Op::le, Op::ge, Op::eq, Op::ne};
    const Expr c = binary(ops[pick(6)], tensor(), tree(depth));
    if (pick(4) == 0) return unary(Op::not_, c);
    return pick(3) ? c : binary(pick(2) ? Op::and_ : Op::or_, c, binary(ops[pick(6)], tensor(), tensor()));
  }
};

}  // namespace

TEST(BodyCode, RandomExpressionsOfEveryDtypeRoundAfterEveryOperation) {
  for (Dtype t : all_dtypes()) {
    if (t == Dtype::boolean) continue;
    for (uint32_t seed = 0; seed < 60; ++seed) {
      Maker make{std::mt19937(seed), t};
      Body b;
      for (const char* n : {"x", "y", "z"}) b.inputs.push_back({n, t});
      b.scalars = {{"s", Dtype::f64}, {"k", Dtype::i64}};
      const Expr value = binary(Op::add, name("x"), make.tree(static_cast<int>(seed % 4)));
      b.assignments = {{"out", value, t}};
      b.outputs = {"out"};
      const BodyCode code(b);
      constexpr int64_t count = 600;
      std::vector<unsigned char> memory[4];
      for (auto& m : memory) m.resize(static_cast<size_t>(count * 8));
      const int64_t bytes = size_bytes(t);
      for (int k = 0; k < 3; ++k)
        for (int64_t i = 0; i < count; ++i) {
          const uint64_t bits = make.random() | static_cast<uint64_t>(make.random()) << 32;
          unsigned char* at = memory[k].data() + i * bytes;
          if (is_float(t) && i % 4)
            store_f64(t, at, (static_cast<double>(bits % 4096) - 2048) / 64);
          else if (!is_float(t) && i % 4)
            store_i64(t, at, static_cast<int64_t>(bits % 7) - (is_signed(t) ? 3 : 0));
          else
            std::memcpy(at, &bits, static_cast<size_t>(bytes));
        }
      const ScalarValue scalars[] = {{false, 0, 0.9}, {true, 6, 0}};
      const void* inputs[] = {memory[0].data(), memory[1].data(), memory[2].data()};
      void* outputs[] = {memory[3].data()};
      code.run(scalars, inputs, nullptr, outputs, count, 0);
      for (int64_t i = 0; i < count; ++i) {
        Oracle oracle{t, {}, {}, scalars[0], scalars[1]};
        for (int k = 0; k < 3; ++k) {
          const std::string n(1, "xyz"[k]);
          oracle.tensors[n] = load_f64(t, memory[k].data() + i * bytes);
          if (!is_float(t)) oracle.integers[n] = load_i64(t, memory[k].data() + i * bytes);
        }
        const unsigned char* got = memory[3].data() + i * bytes;
        if (is_float(t)) {
          unsigned char want[8];
          store_f64(t, want, oracle.real(value));
          const bool nan = std::isnan(load_f64(t, want));
          ASSERT_TRUE(nan ? std::isnan(load_f64(t, got)) : std::memcmp(want, got, static_cast<size_t>(bytes)) == 0)
              << weft::name(t) << " seed " << seed << " element " << i << ": " << print(value, Syntax::program)
              << " gives " << load_f64(t, got) << ", not " << load_f64(t, want);
        } else {
          ASSERT_EQ(load_i64(t, got), oracle.whole(value))
              << weft::name(t) << " seed " << seed << " element " << i << ": " << print(value, Syntax::program);
        }
      }
    }
  }
}

TEST(Body, FlopsCountOperationsOnElements) {
  EXPECT_EQ(flops(body_of("x", Dtype::f32, Dtype::f32)), 0);
  EXPECT_EQ(flops(body_of("(1 - s) * x + 2", Dtype::f32, Dtype::f32)), 2);
  EXPECT_EQ(flops(body_of("sqrt(x) / x", Dtype::f32, Dtype::f32)), 2);
  EXPECT_EQ(flops(body_of("select(x > 0, x, 0)", Dtype::f32, Dtype::f32)), 2);
  EXPECT_GT(flops(body_of("exp(x)", Dtype::f32, Dtype::f32)), 10);
  EXPECT_EQ(output_dtype(adam(), 4), Dtype::f16);
}
