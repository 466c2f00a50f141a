// Text of expressions: canonical, reads back, and errors that point.
#include <gtest/gtest.h>

#include "tests/unit/expr/random_tree.h"
#include "weft/expr/expr.h"

using namespace weft;
using namespace weft::expr;

namespace {

std::string again(const std::string& text, Syntax syntax) { return print(parse(text, syntax), syntax); }

std::string error_of(const std::string& text, Syntax syntax, const SourceLine& line = {}, int column = 0) {
  try {
    parse(text, syntax, line, column);
  } catch (const Error& e) { return e.what(); }
  return "no error";
}

}  // namespace

// All right-hand sides of the complete programs in docs/program.md.
TEST(ExprText, ProgramsAreCanonical) {
  for (const char* text : {"b1 * m + (1 - b1) * a",
                           "(1 - b2) * a * a",
                           "m1 / (1 - b1 ^ step) / (sqrt(v1 / (1 - b2 ^ step)) + eps)",
                           "w - lr * u",
                           "f32(a) / scale",
                           "w - lr * (m1 / (1 - b1 ^ step)) / (sqrt(v1 / (1 - b2 ^ step)) + 1e-08)",
                           "f16(w1)",
                           "min(1, 1.0 / (sqrt(q) + 1e-06))",
                           "w - lr * (u + 0.01 * w)",
                           "select(nw > 0 and nu > 0, sqrt(nw) / sqrt(nu), 1.0)",
                           "w - lr * t * u",
                           "gelu(h + b1)",
                           "select(rand(seed, 1) < 0.1, 0, (s + b2) / (1 - 0.1))",
                           "x * f16(rsqrt(n.h1 / H + 1e-06)) * gain",
                           "silu(h)",
                           "a_s / ranks",
                           "0.9 * m + (1 - 0.9) * a_s",
                           "H % ranks == 0",
                           "-x ^ 2",
                           "(-x) ^ 2",
                           "(-2) ^ x",
                           "2 ^ -x",
                           "2 ^ x ^ y",
                           "(2 ^ x) ^ y",
                           "a - (b - c)",
                           "a - b - c",
                           "a / (b * c)",
                           "-(a + b)",
                           "-a * b",
                           "a * -b",
                           "not a and b",
                           "not (a and b)",
                           "not a < b",
                           "(not a) < b",
                           "(a < b) == c",
                           "a or b and c",
                           "(a or b) and c",
                           "not not a",
                           "inf",
                           "-inf",
                           "nan",
                           "-0.0",
                           "f()"})
    EXPECT_EQ(again(text, Syntax::program), text);
}

TEST(ExprText, PlansAreCanonical) {
  for (const char* text : {"sel(n > 1, (r+1) % n, none)",
                           "sel(n > 1, (r+n-1) % n, none)",
                           "r-1",
                           "r-j",
                           "n-1",
                           "r+1",
                           "C+2",
                           "n % k == 0",
                           "c == 0",
                           "(n-1-s)/(2*s)+1",
                           "-2*s",
                           "r+k",
                           "i*m",
                           "v & -v",
                           "v ^ b | 2*b",
                           "sel(v ^ b | 2*b < n, v ^ b | 2*b, v ^ b)",
                           "1 << k",
                           "n >> k+1",
                           "(n >> k+1)*(1 << k)",
                           "n & (2 << k)-1",
                           "q*k + (i+1) % k",
                           "(i+k-1) % k",
                           "a*b % c",
                           "a % b * c",
                           "a*b+c",
                           "log2c(n)",
                           "p2floor(n-1)",
                           "ring[c][r]",
                           "ring[(r+1) % n]",
                           "-(r+1)",
                           "r-(j-1)",
                           "b > 1 and v+1 < n",
                           "pv == none",
                           "r+(1 << K-1-d)",
                           "not r"})
    EXPECT_EQ(again(text, Syntax::plan), text);
}

TEST(ExprText, SpacesAndParenthesesOfTheReaderDoNotMatter) {
  EXPECT_EQ(again("  ((b1)*m)+(1-b1)*a ", Syntax::program), "b1 * m + (1 - b1) * a");
  EXPECT_EQ(again("( r + n - 1 )%n", Syntax::plan), "(r+n-1) % n");
  EXPECT_EQ(again("1e-8", Syntax::program), "1e-08");
  EXPECT_EQ(again("1.50", Syntax::program), "1.5");
  EXPECT_EQ(again("--3", Syntax::program), "3");
  EXPECT_EQ(again("x ^ (-y)", Syntax::program), "x ^ -y");
}

