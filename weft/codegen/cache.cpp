// The cache of compiled kernels.
//
// Many ranks start at once and ask for the same kernels, on one machine or on many that share a home directory; some
// die half way; disks fill up. Rules that follow: a file appears by rename only, so a reader never sees a part of one.
// Its checksum travels inside it (ELF ignores what follows its sections), so file and checksum cannot disagree by a
// crash between two renames. Who compiles holds a flock, which the kernel drops when the holder dies; locks are taken
// in order of their hash, so two callers with several kernels each cannot wait for one another. Whoever waited looks
// again before compiling. Waiting is bounded: a holder that hangs is not helped by another one that hangs. An object
// is loaded before it gets its name, so that what a broken compiler writes never stays.
#include "weft/codegen/cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/codegen/prune.h"

namespace weft::codegen {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view seal_mark = "\nweft-kernel ";
constexpr size_t seal_bytes = 13 + 32;

// A little longer than a compiler may take, and less than a rank waits for another one.
int64_t lock_patience_ns() { return std::min<int64_t>(150'000'000'000, env_int("WEFT_TIMEOUT_S") * 750'000'000); }

// Held while an entry is being made. The file is removed by its holder; a lock on a file that is no longer the one in
// the directory is none, so the inode is compared after locking.
class EntryLock {
 public:
  explicit EntryLock(fs::path path) : path_(std::move(path)) { try_lock(); }  // ask held()
  EntryLock(fs::path path, int64_t deadline_ns) : EntryLock(std::move(path)) {
    while (!held() && now_ns() < deadline_ns) std::this_thread::sleep_for(std::chrono::milliseconds(2)), try_lock();
    if (!held())
      throw Error(ErrorKind::io,
                  fmt::format("another process has been compiling {} for {}", path_.stem().string(),
                              human_ns(static_cast<double>(lock_patience_ns()))),
                  "does its compiler hang? end it, or set WEFT_CXX to another one");
  }
  ~EntryLock() {
    if (file_ < 0) return;
    unlink(path_.c_str());
    close(file_);
  }
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  void try_lock() {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
      throw Error(ErrorKind::io, fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)),
                  "make the cache writable, or set WEFT_CACHE_DIR to a directory that is");
    struct stat mine {
    }, there{};
    const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &mine) == 0 &&
                        stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    if (locked)
      file_ = file;
    else
      close(file);
  }

  fs::path path_;
  int file_ = -1;
};

// Null and the reason where it cannot be loaded.
void* try_open(const fs::path& object, std::string& reason) {
  void* handle = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle) return handle;
  const char* said = dlerror();
  reason = said ? said : "unknown reason";
  return nullptr;
}

// Null where it is missing or damaged.
void* open_object(const fs::path& object) {
  if (!intact(object)) return nullptr;
  std::string reason;
  void* handle = try_open(object, reason);
  if (handle) return touch_entry(object), handle;
  if (access(object.c_str(), F_OK) != 0) return nullptr;  // pruned a moment ago
  throw Error(ErrorKind::io, fmt::format("{} cannot be loaded: {}", object.string(), reason),
              "if its file system forbids execution (noexec), set WEFT_CACHE_DIR to one that allows it; or set "
              "WEFT_NO_COMPILER=1");
}

std::string unique_suffix() {
  static std::atomic<int> counter{0};
  return fmt::format(".{}.{}", getpid(), counter++);
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// What killed processes left, of whatever entry: objects half made, logs, folders of compilers. An entry that is being
// made has its lock held; who is not here to hold it is dead.
void remove_leftovers(const fs::path& directory) {
  constexpr size_t hash_digits = 32;
  std::map<std::string, std::vector<fs::path>> left;  // by hash
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string(), hash = name.substr(0, hash_digits);
    const bool ours = hash.size() == hash_digits && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (ours && name != hash + ".so" && name != hash + ".cpp") left[hash].push_back(entry.path());
  }
  for (const auto& [hash, paths] : left) {
    const EntryLock lock(directory / (hash + ".lock"));  // its file goes with it
    if (!lock.held()) continue;
    for (const fs::path& path : paths)
      if (path.extension() != ".lock") remove_quietly(path);
  }
}

[[noreturn]] void fail_compile(const CompileJob& job, const Unit& unit) {
  throw Error(ErrorKind::io, fmt::format("compiling {} failed\n    {}\n    {}", unit.what, job.command_line, job.error),
              "set WEFT_CXX to a working C++20 compiler, or WEFT_NO_COMPILER=1 to run without one (slower, same bits)");
}

// A compiler may say that all is well and have written nonsense; on a file system without execution the best object
// does not load. The head of the file tells the two apart.
void check_loads(CompileJob& job) {
  std::string reason;
  if (!job.error.empty() || try_open(job.object, reason)) return;
  std::string head = read_file(job.object).substr(0, 4);
  job.refused = head !=
                    "\x7f"
                    "ELF" ||
                reason.find("undefined symbol") != std::string::npos;
  job.error = fmt::format(
      "the compiler said nothing, but its object cannot be loaded: {}{}", reason,
      job.refused ? "" : " (does the file system of the cache forbid execution, noexec? set WEFT_CACHE_DIR)");
}

}  // namespace

