// verify() proves what holds for every size. A launch has sizes, and a device has limits: whether messages fit slots,
// scratch fits memory and lanes fit the device is arithmetic over the walks, without running anything.
//
// Residency. Lanes become resident in issue order (launch, lane, channel). Let i be the first place, over all ranks,
// that has not ended; all lanes at i are resident, since every rank has at least one place left for it. Does it wait
// only for places up to i, some lane at i can go on (the plan has no deadlock, V7). So spinning lanes are safe if all fit,
// or if nobody waits for a later place; waiting means awaits, messages, and slots that a later lane must give back.
#include "weft/plan/verify_launch.h"

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/text.h"
#include "weft/plan/machine_step.h"
#include "weft/plan/stats.h"

namespace weft::plan {
namespace {

constexpr int most_findings = 4;           // of each kind
constexpr int64_t most_borders = 1 << 16;  // looked at for rows

std::string bytes_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

class LaunchCheck {
 public:
  LaunchCheck(const Instance& instance, const std::vector<SpaceExtent>& spaces, const std::vector<int64_t>& chunks,
              const Device& device)
      : instance_(instance),
        plan_(instance.plan()),
        device_(device),
        extents_(instance, spaces, chunks),
        assembly_(assemble(instance)),
        largest_message_(plan_.families.size(), 0) {}

  std::vector<Finding> check() {
    each_step([this](int lane, int block, int step) { check_message(lane, block, step); });
    check_memory();
    if (!device_.resumable) check_residency();
    for (size_t b = 0; b < plan_.buffers.size(); ++b) check_width(static_cast<int>(b));
    for (size_t s = 0; s < plan_.spaces.size(); ++s) check_rows(static_cast<int>(s));
    return std::move(findings_);
  }

 private:
  template <typename F>
  void each_step(F&& f) {
    for (size_t l = 0; l < assembly_.lanes.size(); ++l)
      for (size_t b = 0; b < assembly_.lanes[l].blocks.size(); ++b)
        for (size_t s = 0; s < assembly_.lanes[l].blocks[b].steps.size(); ++s)
          f(static_cast<int>(l), static_cast<int>(b), static_cast<int>(s));
  }
  const AssembledLane& lane_at(int lane) const { return assembly_.lanes[static_cast<size_t>(lane)]; }
  const Space& space_at(int space) const { return plan_.spaces[static_cast<size_t>(space)]; }
  bool is_known(int space) const {
    return !std::holds_alternative<OnDevice>(extents_.spaces()[static_cast<size_t>(space)].extent);
  }

  void add(const std::string& kind, Finding finding) {
    if (++found_[kind] <= most_findings) findings_.push_back(std::move(finding));
  }
  void declare(const std::string& kind, const std::string& rule, const std::string& message) {
    Finding finding;
    finding.rule = rule;
    finding.message = message;
    add(kind, std::move(finding));
  }
  void fault(const std::string& kind, int lane, int block, int step, const std::string& rule,
             const std::string& message) {
    Finding finding;
    finding.rule = rule;
    finding.rank = lane_at(lane).rank;
    finding.lane = plan_.lanes[static_cast<size_t>(lane_at(lane).lane)].name;
    finding.channel = lane_at(lane).channel;
    finding.step = assembly_.describe_step(lane, block, step);
    finding.message = message;
    add(kind, std::move(finding));
  }

  // ---- V14: messages
  // Elements of the largest message of a step: chunk 0 of a part is its largest.
  int64_t elements(const AssembledLane& lane, const Block& head, const FlatOperand& operand) const {
    const int space = instance_.buffer_space(operand.name);
    if (!is_known(space)) return operand.part_count * extents_.chunk_elements(space);
    std::vector<int64_t> all(static_cast<size_t>(head.loop ? head.slices : 1), 0);
    for (int64_t i = 0; i < operand.part_count; ++i) {
      const int64_t part = part_at(operand, i, instance_.parts(space));
      for (size_t q = 0; q < all.size(); ++q)
        all[q] += head.loop ? extents_.slice(space, part, lane.channel, 0, static_cast<int>(q), head.slices).size()
                            : extents_.part_size(space, part);
    }
    return *std::max_element(all.begin(), all.end());
  }

