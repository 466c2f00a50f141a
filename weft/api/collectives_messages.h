// Messages between two ranks, with tags, from a stated or from any source.
//
// Problem: a plan's message has its place in a plan that all ranks run; a message with a tag is matched when it comes, and
// only two ranks know of it. Ways: a plan over a communicator of the two (loading it is collective, so the two would have
// to come together first, in one order for all pairs), or mail with matching. We take the mail: an envelope per message in
// a ring of the receiver's memory, matched there in the order in which it came (MPI's rule: between two ranks, messages
// of one tag do not overtake). No plan knows of it and no other rank takes part.
//
//   small (960 bytes): in the envelope; the send is complete when it stands there.
//   else: the receiver that has found the place orders it. Where it maps the sender's buffer it copies once and says so;
//   otherwise chunks go through slots, in the order of the orders.
//
// Nothing here waits: progress() does what can be done, for whoever waits.
#pragma once

#include <deque>
#include <list>
#include <map>

#include "weft/api/collectives_memory.h"
#include "weft/api/collectives_pending.h"

namespace weft::api {

class Messages {
 public:
  Messages(runtime::Communicator& communicator, const Regions& regions);  // collective
  ~Messages();
  // Error(user) for peers, tags, counts and buffers that cannot be.
  std::shared_ptr<Pending::State> send(const void* data, int64_t count, Dtype dtype, int to, int tag);
  std::shared_ptr<Pending::State> receive(void* data, int64_t count, Dtype dtype, int from, int tag, Arrival* arrival);

  bool idle() const { return open_.empty() && due_orders_ == 0; }
  void progress();  // never throws: what goes wrong is the error of all that is open
  uint64_t moves() const { return moves_; }
  std::string waiting(int64_t waited_ns) const;

  struct Inbox;  // what one peer writes here

 private:
  struct Message : Pending::State {
    std::string text() const override;
    bool sends = false;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    int64_t count = 0, bytes = 0, done_bytes = 0;
    Dtype dtype = Dtype::u8;
    int peer = 0, tag = 0;
    Arrival* arrival = nullptr;
  };
  using Ref = std::shared_ptr<Message>;
  struct Envelope {  // as it is read
    int source = 0, tag = 0;
    int64_t count = 0;
    Dtype dtype = Dtype::u8;
    uint64_t id = 0;  // 0: the data are here
    Place place;
    std::vector<std::byte> data;
  };
  struct Order {
    uint64_t id = 0;
    bool copied = false;
    Ref receive;  // complete but for this order: without it its sender would wait for ever
  };
  struct Peer {
    std::deque<Ref> posted;             // sends without an envelope yet
    std::map<uint64_t, Ref> offered;    // sends that wait for an order
    std::deque<Ref> leaving, arriving;  // in the order of the orders
    std::deque<Order> orders;           // that wait for room
    uint64_t envelopes_sent = 0, envelopes_taken = 0, slots_sent = 0, slots_taken = 0, orders_sent = 0,
             orders_taken = 0, last_id = 0;
  };

  Inbox& at(int rank, int from) const;  // what `from` writes to `rank`
  void show(int peer, const void* head, int64_t head_bytes, const void* body, int64_t body_bytes);
  void check(const Message& message, bool any) const;
  void open(const Ref& message);
  void close(const Ref& message);
  bool step(int peer);
  bool send_envelopes(int peer);
  bool read_envelopes(int peer);
  void require_whole(int from, const Envelope& envelope);
  bool send_orders(int peer);
  bool read_orders(int peer);
  bool send_chunk(int peer);
  bool take_chunk(int peer);
  void arrived(Envelope envelope);
  void accept(const Ref& receive, const Envelope& envelope);
  [[noreturn]] void differ(const Message& receive, const Envelope& envelope) const;

  runtime::Communicator& communicator_;
  transport::Transport& transport_;
  const Regions& regions_;
  const int me_;
  std::shared_ptr<transport::Window> window_;  // null: one rank
  std::vector<Peer> peers_;
  std::list<Ref> receives_;         // that nothing has come for, in the order in which they were asked for
  std::list<Envelope> unexpected_;  // in the order in which they came
  std::vector<Ref> open_;           // not complete
  std::vector<Ref> sent_;           // complete when what was put has left
  int64_t due_orders_ = 0;
  uint64_t moves_ = 0;
  bool progressing_ = false;
};

}  // namespace weft::api
