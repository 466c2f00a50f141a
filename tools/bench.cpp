// weft bench OP: nccl-tests' table for CPU ranks, and peers beside it.
//
// All contestants of a row are measured in alternating rounds, so that what disturbs the machine disturbs all alike; a
// figure is the median over rounds, the ratio the median of the rounds' own ratios (best peer over ours).
#include "tools/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "tools/verbs.h"
#include "weft/api/calibrate.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/spec.h"

namespace weft::tools {
namespace {

struct Options {
  std::string operation, dtype = "float", combine = "sum", memory = "mapped", plot, peers, json_file,
                         transport = "processes";
  SizeSweep sweep;
  int ranks = 2, iterations = 0, warmup = 5, grouped = 1, check = 1, root = 0, rounds = 5;
  bool touch = false, read = false, json = false, any_order = false, out_of_place_only = false;
};

constexpr int64_t answer_limit_ns = 300'000'000'000;
constexpr double slow_peer_us = 2e6, round_us = 20'000;

std::vector<Dtype> dtypes_of(const Options& options) {
  return options.dtype == "all" ? all_dtypes() : std::vector{bench_dtype(options.dtype)};
}
std::vector<Combine> combines_of(const Options& options, Operation operation) {
  if (!reduces(operation)) return {Combine::sum};
  if (options.combine == "all") return all_combines();
  return {bench_combine(options.combine)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Weft's own ranks.
class Ours {
 public:
  Ours(const Options& options, int64_t room) {
    BenchSetup setup;
    setup.room_bytes = room;
    setup.memory = options.memory == "mapped"  ? Memory::mapped
                   : options.memory == "arena" ? Memory::arena
                                               : Memory::private_;
    setup.options.any_order = options.any_order;
    if (setup.memory != Memory::arena) setup.options.arena_bytes = 0;
    job_ = transport::start_ranks(options.transport, options.ranks,
                                  [setup](transport::Transport& transport) { return bench_rank(transport, setup); });
  }
  double time_ns(const BenchCell& cell) {
    double slowest = 0;
    for (const std::string& answer : ask("time", cell)) slowest = std::max(slowest, std::stod(answer));
    return slowest;
  }
  int64_t wrong(const BenchCell& cell) {
    int64_t sum = 0;
    for (const std::string& answer : ask("check", cell)) sum += std::stoll(answer);
    return sum;
  }
  std::string explain(const BenchCell& cell) { return ask("explain", cell)[0]; }
  void finish() { job_->finish(); }

 private:
  std::vector<std::string> ask(const std::string& verb, const BenchCell& cell) {
    for (int rank = 0; rank < job_->ranks(); ++rank) job_->send(rank, verb + " " + print(cell));
    std::vector<std::string> answers;
    for (int rank = 0; rank < job_->ranks(); ++rank) answers.push_back(job_->receive(rank, answer_limit_ns));
    return answers;
  }
  std::unique_ptr<transport::Job> job_;
};

// What the machine allows: every byte that must cross between ranks at the rate at which a peer's fresh data are read,
// and one hop there and back.
double limit_us(const topo::Machine& machine, const BenchCell& cell, int ranks) {
  if (ranks < 2) return 0;  // nothing crosses, and nothing was calibrated
  const auto bytes = static_cast<double>(whole_bytes(cell, ranks));
  const bool crowded = ranks > machine.cores;
  const double crossing = bus_factor(cell.operation, ranks) * bytes;
  return (machine.hop_ns + (crowded ? 2 : 1) * crossing / machine.read_peer.at(bytes) * 1e9) / 1e3;
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    const auto operation = parse_operation(options.operation);
    if (!operation || *operation == Operation::barrier)
      throw Error(ErrorKind::user, fmt::format("no operation is called {}", options.operation),
                  "all_reduce, reduce_scatter, all_gather, broadcast, reduce, scatter, gather, all_to_all");
    operation_ = *operation;
    if (options.root < 0 || options.root >= options.ranks)
      throw Error(ErrorKind::user, fmt::format("--root {}: ranks are 0 to {}", options.root, options.ranks - 1));
    report_.operation = options.operation;
    report_.ranks = options.ranks;
  }

  void run() {
    const std::vector<int64_t> sizes = sizes_of(options_.sweep);
    const int64_t room = sizes.back() + (options_.ranks + 1) * 64;
    if (options_.ranks > 1) machine_ = api::machine_for(options_.ranks, "processes", progress_line), end_progress();
    Ours ours(options_, room);
    for (const std::string& name : split(options_.peers, ','))
      if (!name.empty()) start(name, room);
    if (!options_.json) print_head(report_);
    for (const Dtype dtype : dtypes_of(options_))
      for (const Combine combine : combines_of(options_, operation_))
        if (!reduces(operation_) || why_illegal(combine, dtype).empty())
          for (const int64_t size : sizes) row(ours, cell_of(size, dtype, combine));
    ours.finish();
    if (!options_.json) print_tail(report_);
    if (options_.json) std::printf("%s\n", to_json(report_).c_str());
    if (!options_.json_file.empty()) write_file(options_.json_file, to_json(report_));
    if (!options_.plot.empty()) write_file(options_.plot, to_svg(report_));
    check_all_right();
  }

 private:
  void start(const std::string& name, int64_t room) {
    try {
      peers_.push_back(start_peer(name, options_.ranks, room));
      report_.peers.push_back(name);
    } catch (const Error& error) { std::fprintf(stderr, "# left out: %s\n", error.what()); }
  }

  // Sizes are rounded down to whole elements, and where every rank has a part to whole elements of each.
  BenchCell cell_of(int64_t bytes, Dtype dtype, Combine combine) const {
    BenchCell cell;
    cell.operation = operation_;
    cell.dtype = dtype;
    cell.combine = combine;
    cell.root = options_.root;
    cell.count = 1;
    cell.count = bytes / size_bytes(dtype) / (whole_bytes(cell, options_.ranks) / size_bytes(dtype));
    cell.touch = options_.touch || options_.read;
    cell.read = options_.read;
    cell.warmup = options_.warmup;
    cell.grouped = options_.grouped;
    cell.iterations = options_.iterations;
    return cell;
  }

  BenchSide side(Ours& ours, const BenchCell& cell, double ns) {
    BenchSide side;
    const auto bytes = static_cast<double>(whole_bytes(cell, options_.ranks));
    side.time_us = ns / 1e3;
    side.algbw = ns > 0 ? bytes / ns : 0;
    side.busbw = side.algbw * bus_factor(operation_, options_.ranks);
    side.measured = true;
    if (options_.check > 0) side.wrong = 0;
    for (int i = 0; i < options_.check; ++i) side.wrong += ours.wrong(cell);
    return side;
  }

  // A round lasts some milliseconds, unless -n says how many calls it has.
  void choose_iterations(Ours& ours, BenchCell& cell) const {
    if (cell.iterations > 0) return;
    cell.iterations = 2;
    cell.iterations = std::clamp<int64_t>(static_cast<int64_t>(round_us / (ours.time_ns(cell) / 1e3 + 0.05)), 2, 4000);
  }

  void row(Ours& ours, BenchCell cell) {
    BenchRow row;
    row.bytes = whole_bytes(cell, options_.ranks);
    row.count = cell.count;
    row.dtype = name(cell.dtype);
    row.combine = reduces(operation_) ? std::string(name(cell.combine)) : "none";
    row.root = has_root(operation_) ? cell.root : -1;
    row.runs = cell.count > 0 ? ours.explain(cell) : "";
    choose_iterations(ours, cell);
    std::vector<double> out, in, ratios;
    std::map<std::string, std::vector<double>> theirs;
    BenchCell placed = cell;
    placed.in_place = true;
    const bool has_in_place = operation_ != Operation::all_to_all && !options_.out_of_place_only;
    for (int round = 0; round < options_.rounds; ++round) {
      out.push_back(ours.time_ns(cell));
      if (has_in_place) in.push_back(ours.time_ns(placed));
      const double best = ask_peers(cell, theirs);
      const double mine = has_in_place ? std::min(out.back(), in.back()) : out.back();
      if (best > 0) ratios.push_back(best / mine);
      cell.warmup = placed.warmup = 1;
    }
    row.out_of_place = side(ours, cell, median(out));
    if (has_in_place) row.in_place = side(ours, placed, median(in));
    for (const auto& [peer, values] : theirs) row.peers_us[peer] = median(values) / 1e3;
    if (!ratios.empty()) row.ratio = median(ratios);
    row.limit_us = limit_us(machine_, cell, options_.ranks);
    drop_slow_peers(row);
    report_.rows.push_back(row);
    if (!options_.json) print_row(report_, row);
  }

  // Best of all peers, each in place and out of place where it has both; 0: none.
  double ask_peers(const BenchCell& cell, std::map<std::string, std::vector<double>>& theirs) {
    double best = 0;
    for (size_t p = 0; p < peers_.size();) {
      BenchCell less = cell;
      if (slow_.count(peers_[p]->name())) less.iterations = 2;
      try {
        double ns = peers_[p]->time_ns(less);
        if (operation_ == Operation::all_reduce) {
          less.in_place = true;
          ns = std::min(ns, peers_[p]->time_ns(less));
        }
        if (ns * static_cast<double>(cell.iterations) > 4e3 * round_us) slow_.insert(peers_[p]->name());
        theirs[peers_[p]->name()].push_back(ns);
        best = best == 0 ? ns : std::min(best, ns);
        ++p;
      } catch (const Error& error) {
        std::fprintf(stderr, "# left out from here: %s\n", error.what());
        peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(p));
      }
    }
    return best;
  }

  void drop_slow_peers(const BenchRow& row) {
    for (const auto& [name, us] : row.peers_us) {
      if (us < slow_peer_us) continue;
      std::fprintf(stderr, "# %s takes %.1f s: left out from here\n", name.c_str(), us / 1e6);
      std::erase_if(peers_, [&slow = name](const auto& peer) { return peer->name() == slow; });
    }
  }

  void check_all_right() const {
    for (const BenchRow& row : report_.rows)
      if (row.out_of_place.wrong > 0 || row.in_place.wrong > 0)
        throw Error(ErrorKind::internal, fmt::format("{} of {} bytes has wrong results", report_.operation, row.bytes));
  }

  Options options_;
  Operation operation_ = Operation::all_reduce;
  topo::Machine machine_;
  BenchReport report_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::set<std::string> slow_;
};

}  // namespace

Verb add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "time a collective as nccl-tests does, with peers beside it");
  verb->footer(
      "  weft bench all_reduce -b 8 -e 128M -f 2 --ranks 2 --vs openmpi,intelmpi\n"
      "  weft bench reduce_scatter -b 1K -e 1M -f 4 -d bfloat16 --memory private --json");
  verb->add_option("operation", options->operation, "all_reduce, reduce_scatter, all_gather, broadcast, reduce ...")
      ->required();
  verb->add_option("-r,--ranks", options->ranks, "ranks, as processes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_sweep_options(*verb, options->sweep);
  verb->add_option("-n,--iters", options->iterations, "calls per round; 0: as many as fit 20 ms")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  verb->add_option("-w,--warmup_iters", options->warmup, "calls before the first round")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  verb->add_option("-m,--agg_iters", options->grouped, "calls that are timed together")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("-c,--check", options->check, "full checks of each result; 0: none")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  verb->add_option("-o,--op", options->combine, "sum, prod, min, max, avg, mulsum ..., all")->capture_default_str();
  verb->add_option("-d,--datatype", options->dtype, "float, half, bfloat16, int32 ..., all")->capture_default_str();
  verb->add_option("--root", options->root, "root of rooted operations")->capture_default_str();
  verb->add_option("--rounds", options->rounds, "alternating rounds; a figure is their median")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->add_option("--memory", options->memory, "buffers: mapped (symmetric), arena, private")
      ->check(CLI::IsMember({"mapped", "arena", "private"}))
      ->capture_default_str();
  verb->add_option("--transport", options->transport,
                   "processes, threads, tcp, mixed:group=2, paced:alpha=5us,bw=1GB/s")
      ->capture_default_str();
  verb->add_flag("--touch", options->touch, "rewrite the input before every timed call");
  verb->add_flag("--touch-read", options->read, "the same, and read the whole result within the timed span");
  verb->add_flag("--any-order", options->any_order, "also algorithms that do not add in rank order");
  verb->add_flag("--out-of-place", options->out_of_place_only, "leave out the in-place half");
  verb->add_option("--vs", options->peers, "peers, a comma list: openmpi, openmpi-ucx, intelmpi, mpich, gloo");
  verb->add_flag("--json", options->json, "print JSON instead of the table");
  verb->add_option("-J,--json-file", options->json_file, "write JSON to this file too");
  verb->add_option("--plot", options->plot, "write a picture (SVG) to this file");
  return [options] { Bench(*options).run(); };
}

}  // namespace weft::tools
