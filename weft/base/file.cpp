// Files: whole reads, atomic replacement, and the private cache directory.
//
// A cache that several processes share is correct when a file appears whole or not at all: write beside it, sync,
// rename. Code is loaded from the cache, so a directory that others can write is a way in, and is refused.
#include "weft/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

// What helps against the usual reasons, where the caller knows nothing better.
std::string remedy_for(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR: return "check the name; without a leading / it is looked up from the folder you are in";
    case EACCES:
    case EPERM: return "check the permissions of the file and of the folders above it";
    case EISDIR: return "name a file, not a folder";
    case ENOSPC:
    case EFBIG:
    case EDQUOT: return "free some space there, or name another place";
    case EROFS: return "name a place that is not read-only";
    default: return "";
  }
}

[[noreturn]] void io_failure(const std::string& what, const std::filesystem::path& path, int reason,
                             const std::string& remedy = "") {
  throw Error(ErrorKind::io, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(reason)),
              remedy.empty() ? remedy_for(reason) : remedy);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::filesystem::path cache_path() {
  if (const std::string set = env("WEFT_CACHE_DIR"); !set.empty()) return set;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "weft";
  if (const char* home = std::getenv("HOME"); home && *home && std::string_view(home) != "/")
    return std::filesystem::path(home) / ".cache" / "weft";
  return fmt::format("/tmp/weft-{}", getuid());
}

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

// The number in a one-line file such as memory.max; nothing for "max" or an absent file.
int64_t number_in(const std::filesystem::path& path) {
  constexpr int64_t absent = -1;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return absent;
  const std::string text = read_file(path);
  return text.empty() || text[0] < '0' || text[0] > '9' ? absent : std::strtoll(text.c_str(), nullptr, 10);
}

// The value behind `key` in files like /proc/meminfo and memory.stat.
int64_t keyed(const std::filesystem::path& path, std::string_view key) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return 0;
  const std::string text = read_file(path);
  const size_t at = text.find(key);
  return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + key.size(), nullptr, 10);
}

// What one control group leaves; reclaimable pages of files count as free.
int64_t group_rest_bytes(const std::filesystem::path& group, const char* limit_file, const char* used_file,
                         std::string_view reclaimable_key) {
  const int64_t limit = number_in(group / limit_file), used = limit < 0 ? -1 : number_in(group / used_file);
  if (limit < 0 || used < 0) return unlimited;
  return std::max<int64_t>(0, limit - used + keyed(group / "memory.stat", reclaimable_key));
}

// This process's group of a hierarchy, from /proc/self/cgroup: the path behind `mark` ("0::" or "memory:").
std::string group_behind(std::string_view mark) {
  std::error_code ignored;
  if (!std::filesystem::exists("/proc/self/cgroup", ignored)) return "";
  for (const std::string& line : split(read_file("/proc/self/cgroup"), '\n'))
    if (const size_t at = line.find(mark); at != std::string::npos && (mark != "0::" || at == 0))
      return line.substr(at + mark.size());
  return "";
}

// A limit may stand at any level above us, and inside a container the path may not exist below the mount: the mount's
// own files are always asked.
int64_t cgroup_rest_bytes() {
  int64_t rest = unlimited;
  const auto ask = [&](const std::filesystem::path& mount, std::string_view mark, const char* limit, const char* used,
                       std::string_view key) {
    std::filesystem::path below = std::filesystem::path(group_behind(mark)).relative_path();
    for (;; below = below.parent_path()) {
      rest = std::min(rest, group_rest_bytes(mount / below, limit, used, key));
      if (below.empty()) return;
    }
  };
  ask("/sys/fs/cgroup", "0::", "memory.max", "memory.current", "\ninactive_file ");
  ask("/sys/fs/cgroup/memory", "memory:", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file ");
  return rest;
}

// What `ulimit -v` leaves of this process's addresses. Ranks map each other's memory, so that the whole of a job has to
// fit into the addresses of each of them.
int64_t address_rest_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const int64_t used = keyed("/proc/self/status", "VmSize:") * 1024;
  return std::max<int64_t>(0, static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX)) - used);
}

}  // namespace

