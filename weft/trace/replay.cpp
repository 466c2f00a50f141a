// Lines played against each other. Times are maxima and sums of what came before, so lines may be advanced in any order.
#include "weft/trace/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

#include "weft/algo/algorithm.h"
#include "weft/base/error.h"
#include "weft/base/plural.h"

namespace weft::trace {
namespace {

constexpr int64_t not_yet = -1;

// What operations take, and how: asked once for each kind.
class Costs {
 public:
  Costs(const topo::Cluster& cluster, const Ways& ways, std::vector<PlayedKind>& kinds)
      : cluster_(cluster), ways_(ways), kinds_(kinds) {}
  int64_t ns(const Operation& o, int64_t elements, const Group& group) {
    const auto [nodes, local] = place(group);
    const int64_t bytes = sim::rounded_bytes(*o.collective, nodes * local, elements * size_bytes(o.dtype), o.dtype);
    const auto [known, fresh] = index_.try_emplace(
        {static_cast<int>(*o.collective), static_cast<int>(o.dtype), bytes, nodes, local}, kinds_.size());
    if (fresh) kinds_.push_back(kind({*o.collective, nodes * local, bytes, o.dtype, 1}, nodes, local));
    PlayedKind& found = kinds_[known->second];
    ++found.count;
    return std::llround(found.us * 1000);
  }

 private:
  // Nodes and ranks on each: ranks fill nodes in order.
  std::pair<int, int> place(const Group& group) {
    std::map<int, int> on;
    for (const int r : group.ranks) ++on[r / cluster_.gpus_per_node];
    for (const auto& [node, count] : on)
      if (count != on.begin()->second)
        throw Error(ErrorKind::unsupported,
                    fmt::format("group {} has {} on node {} and {} on node {}", group.name,
                                counted(on.begin()->second, "rank"), on.begin()->first, count, node),
                    "take a machine whose nodes the groups fill evenly");
    return {static_cast<int>(on.size()), on.begin()->second};
  }
  PlayedKind kind(const sim::Question& question, int nodes, int local) const {
    topo::Cluster part = cluster_;
    part.nodes = nodes;
    part.gpus_per_node = local;
    PlayedKind k{question, nodes, 0, part.launch_us, "one rank: a launch"};
    if (question.ranks == 1 || question.bytes == 0) return k;
    if (ways_.by == Ways::By::nccl) {
      const sim::NcclAnswer a = sim::nccl_answer(part, question, ways_.nccl);
      k.us = a.us;
      k.how = a.choice ? fmt::format("{} {} x{}", sim::name(a.choice->algorithm), sim::name(a.choice->protocol),
                                     a.launch.channels)
                       : "point to point";
      return k;
    }
    const auto a = sim::weft_answer(part, question, ways_.plans);
    if (!a)
      throw Error(
          ErrorKind::unsupported,
          fmt::format("no plan of Weft's for {} of {} bytes on {}", algo::name(sim::collective_of(question.collective)),
                      question.bytes, counted(question.ranks, "rank")),
          "other --algorithm, --protocol or --channels, or --by nccl");
    k.us = a->us;
    k.how = fmt::format("{} {} x{}", a->choice.algorithm->name(), sim::name(a->choice.protocol), a->choice.channels);
    return k;
  }

  const topo::Cluster& cluster_;
  const Ways& ways_;
  std::vector<PlayedKind>& kinds_;
  std::map<std::array<int64_t, 5>, size_t> index_;
};

class Player {
 public:
  Player(const Job& job, const topo::Cluster& cluster, const Ways& ways)
      : job_(job),
        ways_(ways),
        costs_(cluster, ways, out_.kinds),
        known_(job.groups.size()),
        states_(job.lines.size()) {
    for (const RankLine& line : job.lines)
      for (size_t g = 0; g < job.groups.size(); ++g)
        known_[g] += std::binary_search(job.groups[g].ranks.begin(), job.groups[g].ranks.end(), line.rank);
  }
  Replay play() {
    out_.ranks.resize(job_.lines.size());
    for (size_t r = 0; r < job_.lines.size(); ++r) {
      states_[r].now = job_.lines[r].begin_ns;
      states_[r].end.resize(job_.lines[r].operations.size(), not_yet);
      states_[r].started.resize(job_.lines[r].operations.size(), not_yet);
      runnable_.push_back(r);
    }
    while (!runnable_.empty()) {
      const size_t r = runnable_.back();
      runnable_.pop_back();
      advance(r);
    }
    for (size_t r = 0; r < states_.size(); ++r) finish(r);
    return std::move(out_);
  }

