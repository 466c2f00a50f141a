// Size classes of parts and their shares, measured once with Extents.
#include "weft/sim/cells.h"

#include <algorithm>
#include <map>

#include "weft/base/error.h"

namespace weft::sim {
namespace {

// The slices of the loops over a space: the one number that all shipped plans use for it; others are computed.
int slices_of(const plan::Body& body, const plan::Id& space) {
  int slices = 0;
  for (const plan::Item& item : body) {
    if (const auto* f = std::get_if<plan::For>(&item)) slices = std::max(slices, slices_of(f->body, space));
    if (const auto* w = std::get_if<plan::When>(&item)) slices = std::max(slices, slices_of(w->body, space));
    const auto* loop = std::get_if<plan::Loop>(&item);
    if (loop && std::count(loop->spaces.begin(), loop->spaces.end(), space)) slices = std::max(slices, loop->slices);
  }
  return slices;
}

}  // namespace

Cells::Cells(const plan::Instance& instance, const std::vector<plan::SpaceExtent>& spaces,
             const std::vector<int64_t>& chunk_elements)
    : extents_(instance, spaces, chunk_elements),
      channels_(static_cast<size_t>(instance.channels())),
      spaces_(instance.plan().spaces.size()) {
  for (size_t s = 0; s < spaces_.size(); ++s) {
    if (std::holds_alternative<plan::OnDevice>(extents_.spaces()[s].extent))
      throw Error(ErrorKind::unsupported,
                  fmt::format("space {}: its counts are known only to the device when the loop begins",
                              instance.plan().spaces[s].name),
                  "bind Given counts to predict such a plan");
    int slices = 1;
    for (const plan::Lane& lane : instance.plan().lanes)
      slices = std::max(slices, slices_of(lane.body, instance.plan().spaces[s].name));
    const int64_t parts = instance.parts(static_cast<int>(s));
    std::map<int64_t, uint32_t> classes;
    std::vector<uint32_t> class_of_part;
    for (int64_t p = 0; p < parts; ++p) {
      const auto found = classes.emplace(extents_.part_size(static_cast<int>(s), p), classes.size());
      class_of_part.push_back(found.first->second);
      if (found.second) spaces_[s].part_size.push_back(found.first->first);
    }
    spaces_[s].class_of_part = class_of_part;
    measure(static_cast<int>(s), slices);
    if (classes.size() <= 1) spaces_[s].class_of_part.clear();
    if (parts == 0) spaces_[s].part_size.assign(1, 0);
  }
}

void Cells::measure(int space, int slices) {
  Space& s = spaces_[static_cast<size_t>(space)];
  s.shares.resize(std::max<size_t>(1, s.part_size.size()) * channels_);
  for (size_t k = 0; k < s.part_size.size(); ++k) {
    const auto part = std::find(s.class_of_part.begin(), s.class_of_part.end(), k) - s.class_of_part.begin();
    for (size_t c = 0; c < channels_; ++c) {
      Share& share = s.shares[k * channels_ + c];
      const auto channel = static_cast<int>(c);
      share.slices = slices;
      share.full_chunks = extents_.share(space, part, channel).size() / extents_.chunk_elements(space);
      for (int slice = 0; slice < slices; ++slice) {
        share.full.push_back(share.full_chunks > 0 ? extents_.slice(space, part, channel, 0, slice, slices).size() : 0);
        share.last.push_back(extents_.slice(space, part, channel, share.full_chunks, slice, slices).size());
      }
    }
  }
}

bool Cells::uniform() const {
  return std::all_of(spaces_.begin(), spaces_.end(), [](const Space& s) { return s.class_of_part.empty(); });
}

}  // namespace weft::sim
