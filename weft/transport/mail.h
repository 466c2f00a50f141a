// Exchanges by mail: a mailbox per rank that only its owner writes and all others see, whatever carries it.
//
// Two halves per mailbox suffice: who publishes k+1 has read every k. Strings that are longer than a half go in rounds.
#pragma once

#include "weft/transport/transport.h"

namespace weft::transport {

struct Mail {
  static constexpr int64_t chunk_bytes = 16384;
  std::atomic<uint64_t> sequence;  // of the exchange round that stands here; stored last
  int64_t total_bytes;             // of the whole string; this round carries a piece of it
  int64_t here_bytes;
  char what[160];
  char data[chunk_bytes];
};

// As much as fits, and a zero.
void copy_text(char* to, int64_t room, std::string_view text);

class MailTransport : public Transport {
 public:
  std::vector<std::string> exchange(std::string_view mine, std::string_view what) override;
  void barrier(std::string_view what) override { exchange({}, what); }

 protected:
  virtual Mail& mail(int rank, uint64_t half) = 0;
  // What this rank has put up for all to read, where others see a copy.
  virtual void published(const Mail&) {}
  // Agrees on (what, bytes) and on whether the memory is there; throws the same error on all ranks.
  void agree_on_allocation(int64_t bytes, std::string_view what);
  void agree_on_bytes(int64_t bytes, std::string_view what);  // only the first of the two
  // What went wrong here when the memory was made, "" where nothing did: Error(io) on all ranks with the first one's.
  void agree_on_success(const std::string& problem, std::string_view what);

 private:
  Mail& publish(uint64_t sequence, std::string_view mine, int64_t from, std::string_view what);
  const Mail& await_mail(int peer, uint64_t sequence, std::string_view what);
  [[noreturn]] void late(uint64_t sequence, std::string_view what);

  uint32_t born_ = forks_above();
  uint64_t sequence_ = 0;
};

}  // namespace weft::transport
