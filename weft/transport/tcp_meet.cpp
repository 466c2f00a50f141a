// Hellos (tcp_meet.h).
#include "weft/transport/tcp_meet.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::transport {
namespace {

constexpr uint32_t magic = 0x54464557, version = 1;
constexpr int64_t hello_limit_ns = 1'000'000'000;

struct Hello {
  uint32_t magic_word = magic, version_word = version;
  int32_t rank = 0, ranks = 0, socket = 0, purpose = 0;  // 1: a mesh, 2: the meeting
  Secret secret{};
};
enum class Answer : uint32_t { welcome = 0x57454c43, other_size = 2, taken, out_of_range };

bool same(const Secret& a, const Secret& b) {
  unsigned difference = 0;  // in constant time
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// Those who have connected and not yet said who they are: nobody waits for any one of them.
class Door {
 public:
  Door(int listener, const MeshOptions& options, int purpose)
      : listener_(listener), options_(options), purpose_(purpose) {}

  // Looks once, for at most 20 ms. Gives each that proved itself to `admit`, which answers.
  template <typename Admit>
  void look(Admit&& admit) {
    std::vector<pollfd> looks{{listener_, POLLIN, 0}};
    for (const Guest& guest : guests_) looks.push_back({guest.fd.get(), POLLIN, 0});
    poll(looks.data(), looks.size(), 20);
    if (looks[0].revents)
      for (;;) {
        Fd fd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd.get() < 0) break;
        guests_.push_back({std::move(fd), {}, 0, now_ns()});
      }
    for (size_t i = 0; i < guests_.size();) {
      Guest& guest = guests_[i];
      const ssize_t got = recv(guest.fd.get(), reinterpret_cast<char*>(&guest.hello) + guest.bytes,
                               sizeof guest.hello - guest.bytes, MSG_DONTWAIT);
      if (got > 0) guest.bytes += static_cast<size_t>(got);
      const bool whole = guest.bytes == sizeof guest.hello;
      const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
      if (!whole && !gone && now_ns() - guest.since_ns < hello_limit_ns) {
        ++i;
        continue;
      }
      if (whole && is_ours(guest.hello))
        admit(guest.hello, guest.fd);
      else
        WEFT_LOG(warn, "transport", "rank {} turned away a stranger at its port ({} bytes of a hello)", options_.rank,
                 guest.bytes);
      guests_.erase(guests_.begin() + static_cast<int64_t>(i));
    }
  }

 private:
  struct Guest {
    Fd fd;
    Hello hello;
    size_t bytes = 0;
    int64_t since_ns = 0;
  };
  bool is_ours(const Hello& hello) const {
    return hello.magic_word == magic && hello.version_word == version && hello.purpose == purpose_ &&
           same(hello.secret, options_.secret);
  }
  int listener_;
  const MeshOptions& options_;
  int purpose_;
  std::vector<Guest> guests_;
};

void answer(const Fd& fd, Answer word, const MeshOptions& options) {
  const uint32_t words[2] = {static_cast<uint32_t>(word), static_cast<uint32_t>(options.ranks)};
  send_all(fd.get(), words, sizeof words, now_ns() + hello_limit_ns);
}

// Connects and is welcomed, or an error that says why not.
Fd introduce(const Address& address, const MeshOptions& options, int socket, int purpose, int whom) {
  Hello hello;
  hello.rank = options.rank, hello.ranks = options.ranks, hello.socket = socket, hello.purpose = purpose;
  hello.secret = options.secret;
  for (;;) {
    Fd fd = connect_to(address, options.until_ns);
    uint32_t words[2] = {};
    if (send_all(fd.get(), &hello, sizeof hello, options.until_ns) &&
        receive_all(fd.get(), words, sizeof words, options.until_ns)) {
      if (words[0] == static_cast<uint32_t>(Answer::welcome)) return fd;
      if (words[0] < 16)
        throw Error(ErrorKind::agreement,
                    fmt::format("rank {} of {} is not welcome at rank {} ({}), which expects {} ranks{}", options.rank,
                                options.ranks, whom, address.text(), words[1],
                                words[0] == static_cast<uint32_t>(Answer::taken) ? " and has that rank already" : ""),
                    "start every rank once, all with the same number of ranks");
    }
    if (now_ns() > options.until_ns)
      throw Error(ErrorKind::timeout,
                  fmt::format("rank {} waited for a welcome of rank {} at {}", options.rank, whom, address.text()),
                  "is it the same job there?");
    throw Error(
        ErrorKind::peer,
        fmt::format("rank {} was turned away at {}, where rank {} should be", options.rank, address.text(), whom),
        "the secrets of the job differ (WEFT_SECRET), or another program has that port");
  }
}

Answer judge(const Hello& hello, const MeshOptions& options) {
  if (hello.ranks != options.ranks) return Answer::other_size;
  if (hello.rank <= 0 || hello.rank >= options.ranks || hello.socket < 0 || hello.socket >= options.sockets)
    return Answer::out_of_range;
  return Answer::welcome;
}

[[noreturn]] void refuse(const Hello& hello, const MeshOptions& options, Answer why) {
  throw Error(
      ErrorKind::agreement,
      fmt::format("a process says that it is rank {} of {}; rank {} expects {} ranks{}", hello.rank, hello.ranks,
                  options.rank, options.ranks, why == Answer::taken ? " and has that rank already" : ""),
      "start every rank once, all with the same number of ranks");
}

}  // namespace

Secret random_secret() {
  Secret secret{};
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    throw Error(ErrorKind::io, fmt::format("getrandom: {}", std::strerror(errno)));
  return secret;
}