namespace {

// Texts are kilobytes and kernels a few hundred of them; the largest files that anybody hands in are traces of some
// megabytes. What is larger, or never ends (/dev/zero), was not meant.
constexpr int64_t most_file_bytes = int64_t{64} << 20;
constexpr int pipe_patience_ms = 10'000;  // a pipe that nobody writes into is no file

[[noreturn]] void too_large(const std::filesystem::path& path, const std::string& how_large) {
  throw Error(
      ErrorKind::io,
      fmt::format("cannot read {}: {}, at most {} are read", path.string(), how_large, human_bytes(most_file_bytes)),
      "is this the file you meant? name another one");
}

// Pipes and terminals: what comes next, or an error where nothing comes.
void await_bytes(int fd, const std::filesystem::path& path) {
  pollfd wait{fd, POLLIN, 0};
  const int ready = ::poll(&wait, 1, pipe_patience_ms);
  if (ready < 0 && errno != EINTR) io_failure("read", path, errno);
  if (ready == 0)
    throw Error(
        ErrorKind::io,
        fmt::format("cannot read {}: nothing has come out of it for {} s", path.string(), pipe_patience_ms / 1000),
        "it is a pipe or a device: is its writer there? name a file");
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK opening a pipe would wait for its writer for ever.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (fd.get() < 0 || ::fstat(fd.get(), &info)) io_failure("read", path, errno);
  if (S_ISREG(info.st_mode) && info.st_size > most_file_bytes)
    too_large(path, fmt::format("it has {}", human_bytes(static_cast<double>(info.st_size))));
  const bool waits = S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode) || S_ISSOCK(info.st_mode);
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    if (waits) await_bytes(fd.get(), path);
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n == 0) return bytes;
    if (n > 0)
      bytes.append(buffer, static_cast<size_t>(n));
    else if (errno != EINTR && errno != EAGAIN)
      io_failure("read", path, errno);
    if (static_cast<int64_t>(bytes.size()) > most_file_bytes) too_large(path, "it does not end");
  }
}

namespace {

// A device, pipe or socket is written to, never replaced by a file of its name.
bool is_special(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

void write_in_place(const std::filesystem::path& path, std::string_view bytes) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0) io_failure("write", path, errno);
  int reason = write_all(fd.get(), bytes);
  if (fd.close() && !reason) reason = errno;
  if (reason) io_failure("write", path, reason);
}

}  // namespace

void write_file(const std::filesystem::path& named, std::string_view bytes) {
  if (is_special(named)) return write_in_place(named, bytes);
  std::error_code failed;  // a link stays a link: the file behind it is written
  const std::filesystem::path path =
      std::filesystem::is_symlink(named, failed) ? std::filesystem::weakly_canonical(named, failed) : named;
  if (std::filesystem::is_directory(path, failed)) io_failure("write", path, EISDIR);
  std::string temporary = path.string() + ".XXXXXX";
  FileDescriptor fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0)
    io_failure("write", path, errno, errno == ENOENT ? "make its folder first, or name another place" : "");
  int reason = write_all(fd.get(), bytes);
  if (!reason && (::fchmod(fd.get(), 0644) || ::fsync(fd.get()))) reason = errno;
  if (fd.close() && !reason) reason = errno;
  if (!reason && ::rename(temporary.c_str(), path.c_str())) reason = errno;
  if (!reason) return;
  ::unlink(temporary.c_str());
  io_failure("write", path, reason);
}

std::filesystem::path cache_directory() {
  const std::filesystem::path path = cache_path();
  const char* remedy = "set WEFT_CACHE_DIR to a directory of your own";
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  if (::mkdir(path.c_str(), 0700) && errno != EEXIST) io_failure("create the cache directory", path, errno, remedy);
  struct stat info {};
  if (::stat(path.c_str(), &info)) io_failure("look at the cache directory", path, errno, remedy);
  if (!S_ISDIR(info.st_mode)) io_failure("use as cache directory", path, ENOTDIR, remedy);
  if (info.st_uid != ::geteuid())
    throw Error(
        ErrorKind::io,
        fmt::format("cache directory {} belongs to user {}; code is loaded from it", path.string(), info.st_uid),
        remedy);
  if (info.st_mode & 077)
    throw Error(ErrorKind::io,
                fmt::format("cache directory {} has mode {:o}, others may read or write it; code is loaded from it",
                            path.string(), info.st_mode & 07777),
                fmt::format("chmod 700 {}", path.string()));
  return path;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t free_memory_bytes() {
  return std::min({keyed("/proc/meminfo", "MemAvailable:") * 1024, cgroup_rest_bytes(), address_rest_bytes()});
}

}  // namespace weft
