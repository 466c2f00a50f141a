// Environment variables, declared once.
//
// A variable that is read in one corner and documented in another is a variable nobody trusts. Each is one row of the
// table in env.cpp: name, default, meaning, and for numbers the range that is accepted. Code asks by name; `weft env`
// lists the table with the value in force. A number outside its range is refused, not bent into it: a deadline of -1
// that quietly meant "at once" or "never" would be found out in production.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct EnvVariable {
  enum class Form { text, flag, integer, count, choice };  // count: an integer that may be written 4Gi
  std::string_view name, fallback, meaning;
  Form form = Form::text;
  int64_t least = 0, most = 0;    // integer, count: the range that is accepted, both included
  std::string_view choices = "";  // choice: the words, separated by spaces; case does not count
};

const std::vector<EnvVariable>& env_variables();
std::string env(std::string_view name);  // the value or its fallback; an undeclared name is an internal error
bool env_flag(std::string_view name);    // "1", "true", "on", "yes" / "0", "false", "off", "no", ""; else kind user
// An integer within the table's range; kind user, with variable, value, range and remedy, for anything else.
int64_t env_int(std::string_view name);
// The same of a count; nothing where neither variable nor fallback says one.
std::optional<int64_t> env_count(std::string_view name);
// Reads every variable that is more than text once and throws kind user for the first that is wrong: before ranks
// start, so that a wrong value is one error of the caller and not one of each rank in the middle of its first wait.
// Names of algorithms and protocols are known further up: api::check_environment().
void check_environment();

}  // namespace weft
