// Random expressions over every integer dtype, bool and floats, three ways: the reference evaluator, the vectorised
// evaluator and generated C++. Whatever inference accepts must mean one thing.
//
// Floats are exact here (small dyadic numbers, no division but by powers of two), so that comparisons and casts of them
// are too; what does not fit a cast (NaN, infinities, 1e30) enters by a tensor of its own. WEFT_SEED takes another seed.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "tests/unit/ir/support.h"
#include "weft/expr/body.h"
#include "weft/expr/functions.h"

namespace weft::ir {
namespace {

constexpr int64_t elements = 300;
const std::vector<Dtype> kinds = {Dtype::i8,  Dtype::i16, Dtype::i32, Dtype::i64, Dtype::u8,
                                  Dtype::u16, Dtype::u32, Dtype::u64, Dtype::f32, Dtype::f64};

class Expressions {
 public:
  explicit Expressions(uint32_t seed) : random_(seed) {}

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Dtype kind() { return kinds[static_cast<size_t>(pick(static_cast<int>(kinds.size())))]; }

  std::string number(Dtype d, int depth) {
    if (d == Dtype::f32) depth = std::min(depth, 2);  // stay exact
    if (depth == 0) return leaf(d);
    const auto a = [&] { return number(d, depth - 1); };
    switch (pick(14)) {
      case 0: return "(" + a() + " + " + a() + ")";
      case 1: return "(" + a() + " - " + a() + ")";
      case 2: return "(" + a() + " * " + leaf(d) + ")";
      case 3: return is_float(d) ? "(" + a() + " / " + of({"2", "4", "0.5"}) + ")" : "(" + a() + " / " + a() + ")";
      case 4: return is_float(d) ? "-" + a() : "(" + a() + " % " + a() + ")";
      case 5: return of({"min", "max"}) + "(" + a() + ", " + a() + ")";
      case 6: return of({"abs", "relu"}) + "(" + a() + ")";
      case 7: return "-(" + a() + ")";
      case 8: return "select(" + truth(depth - 1) + ", " + a() + ", " + a() + ")";
      case 9: return "(" + leaf(d) + ") ^ " + of({"0", "1", "2", is_float(d) ? "2" : "3"});
      case 10: return std::string(name(d)) + "(" + number(is_float(d) ? Dtype::i8 : kind(), depth - 1) + ")";
      case 11: return std::string(name(d)) + "(" + truth(depth - 1) + ")";
      case 12: return is_float(d) ? a() : std::string(name(d)) + "(odd)";
      default: return a();
    }
  }

  std::string truth(int depth) {
    if (depth <= 0) return of({"p", "q", "p", "q", "k > 3", "s < 0.5", "index(0) < 7", "rand(k, 1) < 0.5"});
    const Dtype d = kind();
    switch (pick(7)) {
      case 0: return "(" + truth(depth - 1) + of({" and ", " or "}) + truth(depth - 1) + ")";
      case 1: return "(not " + truth(depth - 1) + ")";
      case 2: return "bool(" + number(d, depth - 1) + ")";
      case 3: return "select(" + truth(depth - 1) + ", p, " + truth(depth - 1) + ")";
      case 4: return "(p " + of({"==", "!=", "<", ">="}) + " " + of({"q", "0", "1", "2", "k"}) + ")";
      default:
        return "(" + number(d, depth - 1) + of({" < ", " > ", " <= ", " >= ", " == ", " != "}) + number(d, depth - 1) +
               ")";
    }
  }

 private:
  std::string of(const std::vector<std::string>& from) {
    return from[static_cast<size_t>(pick(static_cast<int>(from.size())))];
  }
  std::string leaf(Dtype d) {
    const std::string type(name(d));
    if (pick(3)) return of({"a_", "b_"}) + type;
    return of({"2",
               "3",
               "0",
               "100",
               "2.0",
               "k",
               "(k / 2)",
               "(k - 9)",
               "N",
               "ranks",
               "li",
               "index(0)",
               "(index(0) / 2)",
               "(index(0) - k)",
               "s",
               "lf",
               "(1 - 0.25)",
               "i8(k * 40)",
               "(2 ^ k)",
               "select(s > 0.5, k, 3)"});
  }

