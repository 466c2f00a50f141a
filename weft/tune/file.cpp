// Entries are few and small: the whole file is read, changed and written again.
#include "weft/tune/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"

namespace weft::tune {
namespace {

[[noreturn]] void bad(const std::filesystem::path& path, const std::string& what) {
  throw Error(
      ErrorKind::user, fmt::format("tuning file {}: {}", path.string(), what),
      "name another file with WEFT_TUNING (or --tuning), or move this one away and tune again with `weft tune`");
}

std::string text_of(const toml::table& entry, const char* key, const std::filesystem::path& path) {
  const auto value = entry[key].value<std::string>();
  if (!value) bad(path, fmt::format("an entry has no `{}`", key));
  return *value;
}

TuningEntry read_entry(const toml::table& entry, const std::filesystem::path& path) {
  TuningEntry out;
  out.machine = text_of(entry, "machine", path);
  out.program = text_of(entry, "program", path);
  out.program_hash = text_of(entry, "program_hash", path);
  out.schedule = text_of(entry, "schedule", path);
  out.ranks = static_cast<int>(entry["ranks"].value_or(int64_t{0}));
  out.elements = entry["elements"].value_or(int64_t{0});
  out.median_ns = entry["median_ns"].value_or(0.0);
  out.plain_ns = entry["plain_ns"].value_or(0.0);
  out.transport = entry["transport"].value_or(std::string());
  if (out.ranks < 1 || out.elements < 0)
    bad(path, fmt::format("entry of {}: ranks {} and elements {} make no sense", out.program, out.ranks, out.elements));
  return out;
}

// The folder of our own cache is made; one that somebody named has to be there: a misspelt path is not a wish.
void require_parent(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder))
    throw Error(
        ErrorKind::io,
        fmt::format("the tuning file {} cannot be written: there is no folder {}", path.string(), folder.string()),
        "make the folder, or name another file with --tuning or WEFT_TUNING");
}

bool same_key(const TuningEntry& a, const TuningEntry& b) {
  return a.machine == b.machine && a.program_hash == b.program_hash && a.ranks == b.ranks && a.elements == b.elements &&
         a.transport == b.transport;
}

std::string print(const std::vector<TuningEntry>& entries) {
  std::string text = fmt::format("tuning = {}\n", tuning_version);
  for (const TuningEntry& e : entries) {
    text += fmt::format(
        "\n[[entry]]\nprogram = '{}'\nprogram_hash = '{}'\nmachine = '{}'\nranks = {}\nelements = {}\nmedian_ns = "
        "{:.1f}\n"
        "plain_ns = {:.1f}\nschedule = '''\n{}'''\n",
        e.program, e.program_hash, e.machine, e.ranks, e.elements, e.median_ns, e.plain_ns, e.schedule);
    if (!e.transport.empty()) text += fmt::format("transport = '{}'\n", e.transport);
  }
  return text;
}

}  // namespace

std::vector<TuningEntry> read_tuning(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  if (std::filesystem::is_directory(path)) bad(path, "is a folder");
  toml::table file;
  try {
    file = toml::parse(read_file(path));
  } catch (const toml::parse_error& error) {
    bad(path, fmt::format("line {}: {}", error.source().begin.line, error.description()));
  }
  const auto version = file["tuning"].value<int64_t>();
  if (!version) bad(path, "no `tuning = VERSION` line: this is no tuning file");
  if (*version != tuning_version)
    bad(path, fmt::format("tuning form {}, this build reads form {}: another version of Weft wrote it", *version,
                          tuning_version));
  std::vector<TuningEntry> entries;
  if (const toml::array* list = file["entry"].as_array())
    for (const toml::node& node : *list) {
      if (!node.as_table()) bad(path, "`entry` must be [[entry]] tables");
      entries.push_back(read_entry(*node.as_table(), path));
    }
  return entries;
}

namespace {

// Two that tune at once take turns: each reads what the other wrote. A lock on the folder leaves nothing behind; where a
// file system knows no locks, the last one wins.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const int64_t deadline = now_ns() + 10'000'000'000;
    while (folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && now_ns() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~FolderLock() {
    if (folder_ >= 0) close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int folder_;
};

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

void write_tuning(const std::filesystem::path& path, const TuningEntry& entry) {
  const FolderLock lock(folder_of(path));
  std::vector<TuningEntry> entries = read_tuning(path);
  std::erase_if(entries, [&](const TuningEntry& old) { return same_key(old, entry); });
  entries.push_back(entry);
  require_parent(path);
  write_file(path, print(entries));
}

void require_writable_tuning(const std::filesystem::path& path) {
  read_tuning(path);
  require_parent(path);
  const std::filesystem::path folder = folder_of(path);
  if (access(folder.c_str(), W_OK) != 0)
    throw Error(ErrorKind::io,
                fmt::format("the tuning file {} cannot be written: {}", path.string(), std::strerror(errno)),
                "name another with --tuning or WEFT_TUNING");
}

std::filesystem::path default_tuning_path() {
  const std::string named = env("WEFT_TUNING");
  return named.empty() ? cache_directory() / "tuning.toml" : std::filesystem::path(named);
}

std::optional<TuningEntry> find_tuning(const std::vector<TuningEntry>& entries, const ir::Program& program, int ranks,
                                       int64_t elements, const std::string& machine, const std::string& transport) {
  const std::string hash = program_hash(program);
  std::optional<TuningEntry> found;
  const TuningEntry* foreign = nullptr;
  bool own = false;
  double nearest = std::log(4.0);
  for (const TuningEntry& entry : entries) {
    if (entry.program_hash != hash || entry.ranks != ranks || entry.transport != transport) continue;
    if (entry.machine != machine) {
      foreign = &entry;
      continue;
    }
    own = true;
    const double distance = std::abs(std::log(std::max(1.0, double(entry.elements)) / std::max(1.0, double(elements))));
    if (distance <= nearest) nearest = distance, found = entry;
  }
  if (!found && foreign && !own)
    throw Error(ErrorKind::user,
                fmt::format("the tuning entry of {} is of another machine: file has '{}', this is '{}'", program.name,
                            foreign->machine, machine),
                "tune here with `weft tune`, or take --schedule fused");
  return found;
}

std::string program_hash(const ir::Program& program) { return hash_hex(ir::print(program)); }

int64_t total_elements(const ir::Program& program, const ir::Sizes& sizes) {
  int64_t total = 0;
  for (const ir::TensorDecl& tensor : program.tensors) {
    int64_t elements = 1;
    for (const int64_t size : ir::shape_of(tensor.type.shape, sizes)) elements *= size;
    total += elements;
  }
  return total;
}

}  // namespace weft::tune
