// From a program and a schedule to numbers: lowered in a random way, verified, interpreted in a random order with random
// delays on random ranks and sizes, and compared with the program's meaning exactly. Some plans also run on threads that
// pause at random, bit for bit as the interpreter. What has no lowering is counted, and must stay the smaller part.
#include <algorithm>

#include "tests/fuzz/campaign.h"
#include "tests/unit/lower/ways.h"
#include "tests/unit/runtime/harness.h"
#include "tests/unit/schedule/meaning.h"
#include "weft/base/text.h"

namespace weft::fuzz {
namespace {

struct Subject {
  ir::Program naive, scheduled;
  schedule::Schedule schedule;
};

class Lowering {
 public:
  Lowering(const Subject& subject, Random& random, Tally& tally, const Planted& planted)
      : subject_(subject), random_(random), tally_(tally), planted_(planted) {}

  // "" or what is wrong.
  std::string run() {
    std::optional<lower::Lowered> lowered;
    const std::string failed = failures_in([&] { lowered = lower_somehow(); });
    if (!failed.empty()) return failed;
    if (!lowered) return ++tally_.unsupported, "";
    const plan::Verdict verdict = verdict_of(*lowered);
    if (!verdict.ok()) {  // the verifier's word, before anything runs
      ++tally_.unverified;
      std::string& known = tally_.unverified_by_rule[verdict.findings[0].rule];
      const std::string example =
          plan::print(verdict.findings[0]) + "\n" + ir::print(subject_.naive) + schedule::print(subject_.schedule);
      if (known.empty() || known.size() > example.size()) known = example;
      return "";
    }
    ++tally_.lowered;
    if (planted_.lowering) planted_.lowering(lowered->plan);
    const std::vector<int> admitted = plan::admitted_ranks(lowered->plan);
    const int ranks = std::min(8, random_.of(admitted));
    const lower::Sizing sizing{{{"A", 1 + random_.pick(9)}, {"B", random_.pick(41)}}, {}};
    const std::string wrong = failures_in([&] { interpret(*lowered, ranks, sizing); });
    const std::string where = fmt::format("{} ranks, A={} B={}: ", ranks, sizing.dims.at("A"), sizing.dims.at("B"));
    if (!wrong.empty()) return where + wrong + "\n" + plan::print(lowered->plan);
    if (!random_.chance(10)) return "";
    ++tally_.on_ranks;
    const std::string apart = failures_in([&] { run_on_threads(*lowered, ranks, sizing); });
    return apart.empty() ? "" : where + "on threads: " + apart + "\n" + plan::print(lowered->plan);
  }

 private:
  std::optional<lower::Lowered> lower_somehow() {
    const lower::Way& way = lower::ways[random_.pick(3)];
    lower::LowerOptions options;
    options.mapped = way.mapped;
    options.fallback.algorithm = way.algorithm;
    options.fallback.order = "any";
    options.fallback.round = "hops";
    options.fallback.channels = 1 + random_.pick(3);
    try {
      return lower::lower(subject_.scheduled, subject_.schedule.launches, options);
    } catch (const Error& error) {
      // a launch line of the schedule may ask for what there is not; that is its author's mistake
      const bool asked = !subject_.schedule.launches.empty() && error.kind() == ErrorKind::user;
      if (error.kind() != ErrorKind::unsupported && !asked) throw;
      if (std::getenv("WEFT_FUZZ_SHOW")) std::printf("%s\n", error.what());
      return std::nullopt;
    }
  }

  static plan::Verdict verdict_of(const lower::Lowered& lowered) {
    const std::vector<int> admitted = plan::admitted_ranks(lowered.plan);
    plan::VerifyOptions options;
    options.ranks = {admitted[admitted.size() > 1 ? 1 : 0]};
    options.cache = false;
    return plan::verify(lowered.plan, options);
  }

  void interpret(const lower::Lowered& lowered, int ranks, const lower::Sizing& sizing) {
    lower::Agreement how;
    how.exact = true;
    how.delay = random_.chance(50) ? 0.3 : 0;
    how.chunk.assign(lowered.plan.spaces.size(), 16 + random_.pick(17));
    lower::agree(subject_.naive, subject_.scheduled, lowered, ranks, sizing, random_.bits() % (1u << 30), how);
  }