  std::mt19937 random_;
};

std::string header() {
  std::string text = "program 1 t\ndim N\nscalar k i64\nscalar s f64\nlet li = k * 3 - 1\nlet lf = 1 + s\n";
  for (const Dtype d : kinds)
    for (const char* n : {"a_", "b_"}) text += fmt::format("in {0}{1} {1}[N] replicated\n", n, name(d));
  return text + "in p bool[N] replicated\nin q bool[N] replicated\nin odd f64[N] replicated\n";
}

double odd(int64_t i) {
  const double values[] = {NAN,     INFINITY, -INFINITY, 1e30,   -1e30,   9.3e18, 1.9e19,
                           -9.3e18, 3e9,      -3e9,      300.75, -300.75, -0.5,   0x1p63};
  return values[i % 14];
}

Values inputs(uint32_t seed) {
  std::mt19937_64 random(seed);
  Values values;
  for (const Dtype d : kinds)
    for (const char* n : {"a_", "b_"}) {
      const auto whole_number = [&](int64_t i) {
        unsigned char memory[8];
        const auto bits = static_cast<int64_t>(random());
        store_i64(d, memory, i % 3 ? bits % 7 - (is_signed(d) ? 3 : 0) : bits);
        return load_i64(d, memory);
      };
      const auto small = [&](int64_t) { return static_cast<double>(static_cast<int64_t>(random() % 17) - 8) / 2; };
      values[n + std::string(name(d))] = {is_float(d) ? reals({elements}, small, d)
                                                      : integers({elements}, whole_number, d)};
    }
  for (const char* n : {"p", "q"})
    values[n] = {integers(
        {elements}, [&](int64_t) { return random() & 1; }, Dtype::boolean)};
  values["odd"] = {reals({elements}, odd, Dtype::f64)};
  return values;
}

std::vector<unsigned char> bytes_of(const Tensor& t) {
  std::vector<unsigned char> out(static_cast<size_t>(t.size() * 8));
  for (int64_t i = 0; i < t.size(); ++i)
    if (is_float(t.dtype))
      store_f64(t.dtype, out.data() + i * size_bytes(t.dtype), t.f[static_cast<size_t>(i)]);
    else
      store_i64(t.dtype, out.data() + i * size_bytes(t.dtype), t.i[static_cast<size_t>(i)]);
  return out;
}

struct Case {
  std::string text;
  Dtype dtype;
  expr::Body body;
  Tensor expected;
};

const std::vector<std::string> scalar_names = {"k", "s", "N", "ranks"};
expr::ScalarValue scalar(const std::string& name) {
  return name == "s" ? real(0.75) : whole(name == "k" ? 5 : name == "N" ? elements : 1);
}

// The statement as a kernel's body, as lowering makes it: constants in their place.
expr::Body body_of(const Program& program, const Types& types) {
  expr::Body body;
  for (const Name& arg : program.ops[0].args) body.inputs.push_back({arg, types.at(arg).dtype});
  for (const std::string& name : scalar_names) body.scalars.push_back({name, name == "s" ? Dtype::f64 : Dtype::i64});
  body.assignments = {{"y", expr::substitute(program.ops[0].value, lets(program)), types.at("y").dtype}};
  body.outputs = {"y"};
  return body;
}

// What inference accepts; what it refuses must be the user's error. Values that cannot be computed at launch are left out.
std::optional<Case> make_case(const std::string& expression, const Values& values) {
  Program program;
  try {
    program = parse(header() + "y = " + expression + "\nout y\n");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << expression << "\n" << error.what();
    EXPECT_FALSE(error.rule().empty()) << expression << "\n" << error.what();
    EXPECT_FALSE(error.remedy().empty()) << expression << "\n" << error.what();
    return {};
  }
  const Types types = infer(program);
  if (types.at("y").shape.empty()) return {};
  Sizes sizes = launch(1, {{"N", elements}});
  sizes.scalars = {{"k", scalar("k")}, {"s", scalar("s")}};
  Case made{expression, types.at("y").dtype, body_of(program, types), {}};
  try {
    made.expected = evaluate(program, sizes, values, {true}).values.at("y")[0];
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << expression << "\n" << error.what();
    return {};
  }
  return made;
}

class Trial {
 public:
  Trial(const Case& c, const Values& values) {
    for (const expr::Value& input : c.body.inputs) memory_.push_back(bytes_of(values.at(input.name)[0]));
    for (const auto& m : memory_) in_.push_back(m.data());
  }
  const std::vector<const void*>& in() const { return in_; }
  std::vector<unsigned char> evaluated(const Case& c) const {
    std::vector<unsigned char> out(static_cast<size_t>(elements * 8), 0xa5);
    std::vector<expr::ScalarValue> scalars;
    for (const std::string& name : scalar_names) scalars.push_back(scalar(name));
    void* outputs[] = {out.data()};
    expr::BodyCode(c.body).run(scalars, in_, nullptr, outputs, elements, 0);
    return out;
  }

