// Statements that the examples do not have, lowered, verified and compared with the reference on 1 to 8 ranks: extremes
// of nothing, folds of folds, indices of several dimensions, inputs that go out, states in a ring, products that need a
// part of what every rank holds whole, and folds of products.
#include "tests/unit/lower/ways.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

const char* const dtypes[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32",
                              "i16", "i8",  "u64", "u32",  "u16",    "u8",     "bool"};

std::string lower_error(const std::string& text) {
  try {
    lower(ir::parse(text), {}, {});
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported) << e.what();
    return std::string(e.message()) + " | " + e.remedy();
  }
  return "lowered";
}

// The largest of nothing is the dtype's least, which no rank's part without elements may turn into something else.
TEST(Statements, ExtremesOfEveryDtypeAndOfNothing) {
  for (const char* dtype : dtypes)
    for (const int64_t n : {0, 5}) {
      const std::string text = fmt::format(
          "program 1 ends\ndim N\nin g {}[N] local\na = all_reduce(max, g)\nt = amax(a)\nl = amin(a)\nout t\nout l\n",
          dtype);
      SCOPED_TRACE(dtype);
      check(text, "", {{{"N", n}}, {}}, true, 3);
      check(text, "split a\nreorder t l\nfuse f: a.s t.p t l.p l\n", {{{"N", n}}, {}}, true, 3);
      if (HasFailure()) return;
    }
}

// The verifier knows what changes nothing by the dtype of the cell: -128 begins a maximum of i8, and not of i16.
TEST(Statements, AMaximumBegunTooHighIsFound) {
  const auto plan_of = [](const char* dtype) {
    return plan::print(
        lower(ir::parse(fmt::format("program 1 top\ndim N\nin x {}[N] replicated\nt = amax(x)\nout t\n", dtype)), {},
              {})
            .plan);
  };
  EXPECT_NE(plan_of("i8").find("zero: -128 -> "), std::string::npos);
  EXPECT_TRUE(plan::verify(plan::parse(plan_of("i8")), {{1, 2}}).ok());
  const std::string begun_too_high = replace_all(plan_of("i16"), "zero: -32768 -> ", "zero: -128 -> ");
  const plan::Verdict verdict = plan::verify(plan::parse(begun_too_high), {{1, 2}});
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.findings[0].rule, "V11");
}

TEST(Statements, FoldsOfFolds) {
  const std::string lists =
      "program 1 lists\ntensors P\nin g i32[P] local\na = all_reduce(sum, g)\nq = sum(a by P)\nt = sum(q)\nm = amax(q "
      "* 2)\ny = a * i32(t) + i32(m)\nout y\nout t\n";
  const Sizing three{{}, {{3}, {40}, {1}}};
  check(lists, "", three, true, 4);
  check(lists, "split a\nreorder q y\n", three, true, 4);
  const std::string one =
      "program 1 one\ndim N\nin g i32[N] local\na = all_reduce(sum, g)\nq = sum(a)\nr = sum(q * q)\np = prod(r + 1)\ny "
      "= a + i32(p)\nout y\n";
  check(one, "", {{{"N", 33}}, {}}, true, 4);
  check(one, "split a\nreorder q y\nfuse f: a.s q.p q r p y.s y\n", {{{"N", 33}}, {}}, true, 4);
  check(
      "program 1 rows\ndim N H\nin x i32[N, H] replicated\nq = sum(x, 1)\nt = amax(q)\ny = x * i32(q) - i32(t)\nout "
      "y\nout t\n",
      "", {{{"N", 9}, {"H", 5}}, {}}, true, 4);
  check(
      "program 1 given\ndim N\ntensors P\nin l f32[#P] replicated\nin g f32[P] local\na = all_reduce(avg, g)\ns = "
      "sum(l)\ny = a * s\nout y\n",
      "", {{{"N", 1}}, {{4}, {2}}}, false, 3);
}

TEST(Statements, FoldsOfFoldsThatAreRefusedSayWhatWorks) {
  EXPECT_EQ(lower_error("program 1 a\ndim B S H\nin x i32[B, S, H] replicated\nq = sum(x, 2)\nt = sum(q, 1)\ny = x + "
                        "i32(q) + i32(t)\nout y\n"),
            "t: a fold of q, which is a fold itself, over some of its dimensions | fold the large value over all of "
            "these dimensions at once: sum(x, 1, 2)");
  check(
      "program 1 a\ndim B S H\nin x i32[B, S, H] replicated\nq = sum(x, 2)\nt = sum(x, 1, 2)\ny = x + i32(q) + "
      "i32(t)\nout y\n",
      "", {{{"B", 2}, {"S", 3}, {"H", 5}}, {}}, true, 3);
}

TEST(Statements, IndicesOfSeveralDimensions) {
  const std::string text =
      "program 1 index\ndim B S H\nscalar k i64\nin g i32[B, S, H] local\na = all_reduce(sum, g)\ny = a * index(1) + "
      "index(-1) * 100 - select(index(0) + index(2) < k, index(0), 7) + i32(index(1) / 2)\nq = sum(a * index(2), "
      "0)\nout y\nout q\n";
  const Sizing sizing{{{"B", 3}, {"S", 4}, {"H", 5}}, {}};
  check(text, "", sizing, true, 4);
  for (const int dim : {0, 1, 2}) check(text, fmt::format("split a {}\nreorder y\n", dim), sizing, true, 4);
  check(
      "program 1 floats\ndim N\nin g f32[N, 6] local\na = all_reduce(sum, g)\ny = a * index(0) + index(1) / 4\nout "
      "y\n",
      "", {{{"N", 7}}, {}}, false, 3);
}

