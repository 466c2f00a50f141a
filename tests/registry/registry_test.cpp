// Every algorithm of the registry in every collective, on 1 to 8 ranks, over every link protocol: the reference evaluator
// says what it means, the interpreter what the plan does, and CPU ranks do it, bit for bit as the interpreter. Values of
// the last comparison have fractions, so that another order of sums would show. The normal suite takes a sample by a
// seed that it prints (WEFT_SEED chooses another); WEFT_SLOW=1 takes every protocol, dtype and size.
#include "weft/algo/registry.h"

#include <cstdlib>
#include <random>

#include "tests/unit/runtime/harness.h"
#include "weft/ir/evaluate.h"
#include "weft/plan/lower_bound.h"
#include "weft/plan/stats.h"

namespace weft::runtime::test {
namespace {

using algo::Algorithm;
using algo::Collective;
using algo::PlanRequest;

constexpr plan::Protocol protocols[] = {plan::Protocol::simple, plan::Protocol::ll, plan::Protocol::ll128};
constexpr const char* protocol_names[] = {"simple", "ll", "ll128"};

std::vector<Collective> all_collectives() {
  std::vector<Collective> list;
  for (int c = 0; c <= static_cast<int>(Collective::barrier); ++c) list.push_back(static_cast<Collective>(c));
  return list;
}

double fraction(int rank, int64_t index) {
  return static_cast<double>((rank * 7919 + index * 104729 + 13) % 1009 - 504) / 7.0;
}

Sizes sizes_for(const plan::Plan& plan, int ranks, int64_t elements) {
  const plan::Instance instance(plan, ranks);
  Sizes sizes;
  for (size_t s = 0; s < plan.spaces.size(); ++s) {
    const plan::Space& space = plan.spaces[s];
    const int64_t parts = instance.parts(static_cast<int>(s));
    plan::SpaceExtent extent;
    if (space.kind == plan::Space::Kind::even) extent = flat(elements);
    if (space.kind == plan::Space::Kind::equal) extent = flat((elements + parts - 1) / parts * parts);
    sizes.spaces.push_back(extent);
    sizes.chunk_elements.push_back(24);
  }
  for (const plan::Buffer& buffer : plan.buffers) sizes.values[buffer.name] = fraction;
  sizes.scalars.assign(plan::launch_scalars(plan).size(), {false, 0, 0.5});
  return sizes;
}

PlanRequest request(Collective collective, int ranks, unsigned draw) {
  PlanRequest ask;
  ask.collective = collective;
  ask.grain = 1;
  ask.channels = draw % 3 == 0 ? 2 : 1;
  ask.slices = draw % 5 == 0 ? 2 : 1;
  ask.root = algo::has_root(collective) ? static_cast<int>(draw / 7) % ranks : 0;
  ask.from = 0, ask.to = ranks - 1;
  return ask;
}

bool serves(const Algorithm& algorithm, Collective collective, int ranks) {
  const bool possible = collective != Collective::send_recv || ranks > 1;
  return possible && algorithm.supports(collective) && algorithm.supports_ranks(ranks);
}

constexpr const char* dtypes[] = {"f32", "f32", "f64", "i32", "f16", "bf16"};

// Those that need a number of ranks a host, too: pairs of ranks.
std::vector<const Algorithm*> all_algorithms(int ranks) {
  std::vector<const Algorithm*> list = algo::algorithms();
  if (ranks % 2 == 0) list.push_back(algo::find_algorithm("hierarchical:2"));
  return list;
}

// Sizes: nothing, less than a rank each, around a chunk, several chunks.
constexpr int64_t some_sizes[] = {0, 1, 5, 23, 49, 130, 401};

// ---- the third answer: what the collective means as a program, by the reference evaluator
double small(int rank, int64_t index) { return static_cast<double>((rank * 7 + index * 5) % 13 + 1); }

// The collective as a statement, and the layout of what it takes. Nothing for a barrier, which has no values, and for
// send_recv, which programs have between groups only.
struct Meaning {
  std::string statement, layout;
};
std::optional<Meaning> meaning(Collective collective, int root, std::string_view reduction) {
  switch (collective) {
    case Collective::all_reduce: return Meaning{fmt::format("all_reduce({}, x)", reduction), "local"};
    case Collective::reduce_scatter: return Meaning{fmt::format("reduce_scatter({}, x, 0)", reduction), "local"};
    case Collective::reduce: return Meaning{fmt::format("reduce({}, x, {})", reduction, root), "local"};
    case Collective::all_gather: return Meaning{"all_gather(x)", "sliced(0)"};
    case Collective::gather: return Meaning{fmt::format("gather(x, {})", root), "sliced(0)"};
    case Collective::broadcast: return Meaning{"broadcast(x)", fmt::format("root({})", root)};
    case Collective::scatter: return Meaning{"scatter(x, 0)", fmt::format("root({})", root)};
    case Collective::all_to_all: return Meaning{"all_to_all(x)", "local"};
    default: return std::nullopt;
  }
}

// `y` on each rank.
std::vector<std::vector<double>> evaluated(const Meaning& meaning, int ranks, int root, int64_t elements) {
  const ir::Program program = ir::parse(
      fmt::format("program 1 collective\ndim N\nin x f32[N] {}\ny = {}\nout y\n", meaning.layout, meaning.statement));
  ir::Sizes sizes;
  sizes.ranks = ranks;
  sizes.dims["N"] = elements;
  ir::Values inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [begin, end] = ir::slice_of(elements, rank, ranks);
    const bool sliced = meaning.layout == "sliced(0)", absent = meaning.layout.starts_with("root") && rank != root;
    ir::Tensor x;
    x.shape = {absent ? 0 : sliced ? end - begin : elements};
    for (int64_t i = 0; i < x.shape[0]; ++i) x.f.push_back(small(rank, i));
    inputs["x"].push_back(x);
  }
  std::vector<std::vector<double>> out;
  const ir::Result result = ir::evaluate(program, sizes, inputs);
  for (const ir::Tensor& y : result.values.at("y")) out.push_back(y.f);
  return out;
}

void expect_the_meaning(const plan::Plan& plan, const PlanRequest& ask, int ranks, int64_t elements) {
  const char* reduction = ask.reduction == kernel::Reduction::max   ? "max"
                          : ask.reduction == kernel::Reduction::min ? "min"
                                                                    : "sum";
  const std::optional<Meaning> what = meaning(ask.collective, ask.root, reduction);
  if (!what) return;
  Sizes sizes = sizes_for(plan, ranks, elements);
  for (auto& [name, values] : sizes.values) values = small;
  const plan::Instance instance(plan, ranks);
  const int y = plan::find_buffer(plan, "y");
  const Dtype dtype = instance.dtype(y);
  const auto want =
      evaluated(*what, ranks, ask.root, plan::Extents(instance, sizes.spaces, {}).elements(instance.buffer_space(y)));
  const Expected got = interpret(plan, ranks, sizes, 1, 1);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<unsigned char>& bytes = got[0][static_cast<size_t>(rank)][static_cast<size_t>(y)];
    if (want[static_cast<size_t>(rank)].empty()) {  // nothing is to be here, and nothing was written
      ASSERT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == poison; }))
          << "rank " << rank;
      continue;
    }
    std::vector<double> values;
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(size_bytes(dtype)))
      values.push_back(is_float(dtype) ? load_f64(dtype, &bytes[at])
                                       : static_cast<double>(load_i64(dtype, &bytes[at])));
    ASSERT_EQ(values, want[static_cast<size_t>(rank)]) << "rank " << rank << " against the reference";
  }
}

