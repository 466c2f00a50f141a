// Figures of docs/runtime.md, printed when WEFT_FIGURES=1: a step, an 8-byte all_reduce, large ones.
// The kernels are written by hand here, so that the runtime is measured and not a code generator.
#include <cstdlib>

#include "tests/unit/runtime/harness.h"
#include "weft/transport/board.h"
#include "weft/transport/wait.h"

namespace weft::runtime::test {
namespace {

template <int sources>
void add(const kernel::StepArgs* args, const void* self) {
  const auto targets = static_cast<int>(reinterpret_cast<intptr_t>(self));
  const float* from[sources];
  for (int s = 0; s < sources; ++s) from[s] = static_cast<const float*>(args->sources[s]);
  for (int t = 0; t < targets; ++t) {
    auto* to = static_cast<float*>(args->targets[t]);
    for (int64_t i = 0; i < args->count; ++i) {
      float sum = from[0][i];
      for (int s = 1; s < sources; ++s) sum += from[s][i];
      to[i] = sum;
    }
  }
}

// All targets in one pass: what generated code does.
template <int sources>
void add_to_two(const kernel::StepArgs* args, const void*) {
  const float* from[sources];
  for (int s = 0; s < sources; ++s) from[s] = static_cast<const float*>(args->sources[s]);
  auto* a = static_cast<float*>(args->targets[0]);
  auto* b = static_cast<float*>(args->targets[1]);
  for (int64_t i = 0; i < args->count; ++i) {
    float sum = from[0][i];
    for (int s = 1; s < sources; ++s) sum += from[s][i];
    a[i] = sum, b[i] = sum;
  }
}

class HandLibrary : public kernel::KernelLibrary {
 public:
  std::vector<kernel::StepCode> find(const std::vector<kernel::StepShape>& shapes) override {
    std::vector<kernel::StepCode> codes;
    for (const kernel::StepShape& shape : shapes) {
      const size_t sources = shape.reduced.size() + shape.others.size();
      kernel::StepCode code;
      code.run = sources == 1 ? add<1> : sources == 2 ? add<2> : sources == 3 ? add<3> : add<4>;
      if (shape.targets.size() == 2)
        code.run = sources == 1   ? add_to_two<1>
                   : sources == 2 ? add_to_two<2>
                   : sources == 3 ? add_to_two<3>
                                  : add_to_two<4>;
      need(sources <= 4 && shape.kernel.name.empty(), "a sum of up to four");
      code.self = reinterpret_cast<const void*>(static_cast<intptr_t>(shape.targets.size()));
      codes.push_back(code);
    }
    return codes;
  }
  std::string_view name() const override { return "hand"; }
};

constexpr const char* local_steps = R"(plan 1 local
order any
round once
channels 1
space s parts 128 even
buffer x s f32 in
buffer y s f32 out
lane main:
  loop s:
    for i in 0..64:
      sum(x[2*i], x[2*i+1]) -> y[i]
)";
constexpr const char* one_step = R"(plan 1 one_step
order any
round once
channels 1
space s parts 2 even
buffer x s f32 in
buffer y s f32 out
lane main:
  loop s:
    sum(x[0], x[1]) -> y[0]
)";
std::string mesh(const char* protocol) {
  return fmt::format(R"(plan 1 mesh
order rank
round once
channels 1
space s parts 1 even
buffer x s f32 in
buffer y s f32 out
link main {} slots 4
lane main:
  loop s:
    feed: x[0] -> >0..r, >r+1..n
    fin: sum(<0..r, x[0], <r+1..n) -> y[0]
)",
                     protocol);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// ns per launch, median of rounds; `prepare` rewrites the inputs before every launch, inside the measured time.
struct Measured {
  double median, best;
};
Measured measure(transport::Transport& t, Bound& bound, int launches, int rounds,
                 const std::function<void(int)>& prepare) {
  std::vector<double> list;
  for (int round = 0; round < rounds; ++round) {
    t.barrier("round");
    const int64_t begin = now_ns();
    for (int i = 0; i < launches; ++i) {
      if (prepare) prepare(i);
      bound.launch();
    }
    list.push_back(static_cast<double>(now_ns() - begin) / launches);
  }
  return {median(list), *std::min_element(list.begin(), list.end())};
}

plan::LaunchArgs args_for(const plan::Plan& plan, int64_t elements, std::vector<void*> buffers) {
  plan::LaunchArgs args;
  for (size_t s = 0; s < plan.spaces.size(); ++s) args.spaces.push_back(flat(elements));
  args.buffers.resize(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b]) args.buffers[b] = plan::Dense{buffers[b]};
  return args;
}

