// Exchanges, failures and the end of the transport over connections (tcp_transport.h).
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "weft/transport/host.h"
#include "weft/transport/tcp_transport.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

struct MailHead {
  uint64_t sequence;
  int64_t total_bytes, here_bytes;
  char what[160];
};
struct FailureHead {
  int32_t kind, rank;
  uint32_t message_bytes, remedy_bytes;
};

}  // namespace

TcpTransport::~TcpTransport() {
  const bool well = std::uncaught_exceptions() == unwinding_ && !abort_word().load();
  if (!well) {
    leave_quietly();
    return;
  }
  for (Peer& peer : peers_)
    if (!peer.wires.empty()) peer.wires[0]->send(frame_of(Frame::bye), nullptr, nullptr, nullptr, false);
  // A connection that is closed while something unread stands in it is reset, and with it what the peer has not read.
  const int64_t begin = clock_ns();
  const auto all_left = [&] {
    progress();
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return peer.wires.empty() || (peer.said_bye && peer.wires[0]->idle()); });
  };
  while (!all_left() && !abort_word().load() && clock_ns() - begin < timeout_ns()) wait_for_sockets(1'000'000);
}

void TcpTransport::raise(const Failure& failure) {
  BoardTransport::raise(failure);
  if (parent_) parent_->raise(failure);
  const std::lock_guard lock(mutex_);
  tell(this->failure());
}

void TcpTransport::note(std::string_view doing) {
  BoardTransport::note(doing);
  if (parent_) parent_->note(doing);
}

void TcpTransport::check_peers() {
  if (host_.shares) adopt(*host_.shares), host_.shares->check_peers();
  if (parent_ && parent_ != host_.shares) adopt(*parent_), parent_->check_peers();
}

void TcpTransport::published(const Mail& mail) {
  MailHead head{mail.sequence.load(std::memory_order_relaxed), mail.total_bytes, mail.here_bytes, {}};
  std::memcpy(head.what, mail.what, sizeof head.what);
  Frame frame = frame_of(Frame::mail);
  frame.head = head.sequence % 2;
  frame.head_bytes = sizeof head, frame.body_bytes = static_cast<uint32_t>(mail.here_bytes);
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size(); ++peer) {
    auto& wires = peers_[static_cast<size_t>(peer)].wires;
    if (wires.empty()) continue;
    if (!wires[0]->send(frame, reinterpret_cast<const std::byte*>(mail.data), reinterpret_cast<const std::byte*>(&head),
                        nullptr, false))
      lost(peer);
  }
}

void TcpTransport::take_mail(const Frame& frame, const std::byte* bytes) {
  MailHead head{};
  if (frame.head_bytes != sizeof head || frame.head > 1) nonsense();
  std::memcpy(&head, bytes, sizeof head);
  Mail& mail = board_.ranks()[reading_].mail[frame.head];
  mail.total_bytes = head.total_bytes;
  mail.here_bytes = std::clamp<int64_t>(head.here_bytes, 0, Mail::chunk_bytes);
  std::memcpy(mail.what, head.what, sizeof mail.what);
  mail.what[sizeof mail.what - 1] = 0;
  mail.sequence.store(head.sequence, std::memory_order_release);
}

void TcpTransport::tell(const Failure& failure) {
  if (std::exchange(told_, true)) return;
  const FailureHead head{static_cast<int32_t>(failure.kind), failure.rank,
                         static_cast<uint32_t>(failure.message.size()), static_cast<uint32_t>(failure.remedy.size())};
  const std::string text = failure.message + failure.remedy;
  Frame frame = frame_of(Frame::failure);
  frame.head_bytes = sizeof head, frame.body_bytes = static_cast<uint32_t>(text.size());
  for (Peer& peer : peers_)
    if (!peer.wires.empty() && !peer.is_lost)
      peer.wires[0]->send(frame, reinterpret_cast<const std::byte*>(text.data()),
                          reinterpret_cast<const std::byte*>(&head), nullptr, false);
  // What still stands before it is pushed on for a moment; a peer that takes nothing finds out at its own deadline.
  for (const int64_t until = clock_ns() + 100'000'000; clock_ns() < until; usleep(200)) {
    bool idle = true;
    for (Peer& peer : peers_)
      if (!peer.wires.empty() && !peer.is_lost) idle &= !peer.wires[0]->push() || peer.wires[0]->idle();
    if (idle) return;
  }
}

void TcpTransport::take_failure(const Frame& frame, const std::byte* bytes) {
  FailureHead head{};
  if (frame.head_bytes != sizeof head) nonsense();
  std::memcpy(&head, bytes, sizeof head);
  if (uint64_t{head.message_bytes} + head.remedy_bytes > failure_text_.size()) nonsense();
  if (head.kind < 0 || head.kind > static_cast<int>(ErrorKind::internal) || head.rank < -1) nonsense();
  fail({static_cast<ErrorKind>(head.kind), head.rank, failure_text_.substr(0, head.message_bytes),
        failure_text_.substr(head.message_bytes, head.remedy_bytes)});
}

void TcpTransport::fail(const Failure& failure) {
  BoardTransport::raise(failure);
  if (parent_) parent_->raise(failure);
  tell(this->failure());
}

// Its connection has ended and it has not said goodbye. Who started it may know more.
void TcpTransport::lost(int peer) {
  Peer& it = peers_[static_cast<size_t>(peer)];
  if (std::exchange(it.is_lost, true) || it.said_bye) return;
  for (int i = 0; parent_ && i < 60 && !parent_->abort_word().load(std::memory_order_acquire); ++i) usleep(1000);
  if (parent_ && parent_->abort_word().load(std::memory_order_acquire)) return fail(parent_->failure());
  const std::string& reason = it.wires[0]->reason();
  fail({ErrorKind::peer, peer,
        fmt::format("rank {} is gone ({})", peer, reason.empty() ? "its connection broke" : reason), death_says_why});
}

void TcpTransport::adopt(Transport& other) {
  if (!other.abort_word().load(std::memory_order_acquire) || abort_word().load(std::memory_order_acquire)) return;
  raise(other.failure());
}

// After a failure: what was said last must not be taken away by a reset, so peers have a moment to hang up too.
void TcpTransport::leave_quietly() {
  std::vector<std::byte> dropped(1 << 16);
  for (Peer& peer : peers_)
    for (auto& wire : peer.wires) shutdown(wire->fd(), SHUT_WR);
  const int64_t until = clock_ns() + 200'000'000;
  for (Peer& peer : peers_)
    for (auto& wire : peer.wires)
      while (clock_ns() < until) {
        const ssize_t got = recv(wire->fd(), dropped.data(), dropped.size(), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (got < 0) usleep(500);
      }
}

}  // namespace weft::transport
