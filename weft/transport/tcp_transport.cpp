// Windows, what is put into them, and what comes (tcp_transport.h).
#include "weft/transport/tcp_transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>

#include "weft/transport/wait.h"
#include "weft/transport/words.h"

namespace weft::transport {
namespace {

constexpr uint32_t most_failure_bytes = 1 << 20;

}  // namespace

TcpTransport::TcpTransport(std::unique_ptr<Mapping> board, int rank, int size, const RankOptions& options, Host host,
                           Transport* parent, std::vector<std::vector<Fd>> sockets)
    : BoardTransport(*reinterpret_cast<Board*>(board->data()), rank, size, options),
      board_memory_(std::move(board)),
      host_(std::move(host)),
      parent_(parent),
      unwinding_(std::uncaught_exceptions()) {
  peers_.resize(static_cast<size_t>(size));
  for (size_t peer = 0; peer < sockets.size(); ++peer)
    for (Fd& fd : sockets[peer])
      if (fd.get() >= 0) peers_[peer].wires.push_back(std::make_unique<Connection>(std::move(fd)));
  if (parent_) oversubscribed_ = parent_->oversubscribed();
}

bool TcpTransport::mappable(int peer) const {
  return peer == rank() || (host_.shares && host_.local[static_cast<size_t>(peer)] >= 0);
}

std::shared_ptr<Window> TcpTransport::allocate(int64_t bytes, std::string_view what) {
  agree_on_allocation(bytes, what);
  return fill(std::make_shared<TcpWindow>(), bytes, rounded_block_bytes(bytes), 0, what);
}

std::shared_ptr<Window> TcpTransport::allocate_mirrored(int64_t bytes, std::string_view what) {
  agree_on_allocation(bytes, what);
  auto window = std::make_shared<TcpWindow>();
  window->mirrored = true;
  {
    const std::lock_guard lock(mutex_);
    window->number = static_cast<uint32_t>(windows_.size());
    windows_.push_back(window);
  }
  const int64_t stride = (bytes + 4095) / 4096 * 4096;
  return fill(window, bytes, stride * size(), stride, what);
}

void TcpTransport::put(Window& window, const Put& put) {
  auto& tcp = static_cast<TcpWindow&>(window);
  const std::byte* block = tcp.at[static_cast<size_t>(put.owner)];
  Frame frame = frame_of(Frame::put);
  frame.owner = static_cast<uint16_t>(put.owner), frame.window = tcp.number;
  frame.head = static_cast<uint64_t>(put.head), frame.head_bytes = static_cast<uint32_t>(put.head_bytes);
  frame.body = static_cast<uint64_t>(put.body), frame.body_bytes = static_cast<uint32_t>(put.body_bytes);
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(put.to)];
  const auto keep = put.body_bytes ? std::shared_ptr<void>(window.shared_from_this()) : nullptr;
  cut(peer, frame, block, keep);
  if (!peer.wires[0]->send(frame, block + put.body, block + put.head, keep, put.late)) lost(put.to);
}

bool TcpTransport::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  bool any = false;
  for (int peer = 0; peer < size(); ++peer) any |= progress(peer);
  return any;
}

bool TcpTransport::flush(bool late_too) {
  const std::lock_guard lock(mutex_);
  bool all = true;
  for (int peer = 0; peer < size(); ++peer)
    for (auto& wire : peers_[static_cast<size_t>(peer)].wires) {
      if (late_too ? wire->idle_late() : wire->idle()) continue;
      if (!(late_too ? wire->push_late() : wire->push())) lost(peer);
      all &= wire->idle();
    }
  return all;
}

