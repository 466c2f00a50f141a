// Frames on a socket (wire.h).
#include "weft/transport/wire.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace weft::transport {
namespace {

constexpr uint32_t most_head_bytes = 1 << 24;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

bool Connection::broken(const char* what) {
  reason_ = fmt::format("{}: {}", what, std::strerror(errno));
  return false;
}

// Of one of the pieces of a message: the part that the socket has not taken.
void Connection::keep_rest(const std::byte* from, size_t bytes, size_t& sent, const std::shared_ptr<void>* keep) {
  const size_t taken = std::min(sent, bytes);
  sent -= taken;
  if (taken == bytes) return;
  Piece piece;
  piece.bytes = bytes - taken;
  if (keep)
    piece.at = from + taken, piece.keep = *keep;
  else
    piece.own.assign(reinterpret_cast<const char*>(from + taken), piece.bytes);
  rest_.push_back(std::move(piece));
}

bool Connection::send(const Frame& frame, const std::byte* body, const std::byte* head,
                      const std::shared_ptr<void>& keep, bool late) {
  constexpr size_t most_late_bytes = 16 << 10;
  const auto* first = reinterpret_cast<const std::byte*>(&frame);
  if (late && frame.body_bytes == 0 && late_.size() < most_late_bytes) {
    late_.append(reinterpret_cast<const char*>(first), sizeof frame);
    late_.append(reinterpret_cast<const char*>(head), frame.head_bytes);
    return true;
  }
  const std::string before = std::exchange(late_, {});
  size_t sent = 0;
  if (rest_.empty()) {
    std::array<iovec, 4> parts{{{const_cast<char*>(before.data()), before.size()},
                                {const_cast<std::byte*>(first), sizeof frame},
                                {const_cast<std::byte*>(body), frame.body_bytes},
                                {const_cast<std::byte*>(head), frame.head_bytes}}};
    msghdr message{};
    message.msg_iov = parts.data(), message.msg_iovlen = parts.size();
    const ssize_t count = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && !would_block()) return broken("sending");
    sent = count > 0 ? static_cast<size_t>(count) : 0;
    if (sent == before.size() + sizeof frame + frame.body_bytes + frame.head_bytes) return true;
  }
  keep_rest(reinterpret_cast<const std::byte*>(before.data()), before.size(), sent, nullptr);
  keep_rest(first, sizeof frame, sent, nullptr);
  keep_rest(body, frame.body_bytes, sent, keep ? &keep : nullptr);
  keep_rest(head, frame.head_bytes, sent, nullptr);
  return true;
}

bool Connection::push() {
  while (!rest_.empty()) {
    std::array<iovec, 16> parts{};
    msghdr message{};
    for (size_t i = 0; i < std::min(parts.size(), rest_.size()); ++i) {
      const Piece& piece = rest_[i];
      parts[message.msg_iovlen++] = {const_cast<std::byte*>(piece.begin() + piece.sent), piece.bytes - piece.sent};
    }
    message.msg_iov = parts.data();
    const ssize_t count = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return would_block() || broken("sending");
    for (auto left = static_cast<size_t>(count); left > 0 && !rest_.empty();) {
      Piece& piece = rest_.front();
      const size_t taken = std::min(left, piece.bytes - piece.sent);
      piece.sent += taken, left -= taken;
      if (piece.sent == piece.bytes) rest_.pop_front();
    }
  }
  return true;
}

bool Connection::push_late() {
  if (!late_.empty()) {
    Piece piece;
    piece.own = std::exchange(late_, {});
    piece.bytes = piece.own.size();
    rest_.push_back(std::move(piece));
  }
  return push();
}

// Takes from the buffer what belongs to frames; a body's rest comes straight from the socket.
void Connection::parse(FrameSink& sink) {
  size_t at = 0;
  const auto take = [&](std::byte* to, size_t wanted) {
    const size_t bytes = std::min(wanted, filled_ - at);
    if (to && bytes) std::memcpy(to, buffer_.data() + at, bytes);
    at += bytes;
    return bytes;
  };
  for (;;) {
    if (!has_frame_) {
      if (filled_ - at < sizeof frame_) break;
      take(reinterpret_cast<std::byte*>(&frame_), sizeof frame_);
      if (frame_.head_bytes > most_head_bytes)
        throw Error(ErrorKind::peer, "what came over a connection is no message of Weft");
      has_frame_ = true;
      body_done_ = head_done_ = 0;
      head_.resize(frame_.head_bytes);
      place_ = frame_.body_bytes ? sink.place(frame_, keep_) : nullptr;
    }
    body_done_ += take(place_ ? place_ + body_done_ : nullptr, frame_.body_bytes - body_done_);
    if (body_done_ < frame_.body_bytes) break;
    head_done_ += take(head_.data() + head_done_, frame_.head_bytes - head_done_);
    if (head_done_ < frame_.head_bytes) break;
    has_frame_ = false;
    sink.arrived(frame_, head_.data());
    keep_.reset();
  }
  if (at > 0 && at < filled_) std::memmove(buffer_.data(), buffer_.data() + at, filled_ - at);
  filled_ -= at;
}

Connection::Read Connection::read(FrameSink& sink) {
  Read result = Read::nothing;
  for (;;) {
    std::array<iovec, 2> parts{};
    int count = 0;
    size_t direct = 0;
    if (has_frame_ && place_ && body_done_ < frame_.body_bytes) {
      direct = frame_.body_bytes - body_done_;
      parts[static_cast<size_t>(count++)] = {place_ + body_done_, direct};
    }
    parts[static_cast<size_t>(count++)] = {buffer_.data() + filled_, buffer_bytes - filled_};
    const ssize_t got = readv(fd_.get(), parts.data(), count);
    if (got == 0) {
      reason_ = "it closed the connection";
      return Read::ended;
    }
    if (got < 0) {
      if (would_block()) return result;
      broken("receiving");
      return Read::ended;
    }
    const auto bytes = static_cast<size_t>(got);
    body_done_ += std::min(bytes, direct);
    filled_ += bytes - std::min(bytes, direct);
    parse(sink);
    result = Read::some;
    if (bytes < direct + buffer_bytes / 2) return result;  // probably all there was
  }
}

}  // namespace weft::transport
