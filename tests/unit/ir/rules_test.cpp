// Every numbered rule, once accepted and once refused. Tests carry the rule's number.
#include <gtest/gtest.h>

#include "tests/unit/ir/support.h"
#include "weft/ir/builder.h"
#include "weft/ir/layout_rule.h"
#include "weft/ir/ops.h"

namespace weft::ir {
namespace {

// One tensor in every layout and of several shapes and dtypes.
const std::string header =
    "program 1 t\n"
    "dim N B H C K\n"
    "tensors P\n"
    "ragged T by c\n"
    "group stage = world.split(2)\n"
    "group col = stage.across\n"
    "scalar k i64\n"
    "scalar lr f64\n"
    "in c i64[K] local\n"
    "in g f32[N] local\n"
    "in x f32[B, H] local\n"
    "in b f32[H] replicated\n"
    "in one f32[B, 1] replicated\n"
    "in q f32[B, H] sliced(0)\n"
    "in z f32[B, H] sliced(1)\n"
    "in f f16[N] local\n"
    "in n i8[N] local\n"
    "in i f32[B, C, H, H] sliced(2)\n"
    "in j f32[B, C, H, H] sliced(1)\n"
    "in e f32[H, C, 3, 3] replicated\n"
    "in p f32[P] replicated\n"
    "in t f32[#P] replicated\n"
    "in r0 f32[B, H] root(0)\n"
    "in r1 f32[B, H] root(1)\n"
    "in s f32[B, H] partial(sum)\n"
    "in m f32[B, H] partial(max)\n"
    "in mm f32[B, H] partial(max)\n"
    "in si i64[B, H] partial(sum)\n"
    "in w1 f32[H, K] replicated\n"
    "in w1k f32[H, K] sliced(0)\n"
    "in rows f32[T, H] local\n"
    "in sx f32[B, H] local on stage\n"
    "in sb f32[H] replicated on stage\n"
    "in cx f32[B, H] local on col\n"
    "state w f32[N] replicated\n"
    "state v f32[N] replicated\n";

std::string with(const std::string& body) { return header + body; }
void accepts(const std::string& body) { EXPECT_EQ(message_of(with(body)), "accepted"); }
void refuses(const std::string& body, const std::string& rule) {
  EXPECT_EQ(refusal(with(body)), rule) << body << "\n" << message_of(with(body));
}
std::string type_of(const std::string& body, const Name& name) {
  const Program program = parse(with(body));
  return print(infer(program).at(name));
}
// The same message without the line number, which depends on the header above.
std::string said(const std::string& body) {
  const std::string text = message_of(with(body));
  return text.substr(text.find(':') + 1);
}

// ---- F: form
TEST(Rules, F0_version) {
  EXPECT_EQ(refusal("program 1 a\nin x f32[3] local\nout x\n"), "accepted");
  EXPECT_EQ(refusal("program 2 a\nin x f32[3] local\nout x\n"), "F0");
  EXPECT_NE(message_of("program 2 a\n").find("this build reads 1"), std::string::npos);
}
TEST(Rules, F1_syntax) {
  accepts("y = g + g\nout y\n");
  for (const char* body :
       {"y = g +\n", "for i in 0..3:\n  y = g\n", "y == g\n", "y g\n", "fuse ff:\nout g\n", "  y = g\n", "update w m\n",
        "out\n", "let 3 = 4\n", "dim\n", "y = g cut x\n", "group a = world\n", "in y f32[N\n", "in y f32[N] sideways\n",
        "program 1 again\n", "y = exp(g by P)\n", "fuse ff:\n  overlap o:\n    y = g\n"})
    refuses(body, "F1");
  EXPECT_EQ(said("for i in 0..3:\n  y = g\n"),
            "1: F1: `for`: control flow is not in the language\n    for i in 0..3:\n    ^^^\n    unroll it in the "
            "builder, or select(condition, a, b)");
}
TEST(Rules, F2_one_definition_a_name) {
  accepts("y = g + g\ny2 = g * g\nout y\n");
  for (const char* body : {"y = g + g\ny = g * g\n", "g = x\n", "k = x\n", "let H = 3\n", "dim b\n",
                           "fuse g:\n  y = b\n", "in c f32[N] local\n", "scalar ranks i64\n"})
    refuses(body, "F2");
}
TEST(Rules, F2_names_of_the_language_and_of_weft) {
  accepts(
      "y_s = g + g\nsums = y_s * 2.0\ny.h1 = g * 2.0\ny.s = p cut 0\nz1.p = sum(q, 0)\nz1.h2.s = q * 2.0\nout y_s\n");
  for (const char* body :
       {"sum = g + g\n", "out = g\n", "in select f32[N] local\n", "state update f32[N] replicated\n", "f16 = g\n",
        "dim matmul\n", "scalar exp f64\n", "let norm = 2\n", "fuse rand:\n  y = g\n", "group world = world.split(2)\n",
        "y.x = g\n", "y.s.s = q\n", "y.h = g\n", "in y.s f32[N] sliced(0)\n"})
    refuses(body, "F2");
  for (const char* body : {"y.s = g + g\n", "y.p = p * 2.0\n", "y.s = sum(q, 0)\n"}) refuses(body, "E3");
  EXPECT_EQ(said("sum = g + g\n"),
            "1: F2: sum is an operation\n    sum = g + g\n    ^^^\n    take another name: sum_1, my_sum");
  EXPECT_EQ(said("y.s = g + g\n"),
            "1: E3: y.s is local: names that end in .s belong to Weft's slices\n    y.s = g + g\n    ^^^\n    take a "
            "name without a dot");
}
TEST(Rules, F3_names_the_nearest_name) {
  EXPECT_NE(said("momentum = g * 2.0\ny = momentm + g\n").find("did you mean momentum? a value is computed"),
            std::string::npos);
  EXPECT_NE(said("let third = lrr / 3\n").find("did you mean lr?"), std::string::npos);
  EXPECT_NE(said("momentum = g * 2.0\nout momentun\n").find("did you mean momentum?"), std::string::npos);
  EXPECT_EQ(said("y = nobody + g\n").find("did you mean"), std::string::npos);
  EXPECT_NE(said("y = all_reduce(sum, lr)\n").find("lr is a number that is known at launch, not a tensor"),
            std::string::npos);
}
TEST(Rules, K1_O1_a_block_has_two_members) {
  accepts("fuse ff:\n  y = b * 2.0\n  y1 = y + b\nout y1\n");
  refuses("fuse ff:\n  y = b * 2.0\nout y\n", "K1");
  refuses("fuse ff:\n  y = b * 2.0\n", "K1");
  refuses("overlap ff:\n  y = b * 2.0\nout y\n", "O1");
  EXPECT_EQ(said("fuse ff:\n  y = b * 2.0\nout y\n"),
            "6: K1: the block ff has one member, y\n    fuse ff:\n         ^^\n    a fuse block joins two statements "
            "or more: "
            "add one, or write the statement without it");
}
TEST(Rules, F3_declared_before_use) {
  accepts("y = g\nout y\n");
  for (const char* body :
       {"y = nobody\n", "in y f32[M] local\n", "in y f32[#N] local\n", "in y f32[N] local on nowhere\n", "out nobody\n",
        "update w = nobody\n", "let a = g\n", "require M == 3\n", "require ranks(world2) == 1\n",
        "ragged U by nobody\n", "y = reduce(sum, g, g)\n", "group a = nobody.across\n", "y = z2 + g\nz2 = g\n"})
    refuses(body, "F3");
}
TEST(Rules, F4_known_operation_and_reduction) {
  accepts("y = exp(g)\nz2 = all_reduce(prod, g)\nout y\n");
  refuses("y = sort(g)\n", "F4");
  refuses("y = all_reduce(mul, g)\n", "F4");
  refuses("y = reshape(g)\n", "F4");
  EXPECT_NE(said("y = reshape(g)\n").find("reshape at the border"), std::string::npos);
  EXPECT_EQ(
      said("y = all_reduce(mul, g)\n"),
      "16: F4: mul is not a reduction\n    y = all_reduce(mul, g)\n                   ^^^\n    sum prod min max avg");
}
TEST(Rules, F4_differentiation_is_unsupported) {
  try {
    parse(with("y = grad(g)\n"));
    FAIL() << "accepted";
  } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::unsupported); }
}
TEST(Rules, F5_arity) {
  accepts("y = matmul(x, w1)\nout y\n");
  for (const char* body :
       {"y = matmul(x)\n", "y = all_reduce(x)\n", "y = all_gather(q, 0)\n", "y = reduce_scatter(sum, g)\n",
        "y = sum()\n", "y = sum(g, g)\n", "y = select(g, g)\n", "y = dropout(g, 0.1)\n", "y = dropout(g, 1.5, k, 1)\n",
        "y = reduce(sum, g, 1 + 2)\n", "y = send(sx, k)\n", "y = all_reduce(sum, g by P)\n"})
    refuses(body, "F5");
}
TEST(Rules, F6_one_update_per_state) {
  accepts("a = all_reduce(sum, g)\nupdate w = a\nupdate v = a\nout a\n");
  refuses("a = all_reduce(sum, g)\nupdate w = a\nupdate w = a\n", "F6");
  refuses("a = all_reduce(sum, g)\nupdate b = a\n", "F6");
}
TEST(Rules, F7_update_fits) {
  accepts("a = all_reduce(sum, g)\nupdate w = a\nout a\n");
  refuses("a = reduce_scatter(sum, g, 0)\nupdate w = a\n", "F7");
  refuses("a = f16(all_reduce(sum, g))\nupdate w = a\n", "F7");
  refuses("update w = b\n", "F7");
  EXPECT_EQ(said("a = reduce_scatter(sum, g, 0)\nupdate w = a\n"),
            "12: F7: state w is f32[N] replicated, a is f32[N] sliced(0)\n    update w = a\n               ^\n    "
            "convert the value (cast, all_gather) or declare the state so");
}
TEST(Rules, F8_acyclic) {
  Program program = parse(with("a = b + 1.0\nb2 = a * 2.0\nc2 = b2 - a\nout c2\n"));
  program.blocks.push_back({Block::Kind::fuse, "f", {"a", "b2"}});
  EXPECT_NO_THROW(infer(program));
  program.blocks[0].members = {"a", "c2"};  // b2 needs the block, the block needs b2
  try {
    infer(program);
    FAIL() << "accepted";
  } catch (const Error& error) { EXPECT_EQ(error.rule(), "F8"); }
}

