// The whole family: every algorithm of the registry (hierarchical for hosts of 1 to 4 ranks) in every collective, with
// even and with given parts: accepted by the verifier, and equal to the meaning of the collective, exactly, in random
// schedules. WEFT_SLOW runs whole matrices of what is sampled here.
#include <random>

#include "tests/unit/algo/cells.h"
#include "tests/unit/algo/members.h"
#include "tests/unit/algo/support.h"
#include "weft/base/dtype.h"
#include "weft/base/error.h"
#include "weft/plan/verify.h"
#include "weft/plan/walk.h"

namespace weft::algo {
namespace {

void expect_verified(const Member& member, const PlanRequest& request, std::vector<int> ranks) {
  plan::VerifyOptions options;
  for (const int n : ranks)
    if (member.takes(n) && n > request.root && n > std::max(request.from, request.to)) options.ranks.push_back(n);
  if (options.ranks.empty()) return;
  const plan::Verdict verdict = plan::verify(make_plan(*member.algorithm, request), options);
  ASSERT_TRUE(verdict.ok()) << member.title() << " with " << request.channels << " channels, root " << request.root
                            << ": " << plan::print(verdict.findings[0]);
}

TEST(Family, VerifierAcceptsOneToEightRanks) {
  each_member([](const Member& member) { expect_verified(member, request_of(member), {1, 2, 3, 4, 5, 6, 7, 8}); });
}

TEST(Family, VerifierAcceptsChannelsSlicesAndRoots) {
  each_member([](const Member& member) {
    PlanRequest request = request_of(member, 3);
    request.slices = 2;
    request.protocol = plan::Protocol::ll128;
    expect_verified(member, request, {2, 3, 4});
    if (has_root(member.collective) || member.collective == Collective::send_recv)
      for (const int root : {1, 3}) {
        request = request_of(member, 2);
        request.root = root;
        request.from = root;
        request.to = root == 3 ? 3 : 0;
        expect_verified(member, request, {4, 5, 6});
      }
  });
}

// The logarithmic ones change shape with every bit of n.
TEST(Family, VerifierAcceptsSixteenRanksOfLogarithmicOnes) {
  const std::vector<int> ranks = slow() ? std::vector<int>{9, 10, 11, 12, 13, 14, 15, 16, 17} : std::vector<int>{16};
  each_member([&](const Member& member) {
    const std::string_view name = member.algorithm->name();
    if (member.counts != Counts::even || (name != "halving" && name != "bruck" && name != "pat" && name != "tree" &&
                                          name != "binomial" && name != "dissemination" && name != "hierarchical:4"))
      return;
    expect_verified(member, request_of(member), ranks);
  });
}

TEST(Family, VerifierAcceptsAveragesAndPremultipliedSums) {
  each_member([](const Member& member) {
    if (!reduces(member.collective) || member.counts != Counts::even) return;
    for (const bool average : {true, false}) {
      PlanRequest request = request_of(member);
      request.average = average;
      request.premultiply = !average;
      expect_verified(member, request, {1, 2, 3, 4});
    }
  });
}

// Each line of each plan is needed: without it the verifier finds something. What survives is `done`, for whatever the
// compiler puts behind a collective, and the barrier's await, which guards no data (next test).
TEST(Family, EveryStepLessIsFound) {
  int plans = 0;
  each_member([&](const Member& member) {
    PlanRequest request = request_of(member, 2);
    request.to = 1;
    const std::string text = plan::print(make_plan(*member.algorithm, request));
    plan::VerifyOptions options;
    options.cache = false;
    for (const int n : {2, 3, 4, 5, 6})
      if (member.takes(n)) options.ranks.push_back(n);
    for (size_t at = text.find("\nlane ") + 1; at < text.size();) {
      const size_t end = text.find('\n', at) + 1;
      const std::string line = text.substr(at, end - at);
      std::string less = text;
      less.erase(at, end - at);
      at = end;
      if (line.find("done:") != std::string::npos || line.find("there:") != std::string::npos) continue;
      if (line.ends_with(":\n") && line.find("ready:") == std::string::npos) continue;
      bool found = false;
      try {
        found = !plan::verify(plan::parse(less), options).ok();
      } catch (const Error&) { found = true; }
      EXPECT_TRUE(found) << member.title() << " is as good without" << line;
      ++plans;
    }
  });
  EXPECT_GT(plans, 300);
}

// Who a rank knows to have come: whatever its messages and awaits bring, in the order of its steps.
class Arrivals {
 public:
  Arrivals(const Algorithm& algorithm, int ranks)
      : instance_(make_plan(algorithm, request(algorithm)), ranks), known_(static_cast<size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) known_[static_cast<size_t>(r)] = uint64_t{1} << r;
    std::vector<std::vector<plan::FlatStep>> steps(static_cast<size_t>(ranks));
    size_t longest = 0;
    for (int r = 0; r < ranks; ++r) {
      walk(r, steps[static_cast<size_t>(r)]);
      longest = std::max(longest, steps[static_cast<size_t>(r)].size());
    }
    // All ranks take the same steps, so that step by step is a fair order; a receive takes what was sent a step before.
    for (size_t s = 0; s < longest; ++s) {
      const std::vector<uint64_t> before = known_;
      for (int r = 0; r < ranks; ++r) take(r, steps[static_cast<size_t>(r)][s], before);
    }
  }
  uint64_t known(int rank) const { return known_[static_cast<size_t>(rank)]; }

