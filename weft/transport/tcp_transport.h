// The transport over connections as a class: windows and messages (tcp_transport.cpp), exchanges, failures and the end
// (tcp_control.cpp). How ranks come together is tcp.cpp.
#pragma once

#include <map>
#include <mutex>

#include "weft/transport/board.h"
#include "weft/transport/layered.h"
#include "weft/transport/mapping.h"
#include "weft/transport/wire.h"

namespace weft::transport {

struct TcpWindow : LayeredWindow {
  std::unique_ptr<Mapping> own;  // where no memory is shared
  uint32_t number = 0;
  bool mirrored = false;
};

// Ranks of this one's host, and the transport by which they share memory.
struct Host {
  Transport* shares = nullptr;       // null: no memory is shared
  std::vector<int> local;            // per rank: its number in `shares`, -1: elsewhere
  std::unique_ptr<Transport> owned;  // keeps `shares`, where nobody else does
};

class TcpTransport final : public BoardTransport, FrameSink {
 public:
  TcpTransport(std::unique_ptr<Mapping> board, int rank, int size, const RankOptions& options, Host host,
               Transport* parent, std::vector<std::vector<Fd>> sockets);
  ~TcpTransport() override;
  std::string_view name() const override { return host_.shares ? "mixed" : "tcp"; }
  bool mappable(int peer) const override;
  bool mirrors() const override { return size() > 1; }
  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override;
  std::shared_ptr<Window> allocate_mirrored(int64_t bytes, std::string_view what) override;
  void put(Window& window, const Put& put) override;
  bool progress() override;
  bool flush(bool late_too) override;
  void raise(const Failure& failure) override;
  void note(std::string_view doing) override;
  void park(int64_t at_most_ns) override;
  void wake(int peer) override;
  void check_peers() override;

 private:
  struct Cut {  // a message over several connections
    Frame frame;
    bool has_frame = false;
    int64_t stripes_seen = 0;
    std::vector<std::byte> head;
  };
  struct Peer {
    std::vector<std::unique_ptr<Connection>> wires;
    std::map<uint64_t, Cut> cuts;
    uint64_t messages = 0;
    bool said_bye = false, is_lost = false;
  };
  static Frame frame_of(Frame::Kind kind);
  std::shared_ptr<Window> fill(const std::shared_ptr<TcpWindow>& window, int64_t bytes, int64_t block, int64_t stride,
                               std::string_view what);
  // Large bodies: all but the first part over the other connections.
  void cut(Peer& peer, Frame& frame, const std::byte* block, const std::shared_ptr<void>& keep);
  bool progress(int peer);
  Connection::Read read(Connection& wire, int peer);

  // ---- what comes
  std::byte* place(const Frame& frame, std::shared_ptr<void>& keep) override;
  void arrived(const Frame& frame, const std::byte* head) override;
  void show(const Frame& frame, const std::byte* head);
  void arrived_cut(Peer& peer, const Frame& frame, const std::byte* head);
  std::shared_ptr<TcpWindow> window_of(const Frame& frame) const;
  static void check(const TcpWindow& window, uint64_t offset, uint64_t bytes);
  [[noreturn]] static void nonsense();

  // ---- control plane
  void published(const Mail& mail) override;
  void take_mail(const Frame& frame, const std::byte* bytes);

  // ---- failures. The mutex is held.
  void tell(const Failure& failure);
  void take_failure(const Frame& frame, const std::byte* bytes);
  void fail(const Failure& failure);
  // Its connection has ended and it has not said goodbye. Who started it may know more.
  void lost(int peer);
  void adopt(Transport& other);
  // After a failure: what was said last must not be taken away by a reset, so peers have a moment to hang up too.
  void leave_quietly();
  void wait_for_sockets(int64_t at_most_ns);

  std::unique_ptr<Mapping> board_memory_;
  Host host_;
  Transport* parent_;
  int unwinding_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<std::weak_ptr<TcpWindow>> windows_;
  std::string failure_text_;
  int reading_ = 0;  // the rank whose connection is read
  bool told_ = false;
};

}  // namespace weft::transport
