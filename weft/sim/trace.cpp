// The critical path: backwards from the last step, always to the one record that decided.
#include "weft/sim/trace.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft::sim {
namespace {

using Kind = PathPart::Kind;

class Path {
 public:
  explicit Path(const Trace& trace) : trace_(trace), now_(trace.end_ps) {}
  std::vector<PathPart> walk() {
    leave_end(trace_.last);
    while (step_ != no_record || message_ != no_record)
      if (message_ != no_record)
        through_message();
      else
        through_step();
    part(Kind::late, 0);
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  // What happened from `begin` on, up to where the walk is.
  void part(Kind kind, int64_t begin, uint32_t step = no_record, uint32_t message = no_record) {
    WEFT_CHECK(begin <= now_, "a critical path that goes forwards: {} from {} ps to {} ps", name(kind), begin, now_);
    if (begin < now_) parts_.push_back({kind, step, message, begin, now_});
    now_ = begin;
  }
  // At the end of a step, if there is one.
  void leave_end(uint32_t step) {
    step_ = step;
    message_ = no_record;
    sent_ = step == no_record ? no_record : trace_.steps[step].last_sent;
  }
  // Inside a step: back over the messages that it had sent by now, then its work, then what it had waited for.
  void through_step() {
    const uint32_t id = step_;
    if (sent_ != no_record) {
      const TracedMessage& m = trace_.messages[sent_];
      part(Kind::work, m.sent_ps, id);
      part(Kind::send, m.begin_ps, id, sent_);
      return leave_send_port(sent_);
    }
    const TracedStep& step = trace_.steps[id];
    part(Kind::work, step.begin_ps, id);
    if (step.cause == Cause::message) {
      step_ = no_record;
      message_ = step.from;
      sending_ = false;
      return part(Kind::receive, trace_.messages[message_].there_ps, id);
    }
    if (step.cause != Cause::begin) {
      const Kind kind = step.cause == Cause::slot ? Kind::slot : step.cause == Cause::await ? Kind::await : Kind::work;
      part(kind, trace_.steps[step.from].end_ps, id);
    }
    leave_end(step.from);
  }
  // At the time when a message began: it was asked for then, or its port was busy with another.
  void leave_send_port(uint32_t id) {
    const TracedMessage& m = trace_.messages[id];
    message_ = m.send_after;
    sending_ = true;
    if (message_ != no_record) {
      step_ = no_record;
      return part(Kind::send_port, trace_.messages[message_].begin_ps, no_record, message_);
    }
    step_ = m.sender;
    sent_ = m.sent_before;
  }
  // sending_: at the time when the message began on its sending port; else at the time when it is there, or when its
  // receiving port is free again.
  void through_message() {
    const uint32_t id = message_;
    const TracedMessage& m = trace_.messages[id];
    if (sending_) return leave_send_port(id);
    part(Kind::receive, m.receive_begin_ps, no_record, id);
    uint32_t at = id;
    while (trace_.messages[at].receive_after != no_record) {
      at = trace_.messages[at].receive_after;
      part(Kind::receive_port, trace_.messages[at].receive_begin_ps, no_record, at);
    }
    part(Kind::way, trace_.messages[at].begin_ps, no_record, at);
    message_ = at;
    sending_ = true;
  }

  const Trace& trace_;
  int64_t now_;
  uint32_t step_ = no_record, message_ = no_record;  // where the walk is; both none: at the run's beginning
  uint32_t sent_ = no_record;                        // of that step, the last message sent before now_
  bool sending_ = false;
  std::vector<PathPart> parts_;
};

}  // namespace

std::string name(PathPart::Kind kind) {
  constexpr const char* names[path_kinds] = {"late start",        "work", "send", "send port busy", "way", "receive",
                                             "receive port busy", "slot", "await"};
  return names[static_cast<size_t>(kind)];
}

std::vector<PathPart> critical_path(const Trace& trace) { return Path(trace).walk(); }

}  // namespace weft::sim