 private:
  static PlanRequest request(const Algorithm& algorithm) {
    return request_of({&algorithm, Collective::barrier, Counts::even});
  }
  void walk(int rank, std::vector<plan::FlatStep>& steps) const {
    for (size_t lane = 0; lane < instance_.plan().lanes.size(); ++lane) {
      plan::Walk walk(instance_, rank, static_cast<int>(lane), 0);
      while (walk.next_block())
        for (plan::FlatStep step; walk.next(step);) steps.push_back(step);
    }
  }
  void take(int rank, const plan::FlatStep& step, const std::vector<uint64_t>& before) {
    const auto learn = [&](int first, int count) {
      for (int i = 0; i < count; ++i)
        known_[static_cast<size_t>(rank)] |= before[static_cast<size_t>((first + i) % instance_.ranks())];
    };
    for (const plan::FlatOperand& operand : step.operands)
      if (operand.kind == plan::Operand::Kind::recv) learn(operand.peer_first, operand.peer_count);
    for (const plan::FlatAwait& await : step.after) learn(await.peer_first, await.peer_count);
  }
  plan::Instance instance_;
  std::vector<uint64_t> known_;
};

TEST(Family, BarriersWaitForEverybody) {
  for (const char* name : {"dissemination", "direct"})
    for (int n = 1; n <= 17; ++n) {
      const Arrivals arrivals(*find_algorithm(name), n);
      for (int r = 0; r < n; ++r) EXPECT_EQ(arrivals.known(r), (uint64_t{1} << n) - 1) << name << " n " << n;
    }
}

// Order fixed or rank: one tree. With one value per rank at all positions, all elements on all ranks have the same
// bits.
TEST(Family, KeptOrdersDoNotDependOnThePosition) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<float> between(-1, 1);
  for (const Algorithm* algorithm : everything())
    for (int n = 2; n <= 8; ++n) {
      if (!algorithm->supports(Collective::all_reduce) || !algorithm->supports_ranks(n) ||
          algorithm->order() == plan::Order::any)
        continue;
      Trial trial;
      trial.ranks = n;
      trial.elements = 61;
      trial.seed = random();
      for (int r = 0; r < n; ++r) trial.inputs.emplace_back(61, between(random));
      PlanRequest request;
      request.channels = 2;
      request.grain = 1;
      run(trial, make_plan(*algorithm, request));
      for (const std::vector<double>& output : trial.outputs)
        for (const double value : output) ASSERT_EQ(value, trial.outputs[0][0]) << algorithm->name() << " n " << n;
    }
}

