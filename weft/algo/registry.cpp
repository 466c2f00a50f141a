// The one list of algorithms, in the order in which they are tried and shown.
//
// Static self-registration would save this file a line per algorithm, but a linker drops objects of a static library
// that nobody names, and the order of initialisation is nobody's choice. So the list is written out.
#include "weft/algo/registry.h"

#include <charconv>

namespace weft::algo {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
    case Collective::scatter: return "scatter";
    case Collective::gather: return "gather";
    case Collective::all_to_all: return "all_to_all";
    case Collective::send_recv: return "send_recv";
    case Collective::barrier: return "barrier";
  }
  return "";
}

const std::vector<const Algorithm*>& algorithms() {
  static const std::vector<const Algorithm*> list = {
      &pairwise(), &direct(), &oneshot(), &pull(), &mesh(),     &ring(),          &chain(),     &halving(),
      &doubling(), &bruck(),  &pat(),     &tree(), &binomial(), &dissemination(), &gather_all()};
  return list;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm* algorithm : algorithms())
    if (algorithm->name() == name) return algorithm;
  constexpr std::string_view levels = "hierarchical:";
  int host_ranks = 0;
  if (name.substr(0, levels.size()) != levels) return nullptr;
  const std::string_view number = name.substr(levels.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), host_ranks);
  const bool whole = error == std::errc() && end == number.data() + number.size();
  return whole && host_ranks > 0 ? &hierarchical(host_ranks) : nullptr;
}

}  // namespace weft::algo
