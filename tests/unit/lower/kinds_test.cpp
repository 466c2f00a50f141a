// Kinds of statements that were once lowered wrongly or refused, each with its neighbours: products whose result has the
// shape of an operand, folds of products, scatters of inputs, extremes of nothing, narrow folds over a cut dimension.
#include <cstdlib>

#include "tests/unit/lower/ways.h"
#include "weft/base/error.h"

namespace weft::lower {
namespace {

constexpr const char* floats[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
constexpr const char* integers[] = {"i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"};

struct Product {
  const char *dims, *x, *w;
  int64_t size;
};

// Nothing in the shapes says which operand the result is like.
TEST(Kinds, ProductsWithTheShapeOfAnOperand) {
  const Product products[] = {{"", "[3, 4]", "[4, 4]", 1},
                              {"", "[4, 4]", "[4, 4]", 1},
                              {"", "[4, 4]", "[4, 5]", 1},
                              {"dim N M\n", "[N, M]", "[M, M]", 5},
                              {"dim A\n", "[A, A]", "[A, A]", 6}};
  for (const Product& p : products)
    for (const bool exact : {false, true}) {
      std::vector<std::string> dtypes = exact ? std::vector<std::string>(std::begin(integers), std::end(integers))
                                              : std::vector<std::string>(std::begin(floats), std::end(floats));
      for (const std::string& dtype : dtypes) {
        const std::string head =
            fmt::format("program 1 alike\n{}in x {}{} local\nin w {}{} replicated\n", p.dims, dtype, p.x, dtype, p.w);
        const Sizing sizing{{{"N", p.size - 2}, {"M", p.size}, {"A", p.size}}, {}};
        SCOPED_TRACE(head);
        check(head + "y = matmul(x, w)\nout y\n", "", sizing, exact, 3);
        if (dtype == "i32" || dtype == "f32")
          check(head + "a = all_reduce(sum, matmul(x, w))\nout a\n", "", sizing, exact, 3);
        if (HasFailure()) return;
      }
    }
}

TEST(Kinds, AStateThatAProductUpdates) {
  check(
      "program 1 kept\ndim A\nin x i32[A, A] replicated\nstate w i32[A, A] replicated\nw1 = matmul(x, w)\nupdate w = "
      "w1\nout w1\n",
      "", {{{"A", 5}}, {}}, true, 3);
}

TEST(Kinds, FoldsOfProductsOverAnyDimensions) {
  const Sizing sizing{{{"N", 5}, {"M", 4}, {"K", 3}}, {}};
  const char* befores[] = {"", "x2 = all_reduce(sum, x)\n", "x2 = x * 2\n"};
  const char* folds[] = {"q = sum(y)\n", "q = sum(y, 0)\n", "q = sum(y, 1)\n", "q = sum(y * y)\n", "q = amax(y, 0)\n"};
  for (const char* before : befores)
    for (const char* fold : folds)
      for (const char* w : {"[M, M]", "[M, K]"}) {
        const std::string text = fmt::format(
            "program 1 folded\ndim N M K\nin x i32[N, M] local\nin w i32{} replicated\n{}y = matmul({}, w)\n{}out q\n",
            w, before, *before ? "x2" : "x", fold);
        SCOPED_TRACE(text);
        check(text, "", sizing, true, 3);
        if (HasFailure()) return;
      }
}

TEST(Kinds, ScattersOfInputs) {
  for (const char* root : {"0", "1"})
    for (const char* rest :
         {"out d\n", "e = d + 1\nout e\n", "e = all_gather(d)\nout e\n", "e = d * 2\nf = all_gather(e)\nout f\n"}) {
      const std::string text =
          fmt::format("program 1 given\ndim N\nin z i32[N] root({})\nd = scatter(z, 0)\n{}", root, rest);
      SCOPED_TRACE(text);
      for (const int64_t n : {0, 7, 40}) check(text, "", {{{"N", n}}, {}}, true, 4);
      if (HasFailure()) return;
    }
}

// With WEFT_VERIFY=1 the passes are checked too.
TEST(Kinds, AFoldOverTheOtherDimensionOfAStateThatIsCut) {
  setenv("WEFT_VERIFY", "1", 1);
  for (const char* fold : {"amin", "amax", "sum"})
    for (const int dim : {0, 1}) {
      const std::string text = fmt::format(
          "program 1 narrow\ndim A B\nstate w i32[A, B] replicated\nv = {}(w, {})\nx = w * i32(v)\nout x\n", fold, dim);
      const Sizing sizing{{{"A", 5}, {"B", 9}}, {}};
      SCOPED_TRACE(text);
      check(text, "", sizing, true, 3);
      if (dim == 0) check(text, "cut v 1\nreorder x\nfuse k: v.s x.s\n", sizing, true, 3);
    }
  unsetenv("WEFT_VERIFY");
}

}  // namespace
}  // namespace weft::lower
