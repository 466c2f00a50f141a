// The function table applied to single f64 values.
#include "weft/expr/scalar_functions.h"

#include "weft/expr/functions_impl.h"

namespace weft::expr {

double scalar_power(double base, double exponent) { return wm::pow(base, exponent); }

std::optional<double> scalar_function(std::string_view name, const std::vector<double>& a) {
  if (a.size() == 1) {
    if (name == "sqrt") return wm::sqrt(a[0]);
    if (name == "rsqrt") return wm::rsqrt(a[0]);
    if (name == "exp") return wm::exp(a[0]);
    if (name == "log") return wm::log(a[0]);
    if (name == "tanh") return wm::tanh(a[0]);
    if (name == "sigmoid") return wm::sigmoid(a[0]);
    if (name == "relu") return wm::relu(a[0]);
    if (name == "gelu") return wm::gelu(a[0]);
    if (name == "silu") return wm::silu(a[0]);
    if (name == "abs") return wm::abs(a[0]);
  }
  if (a.size() == 2 && name == "pow") return wm::pow(a[0], a[1]);
  if (a.size() == 2 && name == "min") return wm::min(a[0], a[1]);
  if (a.size() == 2 && name == "max") return wm::max(a[0], a[1]);
  return std::nullopt;
}

}  // namespace weft::expr