class Figures : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("WEFT_FIGURES")) GTEST_SKIP() << "set WEFT_FIGURES=1 to measure";
  }
};

TEST_F(Figures, LocalSteps) {
  transport::run_threads(1, [](transport::Transport& t) {
    HandLibrary kernels;
    Communicator communicator(t, kernels);
    LoadOptions load;
    load.verify = false;
    std::vector<float> x(256, 1), y(256, 0);
    for (const auto& [text, steps] : {std::pair(local_steps, 64), std::pair(one_step, 1)}) {
      const plan::Plan plan = plan::parse(text);
      Bound bound(communicator, communicator.load(plan, load),
                  args_for(plan, steps == 64 ? 256 : 4, {x.data(), y.data()}));
      double best = 1e9;
      for (int round = 0; round < 20; ++round)
        best = std::min(best, measure(t, bound, steps == 64 ? 1000 : 20000, 1, {}).best);
      fmt::print("bound local step, 2 floats, {} a launch: {:.1f} ns a step, {:.1f} ns a launch\n", steps, best / steps,
                 best);
    }
  });
}

// A line with its flag in it, there and back: the floor that a message can reach here and now.
TEST_F(Figures, EightBytesByHand) {
  transport::run_processes(2, [&](transport::Transport& t) {
    const auto window = t.allocate(8 * sizeof(Line128), "lines");
    auto* mine = reinterpret_cast<Line128*>(window->at[static_cast<size_t>(t.rank())]);
    auto* theirs = reinterpret_cast<Line128*>(window->at[static_cast<size_t>(1 - t.rank())]);
    std::vector<double> list;
    uint64_t number = 0;
    for (int round = 0; round < 51; ++round) {
      t.barrier("round");
      const int64_t begin = now_ns();
      for (int i = 0; i < 1000; ++i) {
        ++number;
        std::memcpy(theirs[number % 8].data, &number, 8);
        theirs[number % 8].flag.store(number, std::memory_order_release);
        while (mine[number % 8].flag.load(std::memory_order_acquire) != number) {}
      }
      list.push_back(static_cast<double>(now_ns() - begin) / 1000);
    }
    if (t.rank() == 0)
      fmt::print("8-byte exchange by hand, 2 processes: {:.0f} ns a call, best round {:.0f}\n", median(list),
                 *std::min_element(list.begin(), list.end()));
    t.barrier("end");
  });
}

TEST_F(Figures, EightBytes) {
  for (const char* protocol : {"simple", "ll128", "ll"})
    transport::run_processes(2, [&](transport::Transport& t) {
      HandLibrary kernels;
      Communicator communicator(t, kernels);
      LoadOptions load;
      load.verify = false;
      const plan::Plan plan = plan::parse(mesh(protocol));
      alignas(64) float x[2], y[2];
      Bound bound(communicator, communicator.load(plan, load), args_for(plan, 2, {x, y}));
      const Measured ns =
          measure(t, bound, 1000, 51, [&](int i) { x[0] = static_cast<float>(i + t.rank()), x[1] = 1; });
      need(y[0] == 2 * 999 + 1 && y[1] == 2, "the sum");
      if (t.rank() == 0)
        fmt::print("8-byte all_reduce, 2 processes, {}: {:.0f} ns a call, best round {:.0f}\n", protocol, ns.median,
                   ns.best);
      t.barrier("end");
    });
}

TEST_F(Figures, EightBytesOnMoreRanksThanCores) {
  transport::run_processes(4, [&](transport::Transport& t) {
    HandLibrary kernels;
    Communicator communicator(t, kernels);
    LoadOptions load;
    load.verify = false;
    const plan::Plan plan = plan::parse(mesh("ll128"));
    alignas(64) float x[2], y[2];
    Bound bound(communicator, communicator.load(plan, load), args_for(plan, 2, {x, y}));
    const Measured ns = measure(t, bound, 200, 31, [&](int i) { x[0] = static_cast<float>(i + t.rank()), x[1] = 1; });
    need(y[0] == 4 * 199 + 6 && y[1] == 4, "the sum");
    if (t.rank() == 0)
      fmt::print("8-byte all_reduce, 4 processes on {} cores, ll128: {:.0f} ns a call, best round {:.0f}\n",
                 transport::allowed_core_count(), ns.median, ns.best);
    t.barrier("end");
  });
}

