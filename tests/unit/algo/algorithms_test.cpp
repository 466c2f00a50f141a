// Every algorithm in every collective: accepted by the verifier, right on numbers, in the order it claims.
#include "tests/unit/algo/support.h"
#include "weft/base/error.h"

namespace weft::algo {
namespace {

std::string title(const Algorithm& algorithm, Collective collective) {
  return fmt::format("{} {}", algorithm.name(), name(collective));
}

template <typename F>
void each_plan(F&& f) {
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : collectives)
      if (algorithm->supports(collective)) f(*algorithm, collective);
}

PlanRequest request(Collective collective, int channels, int root = 0) {
  PlanRequest request;
  request.collective = collective;
  request.channels = channels;
  request.root = root;
  request.grain = 1;
  return request;
}

TEST(Algorithms, TextReadsBack) {
  each_plan([](const Algorithm& algorithm, Collective collective) {
    const std::string text = plan::print(make_plan(algorithm, request(collective, 2)));
    EXPECT_EQ(plan::print(plan::parse(text)), text);
  });
}

TEST(Algorithms, VerifierAcceptsThem) {
  each_plan([](const Algorithm& algorithm, Collective collective) {
    for (const int channels : {1, 2, 3})
      for (const int root : {0, 2}) {
        if (root && collective != Collective::broadcast && collective != Collective::reduce) continue;
        plan::VerifyOptions options;
        for (int n = root + 1; n <= (channels == 1 ? 8 : 5); ++n) options.ranks.push_back(n);
        const plan::Verdict verdict = plan::verify(make_plan(algorithm, request(collective, channels, root)), options);
        ASSERT_TRUE(verdict.ok()) << title(algorithm, collective) << " with " << channels
                                  << " channels: " << plan::print(verdict.findings[0]);
      }
  });
}

TEST(Algorithms, SlicesAndProtocolsAreAccepted) {
  each_plan([](const Algorithm& algorithm, Collective collective) {
    PlanRequest ask = request(collective, 2);
    ask.slices = 2;
    ask.protocol = plan::Protocol::ll;
    plan::VerifyOptions options;
    options.ranks = {1, 2, 3, 4};
    const plan::Verdict verdict = plan::verify(make_plan(algorithm, ask), options);
    ASSERT_TRUE(verdict.ok()) << title(algorithm, collective) << ": " << plan::print(verdict.findings[0]);
  });
}

// A wrong plan is found: the check can fail.
TEST(Algorithms, VerifierRefusesAStepLess) {
  plan::Plan plan = make_plan(*find_algorithm("direct"), request(Collective::all_reduce, 1));
  plan.lanes[0].body.pop_back();  // without `done` the user may overwrite x while a peer reads it
  plan::VerifyOptions options;
  options.ranks = {2, 3};
  const plan::Verdict verdict = plan::verify(plan, options);
  ASSERT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.findings[0].rule, "V9");
}

TEST(Algorithms, ExactOnIntegers) {
  std::mt19937_64 random(20241130);
  each_plan([&](const Algorithm& algorithm, Collective collective) {
    for (int n = 1; n <= 8; ++n)
      for (const int channels : {1, 2, 3}) {
        const int root = collective == Collective::broadcast || collective == Collective::reduce
                             ? static_cast<int>(random() % static_cast<uint64_t>(n))
                             : 0;
        const plan::Plan plan = make_plan(algorithm, request(collective, channels, root));
        for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{n}, static_cast<int64_t>(random() % 131)}) {
          Trial trial;
          trial.collective = collective;
          trial.ranks = n;
          trial.root = root;
          trial.elements = elements;
          trial.seed = random();
          trial.dtype = random() % 2 ? Dtype::f32 : Dtype::i32;
          plan::Plan typed = plan;
          typed.params[0].value = weft::name(trial.dtype);
          fill_integers(trial);
          run(trial, typed);
          for (int r = 0; r < n; ++r)
            ASSERT_EQ(trial.outputs[static_cast<size_t>(r)], wanted(trial, r))
                << title(algorithm, collective) << " n " << n << " channels " << channels << " elements " << elements
                << " rank " << r << " seed " << trial.seed;
        }
      }
  });
}

