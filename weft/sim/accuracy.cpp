// Fits and judges. Defaults are fitted on other machines only; calibration sees every fourth size of each series and is
// judged on the rest, in two splits.
#include "weft/sim/accuracy.h"

#include <algorithm>
#include <cmath>

namespace weft::sim {
namespace {

using Flags = std::array<bool, NcclParameters::count>;

double error_of(const NcclSample& s, const NcclParameters& p) {
  return 100 * std::abs(std::log(nccl_time_us(s.machine, s.job, s.tuned ? &s.choice : nullptr, p) / s.measured_us));
}

// Sample numbers of each series, by size.
std::vector<std::vector<size_t>> series_of(const MeasuredSet& set) {
  std::map<int, std::vector<size_t>> by;
  for (size_t i = 0; i < set.samples.size(); ++i) by[set.series[i]].push_back(i);
  std::vector<std::vector<size_t>> list;
  for (auto& [key, numbers] : by) {
    std::stable_sort(numbers.begin(), numbers.end(),
                     [&](size_t a, size_t b) { return set.samples[a].job.bytes < set.samples[b].job.bytes; });
    list.push_back(numbers);
  }
  return list;
}

// Slower by a quarter than the next larger size: a wrong choice or a disturbance, which no model of a size explains.
std::vector<bool> suspicious(const MeasuredSet& set, const std::vector<std::vector<size_t>>& series) {
  std::vector<bool> flags(set.samples.size());
  for (const auto& numbers : series)
    for (size_t i = 0; i < numbers.size(); ++i) {
      size_t next = i + 1;
      const NcclSample& s = set.samples[numbers[i]];
      while (next < numbers.size() && set.samples[numbers[next]].job.bytes <= s.job.bytes) ++next;
      if (next < numbers.size() && s.measured_us > 1.25 * set.samples[numbers[next]].measured_us)
        flags[numbers[i]] = true;
    }
  return flags;
}

constexpr Flags all_parameters = {true, true, true, true, true, true, true, true, true, true};

// At most eight for one set.
Flags parameters_for(const MeasuredSet& set) {
  const NcclSample& s = set.samples[0];
  if (!s.tuned) return {true, false, false, false, false, false, false, true, true, false};
  const bool many =
      std::any_of(set.samples.begin(), set.samples.end(), [](const NcclSample& x) { return x.job.nodes > 1; });
  return {true, true, true, true, true, true, many, false, false, s.machine.nvls};
}

NcclParameters defaults_without(const std::vector<MeasuredSet>& sets, const std::string& machine) {
  std::vector<NcclSample> samples;
  for (const MeasuredSet& set : sets) {
    if (!set.pooled || set.machine == machine) continue;
    const size_t stride = 1 + set.samples.size() / 60;  // sets weigh the same, and sixty points say what a set can say
    const size_t count = (set.samples.size() + stride - 1) / stride;
    for (size_t i = 0; i < set.samples.size(); i += stride) {
      samples.push_back(set.samples[i]);
      samples.back().weight = 30. / static_cast<double>(count);
    }
  }
  return nccl_calibrate(samples, NcclParameters(), all_parameters, 3);
}

SetAccuracy judge(const MeasuredSet& set, const NcclParameters& defaults) {
  const auto series = series_of(set);
  const std::vector<bool> odd = suspicious(set, series);
  SetAccuracy result;
  result.name = set.name;
  result.pooled = set.pooled;
  result.suspicious = static_cast<size_t>(std::count(odd.begin(), odd.end(), true));
  std::vector<double> spec, calibrated, clean;
  for (const NcclSample& s : set.samples) spec.push_back(error_of(s, defaults));
  for (const size_t offset : {0, 2}) {
    std::vector<NcclSample> train;
    std::vector<size_t> rest;
    for (const auto& numbers : series)
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (i % 4 != offset)
          rest.push_back(numbers[i]);
        else if (!odd[numbers[i]])
          train.push_back(set.samples[numbers[i]]);
      }
    const NcclParameters fitted = nccl_calibrate(train, defaults, parameters_for(set));
    for (const size_t i : rest) {
      calibrated.push_back(error_of(set.samples[i], fitted));
      if (!odd[i]) clean.push_back(calibrated.back());
    }
  }
  result.spec = errors_of(spec);
  result.calibrated = errors_of(calibrated);
  result.calibrated_monotone = errors_of(clean);
  return result;
}

// One forced series at a time, six or seven points to fit, four parameters: the residual of the form alone.
void judge_known(const MeasuredSet& set, const NcclParameters& defaults, std::vector<double>& protocols,
                 std::vector<double>& tree) {
  for (const auto& numbers : series_of(set)) {
    const NcclChoice& last = set.samples[numbers.back()].choice;
    bool one_protocol = true, is_tree = true;
    for (const size_t i : numbers) {
      one_protocol = one_protocol && set.samples[i].choice.protocol == last.protocol;
      is_tree = is_tree && set.samples[i].choice.algorithm == NcclAlgorithm::tree;
    }
    if (!one_protocol && !is_tree) continue;  // an algorithm was forced that chooses its protocol by size
    std::vector<NcclSample> train;
    for (size_t i = 0; i < numbers.size(); i += 4) train.push_back(set.samples[numbers[i]]);
    const bool simple = last.protocol == NcclProtocol::simple;
    const Flags fit = one_protocol ? Flags{true, simple, !simple, true, !simple, simple, false, false, false, false}
                                   : Flags{true, true, true, true, true, true, false, false, false, false};
    const NcclParameters fitted = nccl_calibrate(train, defaults, fit, one_protocol ? 0.1 : 1);
    for (size_t i = 0; i < numbers.size(); ++i)
      if (i % 4 != 0) (is_tree ? tree : protocols).push_back(error_of(set.samples[numbers[i]], fitted));
  }
}

// Where LL, LL128 and Simple were all measured: is the tuner's protocol within 2 % of the best?
void judge_choice(const MeasuredSet& set, Accuracy& accuracy) {
  std::map<std::pair<int, double>, std::map<NcclProtocol, double>> times;
  std::map<std::pair<int, double>, const NcclSample*> any;
  for (const auto& numbers : series_of(set)) {
    const NcclProtocol protocol = set.samples[numbers[0]].choice.protocol;
    const bool forced = std::all_of(numbers.begin(), numbers.end(),
                                    [&](size_t i) { return set.samples[i].choice.protocol == protocol; });
    for (const size_t i : numbers) {
      if (!forced) continue;
      const NcclSample& s = set.samples[i];
      times[{s.job.ranks, s.job.bytes}][protocol] = s.measured_us;
      any[{s.job.ranks, s.job.bytes}] = &s;
    }
  }
  size_t good = 0, all = 0;
  for (const auto& [key, by] : times) {
    if (by.size() < 3) continue;
    double best = by.begin()->second;
    for (const auto& [protocol, time] : by) best = std::min(best, time);
    const NcclSample& s = *any[key];
    const NcclProtocol chosen = nccl_choose(nccl_table(s.machine, s.job), s.job.bytes).protocol;
    good += by.at(chosen) <= 1.02 * best;
    ++all;
  }
  if (all == 0) return;
  accuracy.choice_within_2pct =
      (accuracy.choice_within_2pct * static_cast<double>(accuracy.choices) + static_cast<double>(good)) /
      static_cast<double>(accuracy.choices + all);
  accuracy.choices += all;
}

Errors pooled(const std::vector<SetAccuracy>& sets, Errors SetAccuracy::*which) {
  std::vector<double> medians, p95s;
  for (const SetAccuracy& s : sets)
    if (s.pooled) medians.push_back((s.*which).median), p95s.push_back((s.*which).p95);
  return {errors_of(medians).median, errors_of(p95s).median, medians.size()};
}

}  // namespace

Errors errors_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  return {at(0.5), at(0.95), values.size()};
}

Accuracy evaluate_accuracy(const std::vector<MeasuredSet>& sets) {
  Accuracy accuracy;
  std::map<std::string, NcclParameters> defaults;
  for (const MeasuredSet& set : sets)
    if (!defaults.count(set.machine)) defaults[set.machine] = defaults_without(sets, set.machine);
  std::vector<double> known, tree;
  for (const MeasuredSet& set : sets) {
    accuracy.sets.push_back(judge(set, defaults[set.machine]));
    if (!set.known || set.machine != "L40S") continue;
    judge_known(set, defaults[set.machine], known, tree);
    judge_choice(set, accuracy);
  }
  accuracy.spec = pooled(accuracy.sets, &SetAccuracy::spec);
  accuracy.calibrated = pooled(accuracy.sets, &SetAccuracy::calibrated);
  accuracy.calibrated_monotone = pooled(accuracy.sets, &SetAccuracy::calibrated_monotone);
  accuracy.known = errors_of(known);
  accuracy.tree = errors_of(tree);
  return accuracy;
}

}  // namespace weft::sim
