// Generated C++ against the vectorised evaluator: the same bits, for every dtype; and the evaluator's instances for
// different instruction sets against one another.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "weft/expr/body.h"
#include "weft/expr/body_ops.h"
#include "weft/expr/functions.h"

namespace weft::expr {
extern const Loops loops_base, loops_avx2, loops_avx512;
}

using namespace weft;
using namespace weft::expr;

namespace {

Expr e(const std::string& text) { return parse(text, Syntax::program); }

std::string memory_type(Dtype t) {
  if (t == Dtype::f64) return "double";
  if (t == Dtype::f32) return "float";
  if (is_float(t)) return size_bytes(t) == 2 ? "uint16_t" : "uint8_t";
  return t == Dtype::boolean ? "uint8_t" : fmt::format("{}int{}_t", is_signed(t) ? "" : "u", 8 * size_bytes(t));
}
std::string value_type(Dtype t) { return t == Dtype::boolean ? "bool" : memory_type(compute_dtype(t)); }
bool is_narrow(Dtype t) { return compute_dtype(t) != t; }

const std::vector<std::string>& texts_for(Dtype t) {
  static const std::vector<std::string> floats = {"0.9 * x + (1 - s) * y",
                                                  "x / (y - 3) - -x",
                                                  "-(x * y) + -2.5 * z",
                                                  "sqrt(abs(x)) / (sqrt(abs(y)) + 1e-08)",
                                                  "select(x > y and not (z > 0), x * 2, max(y, z))",
                                                  "select(rand(k, 1) < 0.3, 0, x / (1 - 0.3)) + y",
                                                  "gelu(x) + silu(y) * sigmoid(z)",
                                                  "exp(x) - log(abs(y)) + tanh(z)",
                                                  "x ^ 2 + (y - z) ^ 2",
                                                  "abs(x) ^ 0.5 + abs(y) ^ s",
                                                  "relu(x) + rsqrt(abs(y)) + min(z, 1)",
                                                  "rand(k, 2) * 2 - 1 + x",
                                                  "index() + x - index(3, 5) * y",
                                                  "x - (y - z)",
                                                  "x / (y / z)",
                                                  "inf - x + select(x == y or x != z, nan, 1)"};
  static const std::vector<std::string> integers = {
      "x + y * z - 3",      "x / y + x % z", "-(x - y)",          "select(x > y and not (z >= 1), x, min(y, z))",
      "abs(x) + max(y, k)", "x ^ 2 + y ^ 3", "relu(x) - (y - z)", "index(3, 5) + x",
      "x / 3 % 5"};
  static const std::vector<std::string> booleans = {"x and y or not z", "x == y", "select(x, y, z)",
                                                    "not (x != (y and z))", "x and s > 0.5"};
  return is_float(t) ? floats : t == Dtype::boolean ? booleans : integers;
}

Body body_of(const std::string& text, Dtype t) {
  Body b;
  for (const char* n : {"x", "y.s", "z"}) b.inputs.push_back({n, t});
  b.scalars = {{"s", Dtype::f64}, {"k", Dtype::i64}};
  b.assignments = {{"z", rename(e(text), [](const std::string& n) { return n == "y" ? "y.s" : n; }), t}};  // shadows z
  b.outputs = {"z"};
  return b;
}

// Casts between all pairs: x of dtype `from` becomes `to`.
Body cast_body(Dtype from, Dtype to) {
  Body b;
  b.inputs = {{"x", from}};
  b.scalars = {{"s", Dtype::f64}, {"k", Dtype::i64}};
  b.assignments = {{"y", call(std::string(name(to)), {name("x")}), to}};
  b.outputs = {"y"};
  return b;
}

struct Case {
  Body body;
  std::string text;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (Dtype t : all_dtypes())
    for (const std::string& text : texts_for(t)) {
      if (is_float(t) && size_bytes(t) == 1 && text.size() > 24) continue;  // compile time: they compute as f16 does
      cases.push_back({body_of(text, t), fmt::format("{} {}", name(t), text)});
    }
  for (Dtype from :
       {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::i64, Dtype::i32, Dtype::i8, Dtype::u64, Dtype::u8, Dtype::boolean})
    for (Dtype to : all_dtypes()) cases.push_back({cast_body(from, to), fmt::format("{} to {}", name(from), name(to))});
  return cases;
}

std::string load_text(Dtype t, const std::string& at) {
  return is_narrow(t) ? fmt::format("wm::from_{}({})", name(t), at) : t == Dtype::boolean ? at + " != 0" : at;
}

// A whole function around the element's lines: what the code generator's step does, in its plainest form.
std::string function_text(const Case& c, int number) {
  const BodySource s = source(c.body);
  std::string out = fmt::format(
      "// {}\nextern \"C\" void f{}(const void* const* in, void* out, [[maybe_unused]] const void* const* hoisted, "
      "long count, [[maybe_unused]] long position) {{\n",
      c.text, number);
  for (size_t i = 0; i < s.hoisted.size(); ++i)
    out += fmt::format("  const {} {} = *static_cast<const {}*>(hoisted[{}]);\n", value_type(s.hoisted[i].dtype),
                       s.hoisted[i].name, memory_type(s.hoisted[i].dtype), i);
  out += "  for (long i = 0; i < count; ++i) {\n    [[maybe_unused]] const long pos = position + i;\n";
  for (size_t i = 0; i < c.body.inputs.size(); ++i) {
    const Dtype t = c.body.inputs[i].dtype;
    out += fmt::format("    [[maybe_unused]] const {} {} = {};\n", value_type(t), c_name(c.body.inputs[i].name),
                       load_text(t, fmt::format("static_cast<const {}*>(in[{}])[i]", memory_type(t), i)));
  }
  for (const std::string& line : s.lines) out += "    " + line + "\n";
  const Dtype t = output_dtype(c.body, 0);
  out += fmt::format("    static_cast<{}*>(out)[i] = {};\n  }}\n}}\n", memory_type(t),
                     is_narrow(t) ? fmt::format("wm::to_{}({})", name(t), s.outputs[0]) : s.outputs[0]);
  return out;
}

std::vector<unsigned char> random_elements(Dtype t, int64_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> out(static_cast<size_t>(count * 8));
  for (int64_t i = 0; i < count; ++i) {
    unsigned char* at = out.data() + i * size_bytes(t);
    const uint64_t bits = random();
    if (t == Dtype::boolean)
      *at = bits & 1;
    else if (i % 3 == 0)
      std::memcpy(at, &bits, static_cast<size_t>(size_bytes(t)));  // any pattern: NaN, inf, subnormal, huge
    else if (is_float(t))
      store_f64(t, at, std::ldexp(static_cast<double>(static_cast<int64_t>(bits)), -60));
    else
      store_i64(t, at, static_cast<int64_t>(bits % 23) - (is_signed(t) ? 11 : 0));
  }
  return out;
}

bool same_element(Dtype t, const void* a, const void* b) {
  if (std::memcmp(a, b, static_cast<size_t>(size_bytes(t))) == 0) return true;
  return is_float(t) && std::isnan(load_f64(t, a)) && std::isnan(load_f64(t, b));
}

using Compiled = void (*)(const void* const*, void*, const void* const*, long, long);

void compare(const Case& c, Compiled f) {
  constexpr int64_t count = 1100, position = 12345;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<const void*> inputs;
  for (size_t i = 0; i < c.body.inputs.size(); ++i)
    memory.push_back(random_elements(c.body.inputs[i].dtype, count, static_cast<uint32_t>(i + 1)));
  for (const auto& m : memory) inputs.push_back(m.data());
  const ScalarValue scalars[] = {{false, 0, 0.9}, {true, 6, 0}};
  const BodySource s = source(c.body);
  std::vector<std::vector<unsigned char>> hoisted;
  std::vector<const void*> hoisted_at;
  for (const auto& h : s.hoisted) {
    const ScalarValue v =
        evaluate_scalar(h.value, [&](const std::string& n) { return n == "s" ? scalars[0] : scalars[1]; });
    hoisted.emplace_back(16);
    if (v.is_integer)
      store_i64(h.dtype, hoisted.back().data(), v.integer);
    else
      store_f64(h.dtype, hoisted.back().data(), v.number);
  }
  for (const auto& h : hoisted) hoisted_at.push_back(h.data());
  const Dtype t = output_dtype(c.body, 0);
  std::vector<unsigned char> generated(count * 8, 0xa5), evaluated(count * 8, 0x5a);
  f(inputs.data(), generated.data(), hoisted_at.data(), count, position);
  void* outputs[] = {evaluated.data()};
  BodyCode(c.body).run(scalars, inputs, nullptr, outputs, count, position);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * size_bytes(t);
    ASSERT_TRUE(same_element(t, generated.data() + at, evaluated.data() + at))
        << c.text << ", element " << i << ": compiled " << load_f64(t, generated.data() + at) << ", evaluated "
        << load_f64(t, evaluated.data() + at) << "\n"
        << function_text(c, 0);
  }
}

}  // namespace

