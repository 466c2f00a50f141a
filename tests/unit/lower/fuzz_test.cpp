// Random programs, random schedules of them, random ways to lower: what rewrites and lowering accept must keep the
// meaning, exactly, on integers. Seconds in the suite by a seed that is printed (WEFT_SEED takes another), minutes under
// WEFT_SLOW. Programs mix contributions, whole and cut values, folds over everything and over dimensions, biases, states,
// and half of them live on the stages of a pipeline and send. What is refused as unsupported is counted, and must stay
// the smaller part.
#include <gtest/gtest-spi.h>

#include <cstdlib>

#include "tests/unit/lower/ways.h"

namespace weft::lower {
namespace {

class Programs {
 public:
  explicit Programs(uint32_t seed) : random_(seed) {}

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::string make() {
    const bool staged = pick(2) == 0;
    on_ = staged ? " on stage" : "";
    text_ = "program 1 random\ndim A B\n";
    if (staged) text_ += "group stage = world.split(2)\n";
    whole_ = {"r", "w"}, local_ = {"g", "h"}, here_.clear(), cut_.clear();
    for (const char* name : {"g", "h"}) text_ += fmt::format("in {} i32[A, B] local{}\n", name, on_);
    text_ +=
        fmt::format("in r i32[A, B] replicated{0}\nin b i32[B] replicated{0}\nstate w i32[A, B] replicated{0}\n", on_);
    statement(0, fmt::format("all_reduce({}, g)", of({"sum", "max", "min"})), whole_);
    const int statements = 3 + pick(5);
    for (int k = 1; k <= statements; ++k) grow(k);
    const std::string last = whole_.back();
    if (staged) text_ += fmt::format("z = send({}, {})\nout z\n", last, pick(2) ? 1 : -1);
    std::string tail = fmt::format("out {}\n", last);
    if (pick(2)) text_ += fmt::format("update w = {}\n", last);
    // outputs come last in the text
    const size_t at = text_.find("out z\n");
    if (at != std::string::npos) text_.erase(at, 6), tail = "out z\n" + tail;
    return text_ + tail;
  }

 private:
  std::string of(const std::vector<std::string>& list) {
    return list[static_cast<size_t>(pick(static_cast<int>(list.size())))];
  }

  void statement(int k, const std::string& value, std::vector<std::string>& into) {
    const std::string name = "x" + std::to_string(k);
    text_ += name + " = " + value + "\n";
    into.push_back(name);
  }

  void grow(int k) {
    const std::string x = of(whole_), y = of(whole_);
    switch (pick(9)) {
      case 0: return statement(k, fmt::format("{} * 3 - {}", x, y), whole_);
      case 1: return statement(k, fmt::format("select({0} < {1}, {1}, {0} + b)", x, y), whole_);
      case 2: return statement(k, fmt::format("max({}, {}) + b", x, y), whole_);
      case 3: return statement(k, fmt::format("{} - i32(sum({} * 2))", x, y), whole_);
      case 4: return statement(k, fmt::format("{} + amin({})", x, y), whole_);
      case 5: return statement(k, fmt::format("{} - i32(sum({}, {}))", x, y, of({"-1", "0"})), whole_);
      case 6: return statement(k, fmt::format("{} * 2 + {}", of(local_), x), local_);
      case 7: return statement(k, fmt::format("all_reduce(sum, {})", of(local_)), whole_);
      default: return statement(k, fmt::format("all_reduce(max, {}) - {}", of(local_), x), whole_);
    }
  }

