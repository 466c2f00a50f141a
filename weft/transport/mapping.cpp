// Mappings, memfds and their passing (mapping.h).
#include "weft/transport/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/base/text.h"

namespace weft::transport {
namespace {

constexpr int wanted_seals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int64_t huge_page = 2 << 20;

[[noreturn]] void refused(std::string_view call, std::string_view what, int64_t bytes, int reason) {
  throw Error(ErrorKind::io,
              fmt::format("{} refused {} for {}: {}", call, human_bytes(static_cast<double>(bytes)), what,
                          std::strerror(reason)),
              "check the memory limits of this process and machine (ulimit -v, -n, cgroup)");
}

}  // namespace

Mapping::Mapping(int fd, int64_t bytes, std::string_view what) : bytes_(bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  const bool huge = bytes >= huge_page;
  const size_t room = static_cast<size_t>(bytes + (huge ? huge_page : 0));
  void* reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) refused("mmap", what, bytes, errno);
  auto* begin = static_cast<std::byte*>(reserved);
  auto* at = begin;
  if (huge)
    at = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(begin) + huge_page - 1) & ~uintptr_t{huge_page - 1});
  if (mmap(at, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int reason = errno;
    munmap(reserved, room);
    refused("mmap", what, bytes, reason);
  }
  if (at != begin) munmap(begin, static_cast<size_t>(at - begin));
  if (const auto used = static_cast<size_t>(at - begin + bytes); used < room) munmap(at + bytes, room - used);
  if (huge) madvise(at, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = at;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, static_cast<size_t>(bytes_));
}

int64_t rounded_block_bytes(int64_t bytes) {
  constexpr int64_t page = 4096, huge = 2 << 20;
  const int64_t to = bytes >= huge ? huge : page;
  return std::max(page, (bytes + to - 1) / to * to);
}

int sealed_memfd(int64_t bytes, std::string_view what) {
  const int fd = memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) refused("memfd_create", what, bytes, errno);
  if (ftruncate(fd, bytes) == 0 && fcntl(fd, F_ADD_SEALS, wanted_seals) == 0) return fd;
  const int reason = errno;
  close(fd);
  refused("ftruncate", what, bytes, reason);
}

void check_sealed(int fd, int64_t bytes, std::string_view what) {
  struct stat info {};
  if (fstat(fd, &info) != 0) refused("fstat", what, bytes, errno);
  if (info.st_size != bytes)
    throw Error(ErrorKind::io,
                fmt::format("shared memory for {} came with {} bytes instead of {}", what, info.st_size, bytes));
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & wanted_seals) != wanted_seals)
    throw Error(ErrorKind::io, fmt::format("shared memory for {} came without its seals ({:#x})", what, seals),
                "it could shrink under us, so it is not used");
}

namespace {

constexpr uint64_t none_bit = uint64_t{1} << 63;

void send_number(int socket, uint64_t number, int fd) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data{&number, sizeof number};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    if (errno != EINTR)
      throw Error(ErrorKind::io, fmt::format("cannot pass shared memory to a rank: {}", std::strerror(errno)));
}

}  // namespace

void send_descriptor(int socket, int fd, uint64_t number) { send_number(socket, number, fd); }
void send_no_descriptor(int socket, uint64_t number) { send_number(socket, number | none_bit, -1); }

int receive_descriptor(int socket, uint64_t number) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  uint64_t got = 0;
  iovec data{&got, sizeof got};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return -1;
  if (count < 0) throw Error(ErrorKind::io, fmt::format("cannot receive shared memory: {}", std::strerror(errno)));
  if (count == 0) throw Error(ErrorKind::peer, "the rank that passes shared memory is gone");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  if (count == sizeof got && got == number && fd >= 0) return fd;
  if (fd >= 0) close(fd);
  if (count == sizeof got && got == (number | none_bit))
    throw Error(ErrorKind::io, "the rank that passes shared memory has none to pass");
  throw Error(ErrorKind::io, fmt::format("shared memory number {} came where {} was expected", got, number),
              fd < 0 ? "no descriptor came with it: is the limit of open files (ulimit -n) reached?" : "");
}

}  // namespace weft::transport
