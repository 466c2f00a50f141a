// The function table applied to single f64 values. Internal to expr.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace weft::expr {

double scalar_power(double base, double exponent);
// Nothing where there is no such function of that many floats.
std::optional<double> scalar_function(std::string_view name, const std::vector<double>& args);

}  // namespace weft::expr
