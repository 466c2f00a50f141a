// Writing spans as trace events (the JSON array format that chrome://tracing and ui.perfetto.dev read).
//
// Ranks are separate processes that end in any order and may die. Ways to one file: gather at the end (a dead rank takes
// all with it), a file per rank and a tool that merges (nobody runs it), or a shared file that each rank extends under a
// lock. We take the last; the clock is the machine's monotonic one, the same in all processes, so nothing is shifted.
#include "weft/runtime/timeline.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "weft/base/log.h"
#include "weft/base/once.h"
#include "weft/runtime/loaded.h"

namespace weft::runtime {
namespace {

constexpr size_t spans_a_turn = 1 << 15;
constexpr int64_t spans_of_rank = 1 << 20;  // about 250 MB of text for two ranks; viewers do not get that far

class LockedFile {
 public:
  explicit LockedFile(const std::string& name) : fd_(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ >= 0 && flock(fd_, LOCK_EX) != 0) failed();
  }
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  bool good() const { return fd_ >= 0; }

  void clear() {
    if (ftruncate(fd_, 0) != 0 && errno != EINVAL) failed();  // EINVAL: a device or a pipe
  }
  // Takes away the closing bracket, and adds `events` and another one.
  void extend(const std::string& events) {
    const off_t end = lseek(fd_, 0, SEEK_END);
    const bool first = end < static_cast<off_t>(std::strlen(tail));
    const std::string text = (first ? "[\n" : ",\n") + events + tail;
    off_t at = first ? 0 : end - static_cast<off_t>(std::strlen(tail));
    for (std::string_view rest = text; good() && !rest.empty();) {
      const ssize_t count = pwrite(fd_, rest.data(), rest.size(), at);
      if (count < 0 && errno != EINTR) failed();
      if (count > 0) at += count, rest.remove_prefix(static_cast<size_t>(count));
    }
  }

 private:
  static constexpr const char* tail = "\n]\n";
  void failed() {
    const int reason = errno;
    close(fd_);
    fd_ = -1, errno = reason;
  }
  int fd_;
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

Timeline::Timeline(std::string file, int rank) : file_(std::move(file)), rank_(rank) {
  LockedFile out(file_);
  if (out.good() && timeline_begun().first()) out.clear();
  if (!out.good())
    throw Error(ErrorKind::user, fmt::format("WEFT_TIMELINE={} cannot be written: {}", file_, std::strerror(errno)),
                "name a file in a folder that is there and yours, or unset it");
}

Timeline::~Timeline() {
  if (born_ == transport::forks_above()) write();  // else: a copy, whose original writes the same
}

size_t Timeline::named(const Loaded& loaded) {
  for (size_t i = plans_.size(); i-- > 0;)
    if (plans_[i].plan == &loaded && plans_[i].name == loaded.name()) return i;
  Named& it = plans_.emplace_back();
  it.plan = &loaded;
  it.name = loaded.name();
  for (const plan::Lane& lane : loaded.instance.plan().lanes) {
    it.lanes.push_back(lane.name);
    std::vector<std::string>& steps = it.steps.emplace_back();
    for (const plan::Step* step : plan::text_steps(lane.body)) steps.push_back(plan::print(*step));
  }
  return plans_.size() - 1;
}

void Timeline::add(const Loaded& plan, const TimelineSpan& span) {
  if (added_++ >= spans_of_rank) {
    if (timeline_cut_said().first())
      WEFT_LOG(warn, "runtime", "{} steps are in {}: what follows is left out", spans_of_rank, file_);
    return;
  }
  entries_.push_back({named(plan), span});
  if (entries_.size() >= spans_a_turn) write();
}

std::string Timeline::events() const {
  std::string text =
      fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"rank {0}\"}}}}", rank_);
  std::set<std::pair<int, int>> threads;
  for (const auto& [plan, span] : entries_) {
    const Named& names = plans_[plan];
    const auto lane = static_cast<size_t>(span.lane), step = static_cast<size_t>(span.step);
    const int thread = span.lane * max_channels + span.channel;
    if (threads.insert({span.lane, span.channel}).second)
      text += fmt::format(",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
                          rank_, thread, quoted(fmt::format("lane {} channel {}", names.lanes[lane], span.channel)));
    if (span.wait_ns > 0)
      text += fmt::format(
          ",\n{{\"ph\":\"X\",\"name\":\"wait\",\"cat\":\"wait\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}}", rank_,
          thread, microseconds(span.begin_ns - span.wait_ns), microseconds(span.wait_ns));
    text += fmt::format(
        ",\n{{\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"launch\":{},"
        "\"chunk\":{},"
        "\"slice\":{}}}}}",
        quoted(names.steps[lane][step]), quoted(names.name), rank_, thread, microseconds(span.begin_ns),
        microseconds(span.end_ns - span.begin_ns), span.launch, span.chunk, span.slice);
  }
  return text;
}

void Timeline::write() {
  if (entries_.empty()) return;
  LockedFile out(file_);
  if (out.good()) out.extend(events());
  if (!out.good()) WEFT_LOG(warn, "runtime", "the timeline {} cannot be written: {}", file_, std::strerror(errno));
  entries_.clear();
}

}  // namespace weft::runtime