Secret secret_of(std::string_view text) {
  Secret secret{};
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t word = hash64(text, i + 1);
    std::memcpy(secret.data() + 8 * i, &word, sizeof word);
  }
  return secret;
}

std::vector<std::vector<Fd>> connect_mesh(int listener, const std::vector<std::string>& addresses,
                                          const MeshOptions& options) {
  std::vector<std::vector<Fd>> sockets(static_cast<size_t>(options.ranks));
  for (auto& list : sockets) list.resize(static_cast<size_t>(options.sockets));
  // Higher ranks knock at lower ones. Lower ones answer when they come to it; the kernel accepts before.
  std::vector<std::pair<int, int>> mine;
  int missing = (options.ranks - 1 - options.rank) * options.sockets;
  Door door(listener, options, 1);
  const auto admit = [&](const Hello& hello, Fd& fd) {
    Answer word = judge(hello, options);
    if (word == Answer::welcome && hello.rank <= options.rank) word = Answer::out_of_range;
    Fd* place = word == Answer::welcome ? &sockets[static_cast<size_t>(hello.rank)][static_cast<size_t>(hello.socket)]
                                        : nullptr;
    if (place && place->get() >= 0) word = Answer::taken;
    answer(fd, word, options);
    if (word != Answer::welcome) refuse(hello, options, word);
    make_ready(fd.get());
    *place = std::move(fd);
    --missing;
  };
  for (int peer = 0; peer < options.rank; ++peer)
    for (int i = 0; i < options.sockets; ++i)
      sockets[static_cast<size_t>(peer)][static_cast<size_t>(i)] =
          introduce(parse_address(addresses[static_cast<size_t>(peer)]), options, i, 1, peer);
  while (missing > 0) {
    if (now_ns() > options.until_ns) {
      std::vector<std::string> names;
      for (int peer = options.rank + 1; peer < options.ranks; ++peer)
        if (sockets[static_cast<size_t>(peer)].back().get() < 0) names.push_back(std::to_string(peer));
      throw Error(ErrorKind::timeout,
                  fmt::format("rank {} waited for connections of rank {}", options.rank, join(names, ", ")),
                  "can they reach " + addresses[static_cast<size_t>(options.rank)] + " (WEFT_SOCKET_IFNAME)?");
    }
    door.look(admit);
  }
  return sockets;
}

namespace {

bool send_text(int fd, std::string_view text, int64_t until_ns) {
  const uint64_t bytes = text.size();
  return send_all(fd, &bytes, sizeof bytes, until_ns) && send_all(fd, text.data(), text.size(), until_ns);
}

bool receive_text(int fd, std::string& text, int64_t until_ns) {
  constexpr uint64_t most = 1 << 20;
  uint64_t bytes = 0;
  if (!receive_all(fd, &bytes, sizeof bytes, until_ns) || bytes > most) return false;
  text.resize(bytes);
  return receive_all(fd, text.data(), bytes, until_ns);
}

[[noreturn]] void lost(int rank, const std::string& meeting) {
  throw Error(ErrorKind::peer, fmt::format("the meeting at {} ended before rank {} knew all", meeting, rank),
              "another rank failed while ranks met: its own message says why");
}

std::vector<std::string> host_meeting(const std::string& meeting, const std::string& mine, const MeshOptions& options) {
  const Fd listener = listen_at(parse_address(meeting));
  std::vector<Fd> guests(static_cast<size_t>(options.ranks));
  std::vector<std::string> said(static_cast<size_t>(options.ranks));
  said[0] = mine;
  int missing = options.ranks - 1;
  MeshOptions one = options;
  one.sockets = 1;
  Door door(listener.get(), one, 2);
  while (missing > 0) {
    door.look([&](const Hello& hello, Fd& fd) {
      Answer word = judge(hello, one);
      if (word == Answer::welcome && guests[static_cast<size_t>(hello.rank)].get() >= 0) word = Answer::taken;
      answer(fd, word, one);
      if (word != Answer::welcome) refuse(hello, one, word);
      if (!receive_text(fd.get(), said[static_cast<size_t>(hello.rank)], now_ns() + hello_limit_ns)) return;
      guests[static_cast<size_t>(hello.rank)] = std::move(fd);
      --missing;
    });
    if (now_ns() < options.until_ns) continue;
    std::vector<std::string> names;
    for (int rank = 1; rank < options.ranks; ++rank)
      if (guests[static_cast<size_t>(rank)].get() < 0) names.push_back(std::to_string(rank));
    throw Error(ErrorKind::timeout, fmt::format("rank 0 waited at {} for rank {}", meeting, join(names, ", ")),
                "are all ranks started, with the same address and secret?");
  }
  for (int rank = 1; rank < options.ranks; ++rank)
    for (const std::string& text : said)
      if (!send_text(guests[static_cast<size_t>(rank)].get(), text, options.until_ns)) lost(0, meeting);
  return said;
}

}  // namespace

std::vector<std::string> meet_at(const std::string& meeting, const std::string& mine, const MeshOptions& options) {
  if (options.rank == 0) return host_meeting(meeting, mine, options);
  const Fd fd = introduce(parse_address(meeting), options, 0, 2, 0);
  std::vector<std::string> said(static_cast<size_t>(options.ranks));
  bool all = send_text(fd.get(), mine, options.until_ns);
  for (std::string& text : said) all = all && receive_text(fd.get(), text, options.until_ns);
  if (!all) lost(options.rank, meeting);
  return said;
}

}  // namespace weft::transport
