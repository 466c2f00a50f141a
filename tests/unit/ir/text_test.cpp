// The text form: what is printed reads back byte for byte, and is what was written.
#include <gtest/gtest.h>

#include "tests/unit/ir/support.h"
#include "weft/ir/ops.h"
#include "weft/ir/shapes.h"

namespace weft::ir {
namespace {

class CompletePrograms : public testing::TestWithParam<const char*> {};
TEST_P(CompletePrograms, ReadBackByteForByte) {
  const std::string text = complete_program(GetParam());
  const Program program = parse(text);
  EXPECT_EQ(print(program), text);
  EXPECT_EQ(infer(program).size(), program.tensors.size() + program.ops.size());
}
INSTANTIATE_TEST_SUITE_P(All, CompletePrograms,
                         testing::Values("adam", "adam_mixed", "adamw_clip", "lamb", "mlp", "sequence_parallel",
                                         "attention_end", "pipeline", "moe", "sgd_int"));

class Examples : public testing::TestWithParam<const char*> {};
TEST_P(Examples, AreCanonicalButForComments) {
  const std::string text = example(GetParam());
  EXPECT_EQ(print(parse(text)), without_comments(text));
  EXPECT_EQ(text.front(), '#') << "an example begins with what it is";
}
INSTANTIATE_TEST_SUITE_P(All, Examples, testing::Values("adam", "adamw", "lamb", "sgd", "adam_mixed", "attention_end"));

const char* blocks =
    "program 1 blocks\n"
    "dim N\n"
    "scalar lr f64\n"
    "in g f32[N] local\n"
    "state m f32[N] sliced(0)\n"
    "state w f32[N] sliced(0)\n"
    "overlap o:\n"
    "  h = g * 2.0\n"
    "  fuse f:\n"
    "    a.s = reduce_scatter(avg, h, 0)\n"
    "    m1.s = 0.9 * m + a.s\n"
    "    w1.s = w - lr * m1.s\n"
    "    w1 = all_gather(w1.s)\n"
    "nw = sum(w * w)\n"
    "q = all_reduce(sum, nw)\n"
    "update m = m1.s\n"
    "update w = w1.s\n"
    "out w1\n"
    "out q\n";

TEST(Text, BlocksReadBack) {
  const Program program = parse(blocks);
  EXPECT_EQ(print(program), blocks);
  ASSERT_EQ(program.blocks.size(), 2u);
  EXPECT_EQ(program.blocks[0].members, (std::vector<Name>{"h", "f"}));
  EXPECT_EQ(program.blocks[1].members, (std::vector<Name>{"a.s", "m1.s", "w1.s", "w1"}));
}

TEST(Text, UnitsOfBlocks) {
  const Program program = parse(blocks);
  const std::vector<Unit> outer = units(program);
  ASSERT_EQ(outer.size(), 3u);
  EXPECT_EQ(outer[0].block, &program.blocks[0]);
  EXPECT_EQ(outer[0].ops.size(), 5u);
  EXPECT_EQ(outer[1].block, nullptr);
  const std::vector<Unit> inner = units(program, outer[0]);
  ASSERT_EQ(inner.size(), 2u);
  EXPECT_EQ(inner[0].ops[0]->name, "h");
  EXPECT_EQ(inner[1].block, &program.blocks[1]);
}

// An overlap may also list the statements of its fuse block one by one.
TEST(Text, OverlapOfStatementsOfAFuseBlock) {
  Program program = parse(blocks);
  program.blocks[0].members = {"h", "a.s", "m1.s", "w1.s", "w1"};
  EXPECT_EQ(print(program), blocks);
}

// A block stands where its first member can: not before what another member needs.
TEST(Text, ABlockWaitsForItsOperands) {
  Program program = parse("program 1 t\ndim N\nin x f32[N] local\na = x * 2.0\nb = x + 1.0\nc = a + b\nout c\n");
  program.blocks.push_back({Block::Kind::fuse, "f", {"a", "c"}});
  const std::string text = print(program);
  EXPECT_NE(text.find("b = x + 1.0\nfuse f:\n  a = x * 2.0\n  c = a + b\n"), std::string::npos) << text;
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, EveryHeaderLine) {
  const std::string text =
      "program 1 header\n"
      "dim B S\n"
      "dim H\n"
      "require H % ranks == 0\n"
      "tensors P\n"
      "ragged T by c\n"
      "scalar k i64\n"
      "group stage = world.split(2 * k)\n"
      "group col = stage.across\n"
      "require ranks(stage) > 1\n"
      "scalar lr f64\n"
      "let half = lr / 2\n"
      "in c i64[4] local\n"
      "in x u8[B, 3, H] sliced(2) on stage\n"
      "in t bool[#P] root(1)\n"
      "in u f8e4m3[S] root(k) on col\n"
      "in y f32[] partial(max)\n"
      "state w f64[T, H] local\n"
      "r = t and not t or t\n"
      "out r\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, EveryStatementForm) {
  const std::string text =
      "program 1 forms\n"
      "dim B H K\n"
      "tensors P\n"
      "scalar seed i64\n"
      "group stage = world.split(2)\n"
      "in x f32[B, H] local\n"
      "in q f32[B, H] sliced(0)\n"
      "in w f32[H, K] replicated\n"
      "in p f32[P] replicated\n"
      "in r f32[B, H] root(0)\n"
      "in s f32[B, H] local on stage\n"
      "a = reduce_scatter(max, x, 1)\n"
      "b = reduce(prod, x, 0)\n"
      "c = broadcast(x, 1)\n"
      "d = broadcast(r)\n"
      "e = scatter(r, 0)\n"
      "f = gather(q, 1)\n"
      "g = all_to_all(q, 1)\n"
      "h = all_to_all(x)\n"
      "i = send(s, -1)\n"
      "j = matmul(x, w)\n"
      "k = sum(x * 2.0, 0, -1)\n"
      "l = amin(p by P) cut 0\n"
      "m = -(x - 1.0) ^ 2 / (1.0 - -3)\n"
      "n = select(rand(seed, 7) < 0.5 and x > 0, x, index(1))\n"
      "o = c cut 1\n"
      "out a\n";
  EXPECT_EQ(print(parse(text)), text);
}

// Operations inside expressions become statements of their own, innermost first.
TEST(Text, Hoisting) {
  const Program program = parse(
      "program 1 t\ndim N\nin g f32[N] local\nin w f32[N] replicated\n"
      "y = w - 0.1 * all_reduce(avg, g * 2.0) / sqrt(sum(w * sum(w, 0)))\n"
      "z = all_reduce(sum, sum(g * g))\n"
      "out y\n");
  EXPECT_NE(print(program).find("y.h1 = g * 2.0\n"
                                "y.h2 = all_reduce(avg, y.h1)\n"
                                "y.h3 = sum(w, 0)\n"
                                "y.h4 = sum(w * y.h3)\n"
                                "y = w - 0.1 * y.h2 / sqrt(y.h4)\n"
                                "z.h1 = sum(g * g)\n"
                                "z = all_reduce(sum, z.h1)\n"),
            std::string::npos)
      << print(program);
  EXPECT_EQ(print(parse(print(program))), print(program));
}

TEST(Text, Definitions) {
  const Program program = parse(
      "program 1 t\ndim B H\ntensors P\nscalar seed i64\n"
      "in x f16[B, H] sliced(0)\nin gain f16[H] replicated\nin b f16[H] replicated\nin w f32[P] replicated\nin u "
      "f32[P] replicated\n"
      "z = rms_norm(x, gain)\n"
      "d = dropout(z + b, 0.1, seed, 1)\n"
      "p = softmax(d, -1)\n"
      "r = norm(w by P) / norm(u by P)\n"
      "m = mean(x, -1)\n"
      "l = layer_norm(x, gain, b)\n"
      "c = x * f16(count(x, 0)) + count(x)\n"
      "out p\n");
  EXPECT_NE(print(program).find("z.h1 = sum(x * x, -1)\n"
                                "z = x * f16(rsqrt(z.h1 / H + 1e-06)) * gain\n"
                                "d.h1 = z + b\n"
                                "d = select(rand(seed, 1) < 0.1, 0, d.h1 / (1 - 0.1))\n"
                                "p.h1 = amax(d, -1)\n"
                                "p.h2 = exp(d - p.h1)\n"
                                "p.h3 = sum(p.h2, -1)\n"
                                "p = p.h2 / f16(p.h3)\n"
                                "r.h1 = sum(w * w by P)\n"
                                "r.h2 = sum(u * u by P)\n"
                                "r = sqrt(r.h1) / sqrt(r.h2)\n"
                                "m.h1 = sum(x, -1)\n"
                                "m = f16(m.h1 / H)\n"
                                "l.h1 = sum(x, -1)\n"
                                "l.h2 = f32(x) - l.h1 / H\n"
                                "l.h3 = sum(l.h2 * l.h2, -1)\n"
                                "l = f16(l.h2 * rsqrt(l.h3 / H + 1e-05)) * gain + b\n"
                                "c = x * f16(B) + B * H\n"),
            std::string::npos)
      << print(program);
}

// Errors carry the user's line even for what was hoisted out of it, and leave nothing behind.
TEST(Text, ErrorsOfHoistedOperations) {
  const std::string text =
      "program 1 t\ndim N\nin g f32[N] local\nin w f32[N] replicated\ny = w * sqrt(all_reduce(sum, w))\n";
  EXPECT_EQ(message_of(text),
            "5:30: L5: all_reduce of w, which is replicated: its ranks hold one value already, the sum would count it "
            "once per rank\n"
            "    y = w * sqrt(all_reduce(sum, w))\n"
            "                                 ^\n"
            "    drop it; to multiply by the number of ranks say so: x * ranks");
}

TEST(Text, LookUps) {
  const Program program = parse(complete_program("lamb"));
  EXPECT_EQ(find_op(program, "nu")->def->name, "sum");
  EXPECT_EQ(find_op(program, "g"), nullptr);
  EXPECT_TRUE(find_tensor(program, "m")->state);
  EXPECT_EQ(uses(program, "u").size(), 2u);
  EXPECT_TRUE(is_scalar(program, "lr"));
  EXPECT_TRUE(is_scalar(program, "b1"));
  EXPECT_FALSE(is_scalar(program, "P"));
  EXPECT_EQ(dims(program), (std::vector<std::string>{"P"}));
  EXPECT_EQ(lets(program).size(), 2u);
  EXPECT_EQ(update_of(program, "m1"), "m");
  EXPECT_EQ(update_of(program, "u"), std::nullopt);
  EXPECT_TRUE(is_out(program, "w1"));
  const Types types = infer(program);
  EXPECT_TRUE(is_small(types.at("nw")));
  EXPECT_FALSE(is_small(types.at("w")));
}

TEST(Shapes, BertAsPublished) {
  const std::vector<NamedShape> base = read_shapes(source_dir() / "examples/shapes/bert-base.shapes");
  EXPECT_EQ(base.size(), 199u);
  EXPECT_EQ(elements(base), 109482240);
  EXPECT_EQ(base[0].shape, (std::vector<int64_t>{30522, 768}));
  const std::vector<NamedShape> large = read_shapes(source_dir() / "examples/shapes/bert-large.shapes");
  EXPECT_EQ(large.size(), 391u);
  EXPECT_EQ(elements(large), 335141888);
}

TEST(Shapes, Forms) {
  const std::vector<NamedShape> list = parse_shapes("# two\na 2 3\nb.bias [4]\nscale\nempty 0 5\n");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[1].name, "b.bias");
  EXPECT_EQ(elements(list), 6 + 4 + 1 + 0);
  EXPECT_EQ(shapes_only(list)[0], (std::vector<int64_t>{2, 3}));
}

TEST(Shapes, ErrorsNameTheLine) {
  const auto said = [](const char* text) -> std::string {
    try {
      parse_shapes(text);
    } catch (const Error& error) { return error.what(); }
    return "accepted";
  };
  EXPECT_EQ(
      said("a 2 3\nb 4x\n"),
      "2:3: F1: `4x` is not a size\n    b 4x\n      ^^\n    NAME SIZE SIZE ..., sizes are integers of at least 0");
  EXPECT_NE(said("a 2\na 3\n").find("F2"), std::string::npos);
  EXPECT_NE(said("3 4\n").find("is not a name"), std::string::npos);
  EXPECT_NE(said("").find("empty"), std::string::npos);
  EXPECT_NE(said("a 99999999999999999999\n").find("99999999999999999999 does not fit 64 bits"), std::string::npos);
  EXPECT_NE(said("a 9223372036854775807 3\n").find("too many elements: more than 2^53"), std::string::npos);
  EXPECT_THROW(read_shapes("/nonexistent/x.shapes"), Error);
}

}  // namespace
}  // namespace weft::ir
