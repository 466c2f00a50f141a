// Calibration: Nelder and Mead's simplex (The Computer Journal 1965) on the logarithms of the parameters. The residual is
// robust (soft L1 at 0.1), since tables hold disturbances and wrong choices, and priors keep parameters that a table
// cannot tell apart where other machines have them.
#include <algorithm>
#include <cmath>
#include <functional>

#include "weft/sim/nccl.h"

namespace weft::sim {
namespace {

using Point = std::vector<double>;

Point simplex(const std::function<double(const Point&)>& cost, const Point& start, double step, int most) {
  const size_t n = start.size();
  std::vector<std::pair<double, Point>> s{{cost(start), start}};
  for (size_t i = 0; i < n; ++i) {
    Point p = start;
    p[i] += step;
    s.emplace_back(cost(p), p);
  }
  for (int round = 0; round < most; ++round) {
    std::sort(s.begin(), s.end());
    if (s.back().first - s.front().first < 1e-9 * (1 + std::abs(s.front().first))) break;
    Point middle(n);
    for (size_t v = 0; v < n; ++v)
      for (size_t i = 0; i < n; ++i) middle[i] += s[v].second[i] / static_cast<double>(n);
    const auto along = [&](double t) {
      Point p(n);
      for (size_t i = 0; i < n; ++i) p[i] = middle[i] + t * (s[n].second[i] - middle[i]);
      return std::make_pair(cost(p), p);
    };
    const auto mirrored = along(-1);
    if (mirrored.first < s[0].first) {
      s[n] = std::min(mirrored, along(-2));
    } else if (mirrored.first < s[n - 1].first) {
      s[n] = mirrored;
    } else {
      const auto inner = mirrored.first < s[n].first ? along(-0.5) : along(0.5);
      if (inner.first < std::min(mirrored.first, s[n].first)) {
        s[n] = inner;
        continue;
      }
      for (size_t v = 1; v <= n; ++v) {
        for (size_t i = 0; i < n; ++i) s[v].second[i] = s[0].second[i] + 0.5 * (s[v].second[i] - s[0].second[i]);
        s[v].first = cost(s[v].second);
      }
    }
  }
  return std::min_element(s.begin(), s.end())->second;
}

constexpr double spread[] = {0.5, 0.4, 0.4, 0.3, 0.4, 0.4, 0.6, 0.8, 0.4, 0.4};  // standard deviations, in logarithms

}  // namespace

NcclParameters nccl_calibrate(const std::vector<NcclSample>& samples, const NcclParameters& start,
                              const std::array<bool, NcclParameters::count>& fit, double prior_strength) {
  const auto centre = start.values();
  std::vector<size_t> free;
  for (size_t i = 0; i < fit.size(); ++i)
    if (fit[i]) free.push_back(i);
  if (free.empty() || samples.empty()) return start;
  const auto at = [&](const Point& x) {
    auto values = centre;
    for (size_t i = 0; i < free.size(); ++i) values[free[i]] *= std::exp(std::clamp(x[i], -3., 3.));
    return NcclParameters::from(values);
  };
  const auto cost = [&](const Point& x) {
    const NcclParameters p = at(x);
    double sum = 0;
    for (const NcclSample& s : samples) {
      const double e = std::log(nccl_time_us(s.machine, s.job, s.tuned ? &s.choice : nullptr, p) / s.measured_us) / 0.1;
      sum += s.weight * 2 * (std::sqrt(1 + e * e) - 1);
    }
    for (size_t i = 0; i < free.size(); ++i) sum += prior_strength * x[i] * x[i] / (spread[free[i]] * spread[free[i]]);
    return sum;
  };
  Point x = simplex(cost, Point(free.size(), 0.0), 0.35, 3000);
  x = simplex(cost, x, 0.2, 3000);  // a second start frees a simplex that has collapsed
  return at(x);
}

}  // namespace weft::sim