bool slow() {
  const char* set = std::getenv("WEFT_SLOW");
  return set && std::string(set) == "1";
}

unsigned sample_seed() {
  const char* chosen = std::getenv("WEFT_SEED");
  return chosen ? static_cast<unsigned>(std::stoul(chosen)) : 20241201;
}

class Registry : public testing::TestWithParam<int> {
 protected:
  Registry() : random_(sample_seed() + static_cast<unsigned>(GetParam())) {}
  unsigned draw() { return static_cast<unsigned>(random_()); }

  // Three answers that must be one: the reference evaluator's and the interpreter's on small integers, and the
  // interpreter's and CPU ranks' bit for bit on fractions.
  void check(const Algorithm& algorithm, Collective collective, size_t protocol, const char* dtype, int64_t elements,
             bool delays) {
    const int ranks = GetParam();
    PlanRequest ask = request(collective, ranks, draw());
    constexpr kernel::Reduction reductions[] = {kernel::Reduction::sum, kernel::Reduction::sum, kernel::Reduction::max,
                                                kernel::Reduction::min};
    ask.protocol = protocols[protocol];
    ask.dtype = dtype;
    if (algo::reduces(collective)) ask.reduction = reductions[draw() % std::size(reductions)];
    SCOPED_TRACE(fmt::format("{} {} {} of {} over {}, {} channels, {} slices, root {}, {} elements", algorithm.name(),
                             algo::name(collective), ranks, dtype, protocol_names[protocol], ask.channels, ask.slices,
                             ask.root, elements));
    const plan::Plan plan = algo::make_plan(algorithm, ask);
    expect_the_meaning(plan, ask, ranks, elements);
    if (HasFatalFailure()) return;
    ASSERT_NO_THROW(agree(&transport::run_threads, plan, ranks, sizes_for(plan, ranks, elements),
                          {.launches = 2, .delays = delays}));
    ++plans_;
  }

