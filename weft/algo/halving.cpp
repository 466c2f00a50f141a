// Recursive halving and doubling: in each of log2 n rounds a rank exchanges half of what it still has with the partner
// at half the distance (Thakur, Rabenseifner, Gropp, IJHPCA 2005, sections 4 and 4.4; collectives.md). The bytes are
// the ring's, (n-1)/n S a half, in log2 n messages instead of n-1: the algorithm for middle sizes.
//
// Any number of ranks: with m the largest power of two in n, the first n-m even ranks speak for their odd neighbours as
// well, take their contributions first and give them their results last. Ways to do without that fold exist (Bruck,
// PAT: any n in ceil(log2 n) rounds) but give up this one's order: ranks are paired the same way for every part, the
// lower one's sum first, so that every element is summed by the same tree (order fixed), only not from left to right.
#include <algorithm>

#include "weft/algo/shapes.h"
#include "weft/algo/traits.h"

namespace weft::algo {
namespace {

using namespace plan;

// One round: the parts of the d cores in a row that the core belongs to, and of those that its partner belongs to.
struct Exchange {
  Parts mine, theirs;
  std::string partner;
  explicit Exchange(const std::string& d) {
    const std::string lo = fmt::format("hd_core/({0})*({0})", d), across = fmt::format("(({1}) ^ ({0}))", d, lo);
    mine = run(lo, d);
    theirs = run(across, d);
    partner = rank_of_core(fmt::format("(hd_core ^ ({}))", d));
  }
  Peers peer_if(const std::string& condition) const {
    return peer(fmt::format("sel({}, {}, none)", condition, partner));
  }
  Peers lower() const { return peer_if(partner + " < r"); }
  Peers higher() const { return peer_if(partner + " > r"); }

 private:
  static Parts run(const std::string& from, const std::string& d) {
    const std::string first = rank_of_core("(" + from + ")");
    return parts(first, fmt::format("{}-{}", rank_of_core(fmt::format("({}+({}))", from, d)), first));
  }
};

class Halving : public Described {
 public:
  Halving()
      : Described({.name = "halving",
                   .order = Order::fixed,
                   .round = Round::hops,
                   .carrier = Carrier::links,
                   .collectives = joints_of_parts,
                   .given = joints_of_parts}) {}
  Owner owner(Collective) const override { return Owner::part; }

  Half scatter(const ScatterSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Id sums = "sums" + site.suffix;
    half.families = {family(site)};
    half.lets = core_lets();
    half.scratch = {partial_sums(site)};
    const Exchange round("hd_m >> j+1"), last("1");
    const auto had = [&](const Parts& p, const std::string& first) { return held(site, p, none_added(first)); };
    // The last round ends in the joint; who speaks for two has a part to give away first.
    half.head = {when("hd_home != none",
                      {copy("fold" + site.suffix, slice(site.buffer, parts("0", "n")), {send(f, peer("hd_home"))})}),
                 when("hd_home == none",
                      {when("hd_extra != none",
                            {add(site, "join", {slice(site.buffer, parts("0", "n")), receive(f, peer("hd_extra"))},
                                 slice(sums, parts("0", "n")))}),
                       each("j", "0", "log2c(hd_m)-sel(hd_extra == none, 1, 0)",
                            {add(site, "put", had(round.theirs, "j == 0"), send(f, peer(round.partner))),
                             add(site, "red", around(f, round, had(round.mine, "j == 0")), slice(sums, round.mine))}),
                       when("hd_extra == none and n > 1",
                            {add(site, "end", had(last.theirs, "hd_m == 2"), send(f, peer(last.partner)))}),
                       when("hd_extra != none",
                            {copy("give" + site.suffix, slice(sums, part("r+1")), {send(f, peer("r+1"))})})})};
    half.joint.label = site.joint;
    half.joint.reduction = site.reduction;
    half.joint.reduced = joint_sources(f, site, last);
    return half;
  }

