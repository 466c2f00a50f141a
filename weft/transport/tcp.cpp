// How ranks come to be connected (tcp.h).
#include "weft/transport/tcp.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/transport/rendezvous.h"
#include "weft/transport/tcp_meet.h"
#include "weft/transport/tcp_transport.h"

namespace weft::transport {
namespace {

int64_t deadline_ns(int64_t stated) { return stated > 0 ? stated : env_int("WEFT_TIMEOUT_S") * 1'000'000'000; }

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
// files, its processes (deaths are looked for by number), and the user.
std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat network {
  }, files{}, processes{};
  stat("/proc/self/ns/net", &network);
  stat("/proc/self/ns/mnt", &files);
  stat("/proc/self/ns/pid", &processes);
  return fmt::format("{}/{}/{}/{}/{}", boot, network.st_ino, files.st_ino, processes.st_ino, geteuid());
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
