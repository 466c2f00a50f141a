// The one list of algorithms, in the order in which they are tried and shown.
//
// Static self-registration would save this file a line per algorithm, but a linker drops objects of a static library
// that nobody names, and the order of initialisation is nobody's choice. So the list is written out.
#include "weft/algo/registry.h"

namespace weft::algo {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
  }
  return "";
}

const std::vector<const Algorithm*>& algorithms() {
  static const std::vector<const Algorithm*> list = {&pairwise(), &direct(), &oneshot(),   &mesh(),
                                                     &ring(),     &chain(),  &gather_all()};
  return list;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm* algorithm : algorithms())
    if (algorithm->name() == name) return algorithm;
  return nullptr;
}

}  // namespace weft::algo
