// V11 and V12: every result cell equals what its post says, in the promised order, with the promised rounding, and
// ranks that should hold the same value hold the same bits.
#include <algorithm>
#include <map>

#include "weft/plan/verify_post.h"

namespace weft::plan {

namespace {

class Checker {
 public:
  explicit Checker(SymbolicRun& run) : run_(run), posts_(run), plan_(run.subject().instance.plan()) {}

  void check() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      bool stated = false;
      for (const Post& post : plan_.posts)
        for (size_t t = 0; t < post.targets.size(); ++t)
          if (post.targets[t].name == buffer.name) {
            stated = true;
            check(post, t, static_cast<int>(b));
          }
      if (!stated && (buffer.role == Buffer::Role::out || buffer.role == Buffer::Role::inout))
        add("V11", -1, buffer.name,
            fmt::format("no post says what {} must hold. Remedy: post {}[p] = ...", buffer.name, buffer.name),
            "stated");
      if (!stated && buffer.role == Buffer::Role::state) check(Post{}, 0, static_cast<int>(b));
    }
  }

 private:
  void add(const std::string& rule, int rank, const std::string& cell, const std::string& message,
           const std::string& kind) {
    Finding finding;
    finding.rule = rule;
    finding.rank = rank;
    finding.cell = cell;
    finding.message = message;
    run_.findings().add(finding, kind + cell.substr(0, cell.find('@')));
  }

  void check(const Post& post, size_t target, int buffer) {
    const Instance& instance = run_.subject().instance;
    const int space = instance.buffer_space(buffer);
    const SpaceShape& shape = run_.spaces()[space];
    for (int rank = 0; rank < instance.ranks(); ++rank)
      for (int launch = 0; launch < verified_launches; ++launch)
        for (int part = 0; part < shape.parts; ++part) {
          if (instance.own_part(buffer, rank) != -1 && instance.own_part(buffer, rank) != part) continue;
          for (int share = 0; share < shape.shares; ++share)
            for (int chunk = 0; chunk < run_.chunks(rank, launch, space, part); ++chunk)
              for (int slice = 0; slice < shape.slices; ++slice) {
                if (run_.findings().full()) return;
                one(post, target, buffer, rank, {part, share, chunk, slice}, launch);
              }
        }
  }

  // A state without a post keeps its value.
  std::optional<Term> wanted(const Post& post, size_t target, int buffer, int rank, const Coord& coord, int launch) {
    if (post.targets.empty()) return run_.before(rank, launch, buffer, coord);
    const auto value = posts_.evaluate(post, target, rank, coord, launch);
    return value ? std::optional(value->term) : std::nullopt;
  }

  void one(const Post& post, size_t target, int buffer, int rank, const Coord& coord, int launch) {
    const std::string name = fmt::format("{}@{}[{}]", at(plan_.buffers, buffer).name, rank, coord.part);
    std::optional<Term> want;
    try {
      want = wanted(post, target, buffer, rank, coord, launch);
    } catch (const Error& error) {
      add("V1", rank, name, error.message() + ". Remedy: " + error.remedy(), "post");
      throw Halt{};
    }
    if (!want) return;
    const Term have = run_.after(rank, launch, buffer, coord);
    Terms& terms = run_.subject().terms;
    const std::string cell = fmt::format("{} channel {} chunk {} slice {} after launch {}", name, coord.share,
                                         coord.chunk, coord.slice, launch);
    if (have == no_term) {
      add("V11", rank, cell, fmt::format("is never written. Remedy: a step that writes it on rank {}", rank),
          "written");
      return;
    }
    const bool any = plan_.order != Order::rank, hops = plan_.round == Round::hops;
    if (terms.normal(have, any, hops) != terms.normal(*want, any, hops))
      different(rank, cell, have, *want);
    else if (plan_.order == Order::fixed)
      same_tree({&post, target, launch}, rank, cell, have);
    same_bits(buffer, rank, cell, coord, launch, have, *want);
  }

  void different(int rank, const std::string& cell, Term have, Term want) {
    Terms& terms = run_.subject().terms;
    const std::string text = fmt::format("holds {}, its post says {}", terms.print(have), terms.print(want));
    if (terms.normal(have, true, true) != terms.normal(want, true, true)) {
      add("V11", rank, cell, text, "value");
      return;
    }
    const bool rounding = terms.normal(have, true, false) != terms.normal(want, true, false);
    add("V12", rank, cell,
        text + (rounding ? "; it is rounded on the way. Remedy: a wider wire type, or `round hops`"
                         : "; the order is another one. Remedy: `order any`, or an algorithm that keeps rank order"),
        "numbers");
  }

  // order fixed: the same tree for every cell of one launch. (A state's tree grows from launch to launch.)
  using Goal = std::tuple<const Post*, size_t, int>;
  void same_tree(const Goal& goal, int rank, const std::string& cell, Term have) {
    const Term tree = run_.subject().terms.skeleton(have);
    if (tree == no_term) return;
    const auto [place, fresh] = trees_.try_emplace(goal, std::pair(tree, cell));
    if (!fresh && place->second.first != tree)
      add("V12", rank, cell,
          fmt::format(
              "is reduced in another order than {}. Remedy: `order any`, or an algorithm with one tree for all cells",
              place->second.second),
          "tree");
  }

  // Ranks that should hold the same value hold the same bits.
  void same_bits(int buffer, int rank, const std::string& cell, const Coord& coord, int launch, Term have, Term want) {
    const auto [place, fresh] = bits_.try_emplace(
        {static_cast<uint64_t>(buffer) << 48 | static_cast<uint64_t>(launch) << 40 | pack(coord), want},
        std::pair(have, rank));
    Terms& terms = run_.subject().terms;
    const bool same =
        fresh || place->second.first == have || terms.commuted(place->second.first) == terms.commuted(have);
    if (!same && !run_.findings().full())
      add("V12", rank, cell,
          fmt::format("differs in its bits from rank {}: {} and {}. Remedy: round to the wire's type before the value "
                      "is spread",
                      place->second.second, terms.print(have), terms.print(place->second.first)),
          "bits");
  }

  SymbolicRun& run_;
  PostTerms posts_;
  const Plan& plan_;
  std::map<Goal, std::pair<Term, std::string>> trees_;
  std::map<std::pair<uint64_t, Term>, std::pair<Term, int>> bits_;
};

}  // namespace

void check_posts(SymbolicRun& run) {
  try {
    Checker(run).check();
  } catch (const Halt&) {}
}

}  // namespace weft::plan
