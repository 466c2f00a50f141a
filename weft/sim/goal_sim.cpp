// LogGOPS over a GOAL schedule, in the two semantics of the programs that people compare with. Time is whole
// nanoseconds, as there, and what happens at one instant happens in their order, since an answer to the nanosecond
// depends on it: first made first in the original, the heap's own order in the fork.
//
// An operation that is ready is queued for the time at which its processor (a send: and its port) is free. If they are
// taken when its turn comes it waits for the later of the two.
//
// original: what an operation waited for on another processor delays it only by its own processor's time. A message waits
// at its receiver for processor and port, occupies them for o, g and its bytes, and then meets the first posted receive
// that matches, or waits in the list of unexpected messages.
// fork: nothing begins before all that it waited for has ended. The bytes are charged before arrival. A message looks for
// its receive first: where there is none it is unexpected at once; else it waits for that receive's processor and the
// receiving port (its receive goes behind the others meanwhile) and takes g + o. A receive that finds an unexpected
// message takes g + o from the sending port's time on, whatever the processor does. A large send ends, and its processor
// and port are free, when its receive does; whoever came last has its followers released last.
// (Facts of both from their public sources, and from what they print for the reference schedules.)
#include <algorithm>
#include <queue>

#include "weft/base/error.h"
#include "weft/sim/goal.h"

namespace weft::sim {
namespace {

enum class Kind : uint8_t { op, message };

struct Event {
  int64_t time = 0;
  uint64_t order = 0;
  uint32_t host = 0, op = 0;  // message: the receiving host, and the sender's operation
  uint32_t from = 0;          // message
  Kind kind = Kind::op;
};
struct Later {
  bool fifo = true;  // the fork leaves ties to the heap, which std::priority_queue repeats
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : (fifo && a.order > b.order);
  }
};

struct Pending {  // a posted receive, or a message that nobody waits for
  uint32_t peer, tag, op;
  int64_t time;
};

class Run {
 public:
  Run(const Goal& goal, const GoalCosts& costs, GoalMode mode)
      : goal_(goal),
        costs_(costs),
        fork_(mode == GoalMode::fork),
        hosts_(goal.ranks()),
        queue_(Later{mode == GoalMode::original}) {
    const size_t hosts = goal.ranks();
    cpu_.resize(hosts * static_cast<size_t>(goal.cpus()));
    send_port_.resize(hosts * static_cast<size_t>(goal.nics()));
    receive_port_.resize(send_port_.size());
    for (uint32_t h = 0; h < hosts; ++h) {
      const Goal::Rank& rank = goal.rank(h);
      hosts_[h].missing.resize(rank.ops);
      hosts_[h].ready_at.resize(rank.ops);
      for (uint32_t i = 0; i < rank.ops; ++i) hosts_[h].missing[i] = rank.op(i).dependencies;
      for (uint32_t i = 0; i < rank.roots; ++i) hosts_[h].ready.push_back(rank.root(i));
    }
  }

  GoalResult run() {
    for (uint32_t h = 0; h < hosts_.size(); ++h) release(h);
    GoalResult result;
    while (!queue_.empty()) {
      const Event event = queue_.top();
      queue_.pop();
      if (event.kind == Kind::message)
        arrive(event);
      else
        start(event);
    }
    check_done();
    result.events = events_;
    result.end_ns.resize(hosts_.size());
    for (size_t h = 0; h < hosts_.size(); ++h) {
      const auto first = cpu_.begin() + static_cast<std::ptrdiff_t>(h * static_cast<size_t>(goal_.cpus()));
      result.end_ns[h] = *std::max_element(first, first + goal_.cpus());
    }
    return result;
  }

 private:
  struct Host {
    std::vector<uint32_t> missing;  // per operation: what it still waits for
    std::vector<uint32_t> ready;    // become executable since the host was looked at
    std::vector<int64_t> ready_at;  // per operation: when the last that it waited for ended (fork)
    std::vector<Pending> posted, unexpected;
    uint64_t done = 0;
  };

  int64_t& cpu(uint32_t h, const GoalOp& op) { return cpu_[size_t{h} * static_cast<size_t>(goal_.cpus()) + op.cpu]; }
  int64_t& send_port(uint32_t h, const GoalOp& op) {
    return send_port_[size_t{h} * static_cast<size_t>(goal_.nics()) + op.nic];
  }
  int64_t& receive_port(uint32_t h, const GoalOp& op) {
    return receive_port_[size_t{h} * static_cast<size_t>(goal_.nics()) + op.nic];
  }
  // (n-1) bytes at G or O; a message of nothing costs as one of one byte.
  int64_t per_byte(double cost, const GoalOp& op) const {
    if (op.size == 0) return 0;
    const double rate = fork_ ? cost : static_cast<double>(static_cast<int64_t>(cost));
    return static_cast<int64_t>(std::min(static_cast<double>(op.size - 1) * rate, 1e18));
  }

