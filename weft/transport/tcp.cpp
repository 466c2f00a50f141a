// The transport over connections (tcp.h).
#include "weft/transport/tcp.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <new>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/board.h"
#include "weft/transport/layered.h"
#include "weft/transport/mapping.h"
#include "weft/transport/rendezvous.h"
#include "weft/transport/tcp_meet.h"
#include "weft/transport/wait.h"
#include "weft/transport/wire.h"
#include "weft/transport/words.h"

namespace weft::transport {
namespace {

struct TcpWindow : LayeredWindow {
  std::unique_ptr<Mapping> own;  // where no memory is shared
  uint32_t number = 0;
  bool mirrored = false;
};

struct MailHead {
  uint64_t sequence;
  int64_t total_bytes, here_bytes;
  char what[160];
};
struct FailureHead {
  int32_t kind, rank;
  uint32_t message_bytes, remedy_bytes;
};

// Ranks of this one's host, and the transport by which they share memory.
struct Host {
  Transport* shares = nullptr;       // null: no memory is shared
  std::vector<int> local;            // per rank: its number in `shares`, -1: elsewhere
  std::unique_ptr<Transport> owned;  // keeps `shares`, where nobody else does
};

int64_t deadline_ns(int64_t stated) { return stated > 0 ? stated : env_int("WEFT_TIMEOUT_S") * 1'000'000'000; }

class TcpTransport final : public BoardTransport, FrameSink {
 public:
  TcpTransport(std::unique_ptr<Mapping> board, int rank, int size, const RankOptions& options, Host host,
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

  ~TcpTransport() override {
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
      return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return peer.wires.empty() || (peer.said_bye && peer.wires[0]->idle());
      });
    };
    while (!all_left() && !abort_word().load() && clock_ns() - begin < timeout_ns()) wait_for_sockets(1'000'000);
  }

  std::string_view name() const override { return host_.shares ? "mixed" : "tcp"; }
  bool mappable(int peer) const override {
    return peer == rank() || (host_.shares && host_.local[static_cast<size_t>(peer)] >= 0);
  }
  bool mirrors() const override { return size() > 1; }

  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override {
    agree_on_allocation(bytes, what);
    return fill(std::make_shared<TcpWindow>(), bytes, rounded_block_bytes(bytes), 0, what);
  }

