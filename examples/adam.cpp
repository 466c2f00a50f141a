// Data-parallel training steps on two ranks with a fused, sharded Adam: fits y = 3 x by gradient descent, where each rank
// sees its own half of the data. Build it in C++ or parse examples/adam.weft: both make the same program.
//
//   build/release/examples/adam            two processes; prints the loss of both halves falling, the same weights on both
#include <cstdio>
#include <map>
#include <vector>

#include "weft/api/weft.h"

using namespace weft;
using namespace weft::ir;

Program adam() {
  Builder p("adam");
  const Size N = p.dim("N");
  const Term lr = p.scalar("lr"), step = p.scalar("step", Dtype::i64), b1 = p.let("b1", 0.9), b2 = p.let("b2", 0.999);
  const Term g = p.in("g", Dtype::f32, {N}, local);
  const auto [m, v, w] = p.states<3>(Dtype::f32, {N}, {"m", "v", "w"});
  const Term a = p("a", all_reduce(ReduceOp::avg, g));
  const Term m1 = p("m1", b1 * m + (1 - b1) * a), v1 = p("v1", b2 * v + (1 - b2) * a * a);
  const Term w1 = p("w1", w - lr * (m1 / (1 - pow(b1, step))) / (call("sqrt", {v1 / (1 - pow(b2, step))}) + 1e-8));
  p.update(m, m1), p.update(v, v1), p.update(w, w1);
  p.out(w1);
  return p.build();
}

int main() try {
  constexpr int64_t features = 1000;
  run(2, [&](Rank& rank) {
    PrepareOptions options;
    options.sizes.dims["N"] = features;
    options.schedule = "tuned";  // what `weft tune` found here, else the most fused one; "tune" measures now
    options.own_buffers = true;  // our memory; false: Weft's, which peers map, so that nothing is copied
    Executable update = rank.prepare(adam(), options);
    std::vector<float> gradient(features), weights(features);
    update.bind("g", std::span(gradient));
    update.bind("w1", std::span(weights));            // the state w too: w1 is its new value and lies in its memory
    std::map<std::string, std::vector<float>> state;  // zeros; this rank's part where the schedule stores slices
    for (const char* name : {"m", "v"})
      update.bind(name, std::span(state[name] = std::vector<float>(update.bytes(name) / sizeof(float))));
    for (int step = 1; step <= 300; step++) {
      double loss = 0;
      for (int64_t i = 0; i < features; i++) {
        const float x = static_cast<float>((i * 7 + rank.rank()) % 5 + 1) / 5;  // this rank's data
        const float error = weights[i] * x - 3 * x;
        gradient[i] = error * x;
        loss += 0.5 * error * error / features;
      }
      update.launch({{"lr", 0.05}, {"step", step}});
      if (step % 100 == 0) std::printf("rank %d step %d loss %.6f w[0] %.6f\n", rank.rank(), step, loss, weights[0]);
    }
  });
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "adam: %s\n", error.what());
  return exit_code(error.kind());
}
