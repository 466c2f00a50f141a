// What most algorithms say of themselves in the same words: a name, an order, a rounding, a kind of memory, and which
// collectives they carry with which counts.
#pragma once

#include <initializer_list>

#include "weft/algo/algorithm.h"

namespace weft::algo {

// A set of collectives.
class Family {
 public:
  constexpr Family(std::initializer_list<Collective> list) {
    for (const Collective c : list) bits_ |= 1u << static_cast<unsigned>(c);
  }
  constexpr bool has(Collective c) const { return (bits_ >> static_cast<unsigned>(c) & 1) != 0; }

 private:
  unsigned bits_ = 0;
};
// Those in which every rank owns a part at the joint, those in which one owns all, and all that have a joint.
constexpr Family joints_of_parts = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather};
constexpr Family joints_of_whole = {Collective::all_reduce, Collective::broadcast, Collective::reduce};
constexpr Family joints = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                           Collective::broadcast, Collective::reduce};

enum class Carrier : uint8_t { links, mapped };

class Described : public Algorithm {
 public:
  struct Traits {
    std::string_view name;
    plan::Order order;
    plan::Round round;
    Carrier carrier;
    Family collectives;                          // with even parts
    Family given = {};                           // with a count for each part
    std::optional<plan::Id> gather_family = {};  // as Algorithm::gather_family, where it is another
  };
  explicit Described(Traits traits) : traits_(std::move(traits)) {}
  std::string_view name() const override { return traits_.name; }
  plan::Order order() const override { return traits_.order; }
  plan::Round round() const override { return traits_.round; }
  bool needs_mapped() const override { return traits_.carrier == Carrier::mapped; }
  bool supports(Collective c) const override { return traits_.collectives.has(c); }
  bool supports(Collective c, Counts counts) const override {
    if (counts == Counts::exchanged) return false;
    return supports(c) && (counts == Counts::even || traits_.given.has(c));
  }
  plan::Id gather_family() const override { return traits_.gather_family.value_or(Algorithm::gather_family()); }

 private:
  Traits traits_;
};

}  // namespace weft::algo
