// What a trace needs to know while the engine runs: which record the present state of a lane, a slot or a port comes
// from. Internal to the room.
#pragma once

#include <vector>

#include "weft/base/error.h"
#include "weft/sim/links.h"
#include "weft/sim/trace.h"

namespace weft::sim {

struct Recorder {
  struct Sending {  // as TracedMessage says
    Time asked, begin, busy, sent;
  };
  Recorder(Trace& out, size_t lanes, size_t ports, size_t ranks)
      : trace(out),
        lane(lanes, no_record),
        rank_last(ranks, no_record),
        open(lanes),
        send_port(ports, no_record),
        receive_port(ports, no_record) {
    trace.steps.clear();
    trace.messages.clear();
    trace.last = no_record;
  }

  void message(uint32_t lane_id, const Link& link, size_t port, int64_t bytes, const Sending& s);
  void arrival(uint32_t slot_id, size_t port, Time first, Time begin, Time busy, Time there);
  void credit(uint32_t slot_id, uint32_t lane_id) { slot[slot_id] = lane[lane_id]; }
  void end(uint32_t lane_id, Time time) {
    if (open[lane_id]) trace.steps[lane[lane_id]].end_ps = time;
  }
  // latest: no lane of the rank was done later.
  void done(uint32_t lane_id, uint32_t rank, bool latest) {
    if (latest) rank_last[rank] = lane[lane_id];
  }
  void finish(Time end, const std::vector<int>& launch, const std::vector<Time>& rank_end);
  void check_room(size_t records) const;

  Trace& trace;
  std::vector<uint32_t> lane;                     // its last step
  std::vector<uint32_t> slot;                     // the message in it, or the step that gave it back
  std::vector<uint32_t> rank_last;                // the step that ended last of the lanes that are done
  std::vector<bool> open;                         // the lane's present step is recorded
  std::vector<uint32_t> send_port, receive_port;  // the last message
};

}  // namespace weft::sim