  // A few of each algorithm and collective, drawn.
  void sample(const Algorithm& algorithm, Collective collective) {
    for (size_t p = 0; p < std::size(protocols) * 3 && !HasFatalFailure(); ++p) {
      const char* dtype = dtypes[draw() % std::size(dtypes)];
      const int64_t elements = some_sizes[draw() % std::size(some_sizes)];
      check(algorithm, collective, p % 3, dtype, elements, p == 0);
    }
  }
  void all(const Algorithm& algorithm, Collective collective) {
    for (size_t p = 0; p < std::size(protocols); ++p)
      for (const char* dtype : {"f32", "f64", "i32", "f16", "bf16"})
        for (const int64_t elements : some_sizes) {
          if (HasFatalFailure()) return;
          check(algorithm, collective, p, dtype, elements, draw() % 16 == 0);
        }
  }

  int plans_ = 0;

 private:
  std::mt19937 random_;
};

TEST_P(Registry, ReferenceInterpreterAndRanksAgreeOnEveryProtocol) {
  const int ranks = GetParam();
  if (!slow()) std::printf("sampled by WEFT_SEED=%u; WEFT_SLOW=1 takes all\n", sample_seed());
  for (const Algorithm* algorithm : all_algorithms(ranks))
    for (const Collective collective : all_collectives()) {
      if (!serves(*algorithm, collective, ranks)) continue;
      slow() ? all(*algorithm, collective) : sample(*algorithm, collective);
      ASSERT_FALSE(HasFatalFailure());
    }
  EXPECT_GT(plans_, 60) << "the registry has shrunk, or nothing is supported any more";
}

// No plan exchanges less than the bound says any must, and those that are known to be optimal exchange just that.
TEST_P(Registry, ExchangesAtLeastTheLowerBound) {
  const int ranks = GetParam();
  const int64_t elements = 840;  // every number of ranks here divides it: parts are alike
  int exact = 0;
  for (const Algorithm* algorithm : all_algorithms(ranks))
    for (const Collective collective : all_collectives()) {
      if (!serves(*algorithm, collective, ranks)) continue;
      const plan::Plan plan = algo::make_plan(*algorithm, request(collective, ranks, 1));
      const plan::Instance instance(plan, ranks);
      plan::LaunchArgs args;
      args.spaces = sizes_for(plan, ranks, elements).spaces;
      args.buffers.resize(plan.buffers.size());
      args.scalars.assign(plan::launch_scalars(plan).size(), {false, 0, 0.5});
      const auto bound = plan::lower_bound(instance, args);
      ASSERT_TRUE(bound);
      double together = 0;
      for (const plan::RankStats& s : plan::stats(instance, args, {}))
        together += static_cast<double>(s.bytes_sent) + s.bytes_read_mapped + s.bytes_written_mapped;
      EXPECT_GE(together, bound->bytes) << algorithm->name() << " " << algo::name(collective) << " on " << ranks;
      exact += together == bound->bytes;
    }
  EXPECT_GT(exact, 10) << "pairwise, ring, chain, trees and others move no byte too much";
}

// What is promised in the ranks' order is that order, whatever the algorithm, the schedule of ranks and the run.
TEST_P(Registry, RankOrderIsTheSameBitsInEveryRunAndAlgorithm) {
  const int ranks = GetParam();
  constexpr int64_t elements = 211;
  std::vector<float> folded(elements);
  for (int64_t i = 0; i < elements; ++i) {
    float sum = static_cast<float>(fraction(0, i));
    for (int r = 1; r < ranks; ++r) sum += static_cast<float>(fraction(r, i));
    folded[static_cast<size_t>(i)] = sum;
  }
  std::vector<unsigned char> bits(elements * sizeof(float));
  std::memcpy(bits.data(), folded.data(), bits.size());
  int found = 0;
  for (const Algorithm* algorithm : all_algorithms(ranks)) {
    if (!serves(*algorithm, Collective::all_reduce, ranks) || algorithm->order() != plan::Order::rank) continue;
    ++found;
    for (const plan::Protocol protocol : protocols) {
      PlanRequest ask = request(Collective::all_reduce, ranks, 3);
      ask.protocol = protocol;
      const plan::Plan plan = algo::make_plan(*algorithm, ask);
      SCOPED_TRACE(fmt::format("{} on {} ranks", algorithm->name(), ranks));
      const Sizes sizes = sizes_for(plan, ranks, elements);
      std::vector<std::vector<unsigned char>> nothing(plan.buffers.size());
      nothing[static_cast<size_t>(plan::find_buffer(plan, "y"))] = bits;
      const Expected expected(2, std::vector(static_cast<size_t>(ranks), nothing));
      for (const bool delays : {false, true})
        ASSERT_NO_THROW(
            run_and_compare(&transport::run_threads, plan, ranks, sizes, expected, {.launches = 2, .delays = delays}));
    }
  }
  EXPECT_GT(found, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Registry, testing::Range(1, 9));

}  // namespace
}  // namespace weft::runtime::test
