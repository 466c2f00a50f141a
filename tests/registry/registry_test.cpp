// Every algorithm of the registry in every collective, on CPU ranks, against the interpreter: bit for bit, on 1 to 8
// ranks, over every link protocol. Values have fractions, so that another order of sums would show.
#include "weft/algo/registry.h"

#include <random>

#include "tests/unit/runtime/harness.h"

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

class Registry : public testing::TestWithParam<int> {};

TEST_P(Registry, AgreesWithTheInterpreterOnEveryProtocol) {
  const int ranks = GetParam();
  std::mt19937 random(static_cast<unsigned>(20241201 + ranks));
  int plans = 0;
  for (const Algorithm* algorithm : all_algorithms(ranks))
    for (const Collective collective : all_collectives()) {
      if (!serves(*algorithm, collective, ranks)) continue;
      for (size_t p = 0; p < std::size(protocols) * 3; ++p) {
        PlanRequest ask = request(collective, ranks, random());
        ask.protocol = protocols[p % 3];
        ask.dtype = dtypes[random() % std::size(dtypes)];
        const int64_t elements = some_sizes[random() % std::size(some_sizes)];
        SCOPED_TRACE(fmt::format("{} {} {} of {} over {}, {} channels, {} slices, root {}, {} elements",
                                 algorithm->name(), algo::name(collective), ranks, ask.dtype, protocol_names[p % 3],
                                 ask.channels, ask.slices, ask.root, elements));
        const plan::Plan plan = algo::make_plan(*algorithm, ask);
        ASSERT_NO_THROW(agree(&transport::run_threads, plan, ranks, sizes_for(plan, ranks, elements),
                              {.launches = 2, .delays = p == 0}));
        ++plans;
      }
    }
  EXPECT_GT(plans, 60) << "the registry has shrunk, or nothing is supported any more";
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
