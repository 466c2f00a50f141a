// Cell arithmetic: where parts, shares, chunks and slices begin. Everybody who turns a plan's cells into elements asks
// here, since two back ends that disagree by one element give wrong numbers without an error.
#include <algorithm>

#include "weft/plan/launch.h"

namespace weft::plan {
namespace {

constexpr int64_t default_chunk_elements = 64 * 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The i-th of `pieces` borders of 0..size, in units of grain.
int64_t border(int64_t size, int64_t grain, int64_t i, int64_t pieces) {
  return std::min(size, ceil_div(size, grain) * i / pieces * grain);
}

[[noreturn]] void refuse_extent(const Id& space, const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::user, fmt::format("space {}: {}", space, message), remedy);
}

bool is_default(const Extent& extent) {
  const Cut* cut = std::get_if<Cut>(&extent);
  return cut && cut->outer == 1 && cut->axis == 0 && cut->inner == 1;
}

int64_t elements_of(const Cut& cut) { return cut.outer * cut.axis * cut.inner; }

}  // namespace

Extents::Extents(const Instance& instance, std::vector<SpaceExtent> spaces, std::vector<int64_t> chunk_elements)
    : instance_(&instance), spaces_(std::move(spaces)) {
  const size_t count = instance.plan().spaces.size();
  if (spaces_.size() != count)
    throw Error(ErrorKind::user,
                fmt::format("{} extents for the {} spaces of plan {}", spaces_.size(), count, instance.plan().name),
                "give one SpaceExtent for each space, in the order of the plan");
  chunk_elements.resize(count);
  measures_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Measure& m = measures_[i];
    m.parts = instance.parts(static_cast<int>(i));
    m.grain = instance.plan().spaces[i].grain;
    const int64_t chunk = chunk_elements[i] > 0 ? chunk_elements[i] : default_chunk_elements;
    m.chunk = ceil_div(chunk, m.grain) * m.grain;
    measure(static_cast<int>(i));  // in order: derived and like spaces come behind theirs
  }
}

void Extents::measure(int space) {
  const auto index = static_cast<size_t>(space);
  const Space& s = instance_->plan().spaces[index];
  Measure& m = measures_[index];
  const SpaceExtent& given = spaces_[index];
  const Cut* cut = std::get_if<Cut>(&given.extent);
  if (given.segments) {
    m.segment_begin.push_back(0);
    for (const int64_t length : given.segments->lengths) m.segment_begin.push_back(m.segment_begin.back() + length);
  }
  if (s.kind == Space::Kind::given) {
    m.known = !std::holds_alternative<OnDevice>(given.extent);
    if (cut)
      refuse_extent(s.name, "it is given, but the launch has no counts", "bind Given{counts}, one for each part");
    if (m.known) measure_given(m, std::get<Given>(given.extent).counts, s.name);
    return;
  }
  if (!cut) refuse_extent(s.name, "counts for a space that is not given", "bind Cut{outer, axis, inner}");
  if (cut->outer < 0 || cut->axis < 0 || cut->inner < 0)
    refuse_extent(s.name, fmt::format("an extent of {} x {} x {}", cut->outer, cut->axis, cut->inner),
                  "sizes are not negative");
  const bool derive = s.derived != Space::Derived::no && is_default(given.extent);
  if (s.kind == Space::Kind::fixed) {
    const int64_t count = instance_->fixed_count(space);
    m.each = count >= 0 ? count : derive ? derived_elements(space) : elements_of(*cut);
    return;
  }
  if (!s.like.empty()) return measure_like(m, find_space(instance_->plan(), s.like));
  m.cut = true;
  m.shape = derive ? Cut{1, derived_elements(space), 1} : *cut;
  m.unit = s.grain;
  if (s.kind != Space::Kind::equal) return;
  if (m.shape.axis % m.parts)
    refuse_extent(s.name, fmt::format("{} positions cannot be cut into {} equal parts", m.shape.axis, m.parts),
                  "pad it to a multiple, or make the space even");
  m.unit = std::max<int64_t>(1, m.shape.axis / m.parts);
}

void Extents::measure_given(Measure& m, const std::vector<int64_t>& counts, const Id& name) const {
  if (static_cast<int64_t>(counts.size()) != m.parts)
    refuse_extent(name, fmt::format("{} counts for {} parts", counts.size(), m.parts), "one count for each part");
  m.begin.assign(1, 0);
  for (const int64_t count : counts) {
    if (count < 0) refuse_extent(name, fmt::format("a count of {}", count), "counts are not negative");
    m.begin.push_back(m.begin.back() + count);
  }
}

