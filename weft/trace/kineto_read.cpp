// JSON to KinetoFile, as a stream: no document is built, so memory is the mapped file and what a job needs of it.
//
// Ways: a document (five times the file), an index over the whole file (as large as the file), or events of the parser
// with the place in the document on a small stack. We take the last. Times are read from their digits: ts is microseconds
// since 1970 with three decimals, which a double does not hold.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/trace/kineto_file.h"

namespace weft::trace {
namespace {

using Json = nlohmann::json;

enum class Key : uint8_t {
  none,
  ph,
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  args,
  correlation,
  stream,
  collective,
  dtype,
  in,
  out,
  group_name,
  group_ranks,
  group_size,
  group_first,
  group_stride,
  source,
  destination,
  dims,
  types,
  events,
  distributed,
  rank,
  world,
  groups,
  pg_name,
  pg_ranks
};
// Where in the document: an object or array that is not one of these is skipped.
enum class Place : uint8_t {
  root,
  events,
  event,
  args,
  dims,
  first_dims,
  types,
  distributed,
  groups,
  group,
  members,
  skipped
};

const std::unordered_map<std::string_view, Key>& keys_of(Place place) {
  static const std::unordered_map<std::string_view, Key> root{{"traceEvents", Key::events},
                                                              {"distributedInfo", Key::distributed}};
  static const std::unordered_map<std::string_view, Key> event{
      {"ph", Key::ph},   {"cat", Key::cat}, {"name", Key::name}, {"pid", Key::pid},
      {"tid", Key::tid}, {"ts", Key::ts},   {"dur", Key::dur},   {"args", Key::args}};
  static const std::unordered_map<std::string_view, Key> args{{"correlation", Key::correlation},
                                                              {"stream", Key::stream},
                                                              {"Collective name", Key::collective},
                                                              {"dtype", Key::dtype},
                                                              {"In msg nelems", Key::in},
                                                              {"Out msg nelems", Key::out},
                                                              {"Process Group Name", Key::group_name},
                                                              {"Process Group Ranks", Key::group_ranks},
                                                              {"Group size", Key::group_size},
                                                              {"Global rank start", Key::group_first},
                                                              {"Global rank stride", Key::group_stride},
                                                              {"Src Rank", Key::source},
                                                              {"Dst Rank", Key::destination},
                                                              {"Input Dims", Key::dims},
                                                              {"Input type", Key::types}};
  static const std::unordered_map<std::string_view, Key> distributed{
      {"rank", Key::rank}, {"world_size", Key::world}, {"pg_config", Key::groups}};
  static const std::unordered_map<std::string_view, Key> group{{"pg_name", Key::pg_name}, {"ranks", Key::pg_ranks}};
  static const std::unordered_map<std::string_view, Key> none;
  return place == Place::root          ? root
         : place == Place::event       ? event
         : place == Place::args        ? args
         : place == Place::distributed ? distributed
         : place == Place::group       ? group
                                       : none;
}

// Microseconds as they stand, in ns; nothing: no such number. At most 15 digits before the point.
std::optional<int64_t> ns_of(std::string_view digits) {
  const bool minus = digits.starts_with('-');
  if (minus) digits.remove_prefix(1);
  int64_t value = 0;
  int decimals = -1;
  for (const char c : digits) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;  // an exponent: no profiler writes one
    if (decimals >= 3) continue;
    if (value > int64_t{1} << 58) return std::nullopt;
    value = value * 10 + (c - '0');
    if (decimals >= 0) ++decimals;
  }
  for (int d = std::max(decimals, 0); d < 3; ++d) {
    if (value > int64_t{1} << 58) return std::nullopt;
    value *= 10;
  }
  return minus ? -value : value;
}

struct Event {
  std::string ph, cat, name;
  int64_t ts = 0, dur = 0, correlation = -1, stream = -1;
  uint64_t pid = 0, tid = 0;
  bool has_ts = false, has_dur = false;
  Call call;
};

// What becomes of events, counted without words: there are millions.
enum class Fate : uint8_t { nccl, kernel, copy, launch, call, mark, bad_gpu, bad_host, host, bad_time };
constexpr const char* fates[] = {
    "NCCL kernels",
    "kernels",
    "copies and sets",
    "launches",
    "calls of collectives",
    "events that are no spans (arrows, marks, names): not needed",
    "spans of a GPU without a time or a length, or with one below 0: their time is missing from the job",
    "spans of the host without a time or a length, or with one below 0",
    "spans of the host and ranges of the GPU: only launches and collectives are needed",
    "times that are no number of microseconds"};

bool is_nccl(std::string_view name) { return name.starts_with("ncclKernel") || name.starts_with("ncclDevKernel"); }

class Handler {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Handler(KinetoFile& file, Report& report) : file_(file), report_(report) {}
  bool any_events() const { return any_events_; }
  void count() {
    for (size_t f = 0; f < std::size(fates); ++f)
      if (counts_[f])
        (f <= static_cast<size_t>(Fate::call) ? report_.read : report_.dropped)
            .add(fates[f], fmt::format("{} event {}", file_.name, first_[f]), counts_[f]);
  }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(number_integer_t v) { return number(v, {}); }
  bool number_unsigned(number_unsigned_t v) {
    return number(v > static_cast<number_unsigned_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(v), {});
  }
  bool number_float(number_float_t v, const string_t& digits) {
    return number(std::abs(v) < 9e18 ? static_cast<int64_t>(v) : 0, digits);
  }
  bool string(string_t& v) { return text(v); }
  bool binary(binary_t&) { return true; }
  bool start_object(std::size_t) { return enter(true); }
  bool start_array(std::size_t) { return enter(false); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(string_t& v) {
    const auto& known = keys_of(place());
    const auto found = known.find(v);
    key_ = found == known.end() ? Key::none : found->second;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    std::string what = error.what();
    if (const size_t at = what.find("] "); at != std::string::npos) what = what.substr(at + 2);
    throw Error(ErrorKind::user, fmt::format("{}: byte {}: {}", file_.name, byte, what),
                "is the file whole? a profiler that was killed leaves half of one");
  }

 private:
  Place place() const { return stack_.empty() ? Place::skipped : stack_.back(); }
  Place inside(bool object) const {
    if (stack_.empty()) return object ? Place::root : Place::events;  // also a bare list of events
    switch (place()) {
      case Place::root:
        return !object && key_ == Key::events       ? Place::events
               : object && key_ == Key::distributed ? Place::distributed
                                                    : Place::skipped;
      case Place::events: return object ? Place::event : Place::skipped;
      case Place::event: return object && key_ == Key::args ? Place::args : Place::skipped;
      case Place::args:
        return object               ? Place::skipped
               : key_ == Key::dims  ? Place::dims
               : key_ == Key::types ? Place::types
                                    : Place::skipped;
      case Place::dims: return object || dims_done_ ? Place::skipped : Place::first_dims;
      case Place::distributed: return !object && key_ == Key::groups ? Place::groups : Place::skipped;
      case Place::groups: return object ? Place::group : Place::skipped;
      case Place::group: return !object && key_ == Key::pg_ranks ? Place::members : Place::skipped;
      default: return Place::skipped;
    }
  }
  bool enter(bool object) {
    const Place next = inside(object);
    if (stack_.size() >= 1000)
      throw Error(ErrorKind::user, fmt::format("{}: nested more than 1000 deep near event {}", file_.name, events_));
    stack_.push_back(next);
    key_ = Key::none;
    if (next == Place::events) any_events_ = true;
    if (next == Place::event) event_ = {};
    if (next == Place::dims) dims_done_ = false;
    if (next == Place::first_dims) event_.call.dims = 1, dims_done_ = true;
    if (next == Place::group) group_ = {};
    return true;
  }
  bool leave() {
    const Place left = place();
    stack_.pop_back();
    key_ = Key::none;
    if (left == Place::event) end_event();
    if (left == Place::group) file_.groups.push_back(group_);
    return true;
  }

  bool number(int64_t v, std::string_view digits) {
    Call& call = event_.call;
    switch (place()) {
      case Place::event:
        if (key_ == Key::ts || key_ == Key::dur) time(digits.empty() ? std::to_string(v) : std::string(digits));
        if (key_ == Key::pid) event_.pid = static_cast<uint64_t>(v);
        if (key_ == Key::tid) event_.tid = static_cast<uint64_t>(v);
        break;
      case Place::args:
        if (key_ == Key::correlation) event_.correlation = v;
        if (key_ == Key::stream) event_.stream = v;
        if (key_ == Key::in) call.in = v;
        if (key_ == Key::out) call.out = v;
        if (key_ == Key::group_size) call.group_size = v;
        if (key_ == Key::group_first) call.group_first = v;
        if (key_ == Key::group_stride) call.group_stride = v;
        if (key_ == Key::source) call.source = v;
        if (key_ == Key::destination) call.destination = v;
        if (key_ == Key::group_name) call.group_name = std::to_string(v);
        break;
      case Place::first_dims:
        call.dims = v < 0 || (v > 0 && call.dims > (int64_t{1} << 50) / v) ? 0 : call.dims * v;
        break;
      case Place::distributed:
        if (key_ == Key::rank) file_.rank = static_cast<int>(std::min<int64_t>(v, 1 << 30));
        if (key_ == Key::world) file_.world = static_cast<int>(std::min<int64_t>(v, 1 << 30));
        break;
      case Place::members: group_.ranks.push_back(static_cast<int>(std::clamp<int64_t>(v, -1, 1 << 30))); break;
      default: break;
    }
    return true;
  }
  void time(const std::string& digits) {
    const std::optional<int64_t> ns = ns_of(digits);
    if (!ns) return count(Fate::bad_time);
    (key_ == Key::ts ? event_.ts : event_.dur) = *ns;
    (key_ == Key::ts ? event_.has_ts : event_.has_dur) = true;
  }
  bool text(std::string& v) {
    if (place() == Place::group && key_ == Key::pg_name) group_.name = v;
    if (place() == Place::event) {
      if (key_ == Key::ph) event_.ph = v;
      if (key_ == Key::cat) event_.cat = v;
      if (key_ == Key::name) event_.name.swap(v);
      if (key_ == Key::pid) event_.pid = std::hash<std::string>()(v);
      if (key_ == Key::tid) event_.tid = std::hash<std::string>()(v);
      if ((key_ == Key::ts || key_ == Key::dur)) time(v);
    }
    if (place() == Place::types && event_.call.dims_dtype.empty()) event_.call.dims_dtype = v;
    if (place() != Place::args) return true;
    Call& call = event_.call;
    if (key_ == Key::collective) call.name = v;
    if (key_ == Key::dtype) call.dtype = v;
    if (key_ == Key::group_name) call.group_name = v;
    if (key_ == Key::group_ranks) call.group_ranks = v;
    return true;
  }

  void count(Fate fate) {
    const auto f = static_cast<size_t>(fate);
    if (counts_[f]++ == 0) first_[f] = events_;
  }
  void end_event() {
    Event& e = event_;
    const bool kernel = e.cat == "kernel" || e.cat == "Kernel";
    const bool gpu = kernel || e.cat == "gpu_memcpy" || e.cat == "gpu_memset" || e.cat == "Memcpy" || e.cat == "Memset";
    const bool runtime =
        e.cat == "cuda_runtime" || e.cat == "cuda_driver" || e.cat == "hip_runtime" || e.cat == "Runtime";
    const bool range =
        e.name == "record_param_comms" || (e.name.starts_with("nccl:") && e.cat != "gpu_user_annotation");
    if (e.ph != "X") {
      count(Fate::mark);
    } else if (!e.has_ts || !e.has_dur || e.dur < 0) {
      count(gpu ? Fate::bad_gpu : Fate::bad_host);
    } else if (gpu) {
      end_gpu(e, kernel);
    } else if (runtime && e.correlation >= 0 && e.name.find("Launch") != std::string::npos) {
      count(Fate::launch);
      file_.launches.push_back({e.correlation, e.ts, thread(e)});
    } else if (range) {
      count(Fate::call);
      file_.ranges.push_back({e.ts, e.ts + e.dur, thread(e), named(e)});
    } else {
      count(Fate::host);
    }
    ++events_;
  }
  void end_gpu(Event& e, bool kernel) {
    GpuEvent g{e.ts, e.ts + e.dur, e.correlation, events_, static_cast<int>(std::clamp<int64_t>(e.stream, -1, 1 << 29)),
               -1};
    if (kernel && is_nccl(e.name)) {
      count(Fate::nccl);
      g.nccl = static_cast<int32_t>(file_.kernels.size());
      file_.kernels.push_back({e.name.substr(0, e.name.find('(')), e.call});
    } else {
      count(kernel ? Fate::kernel : Fate::copy);
    }
    file_.gpu.push_back(g);
  }
  // An nccl: range says by its name what it does.
  static Call named(Event& e) {
    if (!e.call.said() && e.name.starts_with("nccl:")) e.call.name = e.name.substr(5);
    return e.call;
  }
  static uint64_t thread(const Event& e) { return e.pid * 0x9E3779B97F4A7C15ull ^ e.tid; }

  KinetoFile& file_;
  Report& report_;
  std::vector<Place> stack_;
  Key key_ = Key::none;
  Event event_;
  ProcessGroup group_;
  int64_t events_ = 0, counts_[std::size(fates)] = {}, first_[std::size(fates)] = {};
  bool dims_done_ = false, any_events_ = false;
};

template <typename... Input>
void parse(KinetoFile& file, Report& report, Input&&... input) {
  Handler handler(file, report);
  Json::sax_parse(std::forward<Input>(input)..., &handler);
  handler.count();
  if (!handler.any_events())
    throw Error(ErrorKind::user, fmt::format("{} has no traceEvents", file.name),
                "a Kineto trace is what torch.profiler's export_chrome_trace writes");
}

[[noreturn]] void cannot_read(const std::filesystem::path& path, int reason) {
  throw Error(ErrorKind::io, fmt::format("cannot read {}: {}", path.string(), std::strerror(reason)));
}

struct Mapped {
  const char* data = nullptr;
  size_t size = 0;
  explicit Mapped(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) cannot_read(path, errno);
    struct stat info {};
    const bool known = ::fstat(fd, &info) == 0;
    if (known && S_ISREG(info.st_mode) && info.st_size > 0) {
      void* at = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) data = static_cast<const char*>(at), size = static_cast<size_t>(info.st_size);
    }
    const int reason = !known ? errno : S_ISREG(info.st_mode) ? (data ? 0 : ENODATA) : EINVAL;
    ::close(fd);
    if (reason) cannot_read(path, reason);
    ::madvise(const_cast<char*>(data), size, MADV_SEQUENTIAL);
  }
  ~Mapped() { ::munmap(const_cast<char*>(data), size); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
};

// What gzip says of a file, read from a pipe.
void parse_packed(KinetoFile& file, Report& report, const std::filesystem::path& path) {
  std::string quoted;
  for (const char c : path.string()) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(fmt::format("gzip -dc -- '{}' 2>/dev/null", quoted).c_str(), "r"), pclose);
  if (!pipe) cannot_read(path, errno);
  parse(file, report, pipe.get());
}

}  // namespace

KinetoFile read_kineto(const std::filesystem::path& path, Report& report) {
  KinetoFile file;
  file.name = path.filename().string();
  const Mapped mapped(path);
  if (mapped.size > 2 && mapped.data[0] == '\x1f' && mapped.data[1] == '\x8b')
    parse_packed(file, report, path);
  else
    parse(file, report, mapped.data, mapped.data + mapped.size);
  return file;
}

KinetoFile read_kineto_text(const std::string& name, std::string_view text, Report& report) {
  KinetoFile file;
  file.name = name;
  parse(file, report, text.data(), text.data() + text.size());
  return file;
}

std::vector<int> ranks_of_text(const std::string& text) {
  const Json list = Json::parse(text, nullptr, false);
  std::vector<int> ranks;
  if (!list.is_array()) return ranks;
  for (const Json& r : list) {
    if (!r.is_number_integer() || r < 0 || r > 1 << 20) return {};
    ranks.push_back(r.get<int>());
  }
  return ranks;
}

}  // namespace weft::trace