// Where rank order is claimed, floats are the left fold over ranks, bit for bit; elsewhere they are not by accident.
TEST(Algorithms, KeepTheOrderTheyClaim) {
  bool rotated = false;
  each_plan([&](const Algorithm& algorithm, Collective collective) {
    if (collective == Collective::all_gather || collective == Collective::broadcast) return;
    for (const int n : {3, 4, 7}) {
      Trial trial;
      trial.collective = collective;
      trial.ranks = n;
      trial.elements = 130;
      trial.seed = static_cast<uint64_t>(n);
      fill_floats(trial, 7);
      run(trial, make_plan(algorithm, request(collective, 2)));
      for (int r = 0; r < n; ++r) {
        if (algorithm.order() == plan::Order::rank)
          ASSERT_EQ(trial.outputs[static_cast<size_t>(r)], wanted(trial, r)) << title(algorithm, collective);
        else
          rotated = rotated || trial.outputs[static_cast<size_t>(r)] != wanted(trial, r);
      }
    }
  });
  EXPECT_TRUE(rotated) << "the ring's sums begin at different ranks, so some must differ from the left fold";
}

TEST(Algorithms, Averages) {
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->supports(Collective::all_reduce)) continue;
    PlanRequest ask = request(Collective::all_reduce, 1);
    ask.average = true;
    Trial trial;
    trial.ranks = 4;
    trial.elements = 33;
    fill_integers(trial);
    run(trial, make_plan(*algorithm, ask));
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(trial.outputs[static_cast<size_t>(r)], wanted(trial, r, true)) << algorithm->name();
  }
}

TEST(Algorithms, OtherReductions) {
  for (const Algorithm* algorithm : algorithms()) {
    if (!algorithm->supports(Collective::all_reduce)) continue;
    PlanRequest ask = request(Collective::all_reduce, 1);
    ask.reduction = kernel::Reduction::max;
    Trial trial;
    trial.ranks = 5;
    trial.elements = 40;
    fill_floats(trial, 3);
    run(trial, make_plan(*algorithm, ask));
    for (size_t i = 0; i < 40; ++i) {
      double largest = trial.inputs[0][i];
      for (const auto& values : trial.inputs) largest = std::max(largest, values[i]);
      for (int r = 0; r < 5; ++r) ASSERT_EQ(trial.outputs[static_cast<size_t>(r)][i], largest) << algorithm->name();
    }
  }
}

TEST(Algorithms, RefuseWhatTheyCannot) {
  try {
    make_plan(*find_algorithm("chain"), request(Collective::reduce_scatter, 1));
    FAIL() << "chain has no parts to scatter";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_NE(e.remedy().find("pairwise"), std::string::npos);
  }
  PlanRequest ask = request(Collective::all_reduce, 1);
  ask.slots = ask.slices = 2;  // every rank would hold a message it cannot pass on
  EXPECT_THROW(make_plan(*find_algorithm("ring"), ask), Error);
  ask = request(Collective::broadcast, 1);
  ask.average = true;
  EXPECT_THROW(make_plan(*find_algorithm("direct"), ask), Error);
  EXPECT_EQ(find_algorithm("bubble"), nullptr);
}

// A root that the launch does not have is refused with the requirement as the reason.
TEST(Algorithms, RootMustExist) {
  const plan::Plan plan = make_plan(*find_algorithm("pairwise"), request(Collective::broadcast, 1, 3));
  EXPECT_NO_THROW(plan::Instance(plan, 4));
  EXPECT_THROW(plan::Instance(plan, 3), Error);
}

}  // namespace
}  // namespace weft::algo