void Extents::measure_like(Measure& m, int like) const {
  const Measure& other = at(like);
  m.begin.assign(1, 0);
  for (int64_t p = 0; p < m.parts; ++p) m.begin.push_back(m.begin.back() + part_size(like, p % other.parts));
}

// Elements of a derived space for one copy of the whole `of`.
int64_t Extents::derived_elements(int space) const {
  const Space& s = instance_->plan().spaces[static_cast<size_t>(space)];
  const int of = find_space(instance_->plan(), s.of);
  if (s.derived == Space::Derived::block) return ceil_div(elements(of), instance_->block_elements(space));
  if (s.derived != Space::Derived::segment) return meeting_elements(space);
  const SegmentTable* segments = spaces_[static_cast<size_t>(of)].segments;
  if (!segments)
    refuse_extent(s.name, fmt::format("derived by segment of {}, which has no segments in this launch", s.of),
                  "bind a SegmentTable to that space");
  return static_cast<int64_t>(segments->lengths.size());
}

int64_t Extents::meeting_elements(int space) const {
  const Space& s = instance_->plan().spaces[static_cast<size_t>(space)];
  const std::optional<Meeting>& meeting = spaces_[static_cast<size_t>(space)].meeting;
  if (!meeting || meeting->shape.size() != meeting->stride.size())
    refuse_extent(s.name, "derived by row or column, and the launch does not say how they meet",
                  "bind a Meeting: shape of the whole value, and a stride for each dimension");
  int64_t last = 0;
  for (size_t d = 0; d < meeting->shape.size(); ++d) {
    if (meeting->shape[d] <= 0) return 0;
    last += (meeting->shape[d] - 1) * meeting->stride[d];
  }
  return last + 1;
}

void Extents::set_given(int space, std::vector<int64_t> counts) {
  Measure& m = measures_[static_cast<size_t>(space)];
  measure_given(m, counts, instance_->plan().spaces[static_cast<size_t>(space)].name);
  m.known = true;
  spaces_[static_cast<size_t>(space)].extent = Given{std::move(counts)};
}

const Extents::Measure& Extents::at(int space) const {
  const Measure& m = measures_[static_cast<size_t>(space)];
  if (!m.known)
    throw Error(ErrorKind::internal,
                fmt::format("the counts of space {} were asked for before its loop read them",
                            instance_->plan().spaces[static_cast<size_t>(space)].name),
                "Extents::set_given() when the loop begins");
  return m;
}

// ---- parts

int64_t Extents::axis_begin(const Measure& m, int64_t part) const {
  return border(m.shape.axis, m.unit, part, m.parts);
}

int64_t Extents::elements(int space) const {
  const Measure& m = at(space);
  if (m.cut) return elements_of(m.shape);
  return m.begin.empty() ? m.parts * m.each : m.begin.back();
}

int64_t Extents::part_size(int space, int64_t part) const {
  const Measure& m = at(space);
  if (m.cut) return (axis_begin(m, part + 1) - axis_begin(m, part)) * m.shape.outer * m.shape.inner;
  const auto p = static_cast<size_t>(part);
  return m.begin.empty() ? m.each : m.begin[p + 1] - m.begin[p];
}

// Of a cut space. Even parts have floor or ceil(U / parts) units, the first has floor; the last of all units may be short
// and is in the last part. So a part other than the first and the last, and the last, are all that need looking at.
int64_t Extents::largest_part(const Measure& m) const {
  const int64_t units = ceil_div(m.shape.axis, m.unit), last = m.shape.axis - axis_begin(m, m.parts - 1);
  const int64_t others = m.parts == 1 ? 0 : (units / m.parts + (units % m.parts >= 2 ? 1 : 0)) * m.unit;
  return std::max(last, others) * m.shape.outer * m.shape.inner;
}

