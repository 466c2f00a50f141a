// The programs that schedules are tried on: those of docs/program.md and small ones for single rules.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/ir/program.h"

namespace weft::schedule::test {

inline constexpr std::string_view adam = R"(program 1 adam
dim N
scalar lr f64
scalar step i64
let b1 = 0.9
let b2 = 0.999
let eps = 1e-08
in g f32[N] local
state m f32[N] replicated
state v f32[N] replicated
state w f32[N] replicated
a = all_reduce(avg, g)
m1 = b1 * m + (1 - b1) * a
v1 = b2 * v + (1 - b2) * a * a
u = m1 / (1 - b1 ^ step) / (sqrt(v1 / (1 - b2 ^ step)) + eps)
w1 = w - lr * u
update m = m1
update v = v1
update w = w1
out w1
)";

inline constexpr std::string_view adamw_clip = R"(program 1 adamw_clip
tensors P
scalar lr f64
scalar step i64
let b1 = 0.9
let b2 = 0.999
in g f32[P] local
state m f32[P] replicated
state v f32[P] replicated
state w f32[P] replicated
a = all_reduce(avg, g)
q = sum(a * a)
c = min(1, 1.0 / (sqrt(q) + 1e-06))
d = c * a
m1 = b1 * m + (1 - b1) * d
v1 = b2 * v + (1 - b2) * d * d
u = m1 / (1 - b1 ^ step) / (sqrt(v1 / (1 - b2 ^ step)) + 1e-08)
w1 = w - lr * (u + 0.01 * w)
update m = m1
update v = v1
update w = w1
out w1
)";

inline constexpr std::string_view lamb = R"(program 1 lamb
tensors P
scalar lr f64
scalar step i64
let b1 = 0.9
let b2 = 0.999
in g f32[P] local
state m f32[P] replicated
state v f32[P] replicated
state w f32[P] replicated
a = all_reduce(avg, g)
m1 = b1 * m + (1 - b1) * a
v1 = b2 * v + (1 - b2) * a * a
u = m1 / (1 - b1 ^ step) / (sqrt(v1 / (1 - b2 ^ step)) + 1e-06) + 0.01 * w
nw = sum(w * w by P)
nu = sum(u * u by P)
t = select(nw > 0 and nu > 0, sqrt(nw) / sqrt(nu), 1.0)
w1 = w - lr * t * u
update m = m1
update v = v1
update w = w1
out w1
)";

inline constexpr std::string_view adam_mixed = R"(program 1 adam_mixed
tensors P
scalar lr f64
scalar step i64
scalar scale f64
let b1 = 0.9
let b2 = 0.999
in g f16[P] local
state m f32[P] replicated
state v f32[P] replicated
state w f32[P] replicated
a = all_reduce(avg, g)
d = f32(a) / scale
m1 = b1 * m + (1 - b1) * d
v1 = b2 * v + (1 - b2) * d * d
w1 = w - lr * (m1 / (1 - b1 ^ step)) / (sqrt(v1 / (1 - b2 ^ step)) + 1e-08)
p = f16(w1)
update m = m1
update v = v1
update w = w1
out p
)";

inline constexpr std::string_view attention_end = R"(program 1 attention_end
dim B S K H
scalar seed i64
in x f16[B, S, K] sliced(2)
in w f16[K, H] sliced(0)
in b f16[H] replicated
in r f16[B, S, H] replicated
layer = matmul(x, w)
s = all_reduce(sum, layer)
d = select(rand(seed, 1) < 0.1, 0, (s + b) / (1 - 0.1))
y = d + r
out y
)";

inline constexpr std::string_view mlp = R"(program 1 mlp
dim B S H F
scalar seed i64
in x f16[B, S, H] replicated
in w1 f16[H, F] sliced(1)
in b1 f16[F] sliced(0)
in w2 f16[F, H] sliced(0)
in b2 f16[H] replicated
h = matmul(x, w1)
a = gelu(h + b1)
z = matmul(a, w2)
s = all_reduce(sum, z)
d = select(rand(seed, 1) < 0.1, 0, (s + b2) / (1 - 0.1))
y = d + x
out y
)";

inline constexpr std::string_view sequence_parallel = R"(program 1 sequence_parallel
dim B S H F
scalar seed i64
in x f16[B, S, H] sliced(1)
in gain f16[H] replicated
in w1 f16[H, F] sliced(1)
in w2 f16[F, H] sliced(0)
in b2 f16[H] replicated
n.h1 = sum(x * x, -1)
n = x * f16(rsqrt(n.h1 / H + 1e-06)) * gain
g = all_gather(n)
h = matmul(g, w1)
a = gelu(h)
z = matmul(a, w2)
s = reduce_scatter(sum, z, 1)
d = select(rand(seed, 1) < 0.1, 0, (s + b2) / (1 - 0.1))
y = d + x
out y
)";

inline constexpr std::string_view pipeline = R"(program 1 pipeline
dim B S H
scalar seed i64
group stage = world.split(2)
in z f16[B, S, H] local on stage
in b f16[H] replicated on stage
in r f16[B, S, H] replicated on stage
s = all_reduce(sum, z)
d = select(rand(seed, 1) < 0.1, 0, (s + b) / (1 - 0.1))
y = d + r
x = send(y, 1)
out x
)";

inline constexpr std::string_view moe = R"(program 1 moe
dim R H F
ragged T by c
in c i64[R] local
in x f16[T, H] local
in w1 f16[H, F] local
in w2 f16[F, H] local
e = all_to_all(x)
h = matmul(e, w1)
a = silu(h)
o = matmul(a, w2)
y = all_to_all(o)
out y
)";

inline constexpr std::string_view sgd = R"(program 1 sgd
dim N
scalar lr f64
in g f32[N] local
state m f32[N] replicated
state w f32[N] replicated
a = all_reduce(avg, g)
m1 = 0.9 * m + a
w1 = w - lr * m1
update m = m1
update w = w1
out w1
)";

inline constexpr std::string_view sgd_int = R"(program 1 sgd_int
dim N
in g i64[N] local
state m i64[N] replicated
state w i64[N] replicated
a = all_reduce(sum, g)
m1 = 3 * m + a
w1 = w - 2 * m1
q = sum(w1 * w1)
update m = m1
update w = w1
out w1
out q
)";

// The examples of the issue, and the others of docs/program.md.
inline std::vector<std::pair<std::string_view, std::string_view>> examples() {
  return {{"adam", adam}, {"adamw_clip", adamw_clip}, {"lamb", lamb}, {"sgd", sgd}, {"adam_mixed", adam_mixed}, {"attention_end", attention_end}};
}
inline std::vector<std::pair<std::string_view, std::string_view>> all_programs() {
  auto all = examples();
  for (auto more : std::vector<std::pair<std::string_view, std::string_view>>{
           {"mlp", mlp}, {"sequence_parallel", sequence_parallel}, {"pipeline", pipeline}, {"moe", moe}, {"sgd_int", sgd_int}})
    all.push_back(more);
  return all;
}

// Tensors of every layout, for one statement or two: "y = ...\nout y\n".
inline ir::Program small(const std::string& body) {
  static const std::string head =
      "program 1 t\ndim N\ndim B\ndim H\ndim C\nscalar k i64\nin g f32[N] local\nin x f32[B, H] local\nin b f32[H] replicated\n"
      "in r f32[B, H] replicated\nin q f32[B, H] sliced(0)\nin z f32[B, H] sliced(1)\nstate w f32[N] replicated\n";
  return ir::parse(head + body);
}

}  // namespace weft::schedule::test