// ---- S: sizes
TEST(Rules, S1_broadcasting) {
  accepts("y = x + b\ny1 = x * one\ny2 = p * t\nout y\n");
  EXPECT_EQ(type_of("y = p * t\n", "y"), "f32[P] replicated");
  EXPECT_EQ(type_of("y = t * 2.0\n", "y"), "f32[#P] replicated");
  refuses("y = g + b\n", "S1");
  refuses("y = t + b\n", "S1");
  EXPECT_EQ(said("y = g + b\n"),
            "9: S1: b has size H where the others have N (dimension -1)\n    y = g + b\n            ^\n    sizes are "
            "equal when their names are; state a requirement or reshape outside");
}
TEST(Rules, S1_sizes_fit_64_bits) {
  accepts("in y f32[9223372036854775807] local\n");  // a launch refuses it
  refuses("in y f32[9223372036854775808] local\n", "S1");
  refuses("in y f32[-1] local\n", "S1");
}
TEST(Rules, S2_fold_dimensions_exist) {
  accepts("y = sum(x, 0, -1)\ny1 = sum(p by P)\nout y\n");
  EXPECT_EQ(type_of("y = sum(x, -1)\n", "y"), "f32[B, 1] local");
  EXPECT_EQ(type_of("y = sum(x)\n", "y"), "f32[] local");
  EXPECT_EQ(type_of("y = sum(p by P)\n", "y"), "f32[#P] replicated");
  for (const char* body : {"y = sum(x, 2)\n", "y = sum(x, -3)\n", "y = sum(x by P)\n", "y = sum(x, 0, 0)\n",
                           "y = x + index(2)\n", "y = x + index(-3)\n", "y = index(0) < 3\n"})
    refuses(body, "S2");
  accepts("y = x + index(1) + index(-2)\nout y\n");
  refuses("y = x + index(k)\n", "F5");
}
TEST(Rules, S3_contracted_sizes_are_one) {
  accepts("y = matmul(x, w1)\nout y\n");
  EXPECT_EQ(type_of("y = matmul(x, w1)\n", "y"), "f32[B, K] local");
  refuses("y = matmul(x, x)\n", "S3");
  refuses("y = conv2d(x, e)\n", "S3");
}