int64_t Extents::run_at(int space, int64_t part, int64_t at_offset, int64_t end, int64_t& count) const {
  const Measure& m = at(space);
  if (!m.cut) {
    count = end - at_offset;
    return (m.begin.empty() ? part * m.each : m.begin[static_cast<size_t>(part)]) + at_offset;
  }
  const int64_t first = axis_begin(m, part), row = (axis_begin(m, part + 1) - first) * m.shape.inner;
  const int64_t outer = row ? at_offset / row : 0, rest = at_offset - outer * row;
  count = std::min(end - at_offset, row - rest);
  if (m.shape.outer == 1 || m.parts == 1) count = end - at_offset;
  return (outer * m.shape.axis + first) * m.shape.inner + rest;
}

// ---- shares, chunks, slices

Range Extents::share(int space, int64_t part, int channel) const {
  const int64_t size = part_size(space, part), channels = instance_->channels();
  const int64_t grain = measures_[static_cast<size_t>(space)].grain;
  return {border(size, grain, channel, channels), border(size, grain, channel + 1, channels)};
}

// The largest part has not the largest share of every channel: of 8 channels, channel 3 has an element of a part of 2
// (2 * 4 / 8 - 2 * 3 / 8 = 1), and none of a part of 3. So every size that a part has is asked.
int64_t Extents::chunks(int space, int channel) const {
  const Measure& m = at(space);
  const int64_t channels = instance_->channels();
  const auto chunks_of = [&](int64_t size) {
    return ceil_div(border(size, m.grain, channel + 1, channels) - border(size, m.grain, channel, channels), m.chunk);
  };
  if (m.cut)  // these are all the sizes there are
    return std::max(
        {chunks_of(part_size(space, 0)), chunks_of(largest_part(m)), chunks_of(part_size(space, m.parts - 1))});
  if (m.begin.empty()) return chunks_of(m.each);
  int64_t most = 0;
  for (int64_t p = 0; p < m.parts; ++p) most = std::max(most, chunks_of(part_size(space, p)));
  return most;
}

Range Extents::chunk(int space, int64_t part, int channel, int64_t chunk) const {
  const Range all = share(space, part, channel);
  const int64_t elements = measures_[static_cast<size_t>(space)].chunk;
  const int64_t begin = chunk >= ceil_div(all.size(), elements) ? all.end : all.begin + chunk * elements;
  return {begin, std::min(begin + elements, all.end)};
}

Range Extents::slice(int space, int64_t part, int channel, int64_t chunk, int slice, int slices) const {
  const Range all = this->chunk(space, part, channel, chunk);
  const int64_t grain = measures_[static_cast<size_t>(space)].grain;
  return {all.begin + border(all.size(), grain, slice, slices),
          all.begin + border(all.size(), grain, slice + 1, slices)};
}

int64_t Extents::iterations(std::span<const uint16_t> spaces, int channel) const {
  int64_t most = 0;
  for (const uint16_t space : spaces) most = std::max(most, chunks(space, channel));
  return most;
}

// ---- derived spaces

int64_t Extents::meet_at(int derived, int64_t position, int64_t& count) const {
  const Space& s = instance_->plan().spaces[static_cast<size_t>(derived)];
  const int of = find_space(instance_->plan(), s.of);
  if (s.derived == Space::Derived::block) {
    const int64_t block = instance_->block_elements(derived);
    count = block - position % block;
    return position / block;
  }
  if (s.derived == Space::Derived::segment) {
    const std::vector<int64_t>& begin = measures_[static_cast<size_t>(of)].segment_begin;
    const auto after = std::upper_bound(begin.begin(), begin.end(), position);  // skips empty segments
    if (after == begin.end() || after == begin.begin())
      refuse_extent(s.of, fmt::format("element {} lies in no segment", position),
                    "the lengths of the segments add up to the space's extent");
    count = *after - position;
    return after - begin.begin() - 1;
  }
  meeting_elements(derived);  // checks that the launch says how they meet
  const Meeting& meeting = *spaces_[static_cast<size_t>(derived)].meeting;
  int64_t met = 0, rest = position, same = 1;
  bool run = true;  // the dimensions seen so far (inner ones) all have stride 0
  count = 1;
  for (size_t d = meeting.shape.size(); d-- > 0;) {
    const int64_t index = rest % meeting.shape[d];
    rest /= meeting.shape[d];
    met += index * meeting.stride[d];
    run = run && (meeting.stride[d] == 0 || meeting.shape[d] == 1);
    if (!run) continue;
    same *= meeting.shape[d];
    count = same - position % same;
  }
  return met;
}

}  // namespace weft::plan
