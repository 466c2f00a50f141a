// The table of environment variables. A new one is a new row, in the order of the alphabet.
#include "weft/base/env.h"

#include <cerrno>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

const EnvVariable& declared(std::string_view name) {
  for (const EnvVariable& v : env_variables())
    if (v.name == name) return v;
  internal_failure(__FILE__, __LINE__, "declared",
                   fmt::format("environment variable {} is not in env.cpp's table", name));
}

}  // namespace

const std::vector<EnvVariable>& env_variables() {
  static const std::vector<EnvVariable> table = {
      {"WEFT_CACHE_DIR", "",
       "where compiled kernels and calibrations are kept (else XDG_CACHE_HOME/weft, ~/.cache/weft)"},
      {"WEFT_CXX", "", "C++ compiler for generated code (else the one Weft was built with, then c++, g++, clang++)"},
      {"WEFT_DEBUG", "warn", "log level: warn, info or trace"},
      {"WEFT_DEBUG_FILE", "", "log to this file instead of stderr; %h is the host, %p the process, one file per rank"},
      {"WEFT_DEBUG_SUBSYS", "", "log only these rooms, a comma list such as runtime,transport"},
      {"WEFT_MACHINE", "", "machine file to use instead of detecting this machine"},
      {"WEFT_NO_COMPILER", "0", "1: never compile generated code, evaluate expressions instead (slower, same bits)"},
      {"WEFT_SPIN_US", "50", "microseconds a waiting thread spins before it sleeps"},
      {"WEFT_TIMEOUT_S", "600", "seconds after which a wait for another rank is an error"},
      {"WEFT_TUNING", "",
       "tuning file that `weft tune` writes and `weft run` reads (else tuning.toml in the cache directory)"},
      {"WEFT_VERIFY", "0", "1: check every plan and every compiler pass before it is used"},
  };
  return table;
}

std::string env(std::string_view name) {
  const EnvVariable& variable = declared(name);
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::string(value) : std::string(variable.fallback);
}

bool env_flag(std::string_view name) {
  const std::string value = env(name);
  for (const char* yes : {"1", "true", "on", "yes"})
    if (value == yes) return true;
  for (const char* no : {"0", "false", "off", "no", ""})
    if (value == no) return false;
  throw Error(ErrorKind::user, fmt::format("{}={} is neither yes nor no", name, value), "set it to 1 or 0");
}

int64_t env_int(std::string_view name) {
  const std::string value = env(name);
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != 0 || errno == ERANGE)
    throw Error(ErrorKind::user, fmt::format("{}={} is not an integer", name, value),
                fmt::format("{}; unset it for {}", declared(name).meaning, declared(name).fallback));
  return number;
}

}  // namespace weft