void TcpTransport::park(int64_t at_most_ns) {
  if (!progress()) wait_for_sockets(host_.shares ? std::min<int64_t>(at_most_ns, 50'000) : at_most_ns);
}

void TcpTransport::wake(int peer) {
  if (host_.shares && host_.local[static_cast<size_t>(peer)] >= 0)
    host_.shares->wake(host_.local[static_cast<size_t>(peer)]);
}

Frame TcpTransport::frame_of(Frame::Kind kind) {
  Frame frame;
  frame.kind = kind;
  return frame;
}

std::shared_ptr<Window> TcpTransport::fill(const std::shared_ptr<TcpWindow>& window, int64_t bytes, int64_t block,
                                           int64_t stride, std::string_view what) {
  window->bytes = bytes;
  std::string problem;
  try {
    if (host_.shares)
      window->inner = host_.shares->allocate(block, what);
    else
      window->own = std::make_unique<Mapping>(-1, block, what);
  } catch (const Error& error) { problem = error.what(); }
  for (int peer = 0; peer < size() && problem.empty(); ++peer) {
    const int where = host_.shares ? host_.local[static_cast<size_t>(mappable(peer) ? peer : rank())] : -1;
    std::byte* const base = host_.shares ? window->inner->at[static_cast<size_t>(where)] : window->own->data();
    window->at.push_back(window->mirrored ? base + peer * stride : mappable(peer) ? base : nullptr);
  }
  agree_on_success(problem, what);
  return window;
}

// Large bodies: all but the first part over the other connections.
void TcpTransport::cut(Peer& peer, Frame& frame, const std::byte* block, const std::shared_ptr<void>& keep) {
  constexpr uint32_t worth_bytes = 64 << 10;
  const auto wires = static_cast<uint32_t>(peer.wires.size());
  if (wires < 2 || frame.body_bytes < worth_bytes) return;
  const uint32_t part = (frame.body_bytes / wires + 63) / 64 * 64;
  frame.message = ++peer.messages;
  for (uint32_t i = 1; i < wires; ++i) {
    Frame stripe = frame;
    stripe.kind = Frame::stripe, stripe.head_bytes = 0;
    stripe.body = frame.body + uint64_t{i} * part;
    stripe.body_bytes = i + 1 == wires ? frame.body_bytes - i * part : part;
    if (!peer.wires[i]->send(stripe, block + stripe.body, nullptr, keep, false)) return;  // read() sees it
  }
  frame.body_bytes = part;
}

bool TcpTransport::progress(int peer) {
  Peer& it = peers_[static_cast<size_t>(peer)];
  bool any = false;
  reading_ = peer;
  for (auto& wire : it.wires) {
    if (it.is_lost) return any;
    if (!wire->idle() && !wire->push()) return lost(peer), true;
    switch (read(*wire, peer)) {
      case Connection::Read::nothing: break;
      case Connection::Read::some: any = true; break;
      case Connection::Read::ended:
        if (!it.said_bye) lost(peer);
        it.is_lost = true;
        break;
    }
  }
  return any;
}

Connection::Read TcpTransport::read(Connection& wire, int peer) {
  try {
    return wire.read(*this);
  } catch (const Error& error) {
    fail({ErrorKind::peer, peer, fmt::format("from rank {}: {}", peer, error.what())});
    return Connection::Read::ended;
  }
}

std::byte* TcpTransport::place(const Frame& frame, std::shared_ptr<void>& keep) {
  if (frame.kind == Frame::mail) {
    if (frame.body_bytes > Mail::chunk_bytes || frame.head > 1) nonsense();
    return reinterpret_cast<std::byte*>(board_.ranks()[reading_].mail[frame.head].data);
  }
  if (frame.kind == Frame::failure) {
    if (frame.body_bytes > most_failure_bytes) nonsense();
    failure_text_.resize(frame.body_bytes);
    return reinterpret_cast<std::byte*>(failure_text_.data());
  }
  const auto window = window_of(frame);
  if (!window) return nullptr;
  check(*window, frame.body, frame.body_bytes);
  keep = window;
  return window->at[frame.owner] + frame.body;
}

void TcpTransport::arrived(const Frame& frame, const std::byte* head) {
  Peer& peer = peers_[static_cast<size_t>(reading_)];
  switch (frame.kind) {
    case Frame::put:
    case Frame::stripe: return frame.message ? arrived_cut(peer, frame, head) : show(frame, head);
    case Frame::mail: return take_mail(frame, head);
    case Frame::failure: return take_failure(frame, head);
    case Frame::bye: peer.said_bye = true; return;
    default: nonsense();
  }
}

void TcpTransport::show(const Frame& frame, const std::byte* head) {
  const auto window = window_of(frame);
  if (!window) return;  // it is gone here; nobody looks
  check(*window, frame.head, frame.head_bytes);
  store_words(window->at[frame.owner] + frame.head, head, frame.head_bytes);
}

void TcpTransport::arrived_cut(Peer& peer, const Frame& frame, const std::byte* head) {
  Cut& cut = peer.cuts[frame.message];
  if (frame.kind == Frame::stripe)
    ++cut.stripes_seen;
  else
    cut.frame = frame, cut.has_frame = true, cut.head.assign(head, head + frame.head_bytes);
  if (!cut.has_frame || cut.stripes_seen + 1 < static_cast<int64_t>(peer.wires.size())) return;
  show(cut.frame, cut.head.data());
  peer.cuts.erase(frame.message);
}

std::shared_ptr<TcpWindow> TcpTransport::window_of(const Frame& frame) const {
  if (frame.window >= windows_.size() || frame.owner >= size()) nonsense();
  return windows_[frame.window].lock();
}

void TcpTransport::check(const TcpWindow& window, uint64_t offset, uint64_t bytes) {
  const auto room = static_cast<uint64_t>((window.bytes + 7) / 8 * 8);
  if (offset > room || bytes > room - offset || offset % 8 != 0 || bytes % 8 != 0) nonsense();
}

void TcpTransport::nonsense() { throw Error(ErrorKind::peer, "what came over a connection is no message of Weft"); }

void TcpTransport::wait_for_sockets(int64_t at_most_ns) {
  std::vector<pollfd> looks;
  {
    const std::lock_guard lock(mutex_);
    for (const Peer& peer : peers_)
      for (const auto& wire : peer.wires)
        if (!peer.is_lost)
          looks.push_back({wire->fd(), static_cast<short>(wire->idle() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  const timespec time{0, std::clamp<int64_t>(at_most_ns, 1000, 1'000'000)};
  ppoll(looks.data(), looks.size(), &time, nullptr);
}

}  // namespace weft::transport
