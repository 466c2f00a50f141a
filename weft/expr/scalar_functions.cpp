// The function table applied to single f64 values.
#include "weft/expr/scalar_functions.h"

#include <cmath>

namespace weft::expr {

double scalar_power(double base, double exponent) { return std::pow(base, exponent); }

std::optional<double> scalar_function(std::string_view name, const std::vector<double>& a) {
  if (a.size() == 1) {
    if (name == "sqrt") return std::sqrt(a[0]);
    if (name == "rsqrt") return 1 / std::sqrt(a[0]);
    if (name == "exp") return std::exp(a[0]);
    if (name == "log") return std::log(a[0]);
    if (name == "tanh") return std::tanh(a[0]);
    if (name == "abs") return std::abs(a[0]);
  }
  if (a.size() == 2 && name == "pow") return scalar_power(a[0], a[1]);
  if (a.size() == 2 && name == "min") return a[0] < a[1] ? a[0] : a[1];
  if (a.size() == 2 && name == "max") return a[0] > a[1] ? a[0] : a[1];
  return std::nullopt;
}

}  // namespace weft::expr
