// The table of environment variables. A new one is a new row, in the order of the alphabet.
#include "weft/base/env.h"

#include <algorithm>
#include <cctype>
#include <charconv>
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

[[noreturn]] void refuse(const EnvVariable& variable, const std::string& value, const std::string& allowed) {
  throw Error(ErrorKind::user, fmt::format("{}={} is not {}", variable.name, value, allowed),
              fmt::format("{}; unset it for {}", variable.meaning,
                          variable.fallback.empty() ? "the default" : variable.fallback));
}

}  // namespace

const std::vector<EnvVariable>& env_variables() {
  using Form = EnvVariable::Form;
  static const std::vector<EnvVariable> table = {
      {"NCCL_ALGO", "", "algorithms that collectives may take, in NCCL's syntax; WEFT_ALGO goes before it"},
      {"NCCL_MAX_CTAS", "", "as NCCL_MAX_NCHANNELS, which goes before it"},
      {"NCCL_MAX_NCHANNELS", "", "most channels that NCCL is predicted to take (weft sim)"},
      {"NCCL_MIN_CTAS", "", "as NCCL_MIN_NCHANNELS, which goes before it"},
      {"NCCL_MIN_NCHANNELS", "", "fewest channels that NCCL is predicted to take (weft sim)"},
      {"NCCL_NTHREADS", "", "threads of a channel that NCCL is predicted to take (weft sim)"},
      {"NCCL_PROTO", "", "protocols that collectives may take; WEFT_PROTO goes before it"},
      {"WEFT_ALGO", "", "algorithms that collectives may take, such as \"direct;all_reduce:^ring\""},
      {"WEFT_ARENA", "", "bytes per rank for memory that peers map (4Gi; 0: none; else half of the free memory)",
       Form::count, 0, int64_t{1} << 50},
      {"WEFT_CACHE_DIR", "",
       "where compiled kernels and calibrations are kept (else XDG_CACHE_HOME/weft, ~/.cache/weft)"},
      {"WEFT_CACHE_MB", "512", "MiB that compiled kernels may take; those unused for longest go first (0: no limit)",
       Form::integer, 0, 1 << 30},
      {"WEFT_COLLECTIVES_TUNING", "", "CSV file that says which algorithm collectives take (docs/communicator.md)"},
      {"WEFT_CXX", "", "C++ compiler for generated code (else the one Weft was built with, then c++, g++, clang++)"},
      {"WEFT_DEBUG", "warn", "log level: warn, info or trace", Form::choice, 0, 0, "warn info trace"},
      {"WEFT_DEBUG_FILE", "", "log to this file instead of stderr; %h is the host, %p the process, one file per rank"},
      {"WEFT_DEBUG_SUBSYS", "", "log only these rooms, a comma list such as runtime,transport", Form::text, 0, 0,
       "algo api base capi codegen collectives expr ir kernel lower plan runtime schedule sim topo transport tune "
       "view"},
      {"WEFT_MACHINE", "", "machine file to use instead of detecting this machine"},
      {"WEFT_NO_COMPILER", "0", "1: never compile generated code, evaluate expressions instead (slower, same bits)",
       Form::flag},
      {"WEFT_PROTO", "", "protocols that collectives may take: simple, ll, ll128"},
      {"WEFT_RANK", "", "of a process that no launcher started: its rank", Form::integer, 0, 1 << 20},
      {"WEFT_RANKS", "", "of a process that no launcher started: how many ranks there are", Form::integer, 1, 1 << 20},
      {"WEFT_RENDEZVOUS", "", "path of the file at which ranks that were started separately meet"},
      {"WEFT_SECRET", "", "what ranks that meet over TCP prove to each other: the same text on all, of this job alone"},
      {"WEFT_SOCKETS", "1", "TCP connections per pair of ranks; large messages are cut over all of them", Form::integer,
       1, 16},
      {"WEFT_SOCKET_FAMILY", "", "4 or 6: only addresses of IPv4 or IPv6", Form::choice, 0, 0, "4 6"},
      {"WEFT_SOCKET_IFNAME", "",
       "interfaces for TCP: prefixes such as eth,ib; =eth0 for exact names; ^docker,lo for all but these"},
      {"WEFT_SPIN_US", "50", "microseconds a waiting thread spins before it sleeps", Form::integer, 0, 10'000'000},
      {"WEFT_TIMELINE", "", "write the steps of all ranks to this file, as a Chrome trace (JSON)"},
      {"WEFT_TIMEOUT_S", "600", "seconds after which a wait for another rank is an error", Form::integer, 1,
       100'000'000},
      {"WEFT_TORCH_ALLOCATOR", "1",
       "0: torch's CPU tensors stay in ordinary memory, which peers do not map (docs/pytorch.md)", Form::flag},
      {"WEFT_TUNING", "",
       "tuning file that `weft tune` writes and `weft run` reads (else tuning.toml in the cache directory)"},
      {"WEFT_VERIFY", "0", "1: check every plan and every compiler pass before it is used", Form::flag},
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
  const EnvVariable& variable = declared(name);
  WEFT_CHECK(variable.form == EnvVariable::Form::integer, "{} is not declared as a number", name);
  const std::string value = env(name);
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || end != value.data() + value.size() || problem != std::errc() || number < variable.least ||
      number > variable.most)
    refuse(variable, value, fmt::format("a whole number from {} to {}", variable.least, variable.most));
  return number;
}

std::optional<int64_t> env_count(std::string_view name) {
  const EnvVariable& variable = declared(name);
  WEFT_CHECK(variable.form == EnvVariable::Form::count, "{} is not declared as a count", name);
  const std::string value = env(name);
  if (value.empty()) return {};
  const std::string allowed = fmt::format("a count from {} to {}, such as 64Mi or 4Gi", variable.least, variable.most);
  int64_t number = 0;
  try {
    number = parse_count(value);
  } catch (const Error&) { refuse(variable, value, allowed); }
  if (number < variable.least || number > variable.most) refuse(variable, value, allowed);
  return number;
}

namespace {

void check_choice(const EnvVariable& variable) {
  std::string value = env(variable.name);
  if (value.empty()) return;
  const std::vector<std::string> allowed = words(variable.choices);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    refuse(variable, env(variable.name), join(allowed, " or "));
}

// A text with choices is a comma list of them.
void check_list(const EnvVariable& variable) {
  const std::vector<std::string> allowed = words(variable.choices);
  for (const std::string& name : split(env(variable.name), ','))
    if (!name.empty() && !allowed.empty() && std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      refuse(variable, env(variable.name), fmt::format("a list of {}: there is no {}", join(allowed, ", "), name));
}

}  // namespace

void check_environment() {
  for (const EnvVariable& variable : env_variables()) {
    const bool said = !env(variable.name).empty() || !variable.fallback.empty();
    switch (variable.form) {
      case EnvVariable::Form::text: check_list(variable); break;
      case EnvVariable::Form::flag: env_flag(variable.name); break;
      case EnvVariable::Form::integer:
        if (said) env_int(variable.name);
        break;
      case EnvVariable::Form::count: env_count(variable.name); break;
      case EnvVariable::Form::choice: check_choice(variable); break;
    }
  }
}

}  // namespace weft
