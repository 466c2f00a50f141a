// Keeping the kernel cache within its limit.
#pragma once

#include <cstdint>
#include <filesystem>

namespace weft::codegen {

// Notes that an entry is in use: its object's time of change becomes now, where that is more than an hour ago.
void touch_entry(const std::filesystem::path& object);

// Removes the entries unused for longest until at most three quarters of `limit_bytes` are left, if there is more than
// the limit; entries used in the last `keep_s` seconds and entries that somebody is making stay whatever the limit. One
// caller at a time; another one that finds it busy leaves it to that. Returns the number of entries that went. What
// cannot be removed is left alone: a full cache is no reason to fail.
int prune(const std::filesystem::path& directory, int64_t limit_bytes, int64_t keep_s = 3600);

int64_t cache_limit_bytes();  // WEFT_CACHE_MB; 0: none

}  // namespace weft::codegen