TEST(ExprText, PrecedenceIsTheTreesShape) {
  EXPECT_TRUE(
      equal(parse("a + b * c", Syntax::program), binary(Op::add, name("a"), binary(Op::mul, name("b"), name("c")))));
  EXPECT_TRUE(equal(parse("-a ^ b", Syntax::program), unary(Op::neg, binary(Op::pow, name("a"), name("b")))));
  EXPECT_TRUE(equal(parse("a ^ b", Syntax::plan), binary(Op::bit_xor, name("a"), name("b"))));
  EXPECT_TRUE(
      equal(parse("a - b - c", Syntax::plan), binary(Op::sub, binary(Op::sub, name("a"), name("b")), name("c"))));
  EXPECT_TRUE(equal(parse("1", Syntax::program), integer(1)));
  EXPECT_FALSE(equal(parse("1.0", Syntax::program), integer(1)));
  EXPECT_FALSE(equal(number(0.0), number(-0.0)));
  EXPECT_TRUE(equal(number(NAN), number(-NAN)));
  EXPECT_TRUE(equal(integer(none), name("none")));
}

TEST(ExprText, RandomTreesReadBack) {
  for (Syntax syntax : {Syntax::program, Syntax::plan}) {
    for (uint32_t seed = 0; seed < 4000; ++seed) {
      const Expr e = random::RandomTree(seed, syntax).tree(static_cast<int>(seed % 7));
      const std::string text = print(e, syntax);
      const Expr back = parse(text, syntax);
      ASSERT_TRUE(equal(e, back)) << "seed " << seed << ": " << text << " reads as " << print(back, syntax);
      ASSERT_EQ(print(back, syntax), text) << "seed " << seed;
    }
  }
}

// Whatever the text, the answer is a tree or an Error.
TEST(ExprText, RandomTextIsATreeOrAnError) {
  std::mt19937 random(11);
  const std::string letters = "ab1 .+-*/%^()[],<>=!&|#e2";
  int trees = 0, errors = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string text;
    for (uint32_t k = random() % 12; k > 0; --k) text += letters[random() % letters.size()];
    const Syntax syntax = i % 2 ? Syntax::plan : Syntax::program;
    try {
      const Expr e = parse(text, syntax);
      ASSERT_TRUE(equal(parse(print(e, syntax), syntax), e)) << text;
      ++trees;
    } catch (const Error& e) {
      ASSERT_EQ(e.rule(), syntax == Syntax::plan ? "V1" : "F1") << text;
      ++errors;
    }
  }
  EXPECT_GT(trees, 100);
  EXPECT_GT(errors, 100);
}

TEST(ExprText, ErrorsPoint) {
  EXPECT_EQ(error_of("a + ", Syntax::program),
            "F1: the expression ends too early\n    a + \n        ^\n    an operand is missing");
  EXPECT_EQ(error_of("(r+1", Syntax::plan), "V1: `(` is not closed\n    (r+1\n    ^\n    add `)`");
  const SourceLine line{7, 2, "y = zz + * 1.0"};
  EXPECT_EQ(error_of("zz + * 1.0", Syntax::program, line, 4),
            "7:12: F1: `*` cannot begin an operand\n    y = zz + * 1.0\n             ^\n    a name, a number or ( is "
            "expected");
  for (const char* bad : {"", "a b", "a < b < c", "a & b", "a << 2", "x[1]", "2x", "1.", ".5", "a ** b",
                          "99999999999999999999", "1e999", "a + not b", "and", "f(a,)", "f(a", "a)", "a = b", "x..y"})
    EXPECT_NE(error_of(bad, Syntax::program), "no error") << bad;
  for (const char* bad : {"1.5", "a[1", "a[1][2][3]", "a == b == c", "inf", "a !b"})
    EXPECT_NE(error_of(bad, Syntax::plan), "no error") << bad;
  EXPECT_NE(error_of(std::string(5000, '('), Syntax::program).find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of(std::string(5000, '-') + "a", Syntax::program).find("nested deeper"), std::string::npos);
  std::string sum = "a";
  for (int i = 0; i < 30000; ++i) sum += "+a";
  EXPECT_NE(error_of(sum, Syntax::program).find("more than"), std::string::npos);
  EXPECT_THROW(name("and"), Error);
  EXPECT_THROW(name("a b"), Error);
}

TEST(Expr, NamesSubstituteRenameVisit) {
  const Expr e = parse("b1 * m + select(m > x.s, f16(y), b1)", Syntax::program);
  EXPECT_EQ(names(e), (std::vector<std::string>{"b1", "m", "x.s", "y"}));
  EXPECT_EQ(print(substitute(e, {{"b1", number(0.9)}, {"m", parse("p + q", Syntax::program)}}), Syntax::program),
            "0.9 * (p + q) + select(p + q > x.s, f16(y), 0.9)");
  EXPECT_EQ(print(rename(e, [](const std::string& n) { return n == "m" ? "m.s" : n; }), Syntax::program),
            "b1 * m.s + select(m.s > x.s, f16(y), b1)");
  EXPECT_EQ(substitute(e, {{"none_of_these", integer(1)}}), e);
  EXPECT_EQ(print(substitute(parse("-k", Syntax::plan), {{"k", integer(3)}}), Syntax::plan), "-3");
  int nodes = 0;
  visit(e, [&](const Node&) { ++nodes; });
  EXPECT_EQ(nodes, 11);
  EXPECT_EQ(names(parse("ring[c][r] + sel(a, b, c)", Syntax::plan)), (std::vector<std::string>{"c", "r", "a", "b"}));
}