TEST_F(Figures, MappedEightBytes) {
  for (const char* name : {"one_shot_private", "two_shot_symmetric"})
    transport::run_processes(2, [&](transport::Transport& t) {
      HandLibrary kernels;
      Communicator communicator(t, kernels);
      LoadOptions load;
      load.verify = false;
      plan::Plan plan = case_plan(name);
      plan.channels = expr::integer(1);
      const Symmetric x = communicator.allocate(4096, "x"), y = communicator.allocate(4096, "y");
      std::vector<void*> buffers{x.data, y.data};
      while (buffers.size() < plan.buffers.size()) buffers.push_back(nullptr);
      Bound bound(communicator, communicator.load(plan, load), args_for(plan, 2, buffers));
      const Measured ns = measure(t, bound, 1000, 51, [&](int i) {
        static_cast<float*>(x.data)[0] = static_cast<float>(i + t.rank()), static_cast<float*>(x.data)[1] = 1;
      });
      need(static_cast<float*>(y.data)[0] == 2 * 999 + 1, "the sum");
      if (t.rank() == 0)
        fmt::print("8-byte all_reduce, 2 processes, {}: {:.0f} ns a call, best round {:.0f}\n", name, ns.median,
                   ns.best);
      t.barrier("end");
    });
}

// What two_shot_symmetric does, without a runtime: the floor under today's load.
void add_halves(const Symmetric& x, const Symmetric& y, int64_t bytes, int rank) {
  const int64_t half = bytes / 2;
  const void* sources[2] = {x.window->at[0] + rank * half, x.window->at[1] + rank * half};
  void* targets[2] = {y.window->at[0] + rank * half, y.window->at[1] + rank * half};
  const kernel::StepArgs args{sources, targets, half / 4, 0, nullptr};
  add_to_two<2>(&args, nullptr);
}

TEST_F(Figures, LargeAllReduce) {
  for (const char* name : {"two_shot_symmetric", "pairwise_two_shot_all_reduce", "ring_all_reduce"})
    for (int64_t bytes : {int64_t{4} << 10, int64_t{32} << 10, int64_t{256} << 10, int64_t{2} << 20, int64_t{16} << 20,
                          int64_t{128} << 20})
      transport::run_processes(2, [&](transport::Transport& t) {
        HandLibrary kernels;
        Communicator communicator(t, kernels);
        LoadOptions load;
        load.verify = false;
        plan::Plan plan = case_plan(name);
        plan.channels = expr::integer(1);
        const Symmetric x = communicator.allocate(bytes, "x"), y = communicator.allocate(bytes, "y");
        Bound bound(communicator, communicator.load(plan, load), args_for(plan, bytes / 4, {x.data, y.data}));
        auto* input = static_cast<float*>(x.data);
        std::vector<double> list, by_hand;
        for (int round = 0; round < (bytes > (8 << 20) ? 15 : 41); ++round) {
          const int calls = bytes > (1 << 20) ? 1 : 20;
          double total = 0;
          for (int call = 0; call < calls; ++call) {
            for (int64_t i = 0; i < bytes / 4; ++i) input[i] = static_cast<float>((i + round) % 64 + t.rank());
            t.barrier("written");
            const int64_t begin = now_ns();
            bound.launch();
            total += static_cast<double>(now_ns() - begin);
          }
          list.push_back(total / calls / 1000);
          for (int64_t i = 0; i < bytes / 4; ++i) input[i] = static_cast<float>((i + round) % 64 + t.rank());
          t.barrier("written again");
          const int64_t begin = now_ns();
          add_halves(x, y, bytes, t.rank());
          t.barrier("by hand");
          by_hand.push_back(static_cast<double>(now_ns() - begin) / 1000);
        }
        const auto* output = static_cast<float*>(y.data);
        for (int64_t i = 0; i < bytes / 4; i += 97)
          need(output[i] == static_cast<float>(2 * ((i + static_cast<int64_t>(list.size()) - 1) % 64) + 1), "the sum");
        if (t.rank() == 0)
          fmt::print(
              "{} {} KiB, 2 processes: median {:.1f} us, best {:.1f} us; sums by hand on the same memory: {:.1f}, "
              "{:.1f} us\n",
              name, bytes >> 10, median(list), *std::min_element(list.begin(), list.end()), median(by_hand),
              *std::min_element(by_hand.begin(), by_hand.end()));
        t.barrier("end");
      });
}

}  // namespace
}  // namespace weft::runtime::test
