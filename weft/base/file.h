// Files: whole reads, atomic writes, and the per-user directories that caches and calibrations live in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

std::string read_file(const std::filesystem::path& path);  // whole; kind io with path and reason; 64 MiB at most
// Writes a temporary beside `path`, syncs and renames: readers see the old file or the new one, never a part.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft, else /tmp/weft-UID. Created with mode 0700; a
// directory owned by somebody else or open to others is refused (kind io): code is loaded from it.
std::filesystem::path cache_directory();

int64_t now_ns();             // monotonic clock
int64_t free_memory_bytes();  // the least of MemAvailable, of what every control group above leaves, of ulimit -v

}  // namespace weft