TEST(Statements, WhatComesInGoesOut) {
  const std::string text =
      "program 1 through\ndim N\nin x i32[N] replicated\nin z i32[N] sliced(0)\nstate k i32[N] replicated\ny = x + "
      "k\nout y\nout x\nout z\nout k\n";
  check(text, "", {{{"N", 30}}, {}}, true, 4);
}

TEST(Statements, TheOldContentOfAStateGoesOutUnderANameOfItsOwn) {
  const std::string text =
      "program 1 old\ndim N\nin x i32[N] replicated\nstate k i32[N] replicated\n{}k1 = k + x\nupdate k = k1\nout {}\n";
  EXPECT_EQ(lower_error(replace_all(replace_all(text, "{}k1", "k1"), "{}", "k")),
            "k: the old content of a state that is updated, as an output | name it: k_old = k, and out k_old");
  check(replace_all(replace_all(text, "{}k1", "k_old = k\nk1"), "{}", "k_old"), "", {{{"N", 30}}, {}}, true, 4);
}

TEST(Statements, StatesInARing) {
  for (const char* layout : {"replicated", "sliced(0)", "root(0)"}) {
    const std::string head = replace_all(
        "program 1 ring\ndim N\nstate a i32[N] L\nstate b i32[N] L\nstate c i32[N] L\nstate d i32[N] L\ny = a + b\n",
        " L", std::string(" ") + layout);
    const Sizing sizing{{{"N", 37}}, {}};
    check(head + "update a = b\nupdate b = a\nout y\n", "", sizing, true, 4);
    check(head + "update a = b\nupdate b = c\nupdate c = a\nupdate d = a\nout y\n", "", sizing, true, 4);
    check(head + "update a = b\nupdate b = a\nupdate c = d\nupdate d = c\nout y\n", "", sizing, true, 4);
    check(head + "update a = b\nupdate b = y\nupdate c = a\nupdate d = d\nout y\n", "", sizing, true, 4);
  }
}

TEST(Statements, ProductsReadThePartOfAWholeOperand) {
  const Sizing sizing{{{"B", 5}, {"N", 3}, {"K", 7}, {"H", 4}}, {}};
  const std::pair<const char*, const char*> operands[] = {{"sliced(0)", "replicated"},
                                                          {"replicated", "sliced(0)"},
                                                          {"sliced(1)", "replicated"},
                                                          {"replicated", "sliced(2)"}};
  for (const auto& [x, w] : operands)
    check(fmt::format("program 1 batched\ndim B N K H\nin x i32[B, N, K] {}\nin w i32[B, K, H] {}\nh = matmul(x, w)\ny "
                      "= h + 1\nz = all_gather(y)\nout z\n",
                      x, w),
          "", sizing, true, 4);
  for (const auto& [x, w] :
       std::vector<std::pair<const char*, const char*>>{{"sliced(2)", "replicated"}, {"replicated", "sliced(0)"}})
    check(fmt::format("program 1 inner\ndim B N K H\nin x i32[B, N, K] {}\nin w i32[K, H] {}\nh = matmul(x, w)\nz = "
                      "all_reduce(sum, h)\nout z\n",
                      x, w),
          "", sizing, true, 4);
  for (const int d : {0, 1, 2})
    check(fmt::format("program 1 cut\ndim B N K H\nin x i32[B, N, K] replicated\nin w i32[K, H] replicated\nh = "
                      "matmul(x, w) cut {}\nz = all_gather(h)\nout z\n",
                      d),
          "", sizing, true, 4);
  check(
      "program 1 alike\ndim N\nin x i32[N, N] sliced(0)\nin w i32[N, N] replicated\nh = matmul(x, w)\nz = "
      "all_gather(h)\nout z\n",
      "", {{{"N", 40}}, {}}, true, 3);
  check("program 1 square\ndim N\nin x i32[N, N] replicated\nh = matmul(x, x)\nout h\n", "", {{{"N", 6}}, {}}, true, 3);
}

TEST(Statements, FoldsOfProducts) {
  for (const char* layout : {"sliced(0)", "replicated"}) {
    const bool cut = std::string(layout) == "sliced(0)";
    const std::string head = fmt::format(
        "program 1 product\ndim N\nin x f32[N, 6] {}\nin w f32[6, 4] replicated\nh = matmul(x, w)\n", layout);
    const std::string gathered = cut ? head + "y = all_gather(h)\n" : head + "y = h * 1\n";
    for (const int64_t n : {0, 1, 7, 20}) {
      const Sizing sizing{{{"N", n}}, {}};
      check(gathered + "z = amax(y, 1)\nu = y - z\nout u\n", "", sizing, false, 3);
      check(gathered + "z = softmax(y, 1)\nout z\n", "", sizing, false, 3);
      check(head + "z = softmax(h, 1)\nout z\n", "", sizing, false, 3);
      check(head + "z = amax(h, 1)\nu = h - z\nout u\n", "", sizing, false, 3);
      check(gathered + "q = sum(y * y)\nu = y + q\nout u\n", "", sizing, false, 3);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace weft::lower
