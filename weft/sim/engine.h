// The engine: lanes as cursors, links with slots, ports, and the agenda. Internal to the room.
//
// Only ports are shared between lanes, so only requests of ports (a send, an arrival) are events; everything else a lane
// does, it does by itself, and its times follow from what it waited for. A lane that must wait is parked at the link or
// the lane it waits for, which sends it on. That leaves two events for a message where a plain loop has three or four.
//
// What a run touches again and again is small and lies together: a lane is 80 bytes, a link a cache line, its slots
// another. Where its steps come from is steps.h.
#pragma once

#include <optional>

#include "weft/sim/flows.h"
#include "weft/sim/links.h"
#include "weft/sim/progress.h"
#include "weft/sim/recorder.h"
#include "weft/sim/sim.h"
#include "weft/sim/steps.h"

namespace weft::sim {

struct Cost {  // LinkCost in ps
  Time latency = 0, send = 0, receive = 0, gap = 0, credit = 0;
  double port_byte = 0, lane_byte = 0, wire = 1;
};

struct Lane {
  // next: wants its next step; slice: the next slice of this one; running: a send is on the agenda; then what it is
  // parked for.
  enum class State : uint8_t { next, slice, running, message, slot, await, done };
  Time ready = 0, begin = 0, busy = 0;
  int64_t elements = 0;
  const StepInfo* step = nullptr;         // the present one
  uint32_t* links = nullptr;              // those that its steps name by number
  uint32_t rank = 0, waits_for = nobody;  // a link, or a lane
  uint32_t chunk = 0, repeat = 0;         // repeat: how often the present step comes again
  uint16_t sending = 0, channel = 0, lane = 0;
  uint8_t slice = 0;
  State state = State::next;
};

class Engine {
 public:
  Engine(const plan::Instance& instance, Cells& cells, const Network& network, const Options& options, int64_t ranks);
  Prediction run();

 private:
  // engine.cpp
  void arrive(uint32_t link);
  void send(uint32_t lane, Time now);
  // fabric.cpp's links shared: engine_flows.cpp
  void queue_flow(uint32_t link, Time begin, int64_t bytes);
  void start_flow(uint32_t link, double now_ns);
  void advance_flows();
  Time next_flow();
  void resume_all();
  void resume(uint32_t lane);
  bool ready_to_start(uint32_t lane, Lane& me, Time& start);
  bool messages_there(Lane& me, Time& start);
  bool slots_free(Lane& me, Time& start);
  bool awaits_hold(uint32_t lane, Lane& me, Time& start);
  bool finish_step(uint32_t lane, Lane& me, Time end);
  void return_credits(uint32_t lane, Lane& me, Time end);
  void park(Lane& me, Lane::State why, uint32_t on) { me.state = why, me.waits_for = on; }
  void wake_waiters(uint32_t lane);
  // engine_trace.cpp: only where a trace is asked for
  void record_start(uint32_t lane, const Lane& me, Time start);
  void decide(uint32_t lane, const Lane& me, Time start, TracedStep& step) const;
  bool decided_by_await(uint32_t lane, const Lane& me, Time start, TracedStep& step) const;
  uint32_t last_record(uint32_t lane) const { return recorder_ ? recorder_->lane[lane] : no_record; }
  // lanes.cpp
  void make_lanes();
  void next_launch(uint32_t rank, Time begin);
  void lane_done(uint32_t lane, Lane& me);
  bool fetch(uint32_t lane, Lane& me);
  bool fetch_walked(uint32_t lane, Lane& me);
  void leave_block(uint32_t lane, const Lane& me, int ordinal);
  void set_elements(Lane& me);
  uint32_t open_link(const Lane& me, const Connection& connection);
  uint32_t link_of(Lane& me, uint16_t number) {
    const uint32_t link = me.links[number];
    return link != nobody ? link
                          : me.links[number] = open_link(me, steps_.connection(me.rank, me.lane, me.channel, number));
  }
  Prediction predict() const;
  // explain.cpp
  [[noreturn]] void deadlock();
  void open_links_of(uint32_t rank);
  std::string describe(uint32_t lane) const;
  std::string waits(const Lane& me, uint32_t& on) const;

  uint32_t lane_id(int64_t rank, int lane, int channel) const {
    return static_cast<uint32_t>((rank * lanes_per_rank_ + lane) * channels_ + channel);
  }
  // The message that receive i of the present step takes, and the one that send i makes: earlier ones of the step may be
  // on the same link.
  uint32_t to_take(const Lane& me, uint16_t i, uint32_t id) const {
    uint32_t message = links_[id].taken;
    for (uint16_t k = 0; k < i; ++k) message += me.links[me.step->links[k]] == id;
    return message;
  }
  uint32_t to_send(const Lane& me, uint16_t i, uint32_t id) const {
    const uint16_t* sends = me.step->links + me.step->receives;
    uint32_t message = links_[id].sent;
    for (uint16_t k = 0; k < i; ++k) message += me.links[sends[k]] == id;
    return message;
  }
  bool tracked(const Lane& me) const { return !progress_.empty() && steps_.awaited(me.lane); }
  void wake(uint32_t lane) { woken_.push_back(lane); }

  const plan::Instance& instance_;
  Cells& cells_;
  const Network& network_;
  const Options& options_;
  int64_t ranks_, all_ranks_;
  int lanes_per_rank_, channels_;
  Time await_ = 0, step_ps_ = 0;
  std::vector<Cost> costs_;
  Steps steps_;
  std::vector<Lane> lanes_;
  std::vector<Walker> walkers_;       // by lane, where steps are walked
  std::vector<uint32_t> lane_links_;  // of all lanes, where steps are programs
  std::vector<Link> links_;
  std::vector<Slot> slots_;
  LinkTable table_;
  Agenda agenda_;
  std::vector<Time> send_port_, receive_port_, send_busy_, receive_busy_;  // rank * ports + port
  std::vector<uint32_t> woken_;
  std::vector<int> open_, launch_;         // per rank
  std::vector<Time> launch_end_, latest_;  // per launch; per rank: the end of its slowest lane so far
  std::vector<Progress> progress_;         // by lane, where any lane is awaited
  std::vector<std::vector<uint32_t>> waiters_;
  // With a fabric: messages on their way share its links.
  struct Waiting {
    uint32_t link = 0;
    Time begin = 0;
    bool operator<(const Waiting& o) const { return begin != o.begin ? begin < o.begin : link < o.link; }
  };
  std::optional<FlowNetwork> flows_;
  std::vector<Waiting> starts_;         // of the present window
  std::vector<uint32_t> link_of_flow_;  // by the flow's number
  std::vector<uint32_t> flown_;         // by link: messages whose flow has ended
  std::unique_ptr<Recorder> recorder_;  // null: nothing is recorded
  uint64_t sends_ = 0, arrivals_ = 0, receives_ = 0, steps_done_ = 0;
  double bytes_ = 0;
};

}  // namespace weft::sim
