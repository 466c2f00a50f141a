// Addresses of elements (layout.h).
#include "weft/runtime/layout.h"

#include <algorithm>

namespace weft::runtime {

SegmentIndex::SegmentIndex(std::span<const int64_t> lengths) : lengths_(lengths.begin(), lengths.end()) {
  for (size_t i = 0; i < lengths_.size(); ++i) {
    if (lengths_[i] < 0) throw Error(ErrorKind::user, fmt::format("segment {} has {} elements", i, lengths_[i]));
    elements_ += lengths_[i];
  }
  buckets_.reserve(static_cast<size_t>((elements_ + bucket_elements - 1) / bucket_elements));
  int64_t begin = 0;  // of segment s
  size_t s = 0;
  for (int64_t at = 0; at < elements_; at += bucket_elements) {
    while (at >= begin + lengths_[s]) begin += lengths_[s++];
    const auto offset = static_cast<uint64_t>(at - begin);
    buckets_.push_back({static_cast<uint32_t>(s), static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)});
  }
}

SegmentIndex::Place SegmentIndex::find(int64_t position) const {
  const Bucket& bucket = buckets_[static_cast<size_t>(position / bucket_elements)];
  auto segment = static_cast<int64_t>(bucket.segment);
  int64_t offset = static_cast<int64_t>(static_cast<uint64_t>(bucket.offset_high) << 32 | bucket.offset_low) +
                   position % bucket_elements;
  while (offset >= lengths_[static_cast<size_t>(segment)]) offset -= lengths_[static_cast<size_t>(segment++)];
  return {segment, offset, lengths_[static_cast<size_t>(segment)] - offset};
}

int64_t Meet::find(int64_t position, int64_t& count) const {
  if (index) {
    const SegmentIndex::Place place = index->find(position);
    count = std::min(count, place.rest);
    return place.segment;
  }
  if (block > 0) {
    count = std::min(count, block - position % block);
    return position / block;
  }
  int64_t element = 0, rest = position;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t here = rest % shape[d];
    if (d + 1 == shape.size()) count = std::min(count, shape[d] - here);
    element += here * stride[d];
    rest /= shape[d];
  }
  return element;
}

namespace {

std::byte* locate_strided(const Address& address, int64_t position, int64_t& count) {
  const StridedView& view = *address.view;
  std::byte* at = address.base;
  int64_t rest = position;
  for (size_t d = view.shape.size(); d-- > 0;) {
    const int64_t here = rest % view.shape[d];
    if (d + 1 == view.shape.size())
      count = std::min(count, view.stride_bytes[d] == address.stride ? view.shape[d] - here : 1);
    at += here * view.stride_bytes[d];
    rest /= view.shape[d];
  }
  return at;
}

}  // namespace

std::byte* locate(const Address& address, int64_t at, int64_t position, int64_t& count) {
  switch (address.kind) {
    case Address::Kind::flat:
    case Address::Kind::turn:
    case Address::Kind::message: return address.base + at * address.stride;
    case Address::Kind::value: return address.base + position * address.stride;
    case Address::Kind::strided: return locate_strided(address, position, count);
    case Address::Kind::strided_own: return locate_strided(address, at, count);
    case Address::Kind::segments: {
      const SegmentIndex::Place place = address.scattered->index->find(position);
      count = std::min(count, place.rest);
      return address.scattered->data[static_cast<size_t>(place.segment)] + place.offset * address.stride;
    }
    case Address::Kind::derived: {
      std::byte* cell = address.base + address.meet->find(position, count) * address.stride;
      if (address.one_cell) count = std::min<int64_t>(count, 1);
      return cell;
    }
  }
  return nullptr;
}

}  // namespace weft::runtime
