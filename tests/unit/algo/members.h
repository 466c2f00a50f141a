// Every algorithm in every collective: what tests of the whole family run over.
#pragma once

#include <cstdlib>

#include "weft/algo/registry.h"

namespace weft::algo {

inline const std::vector<Collective> all_collectives = {
    Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
    Collective::reduce,     Collective::scatter,        Collective::gather,     Collective::all_to_all,
    Collective::send_recv,  Collective::barrier};

inline bool slow() { return std::getenv("WEFT_SLOW") != nullptr; }

inline std::vector<const Algorithm*> everything() {
  std::vector<const Algorithm*> list = algorithms();
  for (const int g : {1, 2, 3, 4}) list.push_back(&hierarchical(g));
  return list;
}

struct Member {
  const Algorithm* algorithm;
  Collective collective;
  Counts counts;
  std::string title() const {
    return fmt::format("{} {}{}", algorithm->name(), name(collective),
                       counts == Counts::even    ? ""
                       : counts == Counts::given ? "_v"
                                                 : "_v with exchanged counts");
  }
  bool takes(int ranks) const { return algorithm->supports_ranks(ranks); }
};

template <typename F>
void each_member(F&& f) {
  for (const Algorithm* algorithm : everything())
    for (const Collective collective : all_collectives)
      for (const Counts counts : {Counts::even, Counts::given, Counts::exchanged})
        if (algorithm->supports(collective, counts)) f(Member{algorithm, collective, counts});
}

inline PlanRequest request_of(const Member& member, int channels = 1) {
  PlanRequest request;
  request.collective = member.collective;
  request.counts = member.counts;
  request.channels = channels;
  request.grain = 1;
  return request;
}

}  // namespace weft::algo