  Half gather(const GatherSite& site) const override {
    if (!supports(site.collective)) unsupported(*this, site.collective);
    Half half;
    const Id& f = site.family;
    const Id& home = site.homes.front();
    half.families = {family(site)};
    half.lets = core_lets();
    half.joint.label = site.joint;
    half.joint.targets = slices(site.homes, part("r")) + std::vector{send(f, peer("hd_home"))};
    const Exchange round("1 << j");
    const auto get = [&](const Id& label, Peers from, const Parts& p) {
      return copy(label + site.suffix, receive(f, std::move(from)), slices(site.homes, p));
    };
    half.tail = {when("hd_home == none",
                      {when("hd_extra != none", {get("take", peer("hd_extra"), part("r+1"))}),
                       each("j", "0", "log2c(hd_m)",
                            {copy("fwd" + site.suffix, slice(home, round.mine), {send(f, peer(round.partner))}),
                             get("get", peer(round.partner), round.theirs)}),
                       when("hd_extra != none", {copy("back" + site.suffix, slice(home, parts("r+2", "n-1")),
                                                      {send(f, peer("hd_extra"))})})}),
                 when("hd_home != none", {get("last", peer("hd_home"), parts("r+1", "n-1"))})};
    return half;
  }

  Cost cost(Collective collective, int ranks, double bytes) const override {
    const bool scatters = collective != Collective::all_gather, gathers = collective != Collective::reduce_scatter;
    const int m = largest_power_of_two(ranks), extras = ranks - m;
    Cost most{extras > 0 ? (scatters ? bytes : 0) + (gathers ? bytes / ranks : 0) : 0, 0, 0};
    for (int core = 0; core < m; ++core) {
      const bool speaks = core < extras;
      const double blocks = doubled_parts(core, m, ranks), others = speaks ? ranks - 1 : 0;
      const double sent = (scatters ? ranks - 1 : 0) + (gathers ? blocks + others : 0);
      const double received = (scatters ? blocks + (speaks ? ranks : 0) : 0) + (gathers ? ranks - 1 : 0);
      most.bytes_sent = std::max(most.bytes_sent, sent / ranks * bytes);
      most.bytes_received = std::max(most.bytes_received, received / ranks * bytes);
    }
    const double halves = (scatters ? 1 : 0) + (gathers ? 1 : 0);
    most.messages = halves * (log2_ceiling(m) + (extras > 0 ? 1 : 0));
    most.hops = halves * folded_hops(ranks);
    if (scatters) most.bytes_folded = most.bytes_received - (gathers ? (ranks - 1.0) / ranks * bytes : 0);
    return most;
  }

 private:
  // In its first round a rank has its contribution, unless it speaks for two.
  static std::string none_added(const std::string& first) { return fmt::format("{} and hd_extra == none", first); }

  // The lower rank's sum first, whoever adds.
  static std::vector<Operand> around(const Id& f, const Exchange& round, const std::vector<Operand>& held) {
    return std::vector{receive(f, round.lower())} + held + std::vector{receive(f, round.higher())};
  }

  static std::vector<Operand> joint_sources(const Id& f, const ScatterSite& site, const Exchange& last) {
    const std::string alone = "hd_home == none and hd_extra == none and n > 1";
    const Parts own = part_if("hd_home == none", part("r"));
    return std::vector{receive(f, peer("hd_home")),
                       receive(f, last.peer_if(fmt::format("{} and {} < r", alone, last.partner)))} +
           held(site, own, none_added("hd_m <= 2")) +
           std::vector{receive(f, last.peer_if(fmt::format("{} and {} > r", alone, last.partner)))};
  }

  // The blocks that a core sends while they double, and gets while they halve.
  static double doubled_parts(int core, int m, int ranks) {
    const auto begin = [&](int i) { return std::min(2 * i, i + ranks - m); };
    double parts = 0;
    for (int d = 1; d < m; d *= 2) parts += begin(core / d * d + d) - begin(core / d * d);
    return parts;
  }
};

}  // namespace

const Algorithm& halving() {
  static const Halving algorithm;
  return algorithm;
}

}  // namespace weft::algo
