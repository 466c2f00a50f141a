// Rounds: every trial still alive is measured once a round, one after the other, so that what disturbs the machine
// disturbs them alike; medians over rounds; the clearly slower are given up; neighbours of the best join (coordinate
// descent with measured times, after a start by predicted ones). And the judgement of the cost model.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/file.h"
#include "weft/tune/search.h"

namespace weft::tune {
namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t lo = static_cast<size_t>(at);
  const size_t hi = std::min(lo + 1, values.size() - 1);
  return values[lo] + (at - static_cast<double>(lo)) * (values[hi] - values[lo]);
}

std::vector<const Trial*> measured(const std::vector<Trial>& trials) {
  std::vector<const Trial*> out;
  for (const Trial& trial : trials)
    if (!trial.rounds_ns.empty()) out.push_back(&trial);
  return out;
}

// Ranks with ties averaged.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && values[order[j]] == values[order[i]]) j++;
    for (size_t k = i; k < j; k++) ranks[order[k]] = (static_cast<double>(i) + static_cast<double>(j) - 1) / 2;
    i = j;
  }
  return ranks;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); i++) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// Wrong, or clearly slower than the best right one; a plain one than the best plain one, so that one of them is in every
// round.
void give_up_slow(std::vector<Trial>& trials, double ratio) {
  double best_median = HUGE_VAL, best_plain = HUGE_VAL;
  for (const Trial* trial : measured(trials)) {
    if (trial->wrong()) continue;
    best_median = std::min(best_median, trial->median_ns());
    if (trial->plain) best_plain = std::min(best_plain, trial->median_ns());
  }
  for (Trial& trial : trials) {
    if (trial.rounds_ns.empty()) continue;
    const double least = *std::min_element(trial.rounds_ns.begin(), trial.rounds_ns.end());
    trial.given_up |= trial.wrong() || least > ratio * (trial.plain ? best_plain : best_median);
  }
}

}  // namespace

int64_t Evaluator::clock_ns() { return now_ns(); }

double Trial::median_ns() const { return quantile(rounds_ns, 0.5); }

double Trial::spread() const {
  const double median = median_ns();
  return median > 0 ? (quantile(rounds_ns, 0.75) - quantile(rounds_ns, 0.25)) / median : 0;
}

