// Scalar evaluation, integer byte code, linearity, Philox.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "tests/unit/expr/random_tree.h"
#include "weft/expr/expr.h"
#include "weft/expr/functions_impl.h"
#include "weft/expr/philox.h"

using namespace weft;
using namespace weft::expr;

namespace {

ScalarValue scalar(const std::string& text, const std::map<std::string, ScalarValue>& env = {}) {
  return evaluate_scalar(parse(text, Syntax::program), [&](const std::string& n) {
    const auto it = env.find(n);
    if (it == env.end()) throw Error(ErrorKind::user, "unknown " + n);
    return it->second;
  });
}

int64_t run(const std::string& text, std::vector<int64_t> values = {0, 0, 0},
            const std::map<std::string, Table>& tables = {}) {
  const IntCode code(
      parse(text, Syntax::plan),
      [](const std::string& n) {
        return n == "r" ? 0 : n == "n" ? 1 : n == "c" ? 2 : n == "k" ? 3 : -1;
      },
      tables);
  return code.run(values.data());
}

struct Trouble {};  // the oracle's division by zero or negative shift

// The meaning of a plan expression, straight from the tree, in 128 bits.
__int128 meaning(const Node& e, const std::map<std::string, int64_t>& env, const std::map<std::string, Table>& tables) {
  const auto arg = [&](size_t i) { return static_cast<int64_t>(meaning(*e.args[i], env, tables)); };
  const auto floor_mod = [](__int128 a, __int128 b) {
    const __int128 m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
  };
  switch (e.op) {
    case Op::integer: return e.integer;
    case Op::name: return e.name == "none" ? none : env.at(e.name);
    case Op::not_: return arg(0) == 0;
    case Op::and_: return arg(0) != 0 && arg(1) != 0;
    case Op::or_: return arg(0) != 0 || arg(1) != 0;
    case Op::lt: return arg(0) < arg(1);
    case Op::gt: return arg(0) > arg(1);
    case Op::le: return arg(0) <= arg(1);
    case Op::ge: return arg(0) >= arg(1);
    case Op::eq: return arg(0) == arg(1);
    case Op::ne: return arg(0) != arg(1);
    default: break;
  }
  if (e.op == Op::call && e.name == "sel") return arg(0) != 0 ? arg(1) : arg(2);
  const __int128 a = arg(0), b = e.args.size() > 1 ? arg(1) : 0;
  if (a == none || b == none) return none;
  if (e.op == Op::index) {
    const auto& rows = tables.at(e.name).rows;
    const auto& row =
        e.args.size() == 1 ? rows[0] : rows[static_cast<size_t>(floor_mod(a, static_cast<int>(rows.size())))];
    return row[static_cast<size_t>(floor_mod(e.args.size() == 1 ? a : b, static_cast<int>(row.size())))];
  }
  switch (e.op) {
    case Op::neg: return -a;
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div:
      if (b == 0) throw Trouble();
      return (a - floor_mod(a, b)) / b;
    case Op::mod:
      if (b == 0) throw Trouble();
      return floor_mod(a, b);
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    case Op::shl:
      if (b < 0) throw Trouble();
      return b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << static_cast<int>(b));
    case Op::shr:
      if (b < 0) throw Trouble();
      return a >> (b > 63 ? 63 : static_cast<int>(b));
    default: break;
  }
  if (e.name == "min") return a < b ? a : b;
  if (e.name == "max") return a > b ? a : b;
  if (e.name == "abs") return a < 0 ? -a : a;
  __int128 power = 1, log = 0;
  while (power < a) power *= 2, ++log;
  if (e.name == "log2c") return log;
  return a <= 0 ? 0 : power == a ? power : power / 2;
}

}  // namespace

TEST(Scalar, IntegersStayExactAndFloorLikePython) {
  EXPECT_EQ(scalar("7 / 2").integer, 3);
  EXPECT_EQ(scalar("-7 / 2").integer, -4);
  EXPECT_EQ(scalar("7 / -2").integer, -4);
  EXPECT_EQ(scalar("-7 % 3").integer, 2);
  EXPECT_EQ(scalar("7 % -3").integer, -2);
  EXPECT_TRUE(scalar("2 ^ 40").is_integer);
  EXPECT_EQ(scalar("2 ^ 40").integer, int64_t{1} << 40);
  EXPECT_EQ(scalar("9007199254740993 + 0").integer, 9007199254740993);
  EXPECT_FALSE(scalar("7 / 2.0").is_integer);
  EXPECT_EQ(scalar("7 / 2.0").number, 3.5);
  EXPECT_EQ(scalar("2 ^ -1").number, 0.5);
  EXPECT_THROW(scalar("1 / 0"), Error);
  EXPECT_THROW(scalar("9223372036854775807 + 1"), Error);
  EXPECT_THROW(scalar("10 ^ 30"), Error);
  EXPECT_THROW(scalar("1.5 % 2"), Error);
}

