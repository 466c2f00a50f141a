// One TCP connection as frames: [Frame][body][head]. What is sent is not copied when the socket takes it; what is received
// goes from the socket to its place, but for what came in one piece with the frame before.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/transport/socket.h"
#include "weft/transport/transport.h"

namespace weft::transport {

struct Frame {
  enum Kind : uint16_t { put = 1, stripe, mail, failure, bye };
  uint16_t kind = put;
  uint16_t owner = 0;
  uint32_t window = 0;
  uint64_t head = 0;  // offset; of a mail: its half
  uint64_t body = 0;  // offset
  uint32_t head_bytes = 0, body_bytes = 0;
  uint64_t message = 0;  // of what is cut over several connections: its number; 0: it is whole
};
static_assert(sizeof(Frame) == 40);  // as it stands on the wire, little-endian on both sides

// What a connection asks of who owns it.
struct FrameSink {
  virtual ~FrameSink() = default;
  // Where the body goes; null: nowhere (it is read and dropped). `keep` holds the memory while it is filled.
  virtual std::byte* place(const Frame& frame, std::shared_ptr<void>& keep) = 0;
  virtual void arrived(const Frame& frame, const std::byte* head) = 0;  // body and head are here
};

class Connection {
 public:
  explicit Connection(Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  // Sends at once what the socket takes and keeps the rest: the head as a copy, the body by its place. `late`: with the
  // next one. False: the connection is broken.
  bool send(const Frame& frame, const std::byte* body, const std::byte* head, const std::shared_ptr<void>& keep,
            bool late);
  bool push();       // what is still here; false: broken
  bool push_late();  // that too which may wait
  bool idle() const { return rest_.empty(); }
  bool idle_late() const { return rest_.empty() && late_.empty(); }
  enum class Read { nothing, some, ended };
  Read read(FrameSink& sink);
  const std::string& reason() const { return reason_; }

 private:
  struct Piece {
    std::string own;                // its bytes, or
    const std::byte* at = nullptr;  // where they stand
    size_t bytes = 0, sent = 0;
    std::shared_ptr<void> keep;
    const std::byte* begin() const { return at ? at : reinterpret_cast<const std::byte*>(own.data()); }
  };
  bool broken(const char* what);
  void keep_rest(const std::byte* from, size_t bytes, size_t& sent, const std::shared_ptr<void>* keep);
  void parse(FrameSink& sink);

  Fd fd_;
  std::deque<Piece> rest_;
  std::string late_, reason_;
  static constexpr size_t buffer_bytes = 8192;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
  size_t filled_ = 0;
  // The frame under way.
  bool has_frame_ = false;
  Frame frame_;
  std::byte* place_ = nullptr;
  std::shared_ptr<void> keep_;
  size_t body_done_ = 0;
  std::vector<std::byte> head_;
  size_t head_done_ = 0;
};

}  // namespace weft::transport
