// Publishing, waiting for and comparing mails (mail.h).
#include "weft/transport/mail.h"

#include <algorithm>
#include <cstring>

#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/transport/wait.h"

namespace weft::transport {
namespace {

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (int rank : ranks) names.push_back(std::to_string(rank));
  return join(names, ", ");
}

}  // namespace

void copy_text(char* to, int64_t room, std::string_view text) {
  const size_t count = std::min<size_t>(text.size(), static_cast<size_t>(room - 1));
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

Mail& MailTransport::publish(uint64_t sequence, std::string_view mine, int64_t from, std::string_view what) {
  Mail& mail = this->mail(this->rank(), sequence % 2);
  const int64_t here = std::clamp<int64_t>(static_cast<int64_t>(mine.size()) - from, 0, Mail::chunk_bytes);
  mail.total_bytes = static_cast<int64_t>(mine.size());
  mail.here_bytes = here;
  copy_text(mail.what, sizeof mail.what, what);
  if (here) std::memcpy(mail.data, mine.data() + from, static_cast<size_t>(here));
  mail.sequence.store(sequence, std::memory_order_release);
  published(mail);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && parked(peer).load(std::memory_order_relaxed)) wake(peer);
  return mail;
}

void MailTransport::late(uint64_t sequence, std::string_view what) {
  std::vector<int> missing;
  for (int peer = 0; peer < size(); ++peer)
    if (mail(peer, sequence % 2).sequence.load(std::memory_order_acquire) < sequence) missing.push_back(peer);
  const std::string message = fmt::format("rank {} waited {} for rank {} at \"{}\"", rank(),
                                          human_ns(static_cast<double>(timeout_ns())), rank_list(missing), what);
  const std::string remedy = timeout_remedy(timeout_ns());
  note(fmt::format("waiting for rank {} at \"{}\"", rank_list(missing), what));  // where a peer's deadline was first
  raise({ErrorKind::timeout, rank(), message, remedy});
  throw Error(ErrorKind::timeout, message, remedy);
}

const Mail& MailTransport::await_mail(int peer, uint64_t sequence, std::string_view what) {
  const Mail& mail = this->mail(peer, sequence % 2);
  switch (wait_until(*this, timeout_ns(), [&] { return mail.sequence.load(std::memory_order_acquire) >= sequence; })) {
    case Waited::ready: break;
    case Waited::aborted: throw_failure(*this, fmt::format("waiting for rank {} at \"{}\"", peer, what));
    case Waited::late: late(sequence, what);
  }
  char mine[sizeof mail.what];
  copy_text(mine, sizeof mine, what);
  if (std::strcmp(mine, mail.what) == 0) return mail;
  const std::string message =
      fmt::format("ranks are at different points: rank {} at \"{}\", rank {} at \"{}\"", std::min(rank(), peer),
                  rank() < peer ? mine : mail.what, std::max(rank(), peer), rank() < peer ? mail.what : mine);
  raise({ErrorKind::agreement, rank(), message});
  throw Error(ErrorKind::agreement, message, "all ranks must make the same collective calls in the same order");
}

std::vector<std::string> MailTransport::exchange(std::string_view mine, std::string_view what) {
  if (born_ != forks_above()) throw_forked("a rank");
  std::vector<std::string> all(static_cast<size_t>(size()));
  std::vector<int64_t> total(static_cast<size_t>(size()), 0);
  int64_t longest = 0, from = 0;
  do {
    const uint64_t sequence = ++sequence_;
    publish(sequence, mine, from, what);
    for (int peer = 0; peer < size(); ++peer) {
      const Mail& mail = await_mail(peer, sequence, what);
      total[static_cast<size_t>(peer)] = mail.total_bytes;
      all[static_cast<size_t>(peer)].append(mail.data, static_cast<size_t>(mail.here_bytes));
    }
    for (int64_t bytes : total) longest = std::max(longest, bytes);
    from += Mail::chunk_bytes;
  } while (from < longest);
  return all;
}

void MailTransport::agree_on_bytes(int64_t bytes, std::string_view what) {
  constexpr int64_t most = int64_t{1} << 60;  // with what sizes are rounded up by, still a number
  if (bytes < 0 || bytes > most / size())
    throw Error(ErrorKind::user, fmt::format("cannot allocate {} bytes for {} on {} ranks", bytes, what, size()),
                "is the size right?");
  const std::vector<std::string> all = exchange(std::to_string(bytes), fmt::format("allocate {}", what));
  for (int peer = 1; peer < size(); ++peer) {
    if (all[0] == all[static_cast<size_t>(peer)]) continue;
    const std::string message =
        fmt::format("ranks disagree about the size of {}: rank 0 wants {} bytes, rank {} wants {}", what, all[0], peer,
                    all[static_cast<size_t>(peer)]);
    raise({ErrorKind::agreement, rank(), message});
    throw Error(ErrorKind::agreement, message, "all ranks must allocate the same");
  }
}

void MailTransport::agree_on_allocation(int64_t bytes, std::string_view what) {
  agree_on_bytes(bytes, what);
  constexpr int64_t worth_asking = 1 << 20;
  const int64_t need = bytes * size();
  if (need < worth_asking) return;
  const std::string told = exchange(rank() == 0 ? std::to_string(free_memory_bytes()) : "", "free memory")[0];
  const int64_t there = std::strtoll(told.c_str(), nullptr, 10);
  if (need > there)
    throw Error(ErrorKind::io,
                fmt::format("not enough memory for {}: {} ranks need {} each, {} together; {} are free", what, size(),
                            human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(need)),
                            human_bytes(static_cast<double>(there))),
                "use smaller sizes or fewer ranks, or free memory");
}

void MailTransport::agree_on_success(const std::string& problem, std::string_view what) {
  const std::vector<std::string> all = exchange(problem, fmt::format("map {}", what));
  for (int peer = 0; peer < size(); ++peer)
    if (const std::string& told = all[static_cast<size_t>(peer)]; !told.empty())
      throw Error(ErrorKind::io, fmt::format("rank {}: {}", peer, told));
}

}  // namespace weft::transport
