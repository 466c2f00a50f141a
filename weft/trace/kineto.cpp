// Kineto files to a job: which collective each NCCL kernel was, in which group, and each rank's line of work.
#include "weft/trace/kineto.h"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/trace/kineto_file.h"
#include "weft/trace/line.h"

namespace weft::trace {
namespace {

using sim::NcclCollective;

constexpr int64_t most_back = 64;  // ranges that may nest around a launch
constexpr int64_t most_elements = int64_t{1} << 50;

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalpha(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// allreduce, _allgather_base, reduce_scatter_tensor_coalesced, all_to_allv ...
std::optional<NcclCollective> collective_of(const std::string& said) {
  const std::string name = plain(said);
  const auto has = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("allreduce") || name == "barrier") return NcclCollective::all_reduce;
  if (has("allgather")) return NcclCollective::all_gather;
  if (has("reducescatter")) return NcclCollective::reduce_scatter;
  if (has("alltoall")) return NcclCollective::all_to_all;
  if (name.starts_with("broadcast")) return NcclCollective::broadcast;
  if (name == "reduce" || name == "reduceoop") return NcclCollective::reduce;
  if (name == "send" || name == "recv" || name == "isend" || name == "irecv") return NcclCollective::send_recv;
  return std::nullopt;
}

// PyTorch's names, and those of C++.
std::optional<Dtype> dtype_of(const std::string& said) {
  static const std::unordered_map<std::string, Dtype> names{
      {"float", Dtype::f32},      {"double", Dtype::f64},       {"half", Dtype::f16},     {"chalf", Dtype::f16},
      {"bfloat", Dtype::bf16},    {"cbfloat", Dtype::bf16},     {"int", Dtype::i32},      {"long", Dtype::i64},
      {"longint", Dtype::i64},    {"short", Dtype::i16},        {"char", Dtype::i8},      {"signedchar", Dtype::i8},
      {"byte", Dtype::u8},        {"unsignedchar", Dtype::u8},  {"bool", Dtype::boolean}, {"floatemfn", Dtype::f8e4m3},
      {"floatem", Dtype::f8e5m2}, {"cfloatemfn", Dtype::f8e4m3}};
  const auto found = names.find(plain(said));
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

// What an inner range does not say, the outer one may.
void fill(Call& call, const Call& outer) {
  const auto text = [](std::string& to, const std::string& from) {
    if (to.empty()) to = from;
  };
  const auto number = [](int64_t& to, int64_t from) {
    if (to < 0) to = from;
  };
  text(call.name, outer.name), text(call.dtype, outer.dtype), text(call.group_name, outer.group_name);
  text(call.group_ranks, outer.group_ranks);
  if (call.dims < 0 && outer.dims > 0) call.dims = outer.dims, call.dims_dtype = outer.dims_dtype;
  number(call.in, outer.in), number(call.out, outer.out), number(call.group_size, outer.group_size);
  number(call.group_first, outer.group_first), number(call.group_stride, outer.group_stride);
  number(call.source, outer.source), number(call.destination, outer.destination);
}

class RankReader {
 public:
  RankReader(KinetoFile file, int ranks, Job& job, Report& report)
      : file_(std::move(file)), ranks_(ranks), job_(job), report_(report) {
    std::sort(file_.ranges.begin(), file_.ranges.end(), [](const Range& a, const Range& b) {
      return std::tie(a.thread, a.begin_ns, b.end_ns) < std::tie(b.thread, b.begin_ns, a.end_ns);
    });
    for (const Launch& l : file_.launches) launches_[l.correlation] = &l;
  }
  RankLine read(std::vector<TimedOperation>& operations) {
    std::vector<Stretch> busy;
    for (const GpuEvent& g : file_.gpu) {
      if (g.nccl < 0)
        busy.push_back({g.begin_ns, g.end_ns});
      else
        operations.push_back(operation(g));
    }
    RankLine line = make_line(std::move(busy), operations, where_);
    line.rank = file_.rank;
    for (const auto& [what, at] : where_) report_.assumed.add(what, fmt::format("{} event {}", file_.name, at));
    return line;
  }

 private:
  std::string here(const GpuEvent& g) const { return fmt::format("{} event {}", file_.name, g.event); }
  // What was going on at the launch, innermost first.
  void call_at(const Launch& launch, Call& call) const {
    auto at = std::upper_bound(file_.ranges.begin(), file_.ranges.end(), launch, [](const Launch& l, const Range& r) {
      return std::tie(l.thread, l.at_ns) < std::tie(r.thread, r.begin_ns);
    });
    for (int64_t back = 0; at != file_.ranges.begin() && back < most_back; ++back) {
      --at;
      if (at->thread != launch.thread) return;
      if (at->end_ns >= launch.at_ns) fill(call, at->call);
    }
  }
  TimedOperation operation(const GpuEvent& g) {
    const NcclKernel& kernel = file_.kernels[static_cast<size_t>(g.nccl)];
    const auto launch = launches_.find(g.correlation);
    TimedOperation t;
    t.begin_ns = g.begin_ns, t.end_ns = g.end_ns, t.event = g.event;
    t.launch_ns = launch == launches_.end() ? g.begin_ns : launch->second->at_ns;
    t.operation.lane = g.stream;
    t.operation.kernel = kernel.name;
    Call call = kernel.call;
    const char* way = "by the kernel's own arguments";
    if (!call.said() && launch != launches_.end()) {
      call_at(*launch->second, call);
      way = "by the call during which it was launched";
    }
    const std::string missing = understand(call, g, t.operation);
    if (missing.empty()) {
      report_.matched.add(fmt::format("{} {}", plain(call.name), way), here(g));
    } else {
      t.operation.collective.reset();
      report_.dropped.add(fmt::format("NCCL kernels {}: they take what they took", missing), here(g));
    }
    return t;
  }
  // What is missing to know the operation; nothing: it is known.
  std::string understand(const Call& call, const GpuEvent& g, Operation& o) {
    if (!call.said()) return "with no call around their launch";
    o.collective = collective_of(call.name);
    if (!o.collective) return fmt::format("of an operation that NCCL's model does not know ({})", call.name);
    const std::string& dtype_text = call.dtype.empty() ? call.dims_dtype : call.dtype;
    const bool barrier = plain(call.name) == "barrier";
    const auto dtype = barrier && dtype_text.empty() ? std::optional(Dtype::f32) : dtype_of(dtype_text);
    if (!dtype)
      return dtype_text.empty() ? "without a dtype" : fmt::format("of a dtype that is not known ({})", dtype_text);
    o.dtype = *dtype;
    const std::string problem = find_group(call, g, o);
    if (!problem.empty()) return problem;
    const auto members = static_cast<int64_t>(job_.groups[static_cast<size_t>(o.group)].ranks.size());
    const int64_t in = call.in >= 0 ? call.in : barrier && call.dims < 0 ? 1 : call.dims;
    if (in < 0 && call.out < 0) return "without a size";
    if (std::max(in, call.out) > most_elements / members)
      return fmt::format("of {} elements, which cannot be", std::max(in, call.out));
    if (o.collective == NcclCollective::all_gather)
      o.elements = std::max({call.out, in * members, int64_t{0}});
    else
      o.elements = std::max({in, o.collective == NcclCollective::all_reduce ? -1 : call.out, int64_t{0}});
    return "";
  }
  std::string find_group(const Call& call, const GpuEvent& g, Operation& o) {
    std::vector<int> ranks = ranks_of_text(call.group_ranks);
    const auto named = std::find_if(file_.groups.begin(), file_.groups.end(),
                                    [&](const ProcessGroup& p) { return p.name == call.group_name; });
    if (ranks.empty() && !call.group_name.empty() && named != file_.groups.end()) ranks = named->ranks;
    if (ranks.empty() && call.group_size > 0 && call.group_first >= 0 && call.group_stride > 0 &&
        call.group_size <= ranks_ && call.group_first < ranks_ && call.group_stride <= ranks_) {
      for (int64_t i = 0; i < call.group_size; ++i)
        ranks.push_back(static_cast<int>(std::min<int64_t>(call.group_first + i * call.group_stride, ranks_)));
    }
    if (ranks.empty()) {
      if (call.group_size > 0 && call.group_size != ranks_)
        return fmt::format("of a group of {} whose ranks are not said", call.group_size);
      for (int r = 0; r < ranks_; ++r) ranks.push_back(r);
      report_.assumed.add("operations that name no group: it is all ranks", here(g));
    }
    const int64_t peer =
        call.destination >= 0 && plain(call.name).find("send") != std::string::npos ? call.destination : call.source;
    std::string name = call.group_name.empty() ? "all" : call.group_name;
    if (o.collective == NcclCollective::send_recv && ranks.size() > 2) {
      if (peer < 0 || peer >= static_cast<int64_t>(ranks.size())) return "between ranks that are not said";
      ranks = {file_.rank, ranks[static_cast<size_t>(peer)]};
      name += ".pair";
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (ranks.back() >= ranks_ || !std::binary_search(ranks.begin(), ranks.end(), file_.rank))
      return fmt::format("of a group (..{}) that is not this rank's or has ranks beyond the job's {}", ranks.back(),
                         ranks_);
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !std::isgraph(static_cast<unsigned char>(c)) || c == '#'; }, '_');
    const auto same = std::find_if(job_.groups.begin(), job_.groups.end(),
                                   [&](const Group& k) { return k.name == name && k.ranks == ranks; });
    o.group = static_cast<int>(same - job_.groups.begin());
    if (same == job_.groups.end()) job_.groups.push_back({name, ranks});
    return "";
  }

  KinetoFile file_;
  int ranks_;
  Job& job_;
  Report& report_;
  std::unordered_map<int64_t, const Launch*> launches_;
  std::vector<std::pair<std::string, int64_t>> where_;
};

int ranks_of(std::vector<KinetoFile>& files) {
  int ranks = 0;
  for (KinetoFile& f : files) {
    if (f.rank < 0 && files.size() > 1)
      throw Error(
          ErrorKind::user, fmt::format("{} does not say its rank", f.name),
          "distributedInfo has it where torch.distributed was started before the profiler; or give this file alone");
    f.rank = std::max(f.rank, 0);
    int world = std::max(f.world, f.rank + 1);
    if (ranks > 0 && f.world > 0 && world != ranks)
      throw Error(ErrorKind::user, fmt::format("{} is of {} ranks, {} of {}", f.name, world, files[0].name, ranks),
                  "give the files of one job");
    ranks = std::max(ranks, world);
  }
  std::sort(files.begin(), files.end(), [](const KinetoFile& a, const KinetoFile& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < files.size(); ++i)
    if (files[i].rank == files[i - 1].rank)
      throw Error(ErrorKind::user,
                  fmt::format("{} and {} are both of rank {}", files[i - 1].name, files[i].name, files[i].rank),
                  "give each rank's file once");
  if (ranks > 1 << 20) throw Error(ErrorKind::user, fmt::format("a job of {} ranks", ranks));
  return ranks;
}

// Times that a job can hold: a clock that jumps makes others.
void check_times(const RankLine& line, const std::string& file) {
  int64_t most = line.begin_ns;
  for (const Item& item : line.items)
    if (item.kind == Item::Kind::work) most = std::max(most, item.value);
  for (const Operation& o : line.operations) most = std::max(most, o.measured_ns);
  if (most > most_ns)
    throw Error(ErrorKind::user, fmt::format("{}: a stretch of {:.0f} days", file, static_cast<double>(most) / 8.64e13),
                "a time in it is wrong, or its clock is days off the first file's");
}

Imported import_files(std::vector<KinetoFile> files, Report report) {
  if (files.empty()) throw Error(ErrorKind::user, "no trace to import");
  Imported out;
  out.report = std::move(report);
  out.job.ranks = ranks_of(files);
  std::vector<RankTimes> times;
  for (KinetoFile& file : files) {
    RankTimes rank;
    rank.file = file.name;
    out.job.lines.push_back(RankReader(std::move(file), out.job.ranks, out.job, out.report).read(rank.operations));
    times.push_back(std::move(rank));
  }
  const auto missing = out.job.ranks - static_cast<int>(files.size());
  if (missing > 0) out.report.assumed.add("ranks without a trace: taken never to be late", times.front().file, missing);
  check_groups(out.job, times);
  align_clocks(out.job, times, out.report);
  for (size_t r = 0; r < times.size(); ++r) check_times(out.job.lines[r], times[r].file);
  return out;
}

}  // namespace

Imported import_kineto(const std::vector<std::filesystem::path>& paths) {
  Report report;
  std::vector<KinetoFile> files;
  for (const std::filesystem::path& path : paths) files.push_back(read_kineto(path, report));
  return import_files(std::move(files), std::move(report));
}

Imported import_kineto_text(const std::vector<std::pair<std::string, std::string>>& texts) {
  Report report;
  std::vector<KinetoFile> files;
  for (const auto& [name, text] : texts) files.push_back(read_kineto_text(name, text, report));
  return import_files(std::move(files), std::move(report));
}

}  // namespace weft::trace