void seal(const fs::path& object) {
  const std::string bytes = read_file(object);
  std::ofstream file(object, std::ios::binary | std::ios::app);
  file << seal_mark << hash_hex(bytes);
  file.close();
  if (!file)
    throw Error(ErrorKind::io, fmt::format("cannot write {}", object.string()),
                "is the disk full? WEFT_CACHE_DIR names another one");
}

bool intact(const fs::path& object) {
  std::error_code missing;
  if (!fs::is_regular_file(object, missing)) return false;
  std::string bytes;
  try {
    bytes = read_file(object);
  } catch (const Error&) {
    return false;  // unreadable or just removed: as good as absent
  }
  if (bytes.size() < seal_bytes) return false;
  const std::string_view all = bytes, body = all.substr(0, all.size() - seal_bytes), mark = all.substr(body.size());
  return mark.starts_with(seal_mark) && mark.substr(seal_mark.size()) == hash_hex(body);
}

Cache::Cache(fs::path directory, Compiler compiler) : directory_(std::move(directory)), compiler_(std::move(compiler)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error)
    throw Error(ErrorKind::io, fmt::format("cannot create {}: {}", directory_.string(), error.message()),
                "set WEFT_CACHE_DIR to a writable directory");
}

std::string Cache::hash(const Unit& unit) const { return hash_hex(unit.source + "\n" + compiler_.identity); }
fs::path Cache::object_path(const std::string& hash) const { return directory_ / (hash + ".so"); }
fs::path Cache::source_path(const std::string& hash) const { return directory_ / (hash + ".cpp"); }

std::vector<void*> Cache::load(const std::vector<Unit>& units, CacheReport* report) {
  CacheReport unasked;
  CacheReport& counted = report ? *report : unasked;
  counted = {};
  std::vector<void*> handles(units.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < units.size(); i++) {
    handles[i] = open_object(object_path(hash(units[i])));
    if (!handles[i]) missing.push_back(i);
  }
  counted.found = static_cast<int>(units.size() - missing.size());
  if (!missing.empty()) compile_missing(units, missing, counted);
  for (const size_t i : missing) {
    handles[i] = open_object(object_path(hash(units[i])));
    if (!handles[i])
      throw Error(ErrorKind::io,
                  fmt::format("{} was written and reads back damaged", object_path(hash(units[i])).string()),
                  "check the disk; WEFT_CACHE_DIR names another one");
  }
  return handles;
}

void Cache::compile_missing(const std::vector<Unit>& units, const std::vector<size_t>& missing, CacheReport& report) {
  std::vector<std::pair<std::string, size_t>> wanted;  // by hash: the order of locking
  for (const size_t i : missing) wanted.push_back({hash(units[i]), i});
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(
      std::unique(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
      wanted.end());

  remove_leftovers(directory_);
  const int64_t deadline_ns = now_ns() + lock_patience_ns();
  std::vector<std::unique_ptr<EntryLock>> locks;
  std::vector<CompileJob> jobs;
  std::vector<std::pair<std::string, size_t>> of_job;
  for (const auto& [hash, i] : wanted) {
    locks.push_back(std::make_unique<EntryLock>(directory_ / (hash + ".lock"), deadline_ns));
    if (intact(object_path(hash))) {
      report.found++;
      continue;
    }
    write_file(source_path(hash), units[i].source);
    const std::string suffix = unique_suffix();
    jobs.push_back({source_path(hash), directory_ / (hash + suffix + ".so"), directory_ / (hash + suffix + ".log"), "",
                    "", false});
    of_job.push_back({hash, i});
  }
  compile(compiler_, jobs);
  report.compiled += static_cast<int>(jobs.size());
  for (CompileJob& job : jobs) {
    WEFT_LOG(info, "codegen", "{}", job.command_line);
    remove_quietly(job.log);
    check_loads(job);
  }
  for (size_t j = 0; j < jobs.size(); j++) {
    if (!jobs[j].error.empty()) {
      for (const CompileJob& job : jobs) remove_quietly(job.object);
      report.refused = jobs[j].refused;
      fail_compile(jobs[j], units[of_job[j].second]);
    }
    put(jobs[j].object, object_path(of_job[j].first));
  }
  if (!jobs.empty()) prune(directory_, cache_limit_bytes());
}

void Cache::put(const fs::path& made, const fs::path& object) {
  try {
    seal(made);
  } catch (const Error&) {
    remove_quietly(made);  // a full disk should get its space back
    throw;
  }
  std::error_code error;
  fs::rename(made, object, error);
  if (error)
    throw Error(ErrorKind::io, fmt::format("cannot put {} into the kernel cache: {}", object.string(), error.message()),
                "remove what stands there, or name another folder with WEFT_CACHE_DIR");
}

}  // namespace weft::codegen
