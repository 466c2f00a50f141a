// The builder makes the Program of the text, byte for byte, for every complete program and example.
#include "weft/ir/builder.h"

#include <gtest/gtest.h>

#include "tests/unit/ir/support.h"

namespace weft::ir {
namespace {

constexpr Dtype f16 = Dtype::f16, f32 = Dtype::f32, i64 = Dtype::i64;

Term square_root(const Term& x) { return call("sqrt", {x}); }

// What the Adam family shares: u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps).
Term step_of(const Term& m1, const Term& v1, const Term& b1, const Term& b2, const Term& step, const Term& eps) {
  return m1 / (1 - pow(b1, step)) / (square_root(v1 / (1 - pow(b2, step))) + eps);
}

TEST(Builder, Adam) {
  Builder p("adam");
  const Size N = p.dim("N");
  const Term lr = p.scalar("lr"), step = p.scalar("step", i64);
  const Term b1 = p.let("b1", 0.9), b2 = p.let("b2", 0.999), eps = p.let("eps", 1e-08);
  const Term g = p.in("g", f32, {N}, local);
  const auto [m, v, w] = p.states<3>(f32, {N}, {"m", "v", "w"});
  const Term a = p("a", all_reduce(avg, g));
  const Term m1 = p("m1", b1 * m + (1 - b1) * a);
  const Term v1 = p("v1", b2 * v + (1 - b2) * a * a);
  const Term u = p("u", step_of(m1, v1, b1, b2, step, eps));
  const Term w1 = p("w1", w - lr * u);
  p.update(m, m1), p.update(v, v1), p.update(w, w1);
  p.out(w1);
  EXPECT_EQ(print(p.build()), complete_program("adam"));
}

struct Optimizer {
  Builder p;
  Size P;
  Term lr = 0, step = 0, scale = 0, b1 = 0, b2 = 0, g = 0, m = 0, v = 0, w = 0, a = 0;
  std::map<std::string, Term> lets;

