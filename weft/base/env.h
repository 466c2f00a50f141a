// Environment variables, declared once.
//
// A variable that is read in one corner and documented in another is a variable nobody trusts. Each is one row of the
// table in env.cpp: name, default, meaning. Code asks by name; `weft env` lists the table with the value in force.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct EnvVariable {
  std::string_view name, fallback, meaning;
};

const std::vector<EnvVariable>& env_variables();
std::string env(std::string_view name);  // the value or its fallback; an undeclared name is an internal error
bool env_flag(std::string_view name);    // "1", "true", "on", "yes" / "0", "false", "off", "no", ""; else kind user
int64_t env_int(std::string_view name);  // kind user where it is no integer

}  // namespace weft