  std::shared_ptr<Window> allocate_mirrored(int64_t bytes, std::string_view what) override {
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

  void put(Window& window, const Put& put) override {
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

  bool progress() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    bool any = false;
    for (int peer = 0; peer < size(); ++peer) any |= progress(peer);
    return any;
  }

  bool flush(bool late_too) override {
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

  void raise(const Failure& failure) override {
    BoardTransport::raise(failure);
    if (parent_) parent_->raise(failure);
    const std::lock_guard lock(mutex_);
    tell(this->failure());
  }
  void note(std::string_view doing) override {
    BoardTransport::note(doing);
    if (parent_) parent_->note(doing);
  }

  void park(int64_t at_most_ns) override {
    if (!progress()) wait_for_sockets(host_.shares ? std::min<int64_t>(at_most_ns, 50'000) : at_most_ns);
  }
  void wake(int peer) override {
    if (host_.shares && host_.local[static_cast<size_t>(peer)] >= 0)
      host_.shares->wake(host_.local[static_cast<size_t>(peer)]);
  }

  void check_peers() override {
    if (host_.shares) adopt(*host_.shares), host_.shares->check_peers();
    if (parent_ && parent_ != host_.shares) adopt(*parent_), parent_->check_peers();
  }

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

  static Frame frame_of(Frame::Kind kind) {
    Frame frame;
    frame.kind = kind;
    return frame;
  }

  std::shared_ptr<Window> fill(const std::shared_ptr<TcpWindow>& window, int64_t bytes, int64_t block, int64_t stride,
                               std::string_view what) {
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
    const std::vector<std::string> all = exchange(problem, fmt::format("map {}", what));
    for (int peer = 0; peer < size(); ++peer)
      if (const std::string& told = all[static_cast<size_t>(peer)]; !told.empty())
        throw Error(ErrorKind::io, fmt::format("rank {}: {}", peer, told));
    return window;
  }

  // Large bodies: all but the first part over the other connections.
  void cut(Peer& peer, Frame& frame, const std::byte* block, const std::shared_ptr<void>& keep) {
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

  bool progress(int peer) {
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

  Connection::Read read(Connection& wire, int peer) {
    try {
      return wire.read(*this);
    } catch (const Error& error) {
      fail({ErrorKind::peer, peer, fmt::format("from rank {}: {}", peer, error.what())});
      return Connection::Read::ended;
    }
  }

  // ---- what comes
  std::byte* place(const Frame& frame, std::shared_ptr<void>& keep) override {
    if (frame.kind == Frame::mail) {
      if (frame.body_bytes > Mail::chunk_bytes || frame.head > 1) nonsense();
      return reinterpret_cast<std::byte*>(board_.ranks()[reading_].mail[frame.head].data);
    }
    if (frame.kind == Frame::failure) {
      failure_text_.resize(std::min<uint32_t>(frame.body_bytes, 1 << 20));
      return reinterpret_cast<std::byte*>(failure_text_.data());
    }
    const auto window = window_of(frame);
    if (!window) return nullptr;
    check(*window, frame.body, frame.body_bytes);
    keep = window;
    return window->at[frame.owner] + frame.body;
  }

  void arrived(const Frame& frame, const std::byte* head) override {
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

  void show(const Frame& frame, const std::byte* head) {
    const auto window = window_of(frame);
    if (!window) return;  // it is gone here; nobody looks
    check(*window, frame.head, frame.head_bytes);
    store_words(window->at[frame.owner] + frame.head, head, frame.head_bytes);
  }

  void arrived_cut(Peer& peer, const Frame& frame, const std::byte* head) {
    Cut& cut = peer.cuts[frame.message];
    if (frame.kind == Frame::stripe)
      ++cut.stripes_seen;
    else
      cut.frame = frame, cut.has_frame = true, cut.head.assign(head, head + frame.head_bytes);
    if (!cut.has_frame || cut.stripes_seen + 1 < static_cast<int64_t>(peer.wires.size())) return;
    show(cut.frame, cut.head.data());
    peer.cuts.erase(frame.message);
  }

  std::shared_ptr<TcpWindow> window_of(const Frame& frame) const {
    if (frame.window >= windows_.size() || frame.owner >= size()) nonsense();
    return windows_[frame.window].lock();
  }
  static void check(const TcpWindow& window, uint64_t offset, uint64_t bytes) {
    const auto room = static_cast<uint64_t>((window.bytes + 7) / 8 * 8);
    if (offset > room || bytes > room - offset || offset % 8 != 0) nonsense();
  }
  [[noreturn]] static void nonsense() {
    throw Error(ErrorKind::peer, "what came over a connection is no message of Weft");
  }

  // ---- control plane
  void published(const Mail& mail) override {
    MailHead head{mail.sequence.load(std::memory_order_relaxed), mail.total_bytes, mail.here_bytes, {}};
    std::memcpy(head.what, mail.what, sizeof head.what);
    Frame frame = frame_of(Frame::mail);
    frame.head = head.sequence % 2;
    frame.head_bytes = sizeof head, frame.body_bytes = static_cast<uint32_t>(mail.here_bytes);
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < size(); ++peer) {
      auto& wires = peers_[static_cast<size_t>(peer)].wires;
      if (wires.empty()) continue;
      if (!wires[0]->send(frame, reinterpret_cast<const std::byte*>(mail.data),
                          reinterpret_cast<const std::byte*>(&head), nullptr, false))
        lost(peer);
    }
  }

  void take_mail(const Frame& frame, const std::byte* bytes) {
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

  // ---- failures. The mutex is held.
  void tell(const Failure& failure) {
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

  void take_failure(const Frame& frame, const std::byte* bytes) {
    FailureHead head{};
    if (frame.head_bytes != sizeof head) nonsense();
    std::memcpy(&head, bytes, sizeof head);
    if (uint64_t{head.message_bytes} + head.remedy_bytes > failure_text_.size()) nonsense();
    fail({static_cast<ErrorKind>(head.kind), head.rank, failure_text_.substr(0, head.message_bytes),
          failure_text_.substr(head.message_bytes, head.remedy_bytes)});
  }

  void fail(const Failure& failure) {
    BoardTransport::raise(failure);
    if (parent_) parent_->raise(failure);
    tell(this->failure());
  }

  // Its connection has ended and it has not said goodbye. Who started it may know more.
  void lost(int peer) {
    Peer& it = peers_[static_cast<size_t>(peer)];
    if (std::exchange(it.is_lost, true) || it.said_bye) return;
    for (int i = 0; parent_ && i < 60 && !parent_->abort_word().load(std::memory_order_acquire); ++i) usleep(1000);
    if (parent_ && parent_->abort_word().load(std::memory_order_acquire)) return fail(parent_->failure());
    const std::string& reason = it.wires[0]->reason();
    fail({ErrorKind::peer, peer,
          fmt::format("rank {} is gone ({})", peer, reason.empty() ? "its connection broke" : reason),
          "its own output says why; all ranks must be started again"});
  }

  void adopt(Transport& other) {
    if (!other.abort_word().load(std::memory_order_acquire) || abort_word().load(std::memory_order_acquire)) return;
    raise(other.failure());
  }

  // After a failure: what was said last must not be taken away by a reset, so peers have a moment to hang up too.
  void leave_quietly() {
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

  void wait_for_sockets(int64_t at_most_ns) {
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

std::unique_ptr<Mapping> private_board(int ranks) {
  auto memory = std::make_unique<Mapping>(-1, rounded_block_bytes(Board::bytes(ranks)), "the board");
  Board* board = new (memory->data()) Board{};
  for (int rank = 0; rank < ranks; ++rank) new (&board->ranks()[rank]) RankBoard{};
  return memory;
}

Fd open_listener(bool loopback) {
  const std::string filter = env("WEFT_SOCKET_IFNAME"), family = env("WEFT_SOCKET_FAMILY");
  if (loopback && filter.empty()) return listen_at(parse_address(family == "6" ? "[::1]:0" : "127.0.0.1:0"));
  return listen_at(local_addresses(filter, family).front());
}

// What tells hosts apart, and namespaces of one host that cannot share memory: a boot, its network (abstract sockets), its
// files, and the user.
std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat network {
  }, files{};
  stat("/proc/self/ns/net", &network);
  stat("/proc/self/ns/mnt", &files);
  return fmt::format("{}/{}/{}/{}", boot, network.st_ino, files.st_ino, geteuid());
}

// Ranks whose identity is this one's meet once more, at a file, and share memory.
Host host_among(const std::vector<std::string>& identities, const TcpJoinOptions& options) {
  Host host;
  const std::string& mine = identities[static_cast<size_t>(options.rank)];
  int local_ranks = 0;
  for (const std::string& identity : identities) host.local.push_back(identity == mine ? local_ranks++ : -1);
  if (local_ranks < 2) return {};
  JoinOptions join;
  join.rank = host.local[static_cast<size_t>(options.rank)], join.ranks = local_ranks;
  join.timeout_ns = options.timeout_ns;
  join.file =
      fmt::format("{}/tcp-{}", meeting_folder(), hash_hex(options.meeting + "\n" + options.secret + "\n" + mine));
  host.owned = join_job(join);
  host.shares = host.owned.get();
  return host;
}

std::string hex(const Secret& secret) {
  std::string text;
  for (const unsigned char byte : secret) text += fmt::format("{:02x}", byte);
  return text;
}
Secret unhex(const std::string& text) {
  Secret secret{};
  for (size_t i = 0; i < secret.size() && 2 * i + 1 < text.size(); ++i)
    secret[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return secret;
}

}  // namespace

std::unique_ptr<Transport> make_tcp(Transport& inner, const TcpOptions& options) {
  const int rank = inner.rank(), ranks = inner.size();
  MeshOptions mesh;
  mesh.rank = rank, mesh.ranks = ranks, mesh.sockets = static_cast<int>(env_int("WEFT_SOCKETS"));
  mesh.until_ns = now_ns() + inner.timeout_ns();
  mesh.secret = unhex(inner.exchange(rank == 0 ? hex(random_secret()) : "", "secret of TCP")[0]);
  const Fd listener = open_listener(true);
  const auto addresses = inner.exchange(bound_address(listener.get()).text(), "addresses of TCP");
  Host host;
  if (options.group_ranks > 0) {
    host.shares = &inner;
    for (int q = 0; q < ranks; ++q)
      host.local.push_back(q / options.group_ranks == rank / options.group_ranks ? q : -1);
  }
  RankOptions rank_options;
  rank_options.timeout_ns = inner.timeout_ns();
  return std::make_unique<TcpTransport>(private_board(ranks), rank, ranks, rank_options, std::move(host), &inner,
                                        connect_mesh(listener.get(), addresses, mesh));
}

std::unique_ptr<Transport> join_tcp(const TcpJoinOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks || options.ranks > 0xffff)
    throw Error(ErrorKind::user, fmt::format("rank {} of {} ranks", options.rank, options.ranks), "ranks count from 0");
  if (options.secret.empty() && options.ranks > 1)
    throw Error(ErrorKind::user, "ranks that meet over TCP need a secret", "set WEFT_SECRET to the same text on all");
  MeshOptions mesh;
  mesh.rank = options.rank, mesh.ranks = options.ranks, mesh.sockets = static_cast<int>(env_int("WEFT_SOCKETS"));
  mesh.until_ns = now_ns() + deadline_ns(options.timeout_ns);
  mesh.secret = secret_of(options.secret);
  const Fd listener = open_listener(parse_address(options.meeting).text().rfind("127.", 0) == 0);
  const std::string mine =
      bound_address(listener.get()).text() + " " + (options.host.empty() ? host_identity() : options.host);
  std::vector<std::string> addresses{mine}, identities;
  if (options.ranks > 1) addresses = meet_at(options.meeting, mine, mesh);
  for (std::string& text : addresses) {
    const size_t space = std::min(text.find(' '), text.size());
    identities.push_back(text.substr(std::min(space + 1, text.size())));
    text.resize(space);
  }
  RankOptions rank_options;
  rank_options.timeout_ns = deadline_ns(options.timeout_ns);
  auto sockets = connect_mesh(listener.get(), addresses, mesh);
  Host host = host_among(identities, options);
  auto transport = std::make_unique<TcpTransport>(private_board(options.ranks), options.rank, options.ranks,
                                                  rank_options, std::move(host), nullptr, std::move(sockets));
  set_log_rank(options.rank);
  transport->barrier("all ranks have joined");
  return transport;
}

}  // namespace weft::transport
