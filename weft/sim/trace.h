// A run recorded: every step with what decided its start, every message with what it queued behind, and the critical
// path through both.
//
// Ways to a critical path: guess predecessors from times afterwards (two things that end at one instant are confused,
// and a path may then go through what came later), or note them when the engine decides. We note them: each start names
// the one record whose time it took, and each message the one that held its port. So the path is a walk backwards from
// the last step, its parts touch, and their lengths are the run's length to the picosecond.
//
// A record holds what is needed for that and no more: 64 bytes a step, 96 a message. Nothing is ever left out: more
// than `most` records are an error that says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::sim {

constexpr uint32_t no_record = 0xFFFFFFFF;

enum class Cause : uint8_t {
  begin,  // the run's beginning, or an await of what held before it
  lane,   // its own lane was not free earlier; `from` is the step before, also that which ended the rank's last launch
  message,  // `from` is the message
  slot,     // `from` is the receiver's step that gave the slot back
  await     // `from` is the step that was awaited
};

// One slice of one step. ready <= begin <= end; ready: when its lane was free. Steps are in the order of their starts'
// decisions, so `from` is always smaller.
struct TracedStep {
  uint32_t rank = 0;
  uint16_t lane = 0, channel = 0, step = 0;  // lane of the plan, step of the lane's text
  uint8_t slice = 0;
  Cause cause = Cause::begin;
  uint32_t chunk = 0, launch = 0;
  uint32_t from = no_record;
  uint32_t last_sent = no_record;  // the last message that it sent
  int64_t elements = 0;
  int64_t ready_ps = 0, begin_ps = 0, end_ps = 0;
};

// asked <= begin: the lane wanted to send, the port did. begin + send_busy: the port is free; sent: the lane is. first:
// the first byte is there; receive_begin: the receiving port takes it, for receive_busy; there: the last byte is.
struct TracedMessage {
  uint32_t sender = no_record, receiver = no_record;           // steps
  uint32_t sent_before = no_record;                            // by the same step
  uint32_t send_after = no_record, receive_after = no_record;  // the messages it queued behind; none: a port was free
  uint32_t from = 0, to = 0;                                   // ranks that were simulated
  uint16_t send_port = 0, receive_port = 0, family = 0;
  int64_t bytes = 0;
  int64_t asked_ps = 0, begin_ps = 0, send_busy_ps = 0, sent_ps = 0;
  int64_t first_ps = 0, receive_begin_ps = 0, receive_busy_ps = 0, there_ps = 0;
};

struct Trace {
  size_t most = size_t{1} << 20;  // records of either kind; Error(timeout) beyond
  std::vector<TracedStep> steps;
  std::vector<TracedMessage> messages;
  uint32_t last = no_record;  // the step that ended the run; none: nothing took any time
  int64_t end_ps = 0;
};

// A stretch of the critical path.
struct PathPart {
  enum class Kind : uint8_t {
    late,       // before the first step could begin
    work,       // a step's own
    send,       // a step giving a message to its port
    send_port,  // the port busy with the message before
    way,        // latency, and on shared links also the bytes
    receive,    // the receiving port with this message
    receive_port,
    slot,  // a slot on its way back
    await
  };
  Kind kind = Kind::work;
  uint32_t step = no_record, message = no_record;  // which it belongs to, where it belongs to one
  int64_t begin_ps = 0, end_ps = 0;
};
std::string name(PathPart::Kind kind);
constexpr int path_kinds = 9;

// From 0 to the run's end, in the order of time: each part begins where the one before ended. Parts of no length are
// left out.
std::vector<PathPart> critical_path(const Trace& trace);

}  // namespace weft::sim