  void release(uint32_t h) {
    std::vector<uint32_t> ready;
    ready.swap(hosts_[h].ready);
    for (const uint32_t i : ready) {
      const GoalOp op = goal_.rank(h).op(i);
      int64_t time = fork_ && op.type == GoalType::recv ? 0 : cpu(h, op);
      if (fork_) time = std::max(time, hosts_[h].ready_at[i]);
      if (op.type == GoalType::send) time = std::max(time, send_port(h, op));
      queue_.push({time, order_++, h, i, 0, Kind::op});
    }
    ready.clear();
    if (hosts_[h].ready.empty()) hosts_[h].ready.swap(ready);
  }

  void ended(uint32_t h, uint32_t i, int64_t at) {
    const Goal::Rank& rank = goal_.rank(h);
    const GoalOp op = rank.op(i);
    ++hosts_[h].done;
    for (uint32_t k = 0; k < op.followers; ++k) satisfied(h, rank.follower(op.first_follower + k), at);
  }
  void started(uint32_t h, uint32_t i, int64_t at) {
    const Goal::Rank& rank = goal_.rank(h);
    const GoalOp op = rank.op(i);
    for (uint32_t k = 0; k < op.start_followers; ++k) satisfied(h, rank.follower(op.first_start_follower + k), at);
  }
  void satisfied(uint32_t h, uint32_t i, int64_t at) {
    hosts_[h].ready_at[i] = std::max(hosts_[h].ready_at[i], at);
    if (hosts_[h].missing[i] == 0)
      fail(ErrorKind::user, "GOAL: rank {} operation {} is named as a follower more often than its count says", h,
           i + 1);
    if (--hosts_[h].missing[i] == 0) hosts_[h].ready.push_back(i);
  }

  void start(Event event) {
    const uint32_t h = event.host;
    const GoalOp op = goal_.rank(h).op(event.op);
    if (op.type == GoalType::recv) {
      ++events_;
      started(h, event.op, event.time);
      post(event, op);
    } else {
      int64_t free = cpu(h, op);
      if (op.type == GoalType::send) free = std::max(free, send_port(h, op));
      if (free > event.time) {
        event.time = free;
        queue_.push(event);
        return;
      }
      ++events_;
      if (op.type == GoalType::calc)
        calc(event, op);
      else
        send(event, op);
    }
    release(h);
  }

  void calc(const Event& event, const GoalOp& op) {
    if (__builtin_add_overflow(event.time, static_cast<int64_t>(op.size), &cpu(event.host, op)))
      fail(ErrorKind::user, "GOAL: rank {} computes for more than 292 years (operation {})", event.host, event.op + 1);
    started(event.host, event.op, event.time);
    ended(event.host, event.op, cpu(event.host, op));
  }

  void send(const Event& event, const GoalOp& op) {
    const uint32_t h = event.host;
    const int64_t G = per_byte(costs_.G, op), O = per_byte(costs_.O, op);
    cpu(h, op) = event.time + costs_.o + O;
    send_port(h, op) = event.time + costs_.g + G;
    const int64_t arrival = cpu(h, op) + costs_.L + (fork_ ? G : 0);
    queue_.push({arrival, order_++, op.peer, event.op, h, Kind::message});
    started(h, event.op, event.time);
    if (!rendezvous(op)) ended(h, event.op, cpu(h, op));
  }
  bool rendezvous(const GoalOp& op) const { return op.size > costs_.S; }

  void arrive(Event event) {
    const uint32_t h = event.host;
    const GoalOp op = goal_.rank(event.from).op(event.op);
    if (fork_) return arrive_in_fork(event, op);
    const int64_t free = std::max(cpu(h, op), receive_port(h, op));
    if (free > event.time) {
      event.time = free;
      queue_.push(event);
      return;
    }
    ++events_;
    const int64_t G = per_byte(costs_.G, op), O = per_byte(costs_.O, op);
    cpu(h, op) = event.time + costs_.o + std::max(O, G);
    receive_port(h, op) = event.time + costs_.g + G;
    meet(event, op);
    release(h);
  }

  // Looks for its receive first. One that nobody waits for lies down at once; one that is awaited waits for its receive's
  // processor and the receiving port, and its receive goes behind the others meanwhile.
  void arrive_in_fork(Event event, const GoalOp& op) {
    const uint32_t h = event.host;
    const Pending message{event.from, op.tag, event.op, event.time};
    std::vector<Pending>& posted = hosts_[h].posted;
    const auto it = std::find_if(posted.begin(), posted.end(), [&](const Pending& p) { return matches(p, message); });
    if (it == posted.end()) {
      ++events_;
      hosts_[h].unexpected.push_back(message);
      return release(h);
    }
    const Pending receive = *it;
    const GoalOp received = goal_.rank(h).op(receive.op);
    const int64_t free = std::max(cpu(h, received), receive_port(h, received));
    posted.erase(it);
    if (free > event.time) {
      posted.push_back(receive);
      event.time = free;
      queue_.push(event);
      return;
    }
    ++events_;
    take(h, receive, message, op, std::max(receive_port(h, received), event.time) + costs_.g, false);
    release(h);
  }

