// Every change of a program, of the compiler and of Weft's own code makes new entries, and nobody ever asks for the old
// ones again; an entry cannot know that. So the least recently used go first, use being the object's time of change,
// which a hit brings up to date (times of access are switched off on many machines). Removing is safe at any moment:
// a loaded object keeps its memory, who finds an entry gone compiles it again, and entries of the last hour stay, so
// that what one rank has made for the others is there when they look.
#include "weft/codegen/prune.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "weft/base/env.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::codegen {

namespace fs = std::filesystem;

namespace {

constexpr size_t hash_digits = 32;

struct Entry {
  std::string hash;
  int64_t bytes = 0, used_s = 0;
  bool locked = false;
  std::vector<fs::path> files;
};

// All files whose name begins with a hash, by that hash: object, source, and what a killed process left half way.
std::vector<Entry> entries_of(const fs::path& directory) {
  std::map<std::string, Entry> found;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(directory, ignored)) {
    const std::string name = file.path().filename().string(), hash = name.substr(0, hash_digits);
    struct stat info {};
    if (hash.size() < hash_digits || hash.find_first_not_of("0123456789abcdef") != std::string::npos ||
        stat(file.path().c_str(), &info) != 0)
      continue;
    Entry& entry = found[hash];
    entry.hash = hash;
    entry.bytes += info.st_blocks * 512;
    entry.used_s = std::max<int64_t>(entry.used_s, info.st_mtim.tv_sec);
    entry.locked |= name == hash + ".lock";
    entry.files.push_back(file.path());
  }
  std::vector<Entry> list;
  for (auto& [hash, entry] : found) list.push_back(std::move(entry));
  return list;
}

// The object goes first: a source without an object is text to read, an object without its source is a riddle.
void remove_entry(Entry& entry) {
  std::sort(entry.files.begin(), entry.files.end(), std::greater<>());
  std::error_code ignored;
  for (const fs::path& file : entry.files) fs::remove_all(file, ignored);
}

class OnlyOne {
 public:
  explicit OnlyOne(const fs::path& directory)
      : file_(open((directory / "prune.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    held_ = file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) == 0;
  }
  ~OnlyOne() {
    if (file_ >= 0) close(file_);
  }
  OnlyOne(const OnlyOne&) = delete;
  OnlyOne& operator=(const OnlyOne&) = delete;
  bool held() const { return held_; }

 private:
  int file_;
  bool held_ = false;
};

}  // namespace

void touch_entry(const fs::path& object) {
  constexpr int64_t fresh_s = 3600;
  struct stat info {};
  if (stat(object.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtim.tv_sec > fresh_s)
    utimensat(AT_FDCWD, object.c_str(), nullptr, 0);  // a cache that may only be read is not pruned either
}

int64_t cache_limit_bytes() { return env_int("WEFT_CACHE_MB") << 20; }

int prune(const fs::path& directory, int64_t limit_bytes, int64_t keep_s) {
  std::vector<Entry> entries = entries_of(directory);
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (limit_bytes <= 0 || total <= limit_bytes) return 0;
  const OnlyOne lock(directory);
  if (!lock.held()) return 0;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used_s < b.used_s; });
  const int64_t before = total, now_s = std::time(nullptr);
  int gone = 0;
  for (Entry& entry : entries) {
    if (total <= limit_bytes / 4 * 3 || now_s - entry.used_s < keep_s) break;
    if (entry.locked) continue;
    remove_entry(entry);
    total -= entry.bytes;
    ++gone;
  }
  WEFT_LOG(info, "codegen", "{} entries of {} left the kernel cache: {} were {}", gone, entries.size(),
           human_bytes(static_cast<double>(before)), human_bytes(static_cast<double>(total)));
  return gone;
}

}  // namespace weft::codegen