// ---- D: dtypes
TEST(Rules, D0_known_dtypes) {
  accepts("in y bf16[N] local\nscalar s2 i64\n");
  refuses("in y float[N] local\n", "D0");
  refuses("in y f64x2[N] local\n", "D0");
  refuses("scalar s2 f32\n", "D0");
}
TEST(Rules, D1_one_dtype) {
  accepts("y = f32(f) + g\nout y\n");
  EXPECT_EQ(type_of("y = f32(f) + g\n", "y"), "f32[N] local");
  refuses("y = f + g\n", "D1");
  refuses("y = matmul(x, f16(w1))\n", "D1");
}
TEST(Rules, D2_scalars_are_weak) {
  EXPECT_EQ(type_of("y = lr * f\n", "y"), "f16[N] local");
  EXPECT_EQ(type_of("y = k * n\n", "y"), "i8[N] local");
  EXPECT_EQ(type_of("y = lr * 2.0\n", "y"), "f32[] replicated");
  refuses("y = n * 0.5\n", "D2");  // would become 0
  for (const char* body :
       {"y = n / (1 - 0.1)\n", "y = n * lr\n", "let h = 0.5\ny = n + h\n",
        "let h = k / 2.0\nlet hh = h * 2\ny = n - hh\n", "y = n < lr\n", "y = max(n, 1 / lr)\n", "y = n * 2 ^ k\n",
        "y = n + sqrt(k)\n", "y = select(n > 0, n, lr)\n", "y = n + rand(k, 1)\n", "y = n + index(0) * 0.5\n",
        "y = n + 1e30\n", "y = (n > 0) == 2\n", "y = (n > 0) != k\n", "y = g * (lr % 2)\n", "y = g + index(0) % 2\n",
        "y = g * rand(lr, 1)\n", "y = g * rand(k, 1e30)\n"})
    refuses(body, "D2");
  for (const char* body :
       {"y = n / (3 - 1)\n", "y = n * i8(lr)\n", "let h = k / 2\nlet hh = h * 2 + N\ny = n - hh\n", "y = n * 2.0\n",
        "y = n * k ^ 2\n", "y = select(n > 0, n, min(k, ranks))\n", "y = n + index(0) / 2\n", "y = (n > 0) == 1\n",
        "y = f32(n) * lr\n", "y = g + f32(index(0) % 2)\n", "y = n + (lr > 0)\n"})
    accepts(body);
  EXPECT_EQ(
      said("y = n / (1 - 0.1)\n"),
      "10: D2: 1 - 0.1 meets i8 and is not an integer for sure\n    y = n / (1 - 0.1)\n             ^^^^^^^\n    cast "
      "the tensor: f32(...), or the number: i8(1 - 0.1)");
  refuses("y = n + 1000\n", "D2");
  refuses("y = rand(g, 1) * g\n", "D2");
}
TEST(Rules, D5_casts_are_written_where_rounding_is_meant) {
  EXPECT_EQ(type_of("y = exp(f) * f\n", "y"), "f16[N] local");  // computed in f32, named f16
  refuses("y = f16(exp(f32(f))) + f32(f)\n", "D1");
}
TEST(Rules, D3_avg_is_for_floats) {
  accepts("y = all_reduce(avg, f)\nout y\n");
  refuses("y = all_reduce(avg, n)\n", "D3");
  refuses("y = mean(n)\n", "D3");
}
TEST(Rules, D4_folds_are_wide) {
  EXPECT_EQ(type_of("y = sum(f)\n", "y"), "f32[] local");
  EXPECT_EQ(type_of("y = prod(n)\n", "y"), "i64[] local");
  EXPECT_EQ(type_of("y = amax(f)\n", "y"), "f16[] local");
  EXPECT_EQ(type_of("y = sum(g > 0)\n", "y"), "i64[] local");
  EXPECT_EQ(type_of("y = all_reduce(sum, n)\n", "y"), "i8[N] replicated");
}

