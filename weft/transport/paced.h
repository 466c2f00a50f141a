// A slow network on one machine: ranks that share memory, whose messages arrive at a stated latency and bandwidth.
//
// Problem: what Weft does over a network (overlap, larger messages, hierarchies) must be seen and tested where there is
// none. Ways: shaping the kernel's loopback (needs root, counts packets), sleeping in the sender (a rank that computes
// is stopped), or a clock: a message may be seen from max(its link is free, it was sent) + bytes / bandwidth + latency
// on. We take the clock. A sender reserves its link's time and leaves a note with the receiver; the receiver moves the
// body while it waits and makes the head visible when its time has come, so neither is held up and nothing runs beside.
// Bytes are those that move, heads and flags included; what may be late costs its link nothing. Latencies add up as in
// LogGP with o = 0 (Alexandrov et al. 1995).
#pragma once

#include "weft/transport/transport.h"

namespace weft::transport {

struct Pace {
  int64_t alpha_ns = 0;
  double bytes_per_ns = 0;  // 0: without limit
};

// Ranks r and q are in one group where r / group_ranks == q / group_ranks (0: every rank is alone).
struct PacedOptions {
  Pace between, within;
  int group_ranks = 0;
  bool within_mapped = true;  // peers of a group map each other's memory, as on one host
  bool shared = false;        // all pairs of two groups share one link each way, as hosts share a network card
};

// "alpha=5us,bw=1GB/s[,group=G[,within.alpha=..,within.bw=..][,shared]]"; bytes are decimal. Error(user) names the item.
PacedOptions parse_paced(std::string_view text);
std::string print(const PacedOptions& options);

// Wraps the ranks of `inner` (threads or processes), which must outlive it. Collective.
std::unique_ptr<Transport> make_paced(Transport& inner, const PacedOptions& options);

}  // namespace weft::transport