  std::mt19937 random_;
  std::string text_, on_;
  std::vector<std::string> whole_, local_, here_, cut_;
};

struct Counts {
  int programs = 0, lowered = 0, unsupported = 0;
};

void one(const ir::Program& naive, const schedule::Candidate& candidate, Programs& random, Counts& counts) {
  const Way& way = ways[random.pick(3)];
  std::optional<Lowered> lowered;
  try {
    lowered = lower_by(candidate.program, way, 1 + random.pick(3));
  } catch (const Error& error) {
    ASSERT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    ++counts.unsupported;
    if (std::getenv("WEFT_FUZZ_SHOW")) std::printf("%s\n", error.what());
    return;
  }
  ++counts.lowered;
  SCOPED_TRACE(fmt::format("{}\n{}\n{}", ir::print(naive), schedule::print(candidate.schedule), way.algorithm));
  const std::vector<int> admitted = plan::admitted_ranks(lowered->plan);
  const plan::Verdict verdict = plan::verify(lowered->plan, {{admitted[admitted.size() > 1 ? 1 : 0]}});
  ASSERT_TRUE(verdict.ok()) << plan::print(verdict.findings[0]) << plan::print(lowered->plan);
  Agreement how;
  how.exact = true;
  how.chunk.assign(lowered->plan.spaces.size(), 16 + random.pick(17));
  const int ranks = admitted[static_cast<size_t>(random.pick(static_cast<int>(admitted.size())))];
  agree(naive, candidate.program, *lowered, std::min(ranks, 8),
        {{{"A", 1 + random.pick(9)}, {"B", random.pick(41)}}, {}}, static_cast<uint64_t>(random.pick(1 << 30)), how);
}

TEST(Fuzz, AcceptedSchedulesKeepTheMeaning) {
  const char *slow = std::getenv("WEFT_SLOW"), *chosen = std::getenv("WEFT_SEED");
  const uint32_t seed = chosen ? static_cast<uint32_t>(std::atoll(chosen)) : 1;
  Counts counts;
  for (; counts.programs < (slow ? 2000 : 40) && !testing::Test::HasFailure(); ++counts.programs) {
    Programs random(seed * 100003 + static_cast<uint32_t>(counts.programs));
    const ir::Program naive = ir::parse(random.make());
    schedule::EnumerateOptions options;
    options.prune = random.pick(2) == 0;
    options.loose_numerics = true;  // exact on integers
    options.max_candidates = 200;
    options.dims = {random.pick(2)};  // two cuts of what meets have no lowering (Z7)
    const schedule::Space space = schedule::enumerate(naive, options);
    for (int k = 0; k < 4; ++k)
      one(naive, space.candidates[static_cast<size_t>(random.pick(static_cast<int>(space.candidates.size())))], random,
          counts);
  }
  std::printf("WEFT_SEED=%u: %d programs, %d schedules lowered, %d not\n", seed, counts.programs, counts.lowered,
              counts.unsupported);
  EXPECT_GT(counts.lowered, 2 * counts.unsupported);
}

// The comparison finds what is planted: another reduction, another kernel, a part of a neighbour's.
TEST(Fuzz, FindsPlantedFaults) {
  const ir::Program naive = ir::parse(
      "program 1 planted\ndim A B\nin g i32[A, B] local\nstate w i32[A, B] replicated\na = all_reduce(sum, g)\nw1 = w "
      "* 3 - "
      "a\nupdate w = w1\nout w1\n");
  const ir::Program program = schedule::replay(
      naive,
      schedule::parse_schedule("schedule 1 s of planted\nsplit a 0\nreorder w1\nstore w\nfuse f: a.s w1.s w1\n"));
  const Sizing sizing{{{"A", 6}, {"B", 5}}, {}};
  Agreement how;
  how.exact = true;
  const auto changed = [&](const std::string& from, const std::string& to) {
    Lowered lowered = lower_by(program, {"direct", true}, 1);
    const std::string text = plan::print(lowered.plan), other = replace_all(text, from, to);
    EXPECT_NE(text, other) << from << "\n" << text;
    lowered.plan = plan::parse(other);
    return lowered;
  };
  for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
           {"fin: sum(", "fin: max("}, {"w * 3", "w * 4"}, {"g@0..n[r]", "g@0..n[r+1]"}}) {
    const Lowered lowered = changed(from, to);
    EXPECT_NONFATAL_FAILURE(agree(naive, program, lowered, 3, sizing, 5, how), "wanted");
    const bool its_post_too = std::string(from) == "w * 3";
    EXPECT_EQ(plan::verify(lowered.plan, {{3}}).ok(), its_post_too) << from;
  }
}

}  // namespace
}  // namespace weft::lower
