// Kernels as text: what a plan prints reads back, and rule V1 refuses what is no kernel.
#include <gtest/gtest.h>

#include "weft/kernel/kernel.h"

using namespace weft;
using namespace weft::kernel;

namespace {

Kernel parse_kernel(const std::string& text) {
  const std::vector<SourceLine> lines = source_lines(text);
  Kernel kernel = parse_header(lines.at(0));
  for (size_t i = 1; i < lines.size(); i++) kernel.body.push_back(parse_assignment(lines[i]));
  return kernel;
}

const std::string adam =
    "kernel k_m1_s(lr, step): a_s, m, v, w -> m1_s, v1_s, w1_s, w1_s, w1_s\n"
    "  a_s = a_s / ranks\n"
    "  m1_s = 0.9 * m + (1 - 0.9) * a_s\n"
    "  v1_s = 0.999 * v + (1 - 0.999) * a_s * a_s\n"
    "  u_s = m1_s / (1 - 0.9 ^ step) / (sqrt(v1_s / (1 - 0.999 ^ step)) + 1e-08)\n"
    "  w1_s = w - lr * u_s";
const std::string squares = "kernel squares: w, u -> q\n  q = sum(w * w + u * u)";
const std::string product = "kernel mm(rows, cols): x, w -> y\n  y = matmul(x, w)";

void expect_refused(const std::string& text, const std::string& part) {
  try {
    check(parse_kernel(text));
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::plan) << error.what();
    EXPECT_EQ(error.rule(), "V1") << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty()) << error.what();
  }
}

}  // namespace

TEST(KernelText, ReadsBackByteForByte) {
  for (const std::string& text :
       {adam, squares, product, std::string("kernel zero: -> y\n  y = 0.5 * ranks"),
        std::string("kernel both: x -> y, q, p\n  y = x * 2\n  q = amax(abs(y))\n  p = prod(x)")}) {
    const Kernel kernel = parse_kernel(text);
    EXPECT_NO_THROW(check(kernel)) << text;
    EXPECT_EQ(print(kernel), text);
    EXPECT_EQ(print(parse_kernel(print(kernel))), text);
  }
}

TEST(KernelText, KindsFollowFromTheBody) {
  EXPECT_EQ(kind(parse_kernel(adam)), Kind::pointwise);
  EXPECT_EQ(kind(parse_kernel(squares)), Kind::fold);
  EXPECT_EQ(kind(parse_kernel(product)), Kind::tile);
  EXPECT_EQ(kind(Kernel{}), Kind::pointwise);
}

TEST(KernelText, FoldsAreWholeRightSides) {
  EXPECT_EQ(parse_kernel("kernel k: x -> y\n  y = sum(x * (x + 1))").body[0].kind, AssignmentKind::fold);
  EXPECT_EQ(parse_kernel("kernel k: x -> y\n  y = sum").body[0].kind, AssignmentKind::map);
  expect_refused("kernel k: x -> y\n  y = sum(x) + sum(x)", "sum stands inside an expression");
  expect_refused("kernel k(rows, cols): x, w -> y\n  y = 1 + matmul(x, w)", "matmul stands inside");
}

TEST(KernelText, V1HeaderForm) {
  expect_refused("kernal k: x -> y\n  y = x", "no kernel's header");
  expect_refused("kernel k x -> y\n  y = x", "lacks");
  expect_refused("kernel k: x\n  y = x", "lacks");
  expect_refused("kernel k(a: x -> y\n  y = x", "not closed");
  expect_refused("kernel 3k: x -> y\n  y = x", "no name");
  expect_refused("kernel k: x, 3 -> y\n  y = x", "no name");
  expect_refused("kernel k: x ->\n  y = x", "without outputs");
  expect_refused("kernel k: x -> y\n  y", "no assignment");
  expect_refused("kernel k: x -> y\n  y =", "assigned nothing");
}

TEST(KernelText, V1NamesAreDeclared) {
  expect_refused("kernel k: x -> y\n  y = x + z", "reads z");
  expect_refused("kernel k: x -> z\n  y = x", "output z is never assigned");
  expect_refused("kernel k: x, x -> y\n  y = x", "declared twice");
  expect_refused("kernel k(x): x -> y\n  y = x", "declared twice");
  expect_refused("kernel k(ranks): x -> y\n  y = x", "ranks");
  expect_refused("kernel k(s): x -> y\n  s = x\n  y = s", "scalar");
  expect_refused("kernel k: x -> y\n  y = frobnicate(x)", "frobnicate");
  EXPECT_NO_THROW(check(parse_kernel("kernel k: x -> x, x\n  x = x + ranks")));
}

TEST(KernelText, V1FoldsEndInOutputs) {
  expect_refused("kernel k: x -> y\n  q = sum(x)\n  y = x + q", "reads the fold q");
  expect_refused("kernel k: x -> y\n  q = sum(x)\n  y = x", "nobody takes the fold q");
  expect_refused("kernel k: x -> x\n  x = sum(x)", "name of an element");
  expect_refused("kernel k: x -> q\n  q = sum(x)\n  q = sum(x)", "again");
}

TEST(KernelText, V1TileShape) {
  expect_refused("kernel k(rows): x, w -> y\n  y = matmul(x, w)", "cols is missing");
  expect_refused("kernel k(rows, cols): x, w -> y\n  y = matmul(x, w, x)", "3 operands");
  expect_refused("kernel k(rows, cols): x, w -> y\n  y = matmul(x, v)", "no input");
  expect_refused("kernel k(rows, cols): x, w, v -> y\n  y = matmul(x, w)", "3 inputs");
  expect_refused("kernel k(rows, cols): x, w -> y\n  y = matmul(x, w)\n  z = x", "beside other lines");
  expect_refused("kernel k(rows, cols): x, w -> x\n  y = matmul(x, w)", "not the product");
}
