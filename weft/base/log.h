// Log lines to stderr, or one file per rank (WEFT_DEBUG_FILE with %h host and %p pid). WEFT_DEBUG = warn info trace,
// as NCCL_DEBUG does; WEFT_DEBUG_SUBSYS limits to a comma list of rooms.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace weft {

enum class LogLevel { warn, info, trace };

bool log_enabled(LogLevel level, std::string_view subsystem);
void log_line(LogLevel level, std::string_view subsystem, std::string_view text);
void set_log_rank(int rank);  // printed before each line of this thread's process; -1: none

void reload_log_settings();  // reads the environment again (settings are read once; tests change them)

#define WEFT_LOG(level, subsystem, ...)                                                 \
  (::weft::log_enabled(::weft::LogLevel::level, subsystem)                              \
       ? ::weft::log_line(::weft::LogLevel::level, subsystem, fmt::format(__VA_ARGS__)) \
       : void(0))

}  // namespace weft
