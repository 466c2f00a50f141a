// The verifier's own test: every line of every case is damaged in every way that a slip of the hand would damage it,
// and each damaged plan must be rejected, or be shown to be no damage.
//
// Shown how: an accepted mutant runs in the interpreter, in random orders, and must give the same bytes as the
// original. And it must stand in tests/cases/plan/survivors.txt, with the reason why it is none. The normal suite takes
// a sample by a seed that it prints (WEFT_SEED chooses another); WEFT_SLOW=1 takes all, and finds what stands in the
// list and is no survivor any more. UPDATE_GOLDEN=1 with WEFT_SLOW=1 rewrites the list: read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "tests/unit/plan/cases.h"
#include "tests/unit/plan/run_plan.h"
#include "weft/plan/machine.h"
#include "weft/plan/verify.h"

namespace weft::plan {
namespace {

struct Mutant {
  std::string plan, kind, line, to, text;  // to: what the line has become
  std::string name() const { return fmt::format("{} | {} | {} | {}", plan, kind, line, to); }
};

class Mutator {
 public:
  explicit Mutator(std::string name) : name_(std::move(name)) {
    const std::string text = cases::text(name_);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    for (size_t i = 0; i < lines_.size(); ++i) mutate(i);
  }
  std::vector<Mutant> list;

 private:
  static size_t indent(const std::string& line) { return line.find_first_not_of(' '); }
  bool is_step(size_t i) const {
    bool lane = false;
    for (size_t k = 0; k <= i; ++k) lane |= lines_[k].rfind("lane ", 0) == 0;
    const std::string line = lines_[i].substr(std::min(indent(lines_[i]), lines_[i].size()));
    return lane && (line.find(" -> ") != std::string::npos || line.find(" after ") != std::string::npos) &&
           line.rfind("for ", 0) && line.rfind("when ", 0);
  }

  void add(const std::string& kind, size_t i, const std::string& line, bool swap = false) {
    std::string text;
    for (size_t k = 0; k < lines_.size(); ++k) {
      if (swap && k == i + 1)
        text += lines_[i] + "\n";
      else
        text += (k == i ? (swap ? lines_[i + 1] : line) : lines_[k]) + "\n";
    }
    const std::string& now = swap ? lines_[i + 1] : line;
    list.push_back({name_, kind, lines_[i].substr(indent(lines_[i])), now.substr(indent(now)), text});
  }

  void mutate(size_t i) {
    const std::string& line = lines_[i];
    if (line.rfind("buffer ", 0) == 0) replace(i, "depth 2", "depth 1", "depth");
    if (line.rfind("link ", 0) == 0)
      for (const char* slots : {"slots 2", "slots 4"}) replace(i, slots, "slots 1", "slots");
    if (!is_step(i)) return;
    drop_step(i);
    drop_awaits(i);
    replace(i, "lag 2", "lag 3", "lag");
    shift(i);
    if (i + 1 < lines_.size() && is_step(i + 1) && indent(lines_[i]) == indent(lines_[i + 1])) add("swap", i, "", true);
  }

  void replace(size_t i, const std::string& from, const std::string& to, const std::string& kind) {
    const size_t at = lines_[i].find(from);
    if (at == std::string::npos) return;
    std::string line = lines_[i];
    add(kind, i, line.replace(at, from.size(), to));
  }

  void drop_step(size_t i) {
    if (lines_[i].find(" -> ") == std::string::npos) return;
    const std::string line = lines_[i].substr(indent(lines_[i]));
    const size_t colon = line.find(": ");
    const std::string label =
        colon != std::string::npos && is_identifier(line.substr(0, colon)) ? line.substr(0, colon) : "dropped";
    add("step", i, std::string(indent(lines_[i]), ' ') + label + ":");
  }

