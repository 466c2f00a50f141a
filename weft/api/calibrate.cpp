// All ranks sweep their own and their peers' memory at the same time, over working sets from cache to DRAM; then a line
// is passed to and fro, and tiny plans give the price of a step and a launch. Medians over a few repetitions.
#include "weft/api/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "weft/algo/algorithm.h"
#include "weft/api/calibrate_wire.h"
#include "weft/api/commands.h"
#include "weft/api/sweep.h"
#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/codegen/library.h"
#include "weft/kernel/tile.h"
#include "weft/plan/stats.h"
#include "weft/runtime/communicator.h"
#include "weft/transport/spec.h"

namespace weft::api {
namespace {

constexpr int64_t block_bytes = 64 << 20;  // of each rank: beyond a share of any cache we know
const std::vector<int64_t> working_sets = {32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, block_bytes};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class CalibrationRank {
 public:
  explicit CalibrationRank(transport::Transport& transport)
      : transport_(transport), kernels_(codegen::generated_library()), communicator_(transport, *kernels_) {
    block_ = communicator_.allocate(block_bytes, "calibration");
    words_ = communicator_.allocate(1 << 16, "calibration words");
    sweep(Sweep::write, own(), block_bytes);
  }

  std::string command(std::string_view text) {
    const std::vector<std::string> word = words(text);
    if (word[0] == "sweep")
      return fmt::format("{}",
                         sweep_rate(static_cast<Sweep>(std::stoi(word[1])), word[2] == "peer", std::stoll(word[3])));
    if (word[0] == "hop") return fmt::format("{}", hop_ns());
    if (word[0] == "flops") return fmt::format("{}", flops_rate());
    if (word[0] == "matmul") return fmt::format("{}", matmul_rate());
    if (word[0] == "packed") return fmt::format("{}", packed_rate());
    if (word[0] == "launch") return fmt::format("{}", launch_ns(std::stoi(word[1])));
    internal_failure(__FILE__, __LINE__, "command", std::string(text));
  }

 private:
  float* own() { return static_cast<float*>(block_.data); }
  float* peer() {
    const size_t next = static_cast<size_t>((transport_.rank() + 1) % transport_.size());
    return reinterpret_cast<float*>(block_.window->at[next] + block_.offset);
  }

  // Bytes per second; short sets are swept again and again so that each figure covers a few milliseconds.
  double sweep_rate(Sweep kind, bool of_peer, int64_t bytes) {
    std::vector<double> rates;
    const int64_t passes = std::max<int64_t>(1, (16 << 20) / bytes);
    for (int repeat = 0; repeat < 3; repeat++) {
      if (of_peer) sweep(Sweep::write, own(), bytes);  // the peer's lines are fresh in the peer's cache
      transport_.barrier("calibration");
      const int64_t begin = now_ns();
      for (int64_t pass = 0; pass < (of_peer ? 1 : passes); pass++)
        sink_ = sink_ + sweep(kind, of_peer ? peer() : own(), bytes);
      rates.push_back(static_cast<double>((of_peer ? 1 : passes) * bytes) / static_cast<double>(now_ns() - begin) *
                      1e9);
      transport_.barrier("calibration");
    }
    return median(rates);
  }

  double hop_ns() {
    constexpr uint64_t rounds = 2000;
    if (transport_.size() < 2 || transport_.rank() > 1) {
      transport_.barrier("hop");
      return 0;
    }
    auto* mine = reinterpret_cast<std::atomic<uint64_t>*>(words_.window->at[static_cast<size_t>(transport_.rank())]);
    auto* theirs =
        reinterpret_cast<std::atomic<uint64_t>*>(words_.window->at[static_cast<size_t>(1 - transport_.rank())]);
    const int64_t begin = now_ns();
    for (uint64_t round = 1; round <= rounds; round++) {
      if (transport_.rank() == 0) theirs->store(round, std::memory_order_release);
      for (uint32_t spins = 0; mine->load(std::memory_order_acquire) < round; spins++)
        if (spins % 1024 == 1023) std::this_thread::yield();
      if (transport_.rank() == 1) theirs->store(round, std::memory_order_release);
    }
    const double hop = static_cast<double>(now_ns() - begin) / rounds / 2;
    transport_.barrier("hop");
    return hop;
  }

  // Generated code on data in the first cache: an optimizer's mix of products, divisions and a square root.
  double flops_rate() {
    constexpr int64_t count = 2048;
    const plan::Plan plan = plan::parse(
        "plan 1 arithmetic\norder rank\nround once\nchannels 1\nspace s parts 1 even\nbuffer a s f32 in\nbuffer m s "
        "f32 in\nbuffer v s f32 in\n"
        "buffer w s f32 in\nbuffer x s f32 out\nbuffer y s f32 out\nbuffer z s f32 out\nkernel k(c): a, m, v, w -> m1, "
        "v1, w1\n"
        "  m1 = 0.9 * m + 0.1 * a\n  v1 = 0.999 * v + 0.001 * a * a\n  w1 = w - c * (m1 / c / (sqrt(v1 / c) + 1e-08))\n"
        "lane main:\n  loop s:\n    a[0], m[0], v[0], w[0] -> k(c) -> x[0], y[0], z[0]\n");
    plan::LaunchArgs args;
    args.spaces = {{plan::Cut{1, count, 1}, {}, nullptr}};
    for (int64_t buffer = 0; buffer < 7; buffer++) args.buffers.push_back(plan::Dense{own() + buffer * (count + 64)});
    args.scalars = {{false, 0, 0.5}};
    runtime::LoadOptions options;
    options.verify = false;
    const auto loaded = communicator_.load(plan, options);
    runtime::Bound bound(communicator_, loaded, args);
    const plan::Instance instance(plan, transport_.size());
    const double flops = plan::stats(instance, args, {count}).front().flops;
    return flops / launch_ns(bound) * 1e9;
  }

  double launch_ns(runtime::Bound& bound) {
    constexpr int launches = 2000;
    for (int i = 0; i < launches; i++) bound.launch();
    std::vector<double> batches;
    for (int batch = 0; batch < 5; batch++) {
      const int64_t begin = now_ns();
      for (int i = 0; i < launches; i++) bound.launch();
      batches.push_back(static_cast<double>(now_ns() - begin) / launches);
    }
    return median(batches);
  }

  double matmul_rate() {
    constexpr int64_t side = 512;  // beyond this the rate no longer grows
    kernel::MatmulArgs args{Dtype::f32};
    args.rows = args.inner = args.cols = side;
    args.x = own();
    args.w = own() + side * side;
    args.y = own() + 2 * side * side;
    kernel::matmul(args);
    std::vector<double> times;
    for (int repeat = 0; repeat < 9; repeat++) {
      const int64_t begin = now_ns();
      kernel::matmul(args);
      times.push_back(static_cast<double>(now_ns() - begin));
    }
    return 2.0 * side * side * side / median(times) * 1e9;
  }

  // All ranks reduce 1 MiB over links by ll128: bytes packed and unpacked a second.
  double packed_rate() {
    if (transport_.size() < 2) return 0;
    constexpr int64_t count = 256 << 10;
    algo::PlanRequest request;
    request.protocol = plan::Protocol::ll128;
    const plan::Plan plan = algo::make_plan(*algo::find_algorithm("pairwise"), request);
    plan::LaunchArgs args;
    args.spaces.assign(plan.spaces.size(), {plan::Cut{1, count, 1}, {}, nullptr});
    args.buffers.assign(plan.buffers.size(), std::monostate{});
    args.buffers[static_cast<size_t>(plan::find_buffer(plan, "x"))] = plan::Dense{own()};
    args.buffers[static_cast<size_t>(plan::find_buffer(plan, "y"))] = plan::Dense{own() + 2 * count};
    const auto loaded = communicator_.load(plan, {});
    runtime::Bound bound(communicator_, loaded, args);
    const plan::RankStats stats = plan::stats(plan::Instance(plan, transport_.size()), args, {}).front();
    const double bytes = static_cast<double>(stats.bytes_sent + stats.bytes_received);
    bound.launch();
    std::vector<double> times;
    for (int repeat = 0; repeat < 5; repeat++) {
      transport_.barrier("calibration");
      const int64_t begin = now_ns();
      bound.launch();
      times.push_back(static_cast<double>(now_ns() - begin));
    }
    return bytes / median(times) * 1e9;
  }

  // Nanoseconds of one launch of a plan of `steps` local steps on two elements.
  double launch_ns(int steps) {
    std::string text =
        "plan 1 steps\norder rank\nround once\nchannels 1\nspace s parts 1 even\nbuffer x s f32 in\nbuffer y s f32 "
        "out\nlane main:\n  loop s:\n";
    for (int step = 0; step < steps; step++) text += "    x[0] -> y[0]\n";
    runtime::LoadOptions options;
    options.verify = false;
    const auto loaded = communicator_.load(plan::parse(text), options);
    plan::LaunchArgs args;
    args.spaces = {{plan::Cut{1, 2, 1}, {}, nullptr}};
    args.buffers = {plan::Dense{own()}, plan::Dense{own() + 64}};
    runtime::Bound bound(communicator_, loaded, args);
    return launch_ns(bound);
  }

  transport::Transport& transport_;
  std::unique_ptr<kernel::KernelLibrary> kernels_;
  runtime::Communicator communicator_;
  runtime::Symmetric block_, words_;
  volatile float sink_ = 0;
};

// The answer of the slowest rank (for rates the least, for times the largest).
double ask(Commands& ranks, const std::string& command, bool rate) {
  std::vector<double> figures;
  for (const std::string& answer : ranks.ask(command)) figures.push_back(std::stod(answer));
  return rate ? *std::min_element(figures.begin(), figures.end()) : *std::max_element(figures.begin(), figures.end());
}

topo::BandwidthCurve curve(Commands& ranks, Sweep kind, bool of_peer) {
  topo::BandwidthCurve out;
  for (const int64_t bytes : working_sets) {
    out.bytes.push_back(static_cast<double>(bytes));
    out.bytes_per_s.push_back(
        ask(ranks, fmt::format("sweep {} {} {}", static_cast<int>(kind), of_peer ? "peer" : "own", bytes), true));
  }
  return out;
}

void measure_machine(topo::Machine& machine, Commands& ranks, const std::function<void(const std::string&)>& progress) {
  const auto say = [&](const std::string& text) {
    if (progress) progress(text);
  };
  say("calibrating: own memory");
  machine.read = curve(ranks, Sweep::read, false);
  machine.write = curve(ranks, Sweep::write, false);
  machine.write_stream = curve(ranks, Sweep::write_stream, false);
  say("calibrating: peers' memory");
  machine.read_peer = curve(ranks, Sweep::read, true);
  machine.write_peer = curve(ranks, Sweep::write, true);
  machine.write_peer_stream = curve(ranks, Sweep::write_stream, true);
  say("calibrating: latencies and arithmetic");
  machine.hop_ns = std::max(1.0, ask(ranks, "hop", false));
  machine.await_ns = machine.message_ns = machine.hop_ns;
  const double one = ask(ranks, "launch 1", false), many = ask(ranks, "launch 65", false);
  machine.step_ns = std::max(1.0, (many - one) / 64);
  machine.launch_ns = std::max(1.0, one - machine.step_ns);
  machine.flops_per_s = ask(ranks, "flops", true);
  machine.matmul_flops_per_s = ask(ranks, "matmul", true);
  if (ranks.ranks() > 1) machine.packed_bytes_per_s = ask(ranks, "packed", true);
}

topo::Machine unmeasured(int ranks, std::string_view what) {
  topo::Machine machine = topo::detect();
  machine.ranks = ranks;
  machine.source = fmt::format("weft calibrate, {} {}", ranks, what);
  return machine;
}

}  // namespace

int measured_ranks(int ranks) {
  const int cores = std::max(1, topo::detect().cores);
  return std::min(ranks, std::max(16, 2 * cores));
}

// The ranks beneath a layer, which is priced by itself.
static std::string_view beneath(std::string_view transport) {
  return transport::wants_threads(transport) ? "threads" : "processes";
}

topo::Machine calibrate(int wanted, std::string_view transport,
                        const std::function<void(const std::string&)>& progress) {
  transport::check_spec(transport);
  const int ranks = measured_ranks(wanted);
  topo::Machine machine = unmeasured(ranks, transport);
  if (ranks < wanted) machine.source += fmt::format(", which stand for {}", wanted);
  const auto make = [](transport::Transport& transport) -> transport::CommandLoop {
    auto rank = std::make_shared<CalibrationRank>(transport);
    return [rank](transport::Transport&, std::string_view text) { return rank->command(text); };
  };
  const auto job = commands_to(transport::start_ranks(beneath(transport), ranks, make));
  measure_machine(machine, *job, progress);
  job->finish();
  measure_wire(machine, ranks, transport, progress);
  return machine;
}

// Kept for the next time; where that cannot be done, this run has its figures all the same.
static void keep_machine(const std::filesystem::path& path, const topo::Machine& machine) {
  try {
    topo::write_machine(path, machine);
  } catch (const Error& error) {
    WEFT_LOG(warn, "api", "the calibration is not kept and will be made again: {}", error.message());
  }
}

// A stored calibration; nothing where there is none. One that cannot be read (cut short, of another version) is put
// aside under another name, since somebody may have edited it, and measured again.
static std::optional<topo::Machine> stored_machine(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  try {
    return topo::read_machine(path);
  } catch (const Error& error) {
    const std::filesystem::path aside = path.string() + ".damaged";
    std::filesystem::rename(path, aside, failed);
    WEFT_LOG(warn, "api", "{}: this machine is measured again{}", error.message(),
             failed ? "" : ", the file is now " + aside.string());
    return {};
  }
}

topo::Machine machine_among(transport::Transport& transport) {
  // What rank 0 has on disk counts for all: a file that appears meanwhile must not divide them.
  std::string stored;
  if (transport.rank() == 0) {
    const std::string named = env("WEFT_MACHINE");
    const auto machine = named.empty() ? stored_machine(topo::calibration_path(transport.size()))
                                       : std::optional<topo::Machine>(topo::read_machine(named));
    if (machine) stored = topo::print_machine(*machine);
  }
  stored = transport.exchange(stored, "the machine's figures").at(0);
  if (!stored.empty()) return topo::parse_machine(stored, "rank 0's machine file");
  topo::Machine machine = unmeasured(transport.size(), transport.name());
  machine.cores = std::stoi(transport.exchange(fmt::format("{}", machine.cores), "cores").at(0));
  CalibrationRank own(transport);
  const auto ranks = commands_among(transport, [&](std::string_view text) { return own.command(text); });
  measure_machine(machine, *ranks, {});
  return machine;
}

topo::Machine machine_for(int ranks, std::string_view transport,
                          const std::function<void(const std::string&)>& progress) {
  if (const std::string named = env("WEFT_MACHINE"); !named.empty()) return topo::read_machine(named);
  transport::check_spec(transport);
  const std::filesystem::path path = topo::calibration_path(measured_ranks(ranks));
  std::optional<topo::Machine> machine = stored_machine(path);
  if (!machine) {
    machine = calibrate(ranks, beneath(transport), progress);
    keep_machine(path, *machine);
  }
  measure_wire(*machine, measured_ranks(ranks), transport, progress);
  return *machine;
}

}  // namespace weft::api