 private:
  struct Lane {
    std::deque<size_t> queue;  // operations that were started and are not over
    int64_t free_ns = 0;
    bool arrived = false;  // its first one is where others may wait for it
  };
  struct State {
    size_t item = 0;
    int64_t now = 0;
    std::vector<int64_t> end, started;
    std::map<int, Lane> lanes;
    std::map<int, int64_t> next_of_group;  // operations of a group that arrived
    int64_t waits_for = not_yet;
  };
  struct Meeting {
    std::vector<std::pair<size_t, size_t>> there;  // (line, operation)
    int64_t begin_ns = 0, elements = 0;
    size_t last = 0;
  };

  // Times are nanoseconds since 1970, some 1.8e18 now; what would pass the largest that an integer holds is refused.
  static void require_time(int rank, int64_t now, double ns) {
    constexpr double most = 9e18;
    if (static_cast<double>(now) + ns <= most) return;
    throw Error(
        ErrorKind::user,
        fmt::format("rank {} would be at work for {} from {} ns on, past what a clock holds", rank, human_ns(ns), now),
        "mend the times of the job, or give a smaller --straggler");
  }

  void advance(size_t r) {
    State& me = states_[r];
    const RankLine& line = job_.lines[r];
    PlayedRank& out = out_.ranks[r];
    me.waits_for = not_yet;
    for (; me.item < line.items.size(); ++me.item) {
      const Item& item = line.items[me.item];
      const auto number = static_cast<size_t>(item.value);
      if (item.kind == Item::Kind::work) {
        const auto slow = ways_.slowdown.find(line.rank);
        const double factor = slow == ways_.slowdown.end() ? 1 : slow->second;
        require_time(line.rank, me.now, static_cast<double>(item.value) * factor);
        const int64_t ns = factor == 1 ? item.value : std::llround(static_cast<double>(item.value) * factor);
        me.now += ns;
        out.work_ns += ns;
      } else if (item.kind == Item::Kind::start) {
        me.started[number] = me.now;
        Lane& lane = me.lanes[line.operations[number].lane];
        lane.queue.push_back(number);
        if (!lane.arrived) arrive(r, lane);
      } else {
        if (me.end[number] == not_yet) {
          me.waits_for = item.value;
          return;
        }
        out.waited_ns += std::max<int64_t>(0, me.end[number] - me.now);
        me.now = std::max(me.now, me.end[number]);
      }
      out.item_end_ns.push_back(me.now);
    }
  }
  // The first operation of a lane comes to where it meets those of other ranks. Lanes that become free by that follow.
  void arrive(size_t r, Lane& lane) {
    std::vector<std::pair<size_t, Lane*>> next{{r, &lane}};
    while (!next.empty()) {
      const auto [at, from] = next.back();
      next.pop_back();
      if (from->queue.empty()) continue;
      from->arrived = true;
      const size_t number = from->queue.front();
      const Operation& o = job_.lines[at].operations[number];
      const int64_t ready = std::max(states_[at].started[number], from->free_ns);
      if (!o.collective || ways_.by == Ways::By::measured) {
        require_time(job_.lines[at].rank, ready, static_cast<double>(o.measured_ns));
        complete(at, number, ready, ready + o.measured_ns, at, next);
        continue;
      }
      Meeting& meeting = meetings_[{o.group, states_[at].next_of_group[o.group]++}];
      check(meeting, at, number);
      if (meeting.there.empty() || ready > meeting.begin_ns) meeting.begin_ns = ready, meeting.last = at;
      meeting.elements = std::max(meeting.elements, o.elements);
      meeting.there.emplace_back(at, number);
      if (static_cast<int>(meeting.there.size()) < known_[static_cast<size_t>(o.group)]) continue;
      const int64_t takes = costs_.ns(o, meeting.elements, job_.groups[static_cast<size_t>(o.group)]);
      require_time(job_.lines[r].rank, meeting.begin_ns, static_cast<double>(takes));
      const int64_t end = meeting.begin_ns + takes;
      for (const auto& [line, operation] : meeting.there)
        complete(line, operation, meeting.begin_ns, end, meeting.last, next);
    }
  }
  void check(const Meeting& meeting, size_t line, size_t number) const {
    if (meeting.there.empty()) return;
    const auto [other, theirs] = meeting.there.front();
    const Operation &a = job_.lines[other].operations[theirs], &b = job_.lines[line].operations[number];
    const bool uneven = a.collective == sim::NcclCollective::all_to_all;
    if (a.collective == b.collective && a.dtype == b.dtype && (uneven || a.elements == b.elements)) return;
    throw Error(
        ErrorKind::agreement,
        fmt::format("group {}: rank {} comes with its operation {} ({} {} {}), rank {} with its {} ({} {} {})",
                    job_.groups[static_cast<size_t>(a.group)].name, job_.lines[other].rank, theirs,
                    algo::name(sim::collective_of(*a.collective)), name(a.dtype), a.elements, job_.lines[line].rank,
                    number, algo::name(sim::collective_of(*b.collective)), name(b.dtype), b.elements),
        "ranks of a group start the same operations in the same order");
  }
  void complete(size_t r, size_t number, int64_t begin, int64_t end, size_t last,
                std::vector<std::pair<size_t, Lane*>>& next) {
    State& me = states_[r];
    Lane& lane = me.lanes[job_.lines[r].operations[number].lane];
    me.end[number] = end;
    out_.operations.push_back({r, number, me.started[number], begin, end, last});
    lane.free_ns = end;
    lane.queue.pop_front();
    lane.arrived = false;
    next.emplace_back(r, &lane);
    if (me.waits_for == static_cast<int64_t>(number)) {
      me.waits_for = not_yet;
      runnable_.push_back(r);
    }
  }
  void finish(size_t r) {
    State& me = states_[r];
    const bool open =
        std::any_of(me.lanes.begin(), me.lanes.end(), [](const auto& l) { return !l.second.queue.empty(); });
    if (me.item < job_.lines[r].items.size() || open) stuck();
    PlayedRank& out = out_.ranks[r];
    out.end_ns = me.now;
    for (const int64_t end : me.end) out.end_ns = std::max(out.end_ns, end);
    out.waited_ns += out.end_ns - me.now;
    out_.end_ns = std::max(out_.end_ns, out.end_ns);
  }
  // Who came to a meeting that others did not come to.
  [[noreturn]] void stuck() const {
    std::string text = "ranks of the job wait for each other for ever:";
    int said = 0;
    for (const auto& [key, meeting] : meetings_) {
      const auto group = static_cast<size_t>(key.first);
      if (static_cast<int>(meeting.there.size()) == known_[group] || ++said > 8) continue;
      std::string missing;
      for (size_t r = 0; r < states_.size(); ++r) {
        const std::vector<int>& members = job_.groups[group].ranks;
        const bool there =
            std::any_of(meeting.there.begin(), meeting.there.end(), [&](const auto& t) { return t.first == r; });
        if (there || !std::binary_search(members.begin(), members.end(), job_.lines[r].rank)) continue;
        missing += fmt::format(
            "{}{}{}", missing.empty() ? "" : ", ", job_.lines[r].rank,
            states_[r].waits_for == not_yet ? "" : fmt::format(" (waits for its {})", states_[r].waits_for));
      }
      text += fmt::format("\n    operation {} of group {}: rank {} is there with its {}, not there: {}", key.second,
                          job_.groups[group].name, job_.lines[meeting.there.front().first].rank,
                          meeting.there.front().second, missing);
    }
    throw Error(ErrorKind::plan, text, "ranks of a group start the same operations in the same order");
  }

