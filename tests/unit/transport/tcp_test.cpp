// TCP: who is let in, which interface, what a stranger, a half hello, a wrong secret and a taken port end in, large messages
// over several connections, and ranks that only have an address in common.
#include "weft/transport/tcp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/support/errors.h"
#include "weft/base/file.h"
#include "weft/transport/socket.h"
#include "weft/transport/spec.h"
#include "weft/transport/tcp_meet.h"
#include "weft/transport/wait.h"
#include "weft/transport/wire.h"

namespace weft::transport {
namespace {

constexpr int64_t second = 1'000'000'000;

bool has(const Error& error, std::string_view piece) {
  return std::string_view(error.what()).find(piece) != std::string_view::npos;
}

// A port that was free a moment ago.
std::string free_address() {
  const Fd fd = listen_at(parse_address("127.0.0.1:0"));
  return bound_address(fd.get()).text();
}

// Joins as a rank in a thread of its own; the error it ends in.
struct Guest {
  Guest(const std::string& meeting, int rank, int ranks, const std::string& secret, double seconds = 10,
        const std::function<void(Transport&)>& body = {}, const std::string& host = "")
      : thread([=, this] {
          error = error_of([&] {
            TcpJoinOptions options;
            options.rank = rank, options.ranks = ranks, options.meeting = meeting, options.secret = secret;
            options.timeout_ns = static_cast<int64_t>(seconds * 1e9), options.host = host;
            const auto transport = join_tcp(options);
            if (body) body(*transport);
          });
        }) {}
  ~Guest() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
  Error error{ErrorKind::internal, ""};
  std::thread thread;
};

void talk(Transport& t) {
  const auto all = t.exchange(fmt::format("I am {}", t.rank()), "names");
  for (int q = 0; q < t.size(); ++q) need(all[static_cast<size_t>(q)] == fmt::format("I am {}", q), "names");
  t.barrier("end");
}

TEST(Tcp, RanksThatShareAnAddressMeet) {
  const std::string meeting = free_address();
  Guest two(meeting, 2, 3, "abc", 10, talk), one(meeting, 1, 3, "abc", 10, talk), zero(meeting, 0, 3, "abc", 10, talk);
  for (Guest* guest : {&zero, &one, &two}) {
    guest->join();
    EXPECT_TRUE(has(guest->error, "nothing was thrown")) << guest->error.what();
  }
}

// Two hosts of two ranks: memory within, TCP across, and what is put comes to both.
TEST(Tcp, RanksOfOneHostShareMemory) {
  const std::string meeting = free_address();
  const auto body = [](Transport& t) {
    const auto window = t.allocate(4096, "memory");
    const auto mirrored = t.allocate_mirrored(64, "words");
    for (int q = 0; q < 4; ++q) {
      need(t.mappable(q) == (q / 2 == t.rank() / 2), "who shares memory");
      need((window->at[static_cast<size_t>(q)] != nullptr) == t.mappable(q), "whose blocks are here");
      auto* word = reinterpret_cast<std::atomic<uint64_t>*>(mirrored->at[static_cast<size_t>(q)]) + t.rank();
      word->store(static_cast<uint64_t>(t.rank()) + 100, std::memory_order_release);
      if (!t.mappable(q)) t.put(*mirrored, {q, q, t.rank() * 8, 8, 0, 0, false});
    }
    for (int q = 0; q < 4; ++q) {
      auto* word = reinterpret_cast<std::atomic<uint64_t>*>(mirrored->at[static_cast<size_t>(t.rank())]) + q;
      need(wait_until(t, 5 * second, [&] { return word->load() == static_cast<uint64_t>(q) + 100; }) == Waited::ready,
           "a word of each");
    }
    talk(t);
  };
  std::vector<std::unique_ptr<Guest>> guests;
  for (int rank = 0; rank < 4; ++rank)
    guests.push_back(
        std::make_unique<Guest>(meeting, rank, 4, "abc", 10, body, fmt::format("host {} of {}", rank / 2, getpid())));
  for (auto& guest : guests) {
    guest->join();
    EXPECT_TRUE(has(guest->error, "nothing was thrown")) << guest->error.what();
  }
}

// Two network namespaces with a cable between them, while the test has them.
struct Cable {
  Cable() {
    for (int host = 0; host < 2; ++host) there = there && sh(fmt::format("ip netns add {}", name(host)));
    there = there && sh(fmt::format("ip link add v0 netns {} type veth peer name v1 netns {}", name(0), name(1)));
    for (int host = 0; host < 2; ++host)
      there = there && sh(fmt::format("ip -n {0} addr add 10.77.0.{1}/24 dev v{2}", name(host), host + 1, host)) &&
              sh(fmt::format("ip -n {} link set v{} up", name(host), host)) &&
              sh(fmt::format("ip -n {} link set lo up", name(host)));
  }
  ~Cable() {
    for (int host = 0; host < 2; ++host) sh("ip netns del " + name(host));
  }
  static std::string name(int host) { return fmt::format("weft-{}-{}", getpid(), host); }
  static bool sh(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }
  bool there = true;
};

// Two ranks in each of two namespaces: hosts are told apart by what they are, the interface is found, memory is shared within.
TEST(Tcp, NamespacesAreHosts) {
  const Cable cable;
  if (!cable.there) GTEST_SKIP() << "network namespaces cannot be made here (ip netns, veth: needs root)";
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string path = "/run/netns/" + Cable::name(rank / 2);
    const pid_t pid = fork();
    if (pid == 0) {
      const Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (setns(space.get(), CLONE_NEWNET) != 0) _exit(2);
      const Error error = error_of([&] {
        const auto t = join_tcp(
            {.rank = rank, .ranks = 4, .meeting = "10.77.0.1:4711", .secret = "abc", .timeout_ns = 10 * second});
        need(t->mappable(rank ^ 1) && !t->mappable(3 - rank), "who shares memory");
        need(t->name() == "mixed", "mixed");
        talk(*t);
      });
      if (!has(error, "nothing was thrown")) std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      _exit(has(error, "nothing was thrown") ? 0 : 1);
    }
    ranks.push_back(pid);
  }
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

// Strangers at the port hold nobody up: one that says nothing, one that talks nonsense, one with half a hello.
TEST(Tcp, StrangersAreTurnedAway) {
  const std::string meeting = free_address();
  Guest zero(meeting, 0, 2, "abc", 10, talk);
  std::vector<Fd> doors;
  for (const char* said :
       {"", "GET / HTTP/1.1\r\nHost: weft and some more so that it is long enough\r\n\r\n", "WEFT\1"}) {
    doors.push_back(connect_to(parse_address(meeting), now_ns() + second));
    EXPECT_TRUE(send_all(doors.back().get(), said, std::strlen(said), now_ns() + second));
  }
  const int64_t begin = now_ns();
  Guest one(meeting, 1, 2, "abc", 10, talk);
  one.join(), zero.join();
  EXPECT_TRUE(has(one.error, "nothing was thrown")) << one.error.what();
  EXPECT_TRUE(has(zero.error, "nothing was thrown")) << zero.error.what();
  EXPECT_LT(now_ns() - begin, 3 * second);
}

TEST(Tcp, AWrongSecretIsTurnedAwayAndSaidSo) {
  const std::string meeting = free_address();
  Guest zero(meeting, 0, 2, "abc", 1);
  Guest one(meeting, 1, 2, "abd", 5);
  one.join(), zero.join();
  EXPECT_TRUE(one.error.kind() == ErrorKind::peer && has(one.error, "turned away") && has(one.error, "WEFT_SECRET"))
      << one.error.what();
  EXPECT_TRUE(zero.error.kind() == ErrorKind::timeout && has(zero.error, "for rank 1")) << zero.error.what();
}

TEST(Tcp, APortInUseADoubledRankAndAnotherSizeAreErrors) {
  const Fd taken = listen_at(parse_address("127.0.0.1:0"));
  Guest zero(bound_address(taken.get()).text(), 0, 2, "abc", 2);
  zero.join();
  EXPECT_TRUE(zero.error.kind() == ErrorKind::io && has(zero.error, "in use")) << zero.error.what();
  const std::string meeting = free_address();
  Guest host(meeting, 0, 3, "abc", 5);
  Guest other(meeting, 1, 2, "abc", 5);
  other.join(), host.join();
  EXPECT_TRUE(other.error.kind() == ErrorKind::agreement && has(other.error, "expects 3 ranks")) << other.error.what();
  EXPECT_TRUE(host.error.kind() == ErrorKind::agreement && has(host.error, "rank 1 of 2")) << host.error.what();
  EXPECT_TRUE(
      has(error_of([] { join_tcp({.rank = 0, .ranks = 2, .meeting = "127.0.0.1:1", .secret = ""}); }), "secret"));
  EXPECT_TRUE(
      has(error_of([] { join_tcp({.rank = 2, .ranks = 2, .meeting = "127.0.0.1:1", .secret = "x"}); }), "rank 2"));
}

// A rank that is let in and then sends frames that no rank sends: sizes are looked at before anything is stored.
TEST(Tcp, FramesWithWrongSizesAreRefused) {
  Frame failure, words;
  failure.kind = Frame::failure, failure.head_bytes = 16, failure.body_bytes = 64 << 20;
  words.kind = Frame::put, words.head_bytes = 12;
  for (const Frame& frame : {failure, words}) {
    const std::string meeting = free_address();
    Guest zero(meeting, 0, 2, "abc", 5, [](Transport& t) {
      const auto window = t.allocate_mirrored(64, "words");
      t.barrier("never");
    });
    MeshOptions mesh;
    mesh.rank = 1, mesh.ranks = 2, mesh.secret = secret_of("abc"), mesh.until_ns = now_ns() + 5 * second;
    const Fd listener = listen_at(parse_address("127.0.0.1:0"));
    auto addresses = meet_at(meeting, bound_address(listener.get()).text() + " elsewhere", mesh);
    for (std::string& text : addresses) text.resize(text.find(' '));
    const auto sockets = connect_mesh(listener.get(), addresses, mesh);
    const std::vector<char> garbage(1 << 20, 'x');
    const int fd = sockets[0][0].get();
    send_all(fd, &frame, sizeof frame, now_ns() + second);
    for (int i = 0; i < 8 && send_all(fd, garbage.data(), garbage.size(), now_ns() + second); ++i) {}
    zero.join();
    EXPECT_TRUE(zero.error.kind() == ErrorKind::peer && has(zero.error, "no message of Weft")) << zero.error.what();
  }
}

TEST(Tcp, NobodyThereIsAnErrorInTime) {
  const int64_t begin = now_ns();
  Guest one(free_address(), 1, 2, "abc", 0.3);
  one.join();
  EXPECT_TRUE(one.error.kind() == ErrorKind::peer && has(one.error, "cannot connect")) << one.error.what();
  EXPECT_LT(now_ns() - begin, 2 * second);
}

// A process that is killed: its peers have an error that names it, and nobody waits for the deadline.
TEST(Tcp, ADeadPeerIsSeen) {
  const std::string meeting = free_address();
  const pid_t pid = fork();
  if (pid == 0) {
    error_of([&] {
      const auto t = join_tcp({.rank = 1, .ranks = 2, .meeting = meeting, .secret = "abc", .timeout_ns = 5 * second});
      kill(getpid(), SIGKILL);
    });
    _exit(1);
  }
  const int64_t begin = now_ns();
  const Error error = error_of([&] {
    const auto t = join_tcp({.rank = 0, .ranks = 2, .meeting = meeting, .secret = "abc", .timeout_ns = 10 * second});
    t->barrier("alone");
  });
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(error.kind() == ErrorKind::peer && has(error, "rank 1 is gone")) << error.what();
  EXPECT_LT(now_ns() - begin, 2 * second);
}

// Bodies beyond what a socket holds, over one connection and over three, both ways at once, IPv4 and IPv6.
TEST(Tcp, LargeBodiesOverSeveralConnections) {
  for (const char* sockets : {"1", "3"})
    for (const char* family : {"4", "6"}) {
      setenv("WEFT_SOCKETS", sockets, 1), setenv("WEFT_SOCKET_FAMILY", family, 1);
      run_ranks("threads+tcp", 2, [](Transport& t) {
        constexpr int64_t bytes = 9'000'000;
        const auto window = t.allocate_mirrored(bytes + 64, "messages");
        const int peer = 1 - t.rank();
        std::byte* const there = window->at[static_cast<size_t>(peer)];
        std::byte* const here = window->at[static_cast<size_t>(t.rank())];
        for (uint64_t round = 1; round <= 3; ++round) {
          for (int64_t i = 0; i < bytes; i += 8) {
            const uint64_t value = static_cast<uint64_t>(i) * round + static_cast<uint64_t>(t.rank());
            std::memcpy(there + 64 + i, &value, 8);
          }
          reinterpret_cast<std::atomic<uint64_t>*>(there)->store(round);
          t.put(*window, {peer, peer, 0, 8, 64, bytes, false});
          auto* word = reinterpret_cast<std::atomic<uint64_t>*>(here);
          need(wait_until(t, 10 * second, [&] { return word->load() == round; }) == Waited::ready, "comes");
          for (int64_t i = 0; i < bytes; i += 8) {
            uint64_t value = 0;
            std::memcpy(&value, here + 64 + i, 8);
            need(value == static_cast<uint64_t>(i) * round + static_cast<uint64_t>(peer), "bytes in their places");
          }
          while (!t.flush(true)) t.progress();
          t.barrier("round");
        }
      });
    }
  unsetenv("WEFT_SOCKETS"), unsetenv("WEFT_SOCKET_FAMILY");
}

TEST(Sockets, InterfacesAreChosenByName) {
  for (const char* filter : {"", "eth", "=eth0", "^docker,lo", "ib,eth0", "^=eth1"})
    EXPECT_TRUE(interface_passes("eth0", filter)) << filter;
  for (const char* filter : {"ib", "=eth", "^eth", "^=eth0", "=lo,ib0"})
    EXPECT_FALSE(interface_passes("eth0", filter)) << filter;
  const auto loopback = local_addresses("=lo", "4");
  EXPECT_EQ(loopback.at(0).interface, "lo");
  EXPECT_EQ(loopback.at(0).text(), "127.0.0.1:0");
  EXPECT_TRUE(has(error_of([] { local_addresses("nothing", ""); }), "lo")) << "the error lists what there is";
  EXPECT_TRUE(has(error_of([] { local_addresses("", "5"); }), "4 or 6"));
}

TEST(Sockets, AddressesAreReadAndRefused) {
  EXPECT_EQ(parse_address("127.0.0.1:80").text(), "127.0.0.1:80");
  EXPECT_EQ(parse_address("[::1]:4711").text(), "[::1]:4711");
  for (const char* wrong : {"", "127.0.0.1", ":80", "[::1]", "host:", "127.0.0.1:port"})
    EXPECT_THROW(parse_address(wrong), Error) << wrong;
}

}  // namespace
}  // namespace weft::transport