TEST(Scalar, FloatsComparisonsFunctionsCasts) {
  const std::map<std::string, ScalarValue> env = {
      {"b1", {false, 0, 0.9}}, {"step", {true, 3, 0}}, {"H", {true, 12, 0}}, {"ranks", {true, 4, 0}}};
  EXPECT_NEAR(scalar("1 - b1 ^ step", env).number, 1 - 0.9 * 0.9 * 0.9, 1e-15);
  EXPECT_EQ(scalar("H % ranks == 0", env).integer, 1);
  EXPECT_EQ(scalar("H < 1.5 or not ranks > 3", env).integer, 0);
  EXPECT_EQ(scalar("min(H, 3) + max(1, 2) + abs(-3)", env).integer, 8);
  EXPECT_EQ(scalar("select(H > 3, 1, 1 / 0)", env).integer, 1);
  EXPECT_EQ(scalar("sqrt(2.25) + exp(0) + log(1)").number, 2.5);
  EXPECT_EQ(scalar("f16(1.0004)").number, 1.0);
  EXPECT_EQ(scalar("i8(300)").integer, 44);
  EXPECT_EQ(scalar("i64(2.9)").integer, 2);
  EXPECT_EQ(scalar("bool(0.5)").integer, 1);
  EXPECT_THROW(scalar("rand(1, 2)"), Error);
  EXPECT_THROW(scalar("nothing(1)"), Error);
  EXPECT_THROW(scalar("q"), Error);
}

TEST(IntCode, TheNumbersOfARing) {
  for (int64_t n = 1; n < 9; ++n) {
    for (int64_t r = 0; r < n; ++r) {
      EXPECT_EQ(run("sel(n > 1, (r+1) % n, none)", {r, n, 0}), n > 1 ? (r + 1) % n : none);
      EXPECT_EQ(run("sel(n > 1, (r+n-1) % n, none)", {r, n, 0}), n > 1 ? (r + n - 1) % n : none);
    }
  }
  EXPECT_EQ(run("sel(r == 0, none, n / r)", {0, 5, 0}), none);
  EXPECT_EQ(run("r != 0 and n / r > 1", {0, 5, 0}), 0);
  EXPECT_EQ(run("r == 0 or n / r > 1", {0, 5, 0}), 1);
  EXPECT_EQ(run("2 and 3"), 1);
  EXPECT_EQ(IntCode().run(nullptr), none);
}

TEST(IntCode, NoneIsAValueOfItsOwn) {
  EXPECT_EQ(run("none"), none);
  EXPECT_EQ(run("none+1"), none);
  EXPECT_EQ(run("(none+1) % 3"), none);
  EXPECT_EQ(run("none == none"), 1);
  EXPECT_EQ(run("r != none"), 1);
  EXPECT_EQ(run("min(none, 3)"), none);
  EXPECT_EQ(run("none < 0"), 1);
}

TEST(IntCode, TablesWrap) {
  const std::map<std::string, Table> tables = {
      {"ring", {{{0, 2, 1, 3}, {3, 1, 2, 0}}}}, {"line", {{{5, 6, 7}}}}, {"empty", {}}};
  EXPECT_EQ(run("ring[c][r]", {1, 4, 1}, tables), 1);
  EXPECT_EQ(run("ring[c][r]", {-1, 4, 2}, tables), 3);
  EXPECT_EQ(run("line[r]", {-1, 0, 0}, tables), 7);
  EXPECT_EQ(run("line[none]", {0, 0, 0}, tables), none);
  EXPECT_THROW(run("ring[r]", {0, 0, 0}, tables), Error);
  EXPECT_THROW(run("empty[r]", {0, 0, 0}, tables), Error);
  EXPECT_THROW(run("nowhere[r]", {0, 0, 0}, tables), Error);
}

TEST(IntCode, RefusesWhatPlansCannotSay) {
  for (const char* bad : {"unknown", "1 + sqrt(n)", "min(1)", "sel(1, 2)", "r / 0", "r % (n-n)", "1 << (0-1)"}) {
    try {
      run(bad, {1, 4, 0});
      ADD_FAILURE() << bad;
    } catch (const Error& e) { EXPECT_EQ(e.rule(), "V1") << bad; }
  }
  const auto slot = [](const std::string&) { return 0; };
  EXPECT_THROW(IntCode(number(1.5), slot, {}), Error);
  EXPECT_EQ(IntCode(parse("1+2*3", Syntax::plan), slot, {}).is_constant(), true);
  EXPECT_EQ(IntCode(parse("r+2*3", Syntax::plan), slot, {}).is_constant(), false);
}

