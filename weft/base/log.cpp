// Log lines. Settings are read once, at the first line; a line is one write, so that ranks do not mix within it.
#include "weft/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/text.h"

namespace weft {
namespace {

struct Settings {
  LogLevel level = LogLevel::warn;
  std::vector<std::string> subsystems;
  std::FILE* file = stderr;
};

std::mutex log_mutex;
std::atomic<const Settings*> settings_now{nullptr};
std::atomic<int> log_rank{-1};

std::string host_name() {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return host;
}

std::string expand(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool escape = pattern[i] == '%' && i + 1 < pattern.size();
    if (escape && pattern[i + 1] == 'h')
      out += host_name(), ++i;
    else if (escape && pattern[i + 1] == 'p')
      out += std::to_string(getpid()), ++i;
    else
      out += pattern[i];
  }
  return out;
}

void warn_if_unknown(const std::string& subsystem) {
  for (const EnvVariable& variable : env_variables()) {
    const std::vector<std::string> known = words(variable.choices);
    if (variable.name != "WEFT_DEBUG_SUBSYS" || std::find(known.begin(), known.end(), subsystem) != known.end())
      continue;
    fmt::print(stderr, "weft: WEFT_DEBUG_SUBSYS: nothing logs as {}; known are {}\n", subsystem, join(known, ", "));
  }
}

// A wrong setting must not stop a run: it is reported on stderr, once, and the default holds.
const Settings* read_settings() {
  static auto* const kept = new std::vector<const Settings*>;  // for ever: other threads may still log at exit
  auto* s = new Settings;
  kept->push_back(s);
  const std::string level = env("WEFT_DEBUG"), file = env("WEFT_DEBUG_FILE");
  if (level == "info" || level == "INFO")
    s->level = LogLevel::info;
  else if (level == "trace" || level == "TRACE")
    s->level = LogLevel::trace;
  else if (!level.empty() && level != "warn" && level != "WARN")
    fmt::print(stderr, "weft: WEFT_DEBUG={} is not warn, info or trace; warn holds\n", level);
  for (const std::string& name : split(env("WEFT_DEBUG_SUBSYS"), ','))
    if (!name.empty()) s->subsystems.push_back(name), warn_if_unknown(name);
  if (!file.empty()) {
    s->file = std::fopen(expand(file).c_str(), "a");
    if (!s->file) {
      s->file = stderr;
      fmt::print(stderr, "weft: WEFT_DEBUG_FILE={} cannot be opened; logging to stderr\n", file);
    }
  }
  return s;
}

const Settings& settings() {
  const Settings* now = settings_now.load(std::memory_order_acquire);
  if (now) return *now;
  std::lock_guard lock(log_mutex);
  if (!settings_now.load()) settings_now.store(read_settings(), std::memory_order_release);
  return *settings_now.load();
}

}  // namespace

void reload_log_settings() {
  std::lock_guard lock(log_mutex);
  settings_now.store(read_settings(), std::memory_order_release);
}

bool log_enabled(LogLevel level, std::string_view subsystem) {
  const Settings& s = settings();
  if (level > s.level) return false;
  if (s.subsystems.empty() || level == LogLevel::warn) return true;
  for (const std::string& name : s.subsystems)
    if (name == subsystem) return true;
  return false;
}

void log_line(LogLevel level, std::string_view subsystem, std::string_view text) {
  static constexpr const char* names[] = {"WARN", "INFO", "TRACE"};
  const int rank = log_rank.load(std::memory_order_relaxed);
  const std::string who = rank < 0 ? "" : fmt::format(" [{}]", rank);
  const std::string line = fmt::format("weft {}{} {}: {}\n", names[static_cast<int>(level)], who, subsystem, text);
  const Settings& s = settings();
  std::lock_guard lock(log_mutex);
  std::fwrite(line.data(), 1, line.size(), s.file);
  std::fflush(s.file);
}

void set_log_rank(int rank) { log_rank.store(rank, std::memory_order_relaxed); }

}  // namespace weft
