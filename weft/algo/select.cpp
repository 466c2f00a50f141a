#include "weft/algo/select.h"

#include <algorithm>
#include <cmath>

#include "weft/algo/registry.h"

namespace weft::algo {
namespace {

// A value that ranks pass on whole is cut into k chunks: (stages + k - 1) (alpha + S / (k B)). Over one pass of the
// bytes that is (stages - 1) S / (k B) + (k - 1) alpha more; least at k = sqrt((stages - 1) S / (B alpha)), if k > 1.
double filling_s(double stages, double transfer_s, double alpha_s) {
  const double behind = (stages - 1) * transfer_s;
  return behind <= alpha_s ? behind : 2 * std::sqrt(behind * alpha_s) - alpha_s;
}

// The time of a row on links that are all alike.
double flat_time_s(const CostRow& row, double stages, double alpha_s, double bytes_per_s, double folded_per_s) {
  const double transfer = row.bytes / bytes_per_s;
  return row.steps * alpha_s + transfer + filling_s(stages, transfer, alpha_s) + row.bytes_folded / folded_per_s;
}

CostRow row_of(const Algorithm& algorithm, const Algorithm::Cost& cost) {
  CostRow row;
  row.algorithm = &algorithm;
  row.steps = std::max({cost.messages, cost.messages_received, cost.hops});
  row.bytes = std::max(cost.bytes_sent, cost.bytes_received);
  row.bytes_folded = cost.bytes_folded;
  return row;
}

// Both levels pairwise: what goes inside the host goes at its figures. collectives.md, "hierarchical".
double two_level_time_s(const CostRow& row, const Wanted& wanted, const Machine& machine) {
  const double g = machine.host_ranks, m = wanted.ranks / g,
               halves = wanted.collective == Collective::all_reduce ? 2 : 1;
  const double inside = halves * (g - 1) / g * wanted.bytes, across = row.bytes - inside;
  return halves * (g - 1) * machine.host_alpha_s + inside / machine.host_bytes_per_s +
         halves * (m - 1) * machine.alpha_s + across / machine.bytes_per_s +
         row.bytes_folded / machine.folded_bytes_per_s;
}

bool may_be_taken(const Algorithm& algorithm, const Wanted& wanted, const Machine& machine) {
  const bool ordered = !reduces(wanted.collective) || algorithm.order() <= wanted.order;
  return algorithm.supports(wanted.collective, wanted.counts) && algorithm.supports_ranks(wanted.ranks) && ordered &&
         (machine.mapped || !algorithm.needs_mapped()) && &algorithm != &gather_all();
}

}  // namespace

CostRow cost_row(const Algorithm& algorithm, const Wanted& wanted, const Machine& machine) {
  const Algorithm::Cost cost = algorithm.cost(wanted.collective, wanted.ranks, wanted.bytes);
  CostRow row = row_of(algorithm, cost);
  const bool one_host = machine.host_ranks >= wanted.ranks;
  if (machine.host_ranks > 0 && !one_host && algorithm.name() == hierarchical(machine.host_ranks).name())
    row.time_s = two_level_time_s(row, wanted, machine);
  else
    row.time_s = flat_time_s(row, cost.stages, one_host ? machine.host_alpha_s : machine.alpha_s,
                             one_host ? machine.host_bytes_per_s : machine.bytes_per_s, machine.folded_bytes_per_s);
  return row;
}

std::vector<CostRow> cost_rows(const Wanted& wanted, const Machine& machine) {
  std::vector<const Algorithm*> list = algorithms();
  if (machine.host_ranks > 1 && machine.host_ranks < wanted.ranks) list.push_back(&hierarchical(machine.host_ranks));
  std::vector<CostRow> rows;
  for (const Algorithm* algorithm : list)
    if (may_be_taken(*algorithm, wanted, machine)) rows.push_back(cost_row(*algorithm, wanted, machine));
  std::stable_sort(rows.begin(), rows.end(), [](const CostRow& a, const CostRow& b) { return a.time_s < b.time_s; });
  return rows;
}

const Algorithm& select(const Wanted& wanted, const Machine& machine) {
  const std::vector<CostRow> rows = cost_rows(wanted, machine);
  if (rows.empty())
    throw Error(ErrorKind::unsupported,
                fmt::format("no algorithm for {} on {} ranks", name(wanted.collective), wanted.ranks),
                "allow `order any`, or take parts of even size");
  return *rows.front().algorithm;
}

}  // namespace weft::algo