 private:
  std::vector<std::vector<unsigned char>> memory_;
  std::vector<const void*> in_;
};

void expect_same(const Case& c, const unsigned char* got, const char* who, uint32_t seed) {
  const std::vector<unsigned char> want = bytes_of(c.expected);
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t at = i * size_bytes(c.dtype);
    if (is_float(c.dtype) && load_f64(c.dtype, want.data() + at) == load_f64(c.dtype, got + at)) continue;  // -0 and 0
    if (is_float(c.dtype) && std::isnan(load_f64(c.dtype, want.data() + at)) && std::isnan(load_f64(c.dtype, got + at)))
      continue;
    ASSERT_EQ(std::memcmp(want.data() + at, got + at, static_cast<size_t>(size_bytes(c.dtype))), 0)
        << "WEFT_SEED=" << seed << " " << who << " of " << name(c.dtype) << " y = " << c.text << " element " << i
        << ": " << load_f64(c.dtype, got + at) << ", reference " << load_f64(c.dtype, want.data() + at);
  }
}

// ---- generated C++
std::string c_type(Dtype t) {
  if (is_float(t)) return t == Dtype::f64 ? "double" : "float";
  return t == Dtype::boolean ? "bool" : fmt::format("{}int{}_t", is_signed(t) ? "" : "u", 8 * size_bytes(t));
}
std::string function_text(const Case& c, size_t number) {
  const expr::BodySource s = expr::source(c.body);
  std::string out = fmt::format(
      "extern \"C\" void f{}([[maybe_unused]] const void* const* in, void* out, [[maybe_unused]] const void* const* h) "
      "{{\n"
      "  for (long i = 0; i < {}; ++i) {{\n    [[maybe_unused]] const long pos = i;\n",
      number, elements);
  for (size_t i = 0; i < s.hoisted.size(); ++i)
    out += fmt::format("    const {0} {1} = *static_cast<const {0}*>(h[{2}]);\n", c_type(s.hoisted[i].dtype),
                       s.hoisted[i].name, i);
  for (size_t i = 0; i < c.body.inputs.size(); ++i)
    out += fmt::format("    [[maybe_unused]] const {0} {1} = static_cast<const {0}*>(in[{2}])[i];\n",
                       c_type(c.body.inputs[i].dtype), expr::c_name(c.body.inputs[i].name), i);
  for (const std::string& line : s.lines) out += "    " + line + "\n";
  return out + fmt::format("    static_cast<{}*>(out)[i] = {};\n  }}\n}}\n", c_type(c.dtype), s.outputs[0]);
}

using Compiled = void (*)(const void* const*, void*, const void* const*);
std::vector<unsigned char> run_compiled(Compiled f, const Case& c, const Trial& run) {
  std::vector<std::vector<unsigned char>> hoisted;
  std::vector<const void*> at;
  for (const auto& h : expr::source(c.body).hoisted) {
    const expr::ScalarValue v = expr::evaluate_scalar(h.value, scalar);
    hoisted.emplace_back(16);
    if (v.is_integer)
      store_i64(h.dtype, hoisted.back().data(), v.integer);
    else
      store_f64(h.dtype, hoisted.back().data(), v.number);
  }
  for (const auto& h : hoisted) at.push_back(h.data());
  std::vector<unsigned char> out(static_cast<size_t>(elements * 8), 0x5a);
  f(run.in().data(), out.data(), at.data());
  return out;
}

void compare_compiled(const std::vector<Case>& cases, const Values& values, uint32_t seed) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no g++ here";
  const std::string base = fmt::format("{}weft_fuzz_{}", ::testing::TempDir(), getpid());
  std::ofstream file(base + ".cpp");
  std::string head(expr::functions_source());
  head.erase(head.find("#pragma once"), 12);
  file << head;
  for (size_t i = 0; i < cases.size(); ++i) file << function_text(cases[i], i);
  file.close();
  const std::string command =
      fmt::format("g++ -std=c++20 -O1 -ffp-contract=off -fno-math-errno -w -shared -fPIC {0}.cpp -o {0}.so", base);
  ASSERT_EQ(std::system(command.c_str()), 0) << base;
  void* library = dlopen((base + ".so").c_str(), RTLD_NOW);
  ASSERT_TRUE(library) << dlerror();
  for (size_t i = 0; i < cases.size() && !testing::Test::HasFatalFailure(); ++i) {
    const auto f = reinterpret_cast<Compiled>(dlsym(library, fmt::format("f{}", i).c_str()));
    ASSERT_TRUE(f);
    const Trial run(cases[i], values);
    expect_same(cases[i], run_compiled(f, cases[i], run).data(), "generated C++", seed);
  }
  dlclose(library);
  for (const char* end : {".cpp", ".so"}) unlink((base + end).c_str());
}

TEST(Fuzz, EvaluatorsAndGeneratedCodeAgreeOnWhatIsAccepted) {
  const char* given = std::getenv("WEFT_SEED");
  const auto seed = static_cast<uint32_t>(given ? std::atoll(given) : 20261);
  std::printf("WEFT_SEED=%u\n", seed);
  Expressions make(seed);
  const Values values = inputs(seed);
  const bool whole_matrix = std::getenv("WEFT_SLOW") != nullptr;
  const int wanted = whole_matrix ? 4000 : 600;
  std::vector<Case> cases;
  int refused = 0;
  for (int i = 0; i < wanted; ++i) {
    const int depth = 1 + i % 4;
    std::optional<Case> made = make_case(i % 5 ? make.number(make.kind(), depth) : make.truth(depth), values);
    if (testing::Test::HasFailure()) return;
    if (!made) {
      ++refused;
      continue;
    }
    expect_same(*made, Trial(*made, values).evaluated(*made).data(), "evaluator", seed);
    if (HasFatalFailure()) return;
    cases.push_back(std::move(*made));
  }
  EXPECT_GT(cases.size(), static_cast<size_t>(wanted / 4));  // else the sample says little
  EXPECT_GT(refused, wanted / 20);
  cases.resize(std::min<size_t>(cases.size(), whole_matrix ? 600 : 150));
  compare_compiled(cases, values, seed);
}

}  // namespace
}  // namespace weft::ir