  // The fork's receive: through at `port`, then the processor has it.
  void take(uint32_t h, const Pending& receive, const Pending& message, const GoalOp& sent, int64_t port, bool late) {
    const GoalOp received = goal_.rank(h).op(receive.op);
    receive_port(h, received) = port;
    const int64_t end = cpu(h, received) = port + costs_.o + per_byte(costs_.O, sent);
    if (!rendezvous(sent)) return ended(h, receive.op, end);
    int64_t &cpu_there = cpu(message.peer, sent), &port_there = send_port(message.peer, sent);
    cpu_there = std::max(cpu_there, end);
    port_there = std::max(port_there, port);
    ended(message.peer, message.op, end);
    ended(h, receive.op, end);
    const uint32_t first = late ? message.peer : h, second = late ? h : message.peer;
    release(first);
    if (first != second) release(second);
  }

  static bool matches(const Pending& receive, const Pending& message) {
    return (receive.peer == goal_any || receive.peer == message.peer) &&
           (receive.tag == goal_any || message.tag == goal_any || receive.tag == message.tag);
  }

  void meet(const Event& event, const GoalOp& op) {
    const Pending message{event.from, op.tag, event.op, event.time};
    std::vector<Pending>& posted = hosts_[event.host].posted;
    for (auto it = posted.begin(); it != posted.end(); ++it) {
      if (!matches(*it, message)) continue;
      const Pending receive = *it;
      posted.erase(it);
      complete(event.host, receive, message, op);
      return;
    }
    hosts_[event.host].unexpected.push_back(message);
  }

  void post(const Event& event, const GoalOp& op) {
    const Pending receive{op.peer, op.tag, event.op, event.time};
    std::vector<Pending>& unexpected = hosts_[event.host].unexpected;
    for (auto it = unexpected.begin(); it != unexpected.end(); ++it) {
      if (!matches(receive, *it)) continue;
      const Pending message = *it;
      unexpected.erase(it);
      const GoalOp sent = goal_.rank(message.peer).op(message.op);
      if (fork_)
        take(event.host, receive, message, sent, std::max(send_port(event.host, op), event.time) + costs_.g, true);
      else
        complete(event.host, receive, message, sent);
      return;
    }
    hosts_[event.host].posted.push_back(receive);
  }

  void complete(uint32_t h, const Pending& receive, const Pending& message, const GoalOp& sent) {
    if (rendezvous(sent)) {
      ended(message.peer, message.op, message.time);
      ended(h, receive.op, receive.time);
      release(h);
      if (message.peer != h) release(message.peer);
      return;
    }
    ended(h, receive.op, receive.time);
  }

  void check_done() const {
    for (uint32_t h = 0; h < hosts_.size(); ++h) {
      const Goal::Rank& rank = goal_.rank(h);
      if (hosts_[h].done == rank.ops) continue;
      std::string why;
      if (!hosts_[h].posted.empty()) {
        const Pending& p = hosts_[h].posted.front();
        why = fmt::format("operation {} receives from {} with tag {} and no such message comes", p.op + 1,
                          static_cast<int32_t>(p.peer), static_cast<int32_t>(p.tag));
      } else {
        const auto first =
            std::find_if(hosts_[h].missing.begin(), hosts_[h].missing.end(), [](uint32_t m) { return m > 0; });
        why = first == hosts_[h].missing.end()
                  ? std::string("a large send waits for a receive that its peer does not post")
                  : fmt::format(
                        "operation {} waits for {} others that never end (a cycle, or a send that nobody receives)",
                        first - hosts_[h].missing.begin() + 1, *first);
      }
      throw Error(
          ErrorKind::user,
          fmt::format("GOAL: deadlock: rank {} ended {} of {} operations; {}", h, hosts_[h].done, rank.ops, why),
          "check that every receive has its send, and that `requires` lines make no cycle");
    }
  }

  const Goal& goal_;
  const GoalCosts costs_;
  const bool fork_;
  std::vector<Host> hosts_;
  std::vector<int64_t> cpu_, send_port_, receive_port_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  uint64_t order_ = 0, events_ = 0;
};

}  // namespace

int64_t GoalResult::last_ns() const { return end_ns.empty() ? 0 : *std::max_element(end_ns.begin(), end_ns.end()); }

GoalResult simulate_goal(const Goal& goal, const GoalCosts& costs, GoalMode mode) {
  return Run(goal, costs, mode).run();
}

}  // namespace weft::sim
