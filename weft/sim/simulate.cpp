// simulate(): how many ranks stand for all, and the run.
//
// Rank r+g does what rank r does (plan::period) and is connected like it (Network::period). With g ranks simulated and
// every message delivered to the receiver's representative, each event stands for ranks/g events at the same instant, so
// folding changes no time, unless parts differ in size, ranks differ in speed, or a step sends to a range of peers.
#include <numeric>

#include "weft/sim/engine.h"

namespace weft::sim {
namespace {

int64_t representatives(const plan::Instance& instance, const Cells& cells, const Network& network, Fold fold) {
  const int64_t n = instance.ranks();
  if (fold == Fold::off || network.fabric || !network.slowdown.empty() || !network.start_ns.empty()) return n;
  if (fold == Fold::exact && (!cells.uniform() || Steps::sends_to_ranges(instance.plan()))) return n;
  const int64_t period = std::lcm(plan::period(instance), std::max<int64_t>(1, network.period));
  return period < n && n % period == 0 ? period : n;
}

}  // namespace

Prediction simulate(const plan::Instance& instance, const std::vector<plan::SpaceExtent>& spaces,
                    const std::vector<int64_t>& chunk_elements, const Network& network, const Options& options) {
  if (options.launches < 1)
    throw Error(ErrorKind::user, fmt::format("{} launches to simulate", options.launches), "ask for one or more");
  if (network.costs.empty() || network.costs.size() > 65536 || network.ports < 1 || network.ports > 65535)
    throw Error(ErrorKind::user, "a machine without costs or ports", "give at least one LinkCost and one port");
  if (instance.ranks() >= 1 << 22 || instance.plan().families.size() > 500)
    throw Error(ErrorKind::unsupported, "more than 4 Mi ranks or 500 link families in a simulation",
                "simulate fewer ranks; the plan scales");
  Cells cells(instance, spaces, chunk_elements);
  return Engine(instance, cells, network, options, representatives(instance, cells, network, options.fold)).run();
}

}  // namespace weft::sim
