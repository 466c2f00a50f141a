// Ranks that were started separately: they meet, share memory, and turn strangers away; what goes wrong is named.
#include "weft/transport/rendezvous.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "weft/base/file.h"

namespace weft::transport {
namespace {

std::string meeting_file() {
  static int number = 0;
  return (std::filesystem::temp_directory_path() / fmt::format("weft-meet-{}-{}", getpid(), number++)).string();
}

// Runs body as a process of its own; its exit status is 0, or 1 and the message stands in `file`.note.RANK.
pid_t start(const std::string& file, int rank, const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    body();
  } catch (const Error& error) {
    std::ofstream(fmt::format("{}.note.{}", file, rank)) << name(error.kind()) << ": " << error.what();
    _exit(1);
  }
  _exit(0);
}

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string note(const std::string& file, int rank) {
  const std::string path = fmt::format("{}.note.{}", file, rank);
  if (!std::filesystem::exists(path)) return "";
  const std::string text = read_file(path);
  std::filesystem::remove(path);
  return text;
}

JoinOptions options(const std::string& file, int rank, int ranks, double seconds = 20) {
  JoinOptions options;
  options.file = file, options.rank = rank, options.ranks = ranks;
  options.timeout_ns = static_cast<int64_t>(seconds * 1e9);
  return options;
}

// Everybody writes into everybody's block.
void use(Transport& transport) {
  const auto window = transport.allocate(4096, "numbers");
  for (int peer = 0; peer < transport.size(); ++peer)
    reinterpret_cast<int*>(window->at[static_cast<size_t>(peer)])[transport.rank()] = 100 * peer + transport.rank();
  transport.barrier("written");
  for (int peer = 0; peer < transport.size(); ++peer)
    if (reinterpret_cast<int*>(window->at[static_cast<size_t>(transport.rank())])[peer] !=
        100 * transport.rank() + peer)
      fail(ErrorKind::internal, "rank {} misses what rank {} wrote", transport.rank(), peer);
  const auto all = transport.exchange(fmt::format("rank {}", transport.rank()), "names");
  if (all.back() != fmt::format("rank {}", transport.size() - 1)) fail(ErrorKind::internal, "{}", all.back());
  transport.barrier("read");
}

TEST(Rendezvous, RanksMeetInAnyOrderAndLeaveNoFile) {
  for (const int ranks : {1, 2, 5}) {
    const std::string file = meeting_file();
    std::vector<pid_t> children;
    for (int rank = ranks - 1; rank >= 0; --rank)
      children.push_back(start(file, rank, [&] { use(*join_job(options(file, rank, ranks))); }));
    for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(note(file, rank), "");
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

// Garbage, half a hello, a wrong secret, and silence at the door.
TEST(Rendezvous, StrangersAreTurnedAwayAndHoldNobodyUp) {
  const std::string file = meeting_file();
  const pid_t host = start(file, 0, [&] { use(*join_job(options(file, 0, 2))); });
  while (!std::filesystem::exists(file)) usleep(1000);
  std::string form, version, socket_name;
  std::ifstream(file) >> form >> version >> socket_name;
  std::vector<int> doors;
  for (const std::string& said :
       {std::string("GET / HTTP/1.1"), std::string(7, 'x'), std::string(48, '\0'), std::string()}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, socket_name.data(), socket_name.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket_name.size())),
              0);
    if (!said.empty()) {
      EXPECT_EQ(send(fd, said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
    }
    doors.push_back(fd);
  }
  const pid_t guest = start(file, 1, [&] { use(*join_job(options(file, 1, 2))); });
  EXPECT_EQ(status_of(guest), 0) << note(file, 1);
  EXPECT_EQ(status_of(host), 0) << note(file, 0);
  for (const int fd : doors) close(fd);
}

TEST(Rendezvous, WhoDoesNotComeIsNamed) {
  const std::string file = meeting_file();
  const pid_t host = start(file, 0, [&] { join_job(options(file, 0, 3, 1)); });
  const pid_t guest = start(file, 1, [&] { join_job(options(file, 1, 3, 1)); });
  EXPECT_EQ(status_of(host), 1);
  EXPECT_EQ(status_of(guest), 1);
  const std::string said = note(file, 0);
  EXPECT_NE(said.find("timeout: rank 0 waited"), std::string::npos) << said;
  EXPECT_NE(said.find("for rank 2"), std::string::npos) << said;
  EXPECT_NE(note(file, 1), "");
}

TEST(Rendezvous, RanksThatCountDifferentlyAreToldBothNumbers) {
  const std::string file = meeting_file();
  const pid_t host = start(file, 0, [&] { join_job(options(file, 0, 2, 5)); });
  const pid_t guest = start(file, 1, [&] { join_job(options(file, 1, 3, 5)); });
  EXPECT_EQ(status_of(guest), 1);
  EXPECT_EQ(status_of(host), 1);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string said = note(file, rank);
    EXPECT_NE(said.find("agreement"), std::string::npos) << said;
    EXPECT_NE(said.find("rank 1 of 3"), std::string::npos) << said;
    EXPECT_NE(said.find("expects 2 ranks"), std::string::npos) << said;
  }
}

TEST(Rendezvous, TheDeathOfARankReachesTheOthers) {
  const std::string file = meeting_file();
  const pid_t host = start(file, 0, [&] {
    const auto transport = join_job(options(file, 0, 2));
    transport->barrier("after a death");
  });
  const pid_t guest = start(file, 1, [&] {
    const auto transport = join_job(options(file, 1, 2));
    raise(SIGKILL);
  });
  EXPECT_EQ(status_of(guest), -1);
  EXPECT_EQ(status_of(host), 1);
  const std::string said = note(file, 0);
  EXPECT_NE(said.find("peer: rank 1 (process"), std::string::npos) << said;
}

TEST(Rendezvous, LaunchersAreRecognised) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "SLURM_PROCID", "WEFT_RANK"}) unsetenv(name);
  EXPECT_FALSE(join_from_environment());
  setenv("RANK", "3", 1), setenv("WORLD_SIZE", "4", 1), setenv("LOCAL_WORLD_SIZE", "4", 1);
  const auto torchrun = join_from_environment();
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->ranks, 4);
  EXPECT_NE(torchrun->file.find("torchrun"), std::string::npos);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  EXPECT_THROW(join_from_environment(), Error);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1), setenv("OMPI_COMM_WORLD_SIZE", "2", 1),
      setenv("WEFT_RENDEZVOUS", "/tmp/there", 1);
  const auto openmpi = join_from_environment();
  ASSERT_TRUE(openmpi);
  EXPECT_EQ(openmpi->ranks, 2);
  EXPECT_EQ(openmpi->file, "/tmp/there");
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "WEFT_RENDEZVOUS"})
    unsetenv(name);
}

TEST(Rendezvous, ImpossibleRanksAreRefused) {
  EXPECT_THROW(join_job(options("/tmp/x", 2, 2)), Error);
  EXPECT_THROW(join_job(options("", 0, 2)), Error);
}

}  // namespace
}  // namespace weft::transport