  void drop_awaits(size_t i) {
    const size_t at = lines_[i].find(" after ");
    if (at == std::string::npos) return;
    const std::vector<std::string> awaits = split_top(lines_[i].substr(at + 7), ',');
    for (size_t k = 0; k < awaits.size(); ++k) {
      std::vector<std::string> rest = awaits;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
      add("await", i, lines_[i].substr(0, at) + (rest.empty() ? "" : " after " + join(rest, ", ")));
    }
  }

  void shift(size_t i) {
    const std::string& line = lines_[i];
    const size_t end = std::min(line.find(" after "), line.size());
    for (size_t at = 0; at < end; ++at) {
      const bool part = line[at] == '[';
      const bool link = (line[at] == '<' || line[at] == '>') && at > 0 && line[at - 1] != '-' && line[at + 1] != ' ' &&
                        line[at + 1] != '<' && line[at + 1] != '>' && line[at - 1] != '<' && line[at - 1] != '>';
      const bool mapped = line[at] == '@';
      if (part || link || mapped) add(part ? "part" : "peer", i, line.substr(0, at + 1) + "1+" + line.substr(at + 1));
    }
  }

  std::string name_;
  std::vector<std::string> lines_;
};

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (const std::string& name : cases::names()) {
    Mutator mutator(name);
    all.insert(all.end(), mutator.list.begin(), mutator.list.end());
  }
  return all;
}

// Why a mutant of this kind may be no damage: what an entry of the list begins with.
const std::map<std::string, std::string> harmless = {
    {"await", "other awaits, messages or lane order imply it"},
    {"slots", "one slot suffices: nobody sends twice before the peer receives"},
    {"swap", "the two steps touch nothing in common, or the same set of contributions in any order"},
    {"part", "part numbers wrap: with one part, or where all parts are named, a shift changes nothing"},
    {"peer", "a range of peers that wraps, or a peer that is `none`"},
    {"lag", "messages or other awaits of the same chunk hold the reader back already"},
    {"depth", "the reader of a chunk is awaited before the next one is written"},
};

// The list of survivors: name -> reason.
std::filesystem::path survivors_file() { return cases::folder() / "survivors.txt"; }
std::map<std::string, std::string> survivors() {
  std::map<std::string, std::string> list;
  for (const std::string& line : split(read_file(survivors_file()), '\n')) {
    const size_t at = line.rfind(" | ");
    if (line.empty() || line[0] == '#' || at == std::string::npos) continue;
    list[line.substr(0, at)] = line.substr(at + 3);
  }
  return list;
}

void write_survivors(const std::set<std::string>& found, const std::map<std::string, std::string>& known) {
  std::string text =
      "# Damaged plans that the verifier accepts because they are no damage: PLAN | KIND | LINE | BECOMES | WHY\n"
      "# Each gives the bytes of the original in the interpreter (tests/unit/plan/mutate_test.cpp).\n";
  for (const std::string& name : found) {
    const std::string kind = split(name, '|')[1];
    text += name + " | " + (known.contains(name) ? known.at(name) : harmless.at(kind)) + "\n";
  }
  write_file(survivors_file(), text);
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && std::string(value) == "1";
}

cases::PlanSizes sizes_for(const Plan& plan, int n) {
  cases::PlanSizes sizes;
  constexpr int64_t inner = 2;
  sizes.even = 4 * n * inner;
  sizes.equal_part = 5;
  sizes.fixed = inner * inner;
  for (const Space& space : plan.spaces)
    if (space.derived == Space::Derived::segment) sizes.segments = {3, sizes.even - 3};
  sizes.given = [](int, int rank, int64_t part) { return 4 * ((rank + part) % 3); };
  sizes.scalars.assign(launch_scalars(plan).size(), {true, inner, static_cast<double>(inner)});
  return sizes;
}

std::vector<unsigned char> results(const Plan& plan, int n, uint64_t seed) {
  cases::PlanRun run(plan, n, sizes_for(plan, n));
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.role == Buffer::Role::scratch || buffer.role == Buffer::Role::out) continue;
    const bool counts =
        std::any_of(plan.spaces.begin(), plan.spaces.end(), [&](const Space& s) { return s.by_buffer == buffer.name; });
    run.fill(buffer.name, [&](int rank, int64_t i) {
      return counts ? static_cast<double>(4 * ((rank + i) % 3))
                    : static_cast<double>((rank * 7 + i) % 16 + 1 + static_cast<int64_t>(b));
    });
  }
  for (LaunchArgs& args : run.args)
    for (size_t s = 0; s < plan.spaces.size(); ++s)
      if (plan.spaces[s].kind == Space::Kind::even) args.spaces[s].extent = Cut{1, 4 * n, 2};
  InterpretOptions options;
  options.seed = seed;
  options.delay = seed % 2 ? 0.2 : 0;
  options.launches = 2;
  options.chunk_elements.assign(plan.spaces.size(), 4);
  run.run(options);
  return run.results();
}

