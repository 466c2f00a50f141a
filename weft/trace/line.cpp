// A rank's line, and ranks beside each other.
//
// Where the GPU computes, its time is work. Where it computes nothing, and an operation ends, it waited for that operation (the
// last one that ended there), and the rest of the gap is the host's. An operation is started where it began; one that
// began as the one before it on its lane ended, and had been launched before, is started where it was launched: it had
// waited for the lane, which it will do again.
#include "weft/trace/line.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/algo/algorithm.h"
#include "weft/base/error.h"
#include "weft/sim/collective.h"

namespace weft::trace {
namespace {

constexpr int64_t queued_ns = 10'000;  // an operation that begins so soon after the one before it had waited for it

std::vector<Stretch> merged(std::vector<Stretch> busy) {
  std::sort(busy.begin(), busy.end(), [](const Stretch& a, const Stretch& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Stretch> out;
  for (const Stretch& s : busy)
    if (!out.empty() && s.begin_ns <= out.back().end_ns)
      out.back().end_ns = std::max(out.back().end_ns, s.end_ns);
    else if (s.begin_ns < s.end_ns)
      out.push_back(s);
  return out;
}

class Line {
 public:
  Line(std::vector<Stretch> busy, std::vector<TimedOperation>& operations)
      : busy_(std::move(busy)), operations_(operations) {}
  RankLine make(std::vector<std::pair<std::string, int64_t>>& notes) {
    release(notes);
    for (uint32_t i = 0; i < operations_.size(); ++i) ends_.emplace_back(operations_[i].end_ns, i);
    std::sort(ends_.begin(), ends_.end());
    begin_ = now_ = busy_.empty() ? releases_.empty() ? 0 : releases_[0].first : busy_[0].begin_ns;
    if (!releases_.empty()) begin_ = now_ = std::min(now_, releases_[0].first);
    for (const Stretch& s : busy_) {
      idle_until(s.begin_ns);
      busy_until(s.end_ns);
    }
    if (!ends_.empty()) idle_until(std::max(now_, ends_.back().first));
    for (const auto& [ns, op] : releases_) line_.operations.push_back(operations_[op].operation);
    line_.begin_ns = begin_;
    return std::move(line_);
  }

 private:
  // When each operation is started, and what it takes from then or from when its lane is free.
  void release(std::vector<std::pair<std::string, int64_t>>& notes) {
    std::stable_sort(operations_.begin(), operations_.end(), [](const TimedOperation& a, const TimedOperation& b) {
      return std::tie(a.begin_ns, a.end_ns) < std::tie(b.begin_ns, b.end_ns);
    });
    std::map<int, std::pair<int64_t, int64_t>> lanes;  // the last one's release and end
    for (uint32_t i = 0; i < operations_.size(); ++i) {
      TimedOperation& t = operations_[i];
      int64_t at = t.begin_ns, from = t.begin_ns;
      const auto last = lanes.find(t.operation.lane);
      if (last != lanes.end()) {
        const auto [released, end] = last->second;
        if (t.end_ns < end)
          notes.emplace_back("operations of one stream that end before the one ahead: taken as no time", t.event);
        if (t.begin_ns < end + queued_ns && t.launch_ns < end) {
          at = std::clamp(t.launch_ns, released, t.begin_ns);
          from = end;
          notes.emplace_back("operations that queued behind another: started where the host launched them", t.event);
        }
        at = std::max(at, released);
        from = std::max(from, end);
      }
      t.end_ns = std::max(t.end_ns, from);
      t.operation.measured_ns = t.end_ns - from;
      lanes[t.operation.lane] = {at, t.end_ns};
      releases_.emplace_back(at, i);
    }
    std::stable_sort(releases_.begin(), releases_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    number_.resize(operations_.size());
    for (size_t k = 0; k < releases_.size(); ++k) number_[releases_[k].second] = static_cast<int64_t>(k);
  }
  void work_until(int64_t ns) {
    if (ns > now_) {
      auto& items = line_.items;
      if (!items.empty() && items.back().kind == Item::Kind::work)
        items.back().value += ns - now_;
      else
        items.push_back({Item::Kind::work, ns - now_});
    }
    now_ = std::max(now_, ns);
  }
  void start() {
    line_.items.push_back({Item::Kind::start, static_cast<int64_t>(next_)});
    ++next_;
  }
  void busy_until(int64_t ns) {
    for (; next_ < releases_.size() && releases_[next_].first <= ns; start()) work_until(releases_[next_].first);
    work_until(ns);
  }
  // The last operation that was started and ended after now_, until `ns`.
  void wait_until(int64_t ns) {
    auto at = std::upper_bound(ends_.begin(), ends_.end(), ns, [](int64_t t, const auto& e) { return t < e.first; });
    while (at != ends_.begin() && (--at)->first > now_) {
      if (number_[at->second] >= static_cast<int64_t>(next_)) continue;
      line_.items.push_back({Item::Kind::wait, number_[at->second]});
      now_ = at->first;
      return;
    }
  }
  void idle_until(int64_t ns) {
    for (; next_ < releases_.size() && releases_[next_].first <= ns; start()) {
      wait_until(releases_[next_].first);
      work_until(releases_[next_].first);
    }
    wait_until(ns);
    work_until(ns);
  }

  std::vector<Stretch> busy_;
  std::vector<TimedOperation>& operations_;
  std::vector<std::pair<int64_t, uint32_t>> releases_, ends_;  // (ns, operation)
  std::vector<int64_t> number_;                                // in the line, of each operation
  size_t next_ = 0;
  int64_t now_ = 0, begin_ = 0;
  RankLine line_;
};

std::string text(const Operation& o) {
  return fmt::format("{} of {} {}", algo::name(sim::collective_of(*o.collective)), o.elements, name(o.dtype));
}

// Operations of a group, in their order on the rank.
std::map<int, std::vector<const TimedOperation*>> by_group(const RankTimes& rank) {
  std::map<int, std::vector<const TimedOperation*>> out;
  for (const TimedOperation& t : rank.operations)
    if (t.operation.collective) out[t.operation.group].push_back(&t);
  return out;
}

// Ranks may send different amounts to each other.
bool same(const Operation& a, const Operation& b) {
  const bool uneven = a.collective == sim::NcclCollective::all_to_all;
  return a.collective == b.collective && a.dtype == b.dtype && (uneven || a.elements == b.elements);
}

}  // namespace

RankLine make_line(std::vector<Stretch> busy, std::vector<TimedOperation>& operations,
                   std::vector<std::pair<std::string, int64_t>>& notes) {
  return Line(merged(std::move(busy)), operations).make(notes);
}

void check_groups(const Job& job, const std::vector<RankTimes>& times) {
  std::map<int, std::pair<size_t, std::vector<const TimedOperation*>>> first;  // group -> the first rank that has it
  for (size_t r = 0; r < times.size(); ++r)
    for (auto& [group, list] : by_group(times[r])) {
      const auto [known, fresh] = first.try_emplace(group, r, list);
      if (fresh) continue;
      const auto& [other, theirs] = known->second;
      const std::string& name = job.groups[static_cast<size_t>(group)].name;
      for (size_t i = 0; i < std::min(list.size(), theirs.size()); ++i)
        if (!same(list[i]->operation, theirs[i]->operation))
          throw Error(
              ErrorKind::agreement,
              fmt::format("operation {} of group {} is {} on rank {} ({} event {}), {} on rank {} ({} event {})", i,
                          name, text(theirs[i]->operation), job.lines[other].rank, times[other].file, theirs[i]->event,
                          text(list[i]->operation), job.lines[r].rank, times[r].file, list[i]->event),
              "ranks that diverge cannot be played together: profile the same steps on all ranks, or import one");
      if (list.size() != theirs.size())
        throw Error(ErrorKind::agreement,
                    fmt::format("group {}: rank {} has {} operations, rank {} has {}", name, job.lines[other].rank,
                                theirs.size(), job.lines[r].rank, list.size()),
                    "profile the same steps on all ranks, or import one");
    }
}

void align_clocks(Job& job, const std::vector<RankTimes>& times, Report& report) {
  const auto together = [](const Operation& o) {
    return o.collective == sim::NcclCollective::all_reduce || o.collective == sim::NcclCollective::all_gather ||
           o.collective == sim::NcclCollective::reduce_scatter || o.collective == sim::NcclCollective::all_to_all;
  };
  const auto reference = by_group(times.front());
  for (size_t r = 1; r < times.size(); ++r) {
    std::vector<int64_t> off;
    for (const auto& [group, list] : by_group(times[r])) {
      const auto known = reference.find(group);
      if (known == reference.end()) continue;
      for (size_t i = 0; i < std::min(list.size(), known->second.size()); ++i)
        if (together(list[i]->operation)) off.push_back(list[i]->end_ns - known->second[i]->end_ns);
    }
    if (off.empty()) {
      report.assumed.add("ranks that share no collective with the first: they begin with it", times[r].file);
      job.lines[r].begin_ns = job.lines[0].begin_ns;
      continue;
    }
    std::sort(off.begin(), off.end());
    const int64_t median = off[off.size() / 2];
    job.lines[r].begin_ns -= median;
    const int64_t spread = std::max(off.back() - median, median - off.front());
    report.assumed.add(fmt::format("clock of rank {} set back by {} ns, by the ends of {} collectives (within {} ns)",
                                   job.lines[r].rank, median, off.size(), spread),
                       times[r].file);
  }
  int64_t least = job.lines.front().begin_ns;
  for (const RankLine& line : job.lines) least = std::min(least, line.begin_ns);
  for (RankLine& line : job.lines) line.begin_ns -= least;
}

}  // namespace weft::trace
