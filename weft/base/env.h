// Environment variables, declared once.
//
// A variable that is read in one corner and documented in another is a variable nobody trusts. Each is one row of the
// table in env.cpp: name, default, meaning, and for numbers the range that is accepted. Code asks by name; `weft env`
// lists the table with the value in force. A number outside its range is refused, not bent into it: a deadline of -1
// that quietly meant "at once" or "never" would be found out in production.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct EnvVariable {
  enum class Form { text, flag, integer };
  std::string_view name, fallback, meaning;
  Form form = Form::text;
  int64_t least = 0, most = 0;  // integer: the range that is accepted, both included
};

const std::vector<EnvVariable>& env_variables();
std::string env(std::string_view name);  // the value or its fallback; an undeclared name is an internal error
bool env_flag(std::string_view name);    // "1", "true", "on", "yes" / "0", "false", "off", "no", ""; else kind user
// An integer within the table's range; kind user, with variable, value, range and remedy, for anything else.
int64_t env_int(std::string_view name);
// Reads every flag and integer once and throws what env_flag and env_int throw: before ranks start, so that a wrong
// value is one error of the caller and not one of each rank in the middle of its first wait.
void check_environment();

}  // namespace weft