  void run_on_threads(const lower::Lowered& lowered, int ranks, const lower::Sizing& sizing) {
    ir::Sizes known;
    known.ranks = ranks;
    known.dims = sizing.dims;
    known.scalars["k"] = {true, 3, 3};
    runtime::test::Sizes sizes;
    sizes.per_rank = [&lowered, known](int rank) { return lower::launch_args(lowered, known, rank, {}).spaces; };
    sizes.scalars = lower::launch_args(lowered, known, 0, {}).scalars;
    sizes.chunk_elements.assign(lowered.plan.spaces.size(), 32);
    runtime::test::RunOptions options;
    options.launches = 2;
    options.delays = true;
    try {
      runtime::test::agree(&transport::run_threads, lowered.plan, ranks, sizes, options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user)
        throw;  // rows of a product that such chunks would break: refused at the launch
    }
  }

  const Subject& subject_;
  Random& random_;
  Tally& tally_;
  const Planted& planted_;
};

// Like lower::test's: any order of cuts, one cut of what meets.
schedule::Space space_of(const ir::Program& naive, Random& random, int most) {
  schedule::EnumerateOptions options;
  options.prune = random.chance(50);
  options.loose_numerics = true;  // exact on integers
  options.max_candidates = most;
  options.dims = {random.pick(2)};  // two cuts of what meets have no lowering (Z7)
  return schedule::enumerate(naive, options);
}

void fault(Tally& tally, uint64_t seed, const std::string& what, const Subject& subject) {
  tally.faults.push_back(fmt::format("WEFT_SEED={} {}\nof\n{}under\n{}", seed, what, ir::print(subject.naive),
                                     schedule::print(subject.schedule)));
}

// ---- schedules changed by a word
class ScheduleMutants {
 public:
  ScheduleMutants(const std::string& text, const ir::Program& program, Random& random)
      : lines_(split(text, '\n')), random_(random) {
    while (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
    pool_ = {"0",        "1",        "2",      "root",  "w",       "m",     "f",     "*",       "ring", "direct",
             "pairwise", "chain",    "simple", "ll",    "ll128",   "order", "any",   "round",   "hops", "stream",
             "on",       "channels", "split",  "merge", "reorder", "cut",   "store", "commute", "fuse", "launch"};
    for (const ir::Op& op : program.ops)
      for (const char* suffix : {"", "", ".s", ".p"}) pool_.push_back(op.name + suffix);
    for (const std::string& line : lines_)
      for (const std::string& word : words(line)) pool_.push_back(word);
  }

  std::vector<std::string> list() {
    std::vector<std::string> texts;
    for (size_t i = 1; i < lines_.size(); ++i) {
      with_line(texts, i, {});
      with_line(texts, i, {lines_[i], lines_[i]});
      if (i + 1 < lines_.size()) {
        std::vector<std::string> swapped = lines_;
        std::swap(swapped[i], swapped[i + 1]);
        texts.push_back(join(swapped, "\n") + "\n");
      }
      words_of(texts, i);
    }
    return texts;
  }

 private:
  void with_line(std::vector<std::string>& texts, size_t i, const std::vector<std::string>& instead) const {
    std::vector<std::string> lines(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(i));
    lines.insert(lines.end(), instead.begin(), instead.end());
    lines.insert(lines.end(), lines_.begin() + static_cast<std::ptrdiff_t>(i) + 1, lines_.end());
    texts.push_back(join(lines, "\n") + "\n");
  }
  void words_of(std::vector<std::string>& texts, size_t i) {
    const std::vector<std::string> line = words(lines_[i]);
    for (size_t k = 0; k < line.size(); ++k) {
      std::vector<std::string> changed = line;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(k));
      with_line(texts, i, {join(changed, " ")});
      for (int draws = 0; draws < 3; ++draws) {
        changed = line;
        changed[k] = random_.of(pool_);
        if (changed[k] != line[k]) with_line(texts, i, {join(changed, " ")});
        changed = line;
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(k) + 1, random_.of(pool_));
        if (draws == 0) with_line(texts, i, {join(changed, " ")});
      }
    }
  }