TEST(Family, RefusesWhatHasNoMeaning) {
  const auto kind = [](std::string_view algorithm, const PlanRequest& request) {
    try {
      make_plan(*find_algorithm(algorithm), request);
    } catch (const Error& error) {
      EXPECT_FALSE(error.remedy().empty());
      return error.kind();
    }
    return ErrorKind::internal;
  };
  PlanRequest request;
  request.collective = Collective::broadcast;
  request.counts = Counts::given;
  EXPECT_EQ(kind("pairwise", request), ErrorKind::unsupported);  // a broadcast has no parts
  request.collective = Collective::all_reduce;
  request.counts = Counts::even;
  EXPECT_EQ(kind("dissemination", request), ErrorKind::unsupported);
  request.premultiply = true;
  request.reduction = kernel::Reduction::max;
  EXPECT_EQ(kind("pairwise", request), ErrorKind::user);
  request.reduction = kernel::Reduction::sum;
  request.dtype = "bool";
  EXPECT_EQ(kind("pairwise", request), ErrorKind::user);
  request = {};
  request.dtype = "f32";
  request.reduction = kernel::Reduction::bit_or;
  EXPECT_EQ(kind("pairwise", request), ErrorKind::plan);
  request = {};
  request.collective = Collective::send_recv;
  request.to = -1;
  EXPECT_EQ(kind("pairwise", request), ErrorKind::user);
  for (const char* name : {"hierarchical:", "hierarchical:0", "hierarchical:2x", "hierarchical:-2", "hierarchical"})
    EXPECT_EQ(find_algorithm(name), nullptr) << name;
  EXPECT_EQ(find_algorithm("hierarchical:2"), &hierarchical(2));
  EXPECT_THROW(plan::Instance(make_plan(hierarchical(4), PlanRequest{}), 6), Error);  // 6 ranks are no hosts of 4
}

// A state's value holds earlier launches' sums in it: one tree for every cell, though a larger one in every launch.
TEST(Family, FixedOrderOfAStateThatCollects) {
  const std::string text = R"(plan 1 collect
order fixed
round once
channels 2
space s parts 1 even
buffer x s f32 in
buffer w s f32 state
link main simple slots 4
post w[p] = collect(sum(i in 0..n: x@i[p]), w[p])
kernel collect: x, w -> y
  y = w + x
lane main:
  loop s:
    feed: x[0] -> >0..r, >r+1..n
    fin: sum(<0..r, x[0], <r+1..n), w[0] -> collect -> w[0]
)";
  plan::VerifyOptions options;
  options.ranks = {2, 3};
  options.cache = false;
  EXPECT_TRUE(plan::verify(plan::parse(text), options).ok());
  std::string other = text;  // on channel 1 another tree
  const std::string line = "    fin: sum(<0..r, x[0], <r+1..n), w[0] -> collect -> w[0]\n";
  other.replace(other.find(line), line.size(), R"(    when c == 0:
      fin: sum(<0..r, x[0], <r+1..n), w[0] -> collect -> w[0]
    when c == 1:
      fin2: sum(x[0], <0..r, <r+1..n), w[0] -> collect -> w[0]
)");
  const plan::Verdict verdict = plan::verify(plan::parse(other), options);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.findings[0].rule, "V12");
}

Case case_of(const Member& member, int ranks, std::mt19937_64& random) {
  Case test;
  test.request = request_of(member, 1 + static_cast<int>(random() % 3));
  test.request.slices = 1 + static_cast<int>(random() % 2);
  test.ranks = ranks;
  const auto n = static_cast<uint64_t>(ranks);
  test.request.root = static_cast<int>(random() % n);
  test.request.from = static_cast<int>(random() % n);
  test.request.to = static_cast<int>(random() % n);
  test.seed = random();
  test.chunk = 1 + static_cast<int64_t>(random() % 9);
  test.in_place = random() % 2 == 0;
  const size_t parts = static_cast<size_t>(member.collective == Collective::all_to_all ? ranks * ranks : ranks);
  for (size_t p = 0; p < parts; ++p) test.counts.push_back(random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 23));
  return test;
}