namespace {

// Those still measured, trials of one schedule side by side: between them states lie alike and need no filling.
std::vector<int> alive_in_order(const std::vector<Trial>& trials) {
  std::vector<std::pair<size_t, int>> order;
  std::vector<std::string> seen;
  for (const Trial& trial : trials) {
    schedule::Schedule bare = trial.schedule;
    bare.launches.clear();
    const std::string text = schedule::print(bare);
    const size_t at = static_cast<size_t>(std::find(seen.begin(), seen.end(), text) - seen.begin());
    if (at == seen.size()) seen.push_back(text);
    if (!trial.given_up) order.push_back({at, trial.id});
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> ids;
  for (const auto& [at, id] : order) ids.push_back(id);
  return ids;
}

// Neighbours of the best join.
void refine(std::vector<Trial>& trials, Evaluator& evaluator, const RoundOptions& options) {
  int left = options.refine_limit;
  for (Trial& trial : options.refine(best(trials), trials)) {
    if (left == 0) break;
    trial.id = static_cast<int>(trials.size());
    if (!evaluator.admit(trial)) continue;
    trials.push_back(std::move(trial));
    left--;
  }
}

}  // namespace

void measure(std::vector<Trial>& trials, Evaluator& evaluator, const RoundOptions& options) {
  const int64_t begin = evaluator.clock_ns();
  const auto used = [&] { return static_cast<double>(evaluator.clock_ns() - begin) / (options.seconds * 1e9); };
  std::string refined;  // the label of the best that was refined last
  int must = options.min_rounds;
  for (int round = 0; round < options.max_rounds; round++) {
    if (round >= must && used() > 1) break;
    const std::vector<int> alive = alive_in_order(trials);
    const std::vector<double> figures = evaluator.round(alive);
    WEFT_CHECK(figures.size() == alive.size(), "{} figures for {} trials", figures.size(), alive.size());
    for (size_t i = 0; i < alive.size(); i++) trials[static_cast<size_t>(alive[i])].rounds_ns.push_back(figures[i]);
    if (options.note_wrong) options.note_wrong(trials);
    if (round >= 1) give_up_slow(trials, options.give_up_ratio);
    if (options.progress) options.progress(round + 1, static_cast<int>(alive.size()), best(trials).median_ns());
    const bool time_left = used() < 0.6 || round == 1;         // one refinement at least
    const bool rounds_left = round + 3 <= options.max_rounds;  // what joins is measured at least twice
    if (!options.refine || round % 2 == 0 || !time_left || !rounds_left || best(trials).label == refined) continue;
    refined = best(trials).label;
    refine(trials, evaluator, options);
    must = std::max(must, round + 3);
  }
}

namespace {

const Trial* find_best(const std::vector<Trial>& trials) {
  const Trial* found = nullptr;
  for (const Trial* trial : measured(trials))
    if (!trial->given_up && !trial->wrong() && (!found || trial->median_ns() < found->median_ns())) found = trial;
  return found;
}

}  // namespace

bool any_right(const std::vector<Trial>& trials) { return find_best(trials) != nullptr; }

const Trial& best(const std::vector<Trial>& trials) {
  const Trial* found = find_best(trials);
  WEFT_CHECK(found, "nothing right was measured");
  return *found;
}

const Trial& plain(const std::vector<Trial>& trials) {
  const Trial* found = nullptr;
  const auto figure = [](const Trial& t) { return t.rounds_ns.empty() ? HUGE_VAL : t.median_ns(); };
  for (const Trial& trial : trials)
    if (trial.plain && (!found || figure(trial) < figure(*found))) found = &trial;
  WEFT_CHECK(found, "no plain trial");
  return *found;
}

namespace {

void judge_pairs(const std::vector<const Trial*>& seen, ModelReport& report) {
  constexpr double sure = 0.05;
  for (const Trial* a : seen)
    for (const Trial* b : seen) {
      const double fast = a->median_ns(), slow = b->median_ns();
      if (slow - fast <= sure * fast + fast * a->spread() / 2 + slow * b->spread() / 2) continue;
      report.pairs++;
      report.pairs_right += a->prediction.total_ns < b->prediction.total_ns;
    }
}

}  // namespace

ModelReport judge(const std::vector<Trial>& trials) {
  const std::vector<const Trial*> seen = measured(trials);
  if (seen.empty()) return {};
  std::vector<double> predicted, actual;
  for (const Trial* trial : seen) predicted.push_back(trial->prediction.total_ns), actual.push_back(trial->median_ns());
  const size_t chosen = static_cast<size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  ModelReport report;
  report.rank_correlation = seen.size() > 1 ? correlation(ranks_of(predicted), ranks_of(actual)) : 1;
  judge_pairs(seen, report);
  report.regret = actual[chosen] / *std::min_element(actual.begin(), actual.end()) - 1;
  return report;
}

std::vector<std::string> explain(const std::vector<Trial>& trials) {
  if (!any_right(trials)) return {"best: none; no schedule that was measured gives right results"};
  const Trial& b = best(trials);
  const Trial& p = plain(trials);
  const auto sums = [](const Prediction& x) {
    return fmt::format("reads {:.1f}, writes {:.1f} and exchanges {:.1f} bytes an element in {} pass{} over memory",
                       x.read_bytes, x.written_bytes, x.sent_bytes, x.passes, x.passes == 1 ? "" : "es");
  };
  std::vector<std::string> lines;
  if (&b == &p) {
    lines.push_back(
        fmt::format("best: the plain schedule; it {}, bound by {}", sums(p.prediction), p.prediction.bound));
    lines.push_back("no rewrite saved more than it cost at this size");
    return lines;
  }
  lines.push_back(fmt::format("best:  {}, bound by {}", sums(b.prediction), b.prediction.bound));
  lines.push_back(fmt::format("plain: {}, bound by {}", sums(p.prediction), p.prediction.bound));
  const double moved_b = b.prediction.read_bytes + b.prediction.written_bytes,
               moved_p = p.prediction.read_bytes + p.prediction.written_bytes;
  lines.push_back(fmt::format("so it moves {:.0f} % of the plain schedule's bytes and takes {:.0f} % of its time",
                              100 * moved_b / std::max(1e-9, moved_p),
                              100 * b.median_ns() / std::max(1e-9, p.median_ns())));
  return lines;
}

}  // namespace weft::tune