  const Job& job_;
  const Ways& ways_;
  Replay out_;
  Costs costs_;
  std::vector<int> known_;  // ranks of each group that have a line
  std::vector<State> states_;
  std::map<std::pair<int, int64_t>, Meeting> meetings_;
  std::vector<size_t> runnable_;
};

}  // namespace

Replay replay(const Job& job, const topo::Cluster& cluster, const Ways& ways) {
  const int64_t most = int64_t{cluster.nodes} * cluster.gpus_per_node;
  if (ways.by != Ways::By::measured && job.ranks > most)
    throw Error(ErrorKind::user,
                fmt::format("a job of {} on {}, which has {} of {}", counted(job.ranks, "rank"), cluster.name,
                            counted(cluster.nodes, "node"), counted(cluster.gpus_per_node, "GPU")),
                "give NAME:NODES for more nodes, such as dgx_h100:16");
  for (const auto& [rank, factor] : ways.slowdown)
    if (std::none_of(job.lines.begin(), job.lines.end(), [rank = rank](const RankLine& l) { return l.rank == rank; }))
      throw Error(ErrorKind::user,
                  fmt::format("rank {} is to be slower by {}, and the job has no line of it", rank, factor));
  return Player(job, cluster, ways).play();
}

}  // namespace weft::trace