TEST(Source, ReadsLikeTheProgram) {
  Body b;
  for (const char* n : {"a_s", "m", "v", "w"}) b.inputs.push_back({n, Dtype::f32});
  b.scalars = {{"lr", Dtype::f64}, {"step", Dtype::i64}, {"ranks", Dtype::i64}};
  b.assignments = {{"a_s", e("a_s / ranks"), Dtype::f32},
                   {"m1.s", e("0.9 * m + (1 - 0.9) * a_s"), Dtype::f32},
                   {"u.s", e("m1.s / (1 - 0.9 ^ step) / (sqrt(v / (1 - 0.999 ^ step)) + 1e-08)"), Dtype::f32},
                   {"p", e("f16(w - lr * u.s)"), Dtype::f16},
                   {"i", e("select(p > 0 and not (p > 1), -p ^ 2, (p + 1) ^ 2)"), Dtype::f16}};
  b.outputs = {"p", "a_s"};
  const BodySource s = source(b);
  EXPECT_EQ(join(s.lines, "\n"),
            "const float a_s_2 = a_s / h0;\n"
            "const float m1_s = 0.9f * m + 0.1f * a_s_2;\n"
            "const float u_s = m1_s / h1 / (wm::sqrt(v / h2) + 1e-08f);\n"
            "const float p = wm::round_f16(w - h3 * u_s);\n"
            "const float i = wm::round_f16(wm::select((p > 0.0f) && !(p > 1.0f), -(p * p), wm::square(p + 1.0f)));");
  ASSERT_EQ(s.hoisted.size(), 4u);
  EXPECT_EQ(print(s.hoisted[2].value, Syntax::program), "1 - 0.999 ^ step");
  EXPECT_EQ(s.hoisted[3].dtype, Dtype::f32);
  EXPECT_EQ(s.outputs, (std::vector<std::string>{"p", "a_s_2"}));
  EXPECT_EQ(c_name("z.h1.p"), "z_h1_p");
}