  std::vector<std::string> lines_, pool_;
  Random& random_;
};

std::string random_launch(Random& random) {
  return fmt::format("launch * {} channels {}{}\n", random.of<std::string>({"ring", "pairwise", "direct"}),
                     1 + random.pick(3), random.chance(50) ? " order any round hops" : "");
}

// Refused with a reason, or what it says. Returns what is wrong.
std::string try_schedule_text(const std::string& text, const Subject& original, Random& random, Tally& tally,
                              const Planted& planted, const schedule::test::World& world,
                              const schedule::test::Meaning& right) {
  ++tally.mutants;
  Subject mutant{original.naive, {}, {}};
  bool refused = false;
  std::string failed = failures_in([&] {
    try {
      mutant.schedule = schedule::parse_schedule(text);
      mutant.scheduled = schedule::replay(mutant.naive, mutant.schedule);
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::user || error.kind() == ErrorKind::unsupported;
      if (!refused) throw;
    }
  });
  if (refused) return ++tally.rejected, "";
  if (!failed.empty()) return failed;
  if (planted.rewrite) mutant.scheduled = planted.rewrite(mutant.scheduled, "");
  bool roots = false;  // a rank that this world does not have is refused at launch
  for (const schedule::Directive& d : mutant.schedule.directives)
    for (const std::string& word : d.words) roots |= word == "root";
  if (roots && world.sizes.ranks < 3) return "";
  double off = 0;
  failed =
      failures_in([&] { off = schedule::test::difference(right, schedule::test::meaning(mutant.scheduled, world)); });
  if (failed.empty() && off == 0 && random.chance(15)) failed = Lowering(mutant, random, tally, planted).run();
  if (failed.empty() && off == 0) return ++tally.still_right, "";
  ++tally.unexplained;
  return fmt::format("accepted, and {}:\n{}", failed.empty() ? "another meaning" : failed, text);
}

}  // namespace

void try_lowering(uint64_t seed, Tally& tally, const Planted& planted) {
  ++tally.programs;
  const std::string failed = failures_in([&] {
    Random random(seed);
    const ir::Program naive = ir::parse(random_program(random, true));
    const schedule::Space space = space_of(naive, random, 200);
    for (int k = 0; k < 4; ++k) {
      const schedule::Candidate& candidate = random.of(space.candidates);
      const Subject subject{naive, candidate.program, candidate.schedule};
      const std::string wrong = Lowering(subject, random, tally, planted).run();
      if (!wrong.empty()) return fault(tally, seed, wrong, subject);
    }
  });
  if (!failed.empty()) tally.faults.push_back(fmt::format("WEFT_SEED={} {}", seed, failed));
}

void try_schedule_mutants(uint64_t seed, Tally& tally, const Planted& planted) {
  ++tally.programs;
  const std::string failed = failures_in([&] {
    Random random(seed);
    const ir::Program naive = schedule::canonical(ir::parse(random_program(random, false)));
    const schedule::Candidate candidate = random.of(space_of(naive, random, 60).candidates);
    schedule::test::World world = schedule::test::world(1 + random.pick(8), 5, random.bits(), true);
    world.sizes.dims = {{"A", 1 + random.pick(6)}, {"B", 1 + random.pick(6)}};
    const schedule::test::Meaning right = schedule::test::meaning(naive, world);
    const Subject subject{naive, candidate.program, candidate.schedule};
    const std::string text = schedule::print(candidate.schedule) + random_launch(random);
    std::vector<std::string> mutants = ScheduleMutants(text, naive, random).list();
    for (const std::string& mutant : mutants) {
      const std::string wrong = try_schedule_text(mutant, subject, random, tally, planted, world, right);
      if (!wrong.empty()) return fault(tally, seed, fmt::format("{} ranks: {}", world.sizes.ranks, wrong), subject);
    }
  });
  if (!failed.empty()) tally.faults.push_back(fmt::format("WEFT_SEED={} {}", seed, failed));
}

}  // namespace weft::fuzz