  void check_message(int lane, int block, int step) {
    const AssembledBlock& where = lane_at(lane).blocks[static_cast<size_t>(block)];
    const AssembledStep& what = where.steps[static_cast<size_t>(step)];
    const int main = what.sends.empty() ? -1 : main_operand(instance_, where, what.flat);
    if (main < 0) return;
    const int64_t count = elements(lane_at(lane), where.head, what.flat.operands[static_cast<size_t>(main)]);
    for (const int link : what.sends) {
      const int family = assembly_.links[static_cast<size_t>(link)].family;
      const int64_t bytes = count * size_bytes(message_dtype(instance_, family));
      int64_t& most = largest_message_[static_cast<size_t>(family)];
      most = std::max(most, bytes);
      if (bytes > device_.slot_bytes)
        fault("slot", lane, block, step, "V14",
              fmt::format("a message of {} on link {}, whose slots hold {}. Remedy: smaller chunks, or more slices",
                          bytes_text(bytes), plan_.families[static_cast<size_t>(family)].name,
                          bytes_text(device_.slot_bytes)));
    }
  }

  // ---- V14: memory
  int64_t scratch_bytes(int buffer) const {
    const Buffer& text = plan_.buffers[static_cast<size_t>(buffer)];
    const int space = instance_.buffer_space(buffer);
    const int64_t size = size_bytes(instance_.dtype(buffer));
    if (!is_known(space)) return 0;
    int64_t part = 0, chunk = 0;
    for (int64_t p = 0; p < instance_.parts(space); ++p) {
      part = std::max(part, extents_.part_size(space, p));
      for (int c = 0; c < instance_.channels(); ++c) chunk = std::max(chunk, extents_.chunk(space, p, c, 0).size());
    }
    if (text.depth > 0) return chunk * text.depth * instance_.parts(space) * instance_.channels() * size;
    return (text.own ? part : extents_.elements(space)) * size;
  }

  void check_memory() {
    std::map<int, int64_t> scratch;  // by root: what shares memory counts once
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const int root = instance_.buffer_root(static_cast<int>(b));
      if (plan_.buffers[static_cast<size_t>(root)].role == Buffer::Role::scratch)
        scratch[root] = std::max(scratch[root], scratch_bytes(static_cast<int>(b)));
    }
    std::vector<int64_t> slots(static_cast<size_t>(instance_.ranks()), 0);  // they lie with who receives
    for (const Link& link : assembly_.links)
      slots[static_cast<size_t>(link.to)] +=
          plan_.families[static_cast<size_t>(link.family)].slots * largest_message_[static_cast<size_t>(link.family)];
    int64_t need = *std::max_element(slots.begin(), slots.end());
    for (const auto& [root, bytes] : scratch) need += bytes;
    if (need > device_.memory_bytes)
      declare("memory", "V14",
              fmt::format("scratch and slots need {} on a rank that has {}. Remedy: smaller chunks, fewer slots or "
                          "channels, or a plan with less scratch",
                          bytes_text(need), bytes_text(device_.memory_bytes)));
  }

  // ---- V14: residency
  int place(int lane) const { return lane_at(lane).lane * instance_.channels() + lane_at(lane).channel; }

  void check_residency() {
    std::vector<int> lanes_of(static_cast<size_t>(instance_.ranks()), 0);
    for (const AssembledLane& lane : assembly_.lanes) ++lanes_of[static_cast<size_t>(lane.rank)];
    const int64_t together =
        int64_t{*std::max_element(lanes_of.begin(), lanes_of.end())} * std::max(1, device_.launches_together);
    if (together <= device_.resident_lanes) return;
    std::vector<int> sender(assembly_.links.size(), -1), receiver = sender;
    each_step([&](int lane, int block, int step) {
      const AssembledStep& what = lane_at(lane).blocks[static_cast<size_t>(block)].steps[static_cast<size_t>(step)];
      for (const int link : what.sends) sender[static_cast<size_t>(link)] = lane;
      for (const int link : what.receives) receiver[static_cast<size_t>(link)] = lane;
    });
    each_step([&](int lane, int block, int step) {
      const AssembledStep& what = lane_at(lane).blocks[static_cast<size_t>(block)].steps[static_cast<size_t>(step)];
      std::set<int> on;
      for (const Awaited& awaited : what.after) on.insert(awaited.lane);
      for (const int link : what.receives) on.insert(sender[static_cast<size_t>(link)]);
      for (const int link : what.sends) on.insert(receiver[static_cast<size_t>(link)]);
      for (const int other : on)
        if (other >= 0 && place(other) > place(lane))
          fault("resident", lane, block, step, "V14",
                fmt::format("spins for lane {} channel {} of rank {}, which comes later, and {} lanes may run together "
                            "where {} have room. Remedy: fewer channels or launches at a time, or lanes in the order "
                            "in which they feed each other",
                            plan_.lanes[static_cast<size_t>(lane_at(other).lane)].name, lane_at(other).channel,
                            lane_at(other).rank, together, device_.resident_lanes));
    });
  }