TEST(Source, CompiledBodiesGiveTheEvaluatorsBits) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no g++ here";
  const std::string base = fmt::format("{}weft_source_{}", ::testing::TempDir(), getpid());
  const std::vector<Case> cases = all_cases();
  std::ofstream out(base + ".cpp");
  std::string head(functions_source());
  head.erase(head.find("#pragma once"), 12);
  out << head;
  for (size_t i = 0; i < cases.size(); ++i) out << function_text(cases[i], static_cast<int>(i));
  out.close();
  const std::string command = fmt::format(
      "g++ -std=c++20 -O2 -ftree-vectorize -march=native -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror "
      "-Wno-unknown-pragmas -shared -fPIC {0}.cpp -o {0}.so",
      base);
  ASSERT_EQ(std::system(command.c_str()), 0) << base;
  void* library = dlopen((base + ".so").c_str(), RTLD_NOW);
  ASSERT_TRUE(library) << dlerror();
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto f = reinterpret_cast<Compiled>(dlsym(library, fmt::format("f{}", i).c_str()));
    ASSERT_TRUE(f);
    compare(cases[i], f);
    if (HasFatalFailure()) break;
  }
  dlclose(library);
  for (const char* end : {".cpp", ".so"}) unlink((base + end).c_str());
}

#if defined(__x86_64__)
namespace {

void compare_loops(const Loops& fast, Code code, Dtype t) {
  const Loop slow_loop = loops_base.operation(code, t), fast_loop = fast.operation(code, t);
  ASSERT_EQ(slow_loop == nullptr, fast_loop == nullptr);
  if (!slow_loop) return;
  constexpr int64_t count = 300;
  const bool select = code == Code::select,
             places = code == Code::uniform || code == Code::position || code == Code::position_of;
  const auto a = random_elements(places   ? Dtype::i64
                                 : select ? Dtype::boolean
                                          : t,
                                 count, 1),
             b = random_elements(places ? Dtype::i64 : t, count, 2),
             c = random_elements(places ? Dtype::i64 : t, count, 3);
  std::vector<unsigned char> one(count * 8), two(count * 8);
  slow_loop(one.data(), a.data(), b.data(), c.data(), count);
  fast_loop(two.data(), a.data(), b.data(), c.data(), count);
  const bool compares = code >= Code::lt && code <= Code::not_;
  const Dtype to = code == Code::uniform ? Dtype::f32 : places ? Dtype::i64 : compares ? Dtype::boolean : t;
  for (int64_t i = 0; i < count; ++i)
    ASSERT_TRUE(same_element(to, one.data() + i * size_bytes(to), two.data() + i * size_bytes(to)))
        << static_cast<int>(code) << " " << name(t) << " " << i;
}

void compare_all_loops(const Loops& fast) {
  for (Dtype t : all_dtypes()) {
    if (is_narrow(t)) continue;
    for (int code = static_cast<int>(Code::add); code <= static_cast<int>(Code::position_of); ++code) {
      const auto c = static_cast<Code>(code);
      if (c == Code::convert || c == Code::round) continue;
      if ((c == Code::and_ || c == Code::or_ || c == Code::not_) != (t == Dtype::boolean) && c >= Code::and_ &&
          c <= Code::not_)
        continue;
      compare_loops(fast, c, t);
    }
    for (Dtype to : all_dtypes()) {
      const Loop slow_loop = is_narrow(to) ? loops_base.round(t, to) : loops_base.convert(t, to),
                 fast_loop = is_narrow(to) ? fast.round(t, to) : fast.convert(t, to);
      const auto a = random_elements(t, 300, 1);
      std::vector<unsigned char> one(2400), two(2400);
      slow_loop(one.data(), a.data(), nullptr, nullptr, 300);
      fast_loop(two.data(), a.data(), nullptr, nullptr, 300);
      const Dtype reg = compute_dtype(to);
      for (int64_t i = 0; i < 300; ++i)
        ASSERT_TRUE(same_element(reg, one.data() + i * size_bytes(reg), two.data() + i * size_bytes(reg)))
            << name(t) << " to " << name(to);
    }
  }
}

}  // namespace

TEST(Loops, EveryInstructionSetGivesTheSameBits) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "a processor without AVX2";
  compare_all_loops(loops_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    compare_all_loops(loops_avx512);
}
#endif
