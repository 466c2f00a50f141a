// Launch configurations: steps along coordinates, their text, the walk by prediction, and neighbours that join the rounds.
#include "weft/tune/configure.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::tune {
namespace {

std::set<std::string> texts(const std::vector<schedule::LaunchConfig>& configs) {
  std::set<std::string> out;
  for (const schedule::LaunchConfig& config : configs) out.insert(print_configuration(config));
  EXPECT_EQ(out.size(), configs.size()) << "two steps say the same";
  return out;
}

using Texts = std::set<std::string>;

TEST(Configure, StepsChangeOneCoordinate) {
  schedule::LaunchConfig from;
  from.algorithm = "pairwise";
  EXPECT_EQ(texts(steps_from(from, true, 1 << 30)),
            (Texts{"[pairwise stream]", "[pairwise ll]", "[pairwise ll128]", "[pairwise channels 2]",
                   "[pairwise chunk 64Ki]", "[pairwise chunk 1Mi]"}));
  EXPECT_EQ(texts(steps_from(from, false, 1 << 30)).count("[pairwise ll]"), 0u);  // no links, no protocol
  from.protocol = "ll128", from.channels = 4, from.chunk_bytes = 4 << 20, from.stream = true;
  EXPECT_EQ(texts(steps_from(from, true, 1 << 30)),
            (Texts{"[pairwise ll128 channels 4 chunk 4Mi]", "[pairwise channels 4 chunk 4Mi stream]",
                   "[pairwise ll channels 4 chunk 4Mi stream]", "[pairwise ll128 channels 2 chunk 4Mi stream]",
                   "[pairwise ll128 channels 4 chunk 1Mi stream]"}));
}

TEST(Configure, ChunksBeyondTheTensorAreOneChunk) {
  schedule::LaunchConfig from;
  from.algorithm = "direct";
  EXPECT_EQ(texts(steps_from(from, false, 1000)), (Texts{"[direct stream]", "[direct channels 2]"}));
  from.chunk_bytes = 64 << 10;
  EXPECT_EQ(texts(steps_from(from, false, 128 << 10)).count("[direct]"), 1u);  // 256 KiB: what nobody says
}

TEST(Configure, SchedulesSayOnlyWhatWasChosen) {
  schedule::Schedule schedule{"s", "p", {}, {}};
  EXPECT_TRUE(with_configuration(schedule, {}).launches.empty());
  schedule::LaunchConfig config;
  config.channels = 2;
  const schedule::Schedule said = with_configuration(schedule, config);
  ASSERT_EQ(said.launches.size(), 1u);
  EXPECT_EQ(configuration_of(said).channels, 2);
  EXPECT_EQ(configuration_of(schedule).channels, std::nullopt);
}

ir::Program program() {
  return ir::parse("program 1 p\ndim N\nin x f32[N] local\na = all_reduce(sum, x)\ny = a + 1.0\nout y\n");
}

SearchOptions options_for(int64_t elements, bool mapped) {
  SearchOptions options;
  options.sizes.ranks = options.ranks = 2;
  options.sizes.dims["N"] = elements;
  options.mapped = mapped;
  return options;
}

TEST(Search, EveryCoordinateIsPricedAndCounted) {
  const SearchOptions options = options_for(1 << 20, false);
  const SearchSpace space = make_trials(program(), topo::detect(), options);
  EXPECT_GT(space.configurations, 3 * space.kept);
  EXPECT_TRUE(std::any_of(space.trials.begin(), space.trials.end(), [](const Trial& t) { return t.plain; }));
  const Trial& first = space.trials.front();
  std::set<std::string> coordinates;
  for (const Trial& trial : neighbours(first, {first}, program(), topo::detect(), options, 1e9)) {
    EXPECT_TRUE(trial.refined);
    const schedule::LaunchConfig a = configuration_of(first.schedule), b = configuration_of(trial.schedule);
    if (a.algorithm != b.algorithm) coordinates.insert("algorithm");
    if (a.protocol != b.protocol) coordinates.insert("protocol");
    if (a.channels != b.channels) coordinates.insert("channels");
    if (a.chunk_bytes != b.chunk_bytes) coordinates.insert("chunk");
    if (a.stream != b.stream) coordinates.insert("stream");
  }
  EXPECT_EQ(coordinates, (std::set<std::string>{"algorithm", "protocol", "channels", "chunk", "stream"}));
}

TEST(Search, NeighboursAreNewAndPromising) {
  const SearchOptions options = options_for(1 << 20, false);
  const Trial first = make_trials(program(), topo::detect(), options).trials.front();
  const std::vector<Trial> all = neighbours(first, {first}, program(), topo::detect(), options, 1e9);
  EXPECT_TRUE(neighbours(first, all, program(), topo::detect(), options, 1e9).empty());
  for (const Trial& trial : neighbours(first, {first}, program(), topo::detect(), options, 1.1))
    EXPECT_LE(trial.prediction.total_ns, 1.1 * first.prediction.total_ns);
  for (size_t i = 1; i < all.size(); i++) EXPECT_LE(all[i - 1].prediction.total_ns, all[i].prediction.total_ns);
}

// The best's neighbours join after two rounds; one that wins is refined in turn; what cannot be admitted stays out.
class Joining : public Evaluator {
 public:
  std::vector<double> round(const std::vector<int>& ids) override {
    std::vector<double> out;
    for (const int id : ids) out.push_back(1000.0 - 100 * id);
    return out;
  }
  bool admit(const Trial& trial) override { return trial.label != "too large"; }
};

TEST(Rounds, NeighboursOfTheBestJoin) {
  std::vector<Trial> trials(1);
  trials[0].plain = true;
  trials[0].label = "plain";
  Joining evaluator;
  RoundOptions options;
  std::vector<std::string> asked;
  options.refine = [&](const Trial& best, const std::vector<Trial>&) {
    asked.push_back(best.label);
    std::vector<Trial> out(2);
    out[0].label = "too large";
    out[1].label = best.label + "+";
    out[1].refined = true;
    out[1].schedule.name = out[1].label;
    return asked.size() < 3 ? out : std::vector<Trial>{};
  };
  measure(trials, evaluator, options);
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(asked, (std::vector<std::string>{"plain", "plain+", "plain++"}));
  EXPECT_EQ(best(trials).label, "plain++");
  EXPECT_EQ(trials[1].id, 1);
  EXPECT_GE(trials[2].rounds_ns.size(), 2u);
}

TEST(Rounds, NobodyJoinsTooLateToBeMeasuredTwice) {
  for (int rounds = 1; rounds <= 9; rounds++) {
    std::vector<Trial> trials(1);
    trials[0].plain = true;
    Joining evaluator;
    RoundOptions options;
    options.max_rounds = rounds;
    options.refine = [&](const Trial&, const std::vector<Trial>& known) {
      std::vector<Trial> out(1);
      out[0].label = out[0].schedule.name = fmt::format("j{}", known.size());
      return out;
    };
    measure(trials, evaluator, options);
    for (const Trial& trial : trials)
      EXPECT_GE(static_cast<int>(trial.rounds_ns.size()), std::min(rounds, 2)) << rounds;
  }
}

TEST(Rounds, OfSeveralPlainOnesTheFastestCounts) {
  std::vector<Trial> trials(2);
  trials[0].plain = trials[1].plain = true;
  trials[0].rounds_ns = {10};
  trials[1].rounds_ns = {5};
  EXPECT_EQ(plain(trials).median_ns(), 5);
}

TEST(Rounds, PairsWithinNoiseAreNotJudged) {
  std::vector<Trial> trials(3);
  const double predicted[] = {1, 2, 3}, measured[] = {100, 102, 200};
  for (size_t i = 0; i < 3; i++) {
    trials[i].prediction.total_ns = predicted[i];
    trials[i].rounds_ns = {measured[i]};
  }
  EXPECT_EQ(judge(trials).pairs, 2);  // 100 and 102 are one
  EXPECT_EQ(judge(trials).pairs_right, 2);
  trials[2].prediction.total_ns = 1.5;
  EXPECT_EQ(judge(trials).pairs_right, 1);
}

TEST(Cost, ProductsAndPackedLinksAdd) {
  topo::Machine machine = topo::detect();
  plan::RankStats rank;
  rank.matmul_flops = 1e9;
  machine.matmul_flops_per_s = 1e11;
  const double products = predict({rank}, machine, {}).total_ns;
  EXPECT_NEAR(products, 1e7 + machine.launch_ns, 1);
  EXPECT_EQ(predict({rank}, machine, {}).bound, "products");
  plan::RankStats link;
  link.bytes_sent = link.bytes_received = 1 << 20;
  PriceOptions simple, ll;
  ll.wire = 2;
  ll.packed = true;
  EXPECT_GT(predict({link}, machine, ll).total_ns, 1.9 * predict({link}, machine, simple).total_ns);
}

}  // namespace
}  // namespace weft::tune
