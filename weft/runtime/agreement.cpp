// Headers on the slow path, and what must be equal before a plan is loaded (agreement.h).
#include "weft/runtime/agreement.h"

#include <algorithm>
#include <cstring>

#include "weft/base/hash.h"
#include "weft/base/text.h"

namespace weft::runtime {
namespace {

std::string first_difference(const std::string& a, const std::string& b, int rank_a, int rank_b) {
  const std::vector<std::string> left = split(a, '\n'), right = split(b, '\n');
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string l = i < left.size() ? left[i] : "(nothing)", r = i < right.size() ? right[i] : "(nothing)";
    if (l != r) return fmt::format("rank {}: {}\n    rank {}: {}", rank_a, l, rank_b, r);
  }
  return "";
}

std::string hashes(const std::vector<NamedText>& parts) {
  std::string text;
  for (const NamedText& part : parts) text += hash_hex(part.text);
  return text;
}

}  // namespace

Agreement::Agreement(transport::Transport& transport)
    : transport_(transport),
      window_(transport.allocate_mirrored(sizeof(Board), "launch headers")),
      mine_(&board(transport.rank())),
      mirrors_(transport.mirrors()) {}

void Agreement::show(const void* at, int64_t bytes, bool late) {
  transport::Put put;
  put.owner = transport_.rank(), put.late = late;
  put.head = static_cast<const std::byte*>(at) - reinterpret_cast<const std::byte*>(mine_);
  put.head_bytes = bytes;
  for (put.to = 0; put.to < transport_.size(); ++put.to)
    if (!transport_.mappable(put.to)) transport_.put(*window_, put);
}

void Agreement::describe(uint64_t binding, const std::string& text) {
  DetailEntry& entry = mine_->details[binding % Board::history];
  entry.binding.store(0, std::memory_order_relaxed);
  for (size_t w = 0; w < DetailEntry::words; ++w) {
    uint64_t word = 0;
    if (w * 8 < text.size()) std::memcpy(&word, text.data() + w * 8, std::min<size_t>(8, text.size() - w * 8));
    entry.text[w].store(w + 1 == DetailEntry::words ? 0 : word, std::memory_order_release);
  }
  entry.binding.store(binding, std::memory_order_release);
  if (mirrors_) show(&entry, sizeof entry, true);
}

bool Agreement::read(int rank, int channel, uint64_t sequence, Seen& seen) const {
  const HeaderEntry& entry = board(rank).headers[static_cast<size_t>(channel)][sequence % Board::history];
  if (entry.sequence.load(std::memory_order_acquire) != sequence) return false;
  seen.hash = entry.hash.load(std::memory_order_acquire);
  seen.binding = entry.binding.load(std::memory_order_acquire);
  seen.scalar_count = entry.scalar_count.load(std::memory_order_acquire);
  seen.scalars.clear();
  for (size_t i = 0; i < std::min(seen.scalar_count, entry.scalars.size()); ++i)
    seen.scalars.push_back(entry.scalars[i].load(std::memory_order_acquire));
  return entry.sequence.load(std::memory_order_relaxed) == sequence;
}

std::string Agreement::text_of(int rank, const Seen& seen) const {
  const DetailEntry& entry = board(rank).details[seen.binding % Board::history];
  std::string text = fmt::format("something (header {:016x})", seen.hash);
  if (entry.binding.load(std::memory_order_acquire) == seen.binding) {
    char bytes[DetailEntry::words * 8];
    for (size_t w = 0; w < DetailEntry::words; ++w) {
      const uint64_t word = entry.text[w].load(std::memory_order_relaxed);
      std::memcpy(bytes + w * 8, &word, 8);
    }
    text = bytes;
  }
  std::vector<std::string> scalars;
  for (double scalar : seen.scalars) scalars.push_back(shortest(scalar));
  if (!scalars.empty()) text += ", scalars " + join(scalars, ", ");
  return text;
}

void Agreement::announce(uint64_t binding, const std::string& text) {
  describe(binding, text);
  mine_->announced_after.store(sequences_[0], std::memory_order_release);
  mine_->announced.store(binding, std::memory_order_release);
  if (mirrors_) show(&mine_->announced_after, 8, true), show(&mine_->announced, 8, false);
}

// The peer stands before the launch that I am in, and binds.
bool Agreement::binds_instead(int rank, Seen& seen) const {
  seen = {};
  seen.binding = board(rank).announced.load(std::memory_order_acquire);
  return seen.binding != 0 && board(rank).announced_after.load(std::memory_order_acquire) + 1 == sequences_[0];
}

void Agreement::compare(int channel, int64_t waited_ns) {
  constexpr int64_t patience_ns = 1'000'000'000;
  const uint64_t sequence = sequences_[static_cast<size_t>(channel)];
  const int me = transport_.rank();
  Seen mine, theirs;
  if (!read(me, channel, sequence, mine)) return;
  for (int peer = 0; peer < transport_.size(); ++peer) {
    if (peer == me) continue;
    const bool there = read(peer, channel, sequence, theirs);
    if (there ? theirs.hash == mine.hash : waited_ns < patience_ns || !binds_instead(peer, theirs)) continue;
    const int low = std::min(me, peer), high = std::max(me, peer);
    const std::string message =
        fmt::format("ranks disagree about launch {}:\n    rank {} runs {}\n    rank {} runs {}", sequence, low,
                    text_of(low, low == me ? mine : theirs), high, text_of(high, high == me ? mine : theirs));
    transport_.raise({ErrorKind::agreement, me, message});
    transport::throw_failure(transport_, "comparing launch headers");
  }
}

void Agreement::stranger(int channel, int peer, const std::string& where) {
  compare(channel, 0);
  const std::string message =
      fmt::format("{} got a message of another launch from rank {} (here launch {} of channel {} runs)", where, peer,
                  sequence(channel), channel);
  transport_.raise({ErrorKind::agreement, transport_.rank(), message});
  transport::throw_failure(transport_, "looking at a foreign tag");
}

void agree_on_load(transport::Transport& transport, std::string_view what, const std::vector<NamedText>& parts) {
  const std::vector<std::string> all = transport.exchange(hashes(parts), what);
  const size_t other = static_cast<size_t>(
      std::find_if(all.begin(), all.end(), [&](const std::string& h) { return h != all[0]; }) - all.begin());
  if (other == all.size()) return;
  size_t differs = 0;  // all ranks see the same hashes, so all come here with the same choice
  while (all[0].substr(differs * 32, 32) == all[other].substr(differs * 32, 32)) ++differs;
  const std::vector<std::string> texts = transport.exchange(parts[differs].text, "what differs");
  const std::string message = fmt::format("ranks disagree about the {} of what they load:\n    {}", parts[differs].name,
                                          first_difference(texts[0], texts[other], 0, static_cast<int>(other)));
  throw Error(ErrorKind::agreement, message, "all ranks must load the same plan with the same parameters and settings");
}

}  // namespace weft::runtime
