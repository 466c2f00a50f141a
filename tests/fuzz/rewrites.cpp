// Rewrites one after the other, in any order and to any name. Enumerated schedules never say most of what a person may
// write (merge after split, cut of a small value, a store in between), so here sentences are random: a refusal must name
// its rule and leave no trace, and what is accepted must mean what it did. By the reference evaluator, exactly.
#include <algorithm>

#include "tests/fuzz/campaign.h"
#include "tests/unit/schedule/meaning.h"
#include "weft/base/text.h"

namespace weft::fuzz {
namespace {

using schedule::test::Meaning;
using schedule::test::World;

class Walk {
 public:
  Walk(uint64_t seed, Tally& tally, const Planted& planted)
      : random_(seed), seed_(seed), tally_(tally), planted_(planted), text_(random_program(random_, false)) {
    naive_ = now_ = schedule::canonical(ir::parse(text_));
    world_ = schedule::test::world(1 + random_.pick(8), 5, random_.bits(), true);
    world_.sizes.dims = {{"A", random_.pick(7)}, {"B", 1 + random_.pick(7)}};
    right_ = schedule::test::meaning(naive_, world_);
  }

  void run() {
    for (int tries = 0, accepted = 0; tries < 40 && accepted < 8 && ok_; ++tries) accepted += step();
    if (!ok_ || !erasable_) return;
    const std::string failed = failures_in([this] { schedule::check_scheduled(naive_, now_); });
    if (!failed.empty()) fault("after all: " + failed);
  }

 private:
  schedule::Directive proposal() {
    const std::vector<std::string> directives = {"split", "split", "reorder", "reorder", "cut",
                                                 "store", "merge", "fuse",    "commute", "split root"};
    const std::string& what = random_.of(directives);
    const auto name = [this] {
      std::string n = random_.of(now_.ops).name;
      if (random_.chance(10)) n += random_.of<std::string>({".s", ".p"});
      return n;
    };
    const std::string dim = std::to_string(random_.pick(3));
    if (what == "split root") return {"split", {name(), "root", std::to_string(random_.pick(world_.sizes.ranks))}};
    if (what == "split") return {"split", random_.chance(30) ? std::vector{name()} : std::vector{name(), dim}};
    if (what == "cut") return {"cut", {name(), dim}};
    if (what == "store") return {"store", {random_.of<std::string>({"w", "m"})}};
    if (what == "fuse") {
      std::vector<std::string> words = {"f" + std::to_string(random_.pick(4))};
      for (int k = 2 + random_.pick(3); k > 0; --k) words.push_back(name());
      return {"fuse", words};
    }
    return {what, {name()}};
  }

  // One sentence; returns whether it was accepted.
  bool step() {
    const schedule::Directive d = proposal();
    const std::string said = d.name + " " + join(d.words, " "), before = ir::print(now_);
    const schedule::Rewrite* rewrite = schedule::find_rewrite(d.name);
    ir::Program next;
    bool accepted = false;
    const std::string failed = failures_in([&] {
      const auto refusal = rewrite->check(now_, {d.words});
      if (refusal && refusal->rule.empty()) throw Error(ErrorKind::internal, "a refusal without a rule");
      accepted = !refusal;
      if (accepted) next = schedule::apply(now_, d.name, {d.words});
    });
    if (!failed.empty()) return fault(said + ": " + failed);
    if (ir::print(now_) != before) return fault(said + ": changed the program that it was given");
    if (!accepted) return ++tally_.refused, false;
    if (planted_.rewrite) next = planted_.rewrite(next, d.name);
    compare(said, next);
    erasable_ &= d.name != "commute";
    now_ = next;
    return true;
  }

  void compare(const std::string& said, const ir::Program& next) {
    ++tally_.rewrites;
    double off = 0;
    const std::string failed = failures_in([&] {
      if (ir::print(ir::parse(ir::print(next))) != ir::print(next))
        throw Error(ErrorKind::internal, "what it prints does not read back");
      off = schedule::test::difference(right_, schedule::test::meaning(next, world_));
    });
    if (!failed.empty())
      fault(said + ": " + failed + "\n" + ir::print(next));
    else if (off != 0)
      fault(fmt::format("{}: another meaning\n{}", said, ir::print(next)));
  }

  bool fault(const std::string& what) {
    ok_ = false;
    tally_.faults.push_back(fmt::format("WEFT_SEED={} {} ranks, A={} B={}: {}\nof\n{}", seed_, world_.sizes.ranks,
                                        world_.sizes.dims["A"], world_.sizes.dims["B"], what, text_));
    return false;
  }

  Random random_;
  uint64_t seed_;
  Tally& tally_;
  const Planted& planted_;
  std::string text_;
  ir::Program naive_, now_;
  World world_;
  Meaning right_;
  bool ok_ = true, erasable_ = true;
};

}  // namespace

void try_rewrites(uint64_t seed, Tally& tally, const Planted& planted) {
  ++tally.programs;
  const std::string failed = failures_in([&] { Walk(seed, tally, planted).run(); });
  if (!failed.empty()) tally.faults.push_back(fmt::format("WEFT_SEED={}: {}", seed, failed));
}

}  // namespace weft::fuzz