// An accepted mutant gives the bytes of the original, on several numbers of ranks, in several orders.
void expect_same_results(const Mutant& mutant) {
  const Plan original = cases::load(mutant.plan), damaged = parse(mutant.text);
  int checked = 0;
  for (int n : admitted_ranks(original)) {
    if (n == 1 || ++checked > 3) continue;
    const auto want = results(original, n, 1);
    for (uint64_t seed : {1u, 2u, 3u, 4u})
      EXPECT_EQ(results(damaged, n, seed), want)
          << mutant.plan << " on " << n << ": " << mutant.kind << " of " << mutant.line;
  }
  EXPECT_GT(checked, 0);
}

TEST(Mutate, EachMutantIsRejectedOrNoDamage) {
  std::vector<Mutant> mutants = all_mutants();
  ASSERT_GT(mutants.size(), 400u);
  const bool slow = is_set("WEFT_SLOW"), update = slow && is_set("UPDATE_GOLDEN");
  const char* chosen = std::getenv("WEFT_SEED");
  const std::map<std::string, std::string> known = survivors();
  std::set<std::string> found;
  if (!slow) {
    const unsigned seed = chosen ? static_cast<unsigned>(std::stoul(chosen)) : 20240;
    std::printf("a sample of %zu mutants by WEFT_SEED=%u; WEFT_SLOW=1 takes all\n", mutants.size(), seed);
    std::shuffle(mutants.begin(), mutants.end(), std::mt19937(seed));
    mutants.resize(60);
  }
  std::map<std::string, int> rejected, accepted;
  for (const Mutant& mutant : mutants) {
    VerifyOptions options;
    options.cache = false;
    options.max_findings = 1;
    Plan damaged;
    try {
      damaged = parse(mutant.text);
    } catch (const Error&) {
      ++rejected["parse"];
      continue;
    }
    const Verdict verdict = verify(damaged, options);
    if (!verdict.ok()) {
      ++rejected[verdict.findings[0].rule];
      continue;
    }
    ++accepted[mutant.kind];
    ASSERT_TRUE(harmless.contains(mutant.kind)) << mutant.name();
    found.insert(mutant.name());
    EXPECT_TRUE(update || known.contains(mutant.name())) << "accepted, and not explained: " << mutant.name();
    expect_same_results(mutant);
  }
  if (update) write_survivors(found, known);
  for (const auto& [name, reason] : known) {
    EXPECT_FALSE(reason.empty()) << name;
    EXPECT_TRUE(!slow || update || found.contains(name)) << "listed, and rejected now: " << name;
  }
  int total = 0;
  for (const auto& [rule, count] : rejected) {
    std::printf("%s %d  ", rule.c_str(), count);
    total += count;
  }
  std::printf("\n%d of %zu rejected\n", total, mutants.size());
  EXPECT_GT(total, static_cast<int>(mutants.size()) * 3 / 4);
}

}  // namespace
}  // namespace weft::plan