  // ---- V16
  bool is_cut_by_loops(int space) const {
    bool looped = false;
    for (const AssembledLane& lane : assembly_.lanes)
      for (const AssembledBlock& block : lane.blocks)
        looped |= block.head.loop && std::find(block.head.spaces.begin(), block.head.spaces.end(),
                                               static_cast<uint16_t>(space)) != block.head.spaces.end();
    return looped;
  }

  void check_width(int buffer) {
    const int space = instance_.buffer_space(buffer);
    const int64_t grain_bytes = space_at(space).grain * size_bytes(instance_.dtype(buffer));
    if (device_.wide_bytes <= 1 || grain_bytes % device_.wide_bytes == 0 || !is_cut_by_loops(space)) return;
    declare(
        "width", "V16",
        fmt::format("cells of {} begin at multiples of {} bytes (grain {} of space {}), accesses are {} wide. Remedy: "
                    "a grain of {}",
                    plan_.buffers[static_cast<size_t>(buffer)].name, grain_bytes, space_at(space).grain,
                    space_at(space).name, device_.wide_bytes,
                    std::max<int64_t>(1, device_.wide_bytes / size_bytes(instance_.dtype(buffer)))));
  }

  // An element of an even space by row (or column) has one home. A border inside its row would give it two.
  void check_rows(int derived) {
    const Space& s = space_at(derived);
    if (s.kind != Space::Kind::even || (s.derived != Space::Derived::row && s.derived != Space::Derived::column))
      return;
    const int of = find_space(plan_, s.of);
    if (of < 0 || !is_known(of) || extents_.elements(of) == 0) return;
    int64_t looked = 0;
    for (int64_t part = 0; part < instance_.parts(of); ++part)
      for (int channel = 0; channel < instance_.channels(); ++channel)
        for (int64_t chunk = 0; chunk < extents_.chunks(of, channel) && ++looked < most_borders; ++chunk)
          if (cuts_a_row(derived, of, part, extents_.chunk(of, part, channel, chunk)))
            return declare("row", "V16",
                           fmt::format("part {} of {} (channel {}, chunk {}) begins inside an element of {}. Remedy: "
                                       "space {} ... grain {}",
                                       part, s.of, channel, chunk, s.name, s.of, row_length(derived)));
  }
  bool cuts_a_row(int derived, int of, int64_t part, Range cell) const {
    if (cell.size() <= 0) return false;
    int64_t count = 0;
    const int64_t first = extents_.run_at(of, part, cell.begin, cell.end, count);
    return first > 0 && extents_.meet_at(derived, first - 1, count) == extents_.meet_at(derived, first, count);
  }
  int64_t row_length(int derived) const {
    int64_t count = 0;
    extents_.meet_at(derived, 0, count);
    return count;
  }

  const Instance& instance_;
  const Plan& plan_;
  const Device& device_;
  const Extents extents_;
  const Assembly assembly_;
  std::vector<int64_t> largest_message_;  // per family, bytes
  std::map<std::string, int> found_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> verify_launch(const Instance& instance, const std::vector<SpaceExtent>& spaces,
                                   const std::vector<int64_t>& chunk_elements, const Device& device) {
  return LaunchCheck(instance, spaces, chunk_elements, device).check();
}

}  // namespace weft::plan