// ---- W: groups
TEST(Rules, W1_operands_on_one_group) {
  accepts("y = sx + sb\nout y\n");
  EXPECT_EQ(type_of("y = all_reduce(sum, sx)\n", "y"), "f32[B, H] replicated on stage");
  refuses("y = sx + b\n", "W1");
  refuses("y = sx + cx\n", "W1");
}
TEST(Rules, W2_send_to_the_next_group) {
  accepts("y = send(sx, 1)\ny1 = send(y, -1)\nout y\n");
  refuses("y = send(b, 1)\n", "W2");
  refuses("y = send(sx, 2)\n", "W2");
}
TEST(Rules, W2_presence_is_the_intersection) {
  const Types types = infer(parse(with("a = send(sx, 1)\nb2 = send(sx, -1)\ny = a + b2\nback = send(a, -1)\n")));
  EXPECT_EQ(types.at("a").presence, (Presence{1, 0}));
  EXPECT_EQ(types.at("y").presence, (Presence{1, 1}));
  EXPECT_EQ(types.at("back").presence, (Presence{0, 1}));
}

// ---- L: layouts
TEST(Rules, L1_sliced_dimension_exists) {
  accepts("in y f32[B, H] sliced(1)\ny1 = reduce_scatter(sum, x, 1)\ny2 = b cut 0\n");
  for (const char* body :
       {"in y f32[B, H] sliced(2)\n", "in y f32[B, 1] sliced(1)\n", "y = reduce_scatter(sum, x, 2)\n",
        "y = scatter(r0, 5)\n", "y = b cut 1\n", "y = one cut 1\n", "y = all_to_all(q, 2)\n"})
    refuses(body, "L1");
}
TEST(Rules, L2_local_with_replicated) {
  EXPECT_EQ(type_of("y = x + b\n", "y"), "f32[B, H] local");
  refuses("y = x + q\n", "L4");
}
TEST(Rules, L3_root_with_replicated) {
  EXPECT_EQ(type_of("y = r0 + b\n", "y"), "f32[B, H] root(0)");
  refuses("y = r0 + r1\n", "L4");
}
TEST(Rules, L4_two_kinds_of_layout) {
  accepts("y = all_gather(q) + x\nout y\n");
  for (const char* body : {"y = x + q\n", "y = q + s\n", "y = r0 + x\n", "y = s + x\n", "y = r0 + q\n"})
    refuses(body, "L4");
  EXPECT_EQ(said("y = x + q\n"),
            "9: L4: x is local, q is sliced(0)\n    y = x + q\n            ^\n    bring one of them to replicated, or "
            "both to the same layout");
}
TEST(Rules, L5_conversions_get_what_they_take) {
  accepts(
      "a = all_reduce(sum, x)\nb2 = all_gather(q)\nc2 = broadcast(r0)\nd = broadcast(x, 1)\ne2 = scatter(r0, 0)\nf2 = "
      "gather(q, 1)\ng2 = all_to_all(q, 1)\nh = all_to_all(rows)\no = reduce(sum, x, 1)\n");
  for (const char* body : {"y = all_reduce(sum, b)\n", "y = all_reduce(sum, q)\n", "y = all_gather(x)\n",
                           "y = broadcast(x)\n", "y = broadcast(q)\n", "y = broadcast(r0, 1)\n", "y = scatter(b, 0)\n",
                           "y = gather(x, 0)\n", "y = all_to_all(b)\n", "y = all_to_all(q)\n", "y = all_to_all(x, 1)\n",
                           "y = reduce_scatter(sum, b, 0)\n", "y = reduce(sum, r0, 0)\n"})
    refuses(body, "L5");
  EXPECT_EQ(said("y = all_reduce(sum, b)\n"),
            "21: L5: all_reduce of b, which is replicated: its ranks hold one value already, the sum would count it "
            "once per rank\n"
            "    y = all_reduce(sum, b)\n                        ^\n    drop it; to multiply by the number of ranks "
            "say so: x * ranks");
  EXPECT_NE(said("y = all_reduce(prod, b)\n").find("drop it; to raise it to the number of ranks say so: x ^ ranks"),
            std::string::npos);
  EXPECT_NE(said("y = reduce_scatter(max, b, 0)\n").find("\n    take its slice: b cut 0"), std::string::npos);
  accepts("y = b ^ ranks\nz2 = b cut 0\nz3 = all_gather(z2)\nout y\nout z3\n");
}
TEST(Rules, L6_the_pending_reduction) {
  accepts("y = all_reduce(sum, s)\ny1 = reduce_scatter(max, m, 0)\nout y\n");
  refuses("y = all_reduce(max, s)\n", "L6");
  refuses("y = all_reduce(avg, s)\n", "L6");
  EXPECT_EQ(said("y = all_reduce(max, s)\n"),
            "16: L6: s is a pending sum, all_reduce asks for max\n    y = all_reduce(max, s)\n                   ^^^\n "
            "   all_reduce(sum, s)");
}
TEST(Rules, L7_only_what_is_linear) {
  for (const char* body : {"y = s + s\n", "y = 2.0 * s\n", "y = s / lr\n", "y = -s\n", "y = f16(s)\n",
                           "y = select(b > 0, s, 0)\n", "y = b * s\n", "y = matmul(s, w1)\n", "y = sum(s, 0)\n",
                           "y = max(m, mm)\n", "y = amax(m, 1)\n", "y = si * 3\n"})
    accepts(body);
  EXPECT_EQ(type_of("y = matmul(s, w1)\n", "y"), "f32[B, K] partial(sum)");
  EXPECT_EQ(type_of("y = amax(m, 1)\n", "y"), "f32[B, 1] partial(max)");
  for (const char* body :
       {"y = s + 1.0\n", "y = s + b\n", "y = s * s\n", "y = 1 / s\n", "y = exp(s)\n", "y = select(s > 0, s, 0)\n",
        "y = amax(s)\n", "y = max(m, b)\n", "y = sum(m)\n", "y = m + m\n", "y = prod(s)\n", "y = sum(s * s)\n",
        "y = si / 2\n", "y = i64(s)\n", "y = max(m, s)\n"})
    refuses(body, "L7");
  EXPECT_EQ(said("zz = sum(z, 1)\ny = zz + 1.0\n"),
            "5: L7: zz is a pending sum; this is not linear in it, so it would be done to each contribution\n    y = "
            "zz + 1.0\n        ^^\n    finish it first: all_reduce(sum, zz)");
}
TEST(Rules, L8_nothing_pending_leaves) {
  accepts("y = all_reduce(sum, s)\nout y\n");
  refuses("out s\n", "L8");
  refuses("y = sum(q, 0)\nout y\n", "L8");
  refuses("state st f32[B] partial(sum)\n", "L8");
  refuses("in gp f32[N] partial(sum)\nupdate w = gp\n", "L8");
}
TEST(Rules, L9_one_factor) {
  EXPECT_EQ(type_of("y = q + b\n", "y"), "f32[B, H] sliced(0)");  // b has no such factor: read whole
  EXPECT_EQ(type_of("y = z + b\n", "y"), "f32[B, H] sliced(1)");  // b has it: read in its part
  EXPECT_EQ(type_of("y = matmul(q, w1)\n", "y"), "f32[B, K] sliced(0)");
  EXPECT_EQ(type_of("y = conv2d(j, e)\n", "y"), "f32[B, H, H, H] partial(sum)");
  refuses("y = q + z\n", "L9");
  refuses("y = matmul(q, w1k)\n", "L9");
  EXPECT_EQ(said("y = q + z\n"),
            "9: L9: q is sliced(0) and z is sliced(1): not the same dimension of the result\n    y = q + z\n           "
            " ^\n    all_gather one, or all_to_all it to the other's dimension");
}
TEST(Rules, L10_whole_factors_are_not_cut) {
  accepts("y = conv2d(j, e)\n");
  refuses("y = conv2d(i, e)\n", "L10");
  EXPECT_EQ(said("y = conv2d(i, e)\n"),
            "12: L10: conv2d needs its neighbours along dimension 2, which is cut\n    y = conv2d(i, e)\n              "
            " ^\n    slice batch or channels instead (halo exchange is not in the language)");
}
TEST(Rules, L11_a_reduced_factor_that_is_cut_is_pending) {
  EXPECT_EQ(type_of("y = sum(q, 0)\n", "y"), "f32[1, H] partial(sum)");
  EXPECT_EQ(type_of("y = sum(q, 1)\n", "y"), "f32[B, 1] sliced(0)");
  EXPECT_EQ(type_of("y = amin(q)\n", "y"), "f32[] partial(min)");
  EXPECT_EQ(type_of("y = matmul(z, w1k)\n", "y"), "f32[B, K] partial(sum)");
  EXPECT_EQ(type_of("y = sum(p * p by P) cut 0\n", "y"), "f32[#P] partial(sum)");
  EXPECT_EQ(type_of("y = b cut 0\n", "y"), "f32[H] sliced(0)");
}
TEST(Rules, L11_cut_only_where_nothing_is) {
  accepts("y = b cut 0\n");
  refuses("y = q + b cut 0\n", "L11");
  refuses("y = x cut 0\n", "L11");
  refuses("y = all_reduce(sum, x) cut 0\n", "L11");
}

TEST(Rules, RaggedRowsComeBack) {
  EXPECT_EQ(type_of("y = all_to_all(rows)\n", "y"), "f32[T.t, H] local");
  EXPECT_EQ(type_of("y = all_to_all(rows)\nz2 = all_to_all(y)\n", "z2"), "f32[T, H] local");
}

// Every operation is in one table, with a signature and a meaning, and can be found by its name.
TEST(Operations, TheRegistryIsComplete) {
  for (const OpDef* def : op_registry()) {
    EXPECT_EQ(find_op_def(def->name), def);
    EXPECT_FALSE(def->signature.empty());
    EXPECT_FALSE(def->meaning.empty());
    EXPECT_TRUE(def->evaluate);
    EXPECT_EQ(def->convert == nullptr, def->op_class != OpClass::communication);
    EXPECT_NE(def->convert == nullptr, def->factors == nullptr);
  }
  EXPECT_EQ(op_registry().size(), 16u);
  EXPECT_EQ(definitions().size(), 7u);
}

}  // namespace
}  // namespace weft::ir