  Optimizer(const char* name, Dtype gradient, const std::vector<std::pair<const char*, double>>& constants,
            bool with_scale = false, bool moments = true)
      : p(name) {
    P = p.tensors("P");
    lr = p.scalar("lr");
    if (moments) step = p.scalar("step", i64);
    if (with_scale) scale = p.scalar("scale");
    for (const auto& [let, value] : constants) lets.emplace(let, p.let(let, value));
    if (moments) b1 = lets.at("b1"), b2 = lets.at("b2");
    g = p.in("g", gradient, {P}, local);
    m = p.state("m", f32, {P});
    if (moments) v = p.state("v", f32, {P});
    w = p.state("w", f32, {P});
    a = p("a", all_reduce(avg, g));
  }
  std::string done(const Term& m1, const Term* v1, const Term& w1, const Term& out) {
    p.update(m, m1);
    if (v1) p.update(v, *v1);
    p.update(w, w1);
    p.out(out);
    return print(p.build());
  }
};

TEST(Builder, AdamOverTensors) {
  Optimizer o("adam", f32, {{"b1", 0.9}, {"b2", 0.999}, {"eps", 1e-08}});
  const Term m1 = o.p("m1", o.b1 * o.m + (1 - o.b1) * o.a), v1 = o.p("v1", o.b2 * o.v + (1 - o.b2) * o.a * o.a);
  const Term u = o.p("u", step_of(m1, v1, o.b1, o.b2, o.step, o.lets.at("eps")));
  const Term w1 = o.p("w1", o.w - o.lr * u);
  EXPECT_EQ(o.done(m1, &v1, w1, w1), without_comments(example("adam")));
}

TEST(Builder, AdamW) {
  Optimizer o("adamw", f32, {{"b1", 0.9}, {"b2", 0.999}, {"eps", 1e-08}, {"decay", 0.01}, {"clip", 1.0}});
  const Term q = o.p("q", sum(o.a * o.a));
  const Term c = o.p("c", call("min", {1, o.lets.at("clip") / (square_root(q) + 1e-06)}));
  const Term d = o.p("d", c * o.a);
  const Term m1 = o.p("m1", o.b1 * o.m + (1 - o.b1) * d), v1 = o.p("v1", o.b2 * o.v + (1 - o.b2) * d * d);
  const Term u = o.p("u", step_of(m1, v1, o.b1, o.b2, o.step, o.lets.at("eps")));
  const Term w1 = o.p("w1", o.w - o.lr * (u + o.lets.at("decay") * o.w));
  EXPECT_EQ(o.done(m1, &v1, w1, w1), without_comments(example("adamw")));
}

TEST(Builder, Lamb) {
  Optimizer o("lamb", f32, {{"b1", 0.9}, {"b2", 0.999}, {"eps", 1e-06}, {"decay", 0.01}});
  const Term m1 = o.p("m1", o.b1 * o.m + (1 - o.b1) * o.a), v1 = o.p("v1", o.b2 * o.v + (1 - o.b2) * o.a * o.a);
  const Term u = o.p("u", step_of(m1, v1, o.b1, o.b2, o.step, o.lets.at("eps")) + o.lets.at("decay") * o.w);
  const Term nw = o.p("nw", sum_by(o.w * o.w, "P")), nu = o.p("nu", sum_by(u * u, "P"));
  const Term t = o.p("t", call("select", {nw > 0 && nu > 0, square_root(nw) / square_root(nu), 1.0}));
  const Term w1 = o.p("w1", o.w - o.lr * t * u);
  EXPECT_EQ(o.done(m1, &v1, w1, w1), without_comments(example("lamb")));
}

TEST(Builder, Sgd) {
  Optimizer o("sgd", f32, {{"momentum", 0.9}, {"decay", 0.0001}}, false, false);
  const Term d = o.p("d", o.a + o.lets.at("decay") * o.w);
  const Term m1 = o.p("m1", o.lets.at("momentum") * o.m + d);
  const Term w1 = o.p("w1", o.w - o.lr * m1);
  EXPECT_EQ(o.done(m1, nullptr, w1, w1), without_comments(example("sgd")));
}

TEST(Builder, AdamMixed) {
  Optimizer o("adam_mixed", f16, {{"b1", 0.9}, {"b2", 0.999}, {"eps", 1e-08}}, true);
  const Term d = o.p("d", call("f32", {o.a}) / o.scale);
  const Term m1 = o.p("m1", o.b1 * o.m + (1 - o.b1) * d), v1 = o.p("v1", o.b2 * o.v + (1 - o.b2) * d * d);
  const Term u = o.p("u", step_of(m1, v1, o.b1, o.b2, o.step, o.lets.at("eps")));
  const Term w1 = o.p("w1", o.w - o.lr * u);
  const Term half = o.p("p", call("f16", {w1}));
  EXPECT_EQ(o.done(m1, &v1, w1, half), without_comments(example("adam_mixed")));
}

TEST(Builder, AttentionEnd) {
  Builder p("attention_end");
  const auto [B, S, K, H] = p.dims<4>({"B", "S", "K", "H"});
  const Term seed = p.scalar("seed", i64);
  const Term x = p.in("x", f16, {B, S, K}, sliced(2)), w = p.in("w", f16, {K, H}, sliced(0));
  const Term b = p.in("b", f16, {H}, replicated), r = p.in("r", f16, {B, S, H}, replicated);
  const Term layer = p("layer", matmul(x, w));
  const Term s = p("s", all_reduce(ReduceOp::sum, layer));
  const Term d = p("d", dropout(s + b, 0.1, seed, 1));
  const Term y = p("y", d + r);
  p.out(y);
  // The text names no hoisted value: there the definition was written out.
  EXPECT_NE(print(p.build()).find("d.h1 = s + b\nd = select(rand(seed, 1) < 0.1, 0, d.h1 / (1 - 0.1))\n"),
            std::string::npos);
  Builder q("attention_end");
  const auto [B2, S2, K2, H2] = q.dims<4>({"B", "S", "K", "H"});
  const Term seed2 = q.scalar("seed", i64);
  const Term x2 = q.in("x", f16, {B2, S2, K2}, sliced(2)), w2 = q.in("w", f16, {K2, H2}, sliced(0));
  const Term b2 = q.in("b", f16, {H2}, replicated), r2 = q.in("r", f16, {B2, S2, H2}, replicated);
  const Term s2 = q("s", all_reduce(ReduceOp::sum, q("layer", matmul(x2, w2))));
  const Term d2 = q("d", call("select", {call("rand", {seed2, 1}) < 0.1, 0, (s2 + b2) / (1 - Term(0.1))}));
  q.out(q("y", d2 + r2));
  EXPECT_EQ(print(q.build()), without_comments(example("attention_end")));
  EXPECT_EQ(print(q.build()), complete_program("attention_end"));
}

TEST(Builder, SequenceParallel) {
  Builder p("sequence_parallel");
  const auto [B, S, H, F] = p.dims<4>({"B", "S", "H", "F"});
  const Term seed = p.scalar("seed", i64);
  const Term x = p.in("x", f16, {B, S, H}, sliced(1)), gain = p.in("gain", f16, {H}, replicated);
  const Term w1 = p.in("w1", f16, {H, F}, sliced(1)), w2 = p.in("w2", f16, {F, H}, sliced(0)),
             b2 = p.in("b2", f16, {H}, replicated);
  const Term n = p("n", call("rms_norm", {x, gain}));
  const Term g = p("g", all_gather(n));
  const Term h = p("h", matmul(g, w1));
  const Term a = p("a", call("gelu", {h}));
  const Term z = p("z", matmul(a, w2));
  const Term s = p("s", reduce_scatter(ReduceOp::sum, z, 1));
  const Term d = p("d", call("select", {call("rand", {seed, 1}) < 0.1, 0, (s + b2) / (1 - Term(0.1))}));
  p.out(p("y", d + x));
  EXPECT_EQ(print(p.build()), complete_program("sequence_parallel"));
}

TEST(Builder, Mlp) {
  Builder p("mlp");
  const auto [B, S, H, F] = p.dims<4>({"B", "S", "H", "F"});
  const Term seed = p.scalar("seed", i64);
  const Term x = p.in("x", f16, {B, S, H}, replicated), w1 = p.in("w1", f16, {H, F}, sliced(1)),
             b1 = p.in("b1", f16, {F}, sliced(0));
  const Term w2 = p.in("w2", f16, {F, H}, sliced(0)), b2 = p.in("b2", f16, {H}, replicated);
  const Term h = p("h", matmul(x, w1)), a = p("a", call("gelu", {h + b1})), z = p("z", matmul(a, w2)),
             s = p("s", all_reduce(ReduceOp::sum, z));
  const Term d = p("d", call("select", {call("rand", {seed, 1}) < 0.1, 0, (s + b2) / (1 - Term(0.1))}));
  p.out(p("y", d + x));
  EXPECT_EQ(print(p.build()), complete_program("mlp"));
}

TEST(Builder, Pipeline) {
  Builder p("pipeline");
  const auto [B, S, H] = p.dims<3>({"B", "S", "H"});
  const Term seed = p.scalar("seed", i64);
  const std::string stage = p.group("stage", 2);
  const Term z = p.in("z", f16, {B, S, H}, local, stage), b = p.in("b", f16, {H}, replicated, stage),
             r = p.in("r", f16, {B, S, H}, replicated, stage);
  const Term s = p("s", all_reduce(ReduceOp::sum, z));
  const Term d = p("d", call("select", {call("rand", {seed, 1}) < 0.1, 0, (s + b) / (1 - Term(0.1))}));
  const Term y = p("y", d + r);
  p.out(p("x", send(y, 1)));
  EXPECT_EQ(print(p.build()), complete_program("pipeline"));
}

TEST(Builder, Moe) {
  Builder p("moe");
  const auto [R, H, F] = p.dims<3>({"R", "H", "F"});
  const Size T = p.ragged("T", "c");
  p.in("c", i64, {R}, local);
  const Term x = p.in("x", f16, {T, H}, local), w1 = p.in("w1", f16, {H, F}, local),
             w2 = p.in("w2", f16, {F, H}, local);
  const Term e = p("e", all_to_all(x)), h = p("h", matmul(e, w1)), a = p("a", call("silu", {h})),
             o = p("o", matmul(a, w2));
  p.out(p("y", all_to_all(o)));
  EXPECT_EQ(print(p.build()), complete_program("moe"));
}

// Everything else a builder can say, against the same said in text.
TEST(Builder, EveryForm) {
  Builder p("forms");
  const Size B = p.dim("B"), H = p.dim("H"), P = p.tensors("P");
  const Term k = p.scalar("k", i64);
  const std::string stage = p.group("stage", k * 2), col = p.across("col", stage);
  p.require(equals(Term(H) % Term(expr::name("ranks")), 0));
  const Term x = p.in("x", f32, {B, H}, local), q = p.in("q", f32, {B, H}, sliced(0)),
             r = p.in("r", f32, {B, H}, root("0"));
  const Term y = p.in("y", f32, {B, H}, local, col), t = p.in("t", f32, {Builder::per_tensor(P)}, replicated);
  p("a", reduce_scatter(ReduceOp::max, x, 1));
  p("b", reduce(ReduceOp::prod, x, "0"));
  p("c", broadcast(r));
  p("d", broadcast(x, "k"));
  p("e", scatter(r, 0));
  p("f", gather(q, "1"));
  p("g", all_to_all(q, 1));
  p("h", send(y, -1));
  p("i", fold("amax", -x, {0, -1}));
  p("j", !(t >= 1 || t <= 0) && differs(t, 2), 0);
  p("l", call("softmax", {q, -1}));
  p.out(p("z", t * int64_t(3)));
  const std::string text =
      "program 1 forms\ndim B\ndim H\ntensors P\nscalar k i64\ngroup stage = world.split(k * 2)\ngroup col = "
      "stage.across\nrequire H % ranks == 0\n"
      "in x f32[B, H] local\nin q f32[B, H] sliced(0)\nin r f32[B, H] root(0)\nin y f32[B, H] local on col\nin t "
      "f32[#P] replicated\n"
      "a = reduce_scatter(max, x, 1)\nb = reduce(prod, x, 0)\nc = broadcast(r)\nd = broadcast(x, k)\ne = scatter(r, "
      "0)\nf = gather(q, 1)\ng = all_to_all(q, 1)\nh = send(y, -1)\n"
      "i = amax(-x, 0, -1)\nj = not (t >= 1 or t <= 0) and t != 2 cut 0\nl = softmax(q, -1)\nz = t * 3\nout z\n";
  EXPECT_EQ(print(p.build()), print(parse(text)));
}

TEST(Builder, BlocksAndTheOtherWords) {
  Builder p("words");
  const auto [B, H] = p.dims<2>({"B", "H"});
  const Size T = p.ragged("T", "c");
  const Term seed = p.scalar("seed", i64);
  p.in("c", i64, {B}, local);
  const Term rows = p.in("rows", f32, {T, H}, local), back = p.in("back", f32, {Builder::transposed(T), H}, local);
  const Term s = p.in("s", f32, {B, H}, partial(ReduceOp::sum)), x = p.in("x", f32, {B, H, B, H}, local);
  const Term w = p.in("w", f32, {H, H, extent(3), extent(3)}, replicated), q = p.in("q", f32, {B, H}, sliced(0));
  Term y(0), z(0);
  p.overlap("o", [&] {
    p.fuse("f", [&] {
      const Term a = p("a.s", reduce_scatter(ReduceOp::sum, s, 0));
      y = p("y", a + index(1) * q);
    });
    z = p("z", all_gather(y));
  });
  p("v", conv2d(x, w) + index(-1));
  p.out(p("u", call("select", {rand(seed, 3) < 0.5, rows, 0})));
  p.out(p("t", all_to_all(back)));
  p.out(z);
  const std::string text =
      "program 1 words\ndim B H\nragged T by c\nscalar seed i64\nin c i64[B] local\nin rows f32[T, H] local\nin back "
      "f32[T.t, H] local\n"
      "in s f32[B, H] partial(sum)\nin x f32[B, H, B, H] local\nin w f32[H, H, 3, 3] replicated\nin q f32[B, H] "
      "sliced(0)\n"
      "overlap o:\n  fuse f:\n    a.s = reduce_scatter(sum, s, 0)\n    y = a.s + index(1) * q\n  z = all_gather(y)\n"
      "v = conv2d(x, w) + index(-1)\nu = select(rand(seed, 3) < 0.5, rows, 0)\nt = all_to_all(back)\nout u\nout t\nout "
      "z\n";
  EXPECT_EQ(print(p.build()), print(parse(text)));
  const auto rule = [](const std::function<void(Builder&, const Term&)>& act) -> std::string {
    try {
      Builder b("t");
      act(b, b.in("g", f32, {b.dim("N")}, replicated));
      b.build();
    } catch (const Error& error) { return error.rule(); }
    return "accepted";
  };
  EXPECT_EQ(rule([](Builder& b, const Term&) { b.fuse("f", [] {}); }), "F1");
  EXPECT_EQ(rule([](Builder& b, const Term& g) { b.fuse("f", [&] { b("y", g * 2.0); }); }), "K1");
  EXPECT_EQ(rule([](Builder& b, const Term& g) { b.fuse("N", [&] { b("y", g * 2.0); }); }), "F2");
  EXPECT_EQ(rule([](Builder& b, const Term&) { b.fuse("f", [&] { b.overlap("o", [] {}); }); }), "F1");
}

TEST(Builder, RefusesAsTheTextDoes) {
  Builder p("t");
  const Size N = p.dim("N");
  const Term g = p.in("g", f32, {N}, local), b = p.in("b", f32, {N}, replicated);
  const auto rule = [&](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& error) { return error.rule(); }
    return "accepted";
  };
  EXPECT_EQ(rule([&] { p("y", all_reduce(avg, b)); }), "L5");
  EXPECT_EQ(rule([&] { p("y", all_reduce(avg, g)); }), "accepted");  // the refused statement left nothing behind
  EXPECT_EQ(rule([&] { p("y", g * 2.0); }), "F2");
  EXPECT_EQ(rule([&] { p("z", call("f16", {g}) + g); }), "D1");
  EXPECT_EQ(rule([&] {
              p.in("3x", f32, {N}, local);
              p.build();
            }),
            "F1");
  Builder q("t");
  q.in("g", f32, {Size{"M", 1, false}}, local);
  EXPECT_EQ(rule([&] { q.build(); }), "F3");
  Builder r("t");
  const Term h = r.in("h", f32, {r.dim("N")}, local);
  EXPECT_EQ(rule([&] { r.out(h * 2.0); }), "F1");
  r.out(r("y", sum(call("rand", {1, 2}) * h)));
  EXPECT_EQ(rule([&] { r.build(); }), "accepted");
}

}  // namespace
}  // namespace weft::ir