TEST(IntCode, AgreesWithTheTree) {
  const std::map<std::string, Table> tables = {{"ring", {{{4, 5, 6}}}}, {"mesh", {{{1, 2}, {3, none}, {0, 7}}}}};
  int ran = 0;
  for (uint32_t seed = 0; seed < 6000; ++seed) {
    random::RandomTree tree(seed, Syntax::plan);
    const Expr e = tree.tree(static_cast<int>(seed % 6));
    const std::vector<int64_t> v = {tree.pick(9) - 1, tree.pick(9), tree.pick(3), tree.pick(5)};
    const std::map<std::string, int64_t> env = {{"r", v[0]}, {"n", v[1]}, {"c", v[2]}, {"k", v[3]}};
    int64_t expected = 0;
    bool trouble = false;
    try {
      const __int128 wide = meaning(*e, env, tables);
      if (wide > (__int128{1} << 62) || (wide < -(__int128{1} << 62) && wide != none)) continue;
      expected = static_cast<int64_t>(wide);
    } catch (const Trouble&) { trouble = true; }
    try {
      const int64_t value = run(print(e, Syntax::plan), v, tables);
      ASSERT_FALSE(trouble) << seed << ": " << print(e, Syntax::plan);
      ASSERT_EQ(value, expected) << seed << ": " << print(e, Syntax::plan);
      ++ran;
    } catch (const Error&) { ASSERT_TRUE(trouble) << seed << ": " << print(e, Syntax::plan); }
  }
  EXPECT_GT(ran, 3000);
}

TEST(Linearity, L7Accepts) {
  const std::vector<std::string> pending = {"p", "q"};
  for (const char* text : {"p", "p + q", "c * p", "p * c", "p / c", "-p", "f16(p)", "select(c, p, 0)",
                           "select(c > 1, 0.0, p)", "select(c, p, q)", "p - q", "c * (p + d * q)"})
    EXPECT_EQ(linearity(parse(text, Syntax::program), pending), Linearity::linear) << text;
  EXPECT_EQ(linearity(parse("c * d + 1", Syntax::program), pending), Linearity::absent);
  EXPECT_EQ(linearity(parse("max(p, q)", Syntax::program), pending, "max"), Linearity::linear);
}

TEST(Linearity, L7Refuses) {
  const std::vector<std::string> pending = {"p", "q"};
  for (const char* text :
       {"p + c", "1 + p", "p * q", "p * p", "c / p", "p / q", "p ^ 2", "sqrt(p)", "select(p > 0, p, 0)",
        "select(c, p, 1)", "p < q", "p and c", "max(p, q)", "f16(p + c)", "c - (p + 1)"})
    EXPECT_EQ(linearity(parse(text, Syntax::program), pending), Linearity::nonlinear) << text;
  EXPECT_EQ(linearity(parse("p + q", Syntax::program), pending, "max"), Linearity::nonlinear);
  EXPECT_EQ(linearity(parse("max(p, c)", Syntax::program), pending, "max"), Linearity::nonlinear);
  EXPECT_EQ(linearity(parse("min(p, q)", Syntax::program), pending, "max"), Linearity::nonlinear);
}

// Known answers of Philox4x32-10 (Random123's kat_vectors): counter and key all zero, all ones, and digits of pi. The last
// counter word of philox_word is always 0, so the other two go through the rounds of kernels (functions_impl.h), which
// must agree with philox_word where both say something.
std::array<uint32_t, 4> ten_rounds(wm::Counter counter, uint64_t key) {
  for (uint32_t round = 0; round < 10; round += 2) counter = wm::two_rounds(counter, key, round);
  return {counter.a, counter.b, counter.c, counter.d};
}

TEST(Philox, KnownAnswers) {
  const std::array<uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(philox_word(0, 0, i), zero[i]);
  EXPECT_EQ(ten_rounds({0, 0, 0, 0}, 0), zero);
  const uint32_t ones = ~0u;
  EXPECT_EQ(ten_rounds({ones, ones, ones, ones}, ~uint64_t{0}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(ten_rounds({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  const std::array<uint32_t, 4> words = ten_rounds({7, 1, 5, 0}, 0x123456789abcdef0);
  for (uint64_t i = 0; i < 4; ++i)
    EXPECT_EQ(philox_word(0x123456789abcdef0, 5, (((uint64_t{1} << 32) + 7) << 2) + i), words[i]);
}

TEST(Philox, DependsOnSeedStreamAndPositionAndIsUniform) {
  EXPECT_NE(philox_word(1, 0, 0), philox_word(0, 0, 0));
  EXPECT_NE(philox_word(uint64_t{1} << 32, 0, 0), philox_word(0, 0, 0));
  EXPECT_NE(philox_word(0, 1, 0), philox_word(0, 0, 0));
  EXPECT_NE(philox_word(0, 0, uint64_t{1} << 40), philox_word(0, 0, 0));
  double sum = 0, low = 1, high = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const double u = uniform(42, 3, i);
    sum += u, low = std::min(low, u), high = std::max(high, u);
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.004);
  EXPECT_GE(low, 0.0);
  EXPECT_LT(high, 1.0);
  EXPECT_GT(high - low, 0.9999);
}