void expect_right(const Member& member, const Case& test) {
  expect_cells(make_plan(*member.algorithm, test.request), test,
               fmt::format("{} n {} elements {} channels {} slices {} chunk {} root {} seed {}{}", member.title(),
                           test.ranks, test.elements, test.request.channels, test.request.slices, test.chunk,
                           test.request.root, test.seed, test.in_place ? " in place" : ""));
}

TEST(Family, ExactForEveryNumberOfRanksAndSmallSizes) {
  std::mt19937_64 random(5);
  each_member([&](const Member& member) {
    for (int n = 1; n <= 8 && !testing::Test::HasFailure(); ++n) {
      if (!member.takes(n)) continue;
      for (int64_t elements = 0; elements <= 20; elements += slow() ? 1 : 1 + static_cast<int64_t>(random() % 6)) {
        Case test = case_of(member, n, random);
        test.elements = elements;
        test.request.dtype = random() % 2 == 0 ? "i32" : "f32";
        expect_right(member, test);
      }
    }
  });
}

// One element less, as many, one more than whole chunks of whole shares.
TEST(Family, ExactAroundBordersOfChunks) {
  std::mt19937_64 random(6);
  each_member([&](const Member& member) {
    for (const int n : {2, 3, 6, 8}) {
      if (!member.takes(n) || testing::Test::HasFailure()) continue;
      for (const int64_t off : {-1, 0, 1}) {
        if (!slow() && random() % 2 == 0) continue;
        Case test = case_of(member, n, random);
        const int64_t whole =
            test.chunk * test.request.channels * (member.collective == Collective::all_to_all ? 1 : n);
        test.elements = std::max<int64_t>(0, whole * static_cast<int64_t>(1 + random() % 2) + off);
        test.request.dtype = "i64";
        expect_right(member, test);
      }
    }
  });
}

TEST(Family, ExactOnSixteenRanks) {
  std::mt19937_64 random(7);
  each_member([&](const Member& member) {
    for (const int n : slow() ? std::vector<int>{9, 11, 12, 13, 15, 16} : std::vector<int>{16}) {
      if (!member.takes(n) || testing::Test::HasFailure()) continue;
      Case test = case_of(member, n, random);
      test.elements = 37;
      expect_right(member, test);
    }
  });
}

struct Reducing {
  kernel::Reduction reduction;
  bool average, premultiply;
};
bool legal(const Reducing& r, Dtype dtype) {
  const bool bits = r.reduction == kernel::Reduction::bit_and || r.reduction == kernel::Reduction::bit_or ||
                    r.reduction == kernel::Reduction::bit_xor;
  if (dtype == Dtype::f64x2 || (bits && is_float(dtype))) return false;
  return !((r.average || r.premultiply) && dtype == Dtype::boolean);
}

TEST(Family, EveryReductionOfEveryDtype) {
  using kernel::Reduction;
  std::mt19937_64 random(8);
  std::vector<Reducing> reductions = {{Reduction::sum, true, false}, {Reduction::sum, false, true}};
  for (const auto r : {Reduction::sum, Reduction::prod, Reduction::min, Reduction::max, Reduction::bit_and,
                       Reduction::bit_or, Reduction::bit_xor, Reduction::logical_and, Reduction::logical_or})
    reductions.push_back({r, false, false});
  each_member([&](const Member& member) {
    if (!reduces(member.collective)) return;
    for (const Dtype dtype : all_dtypes())
      for (const Reducing& r : reductions) {
        if (!legal(r, dtype) || (!slow() && random() % 4 != 0) || testing::Test::HasFailure()) continue;
        const int n = r.average ? 4 : 1 + static_cast<int>(random() % 6);
        if (!member.takes(n)) continue;
        Case test = case_of(member, n, random);
        test.elements = 19;
        test.request.dtype = weft::name(dtype);
        test.request.reduction = r.reduction;
        test.request.average = r.average;
        test.request.premultiply = r.premultiply;
        test.scale = 3;
        expect_right(member, test);
      }
  });
}

}  // namespace
}  // namespace weft::algo
