// What a plan will do, counted from its walks and extents: bytes, messages, steps, arithmetic, passes, hops.
//
// Ways: run the interpreter and count (slow, needs memory for the tensors), or formulas per algorithm (no help for fused
// plans). Here the text itself is counted. Chunks that are full for every part are alike, so a loop over gigabytes costs
// as much as one over two chunks; the tuner prices hundreds of schedules with this.
#include "weft/plan/stats.h"

#include <algorithm>
#include <array>
#include <map>

#include "weft/plan/hops.h"
#include "weft/plan/machine_step.h"

namespace weft::plan {
namespace {

// What flows on a link that states no wire type. Plans are small, and a link that only passes on what it received
// ends at one that knows within as many rounds as there are links.
class Dtypes {
 public:
  explicit Dtypes(const Instance& instance) : instance_(instance), links_(instance.plan().families.size()) {
    for (size_t i = 0; i < links_.size(); ++i) links_[i] = instance.wire(static_cast<int>(i));
    for (size_t round = 0; round <= links_.size(); ++round)
      for (const Lane& lane : instance.plan().lanes)
        for (const Step* step : text_steps(lane.body)) visit(lane, *step);
  }
  Dtype link(int family) const { return links_[static_cast<size_t>(family)].value_or(Dtype::f32); }

  // Of a value: what the kernel puts out, or the value that is copied. Nothing where it is not known (yet).
  std::optional<Dtype> value(const Lane& lane, const Step& step, size_t target) const {
    std::vector<Dtype> inputs;
    if (!step.reduced.empty()) {
      const std::optional<Dtype> dtype = reduced(lane, step);
      if (!dtype) return {};
      inputs.push_back(*dtype);
    }
    for (const Operand& o : step.others) {
      const std::optional<Dtype> dtype = source(lane, o);
      if (!dtype) return {};
      inputs.push_back(*dtype);
    }
    if (inputs.empty()) return {};
    if (step.kernel.name.empty()) return inputs[0];
    const kernel::Kernel& kernel =
        instance_.plan().kernels[static_cast<size_t>(find_kernel(instance_.plan(), step.kernel.name))];
    const kernel::Typed typed = kernel::type(kernel, inputs);
    return typed.outputs[std::min(target, typed.outputs.size() - 1)];
  }

  std::vector<Dtype> inputs(const Lane& lane, const Step& step) const {
    std::vector<Dtype> list;
    if (!step.reduced.empty()) list.push_back(reduced(lane, step).value_or(Dtype::f32));
    for (const Operand& o : step.others) list.push_back(source(lane, o).value_or(Dtype::f32));
    return list;
  }

 private:
  std::optional<Dtype> source(const Lane& lane, const Operand& o) const {
    if (o.kind == Operand::Kind::slice) return instance_.dtype(find_buffer(instance_.plan(), o.name));
    if (o.kind == Operand::Kind::constant) return Dtype::f64;
    return links_[static_cast<size_t>(find_family(instance_.plan(), o.name.empty() ? lane.name : o.name))];
  }
  std::optional<Dtype> reduced(const Lane& lane, const Step& step) const {
    for (const Operand& o : step.reduced)
      if (o.kind == Operand::Kind::slice) return source(lane, o);
    return source(lane, step.reduced[0]);
  }
  void visit(const Lane& lane, const Step& step) {
    for (size_t i = 0; i < step.targets.size(); ++i) {
      const Operand& o = step.targets[i];
      if (o.kind != Operand::Kind::send) continue;
      std::optional<Dtype>& link =
          links_[static_cast<size_t>(find_family(instance_.plan(), o.name.empty() ? lane.name : o.name))];
      if (!link) link = value(lane, step, i);
    }
  }

  const Instance& instance_;
  std::vector<std::optional<Dtype>> links_;
};

// Sizes of the parts of a space come in few classes (even cuts: two), and how a part is cut further goes by its size
// alone: a class is asked once for each chunk and slice, not every part. An operand may name thousands of parts.
class PartSizes {
 public:
  PartSizes(const Extents& extents, int space, int64_t parts) : extents_(&extents), space_(space) {
    std::map<int64_t, uint32_t> known;
    for (int64_t part = 0; part < parts; ++part) {
      const auto [found, fresh] = known.try_emplace(extents.part_size(space, part), firsts_.size());
      if (fresh) firsts_.push_back(part);
      class_.push_back(found->second);
    }
  }
  const std::vector<int64_t>& firsts() const { return firsts_; }  // a part of each class

  int64_t part(int64_t part) const { return extents_->part_size(space_, firsts_[class_[static_cast<size_t>(part)]]); }
  int64_t slice(int64_t part, int channel, int64_t chunk, int slice, int slices) {
    const std::array<int64_t, 4> asked{channel, chunk, slice, slices};
    if (asked != asked_) asked_ = asked, sizes_.assign(firsts_.size(), -1);
    int64_t& size = sizes_[class_[static_cast<size_t>(part)]];
    if (size < 0) size = extents_->slice(space_, part, channel, chunk, slice, slices).size();
    return size;
  }

 private:
  const Extents* extents_;
  int space_;
  std::vector<uint32_t> class_;  // by part
  std::vector<int64_t> firsts_, sizes_;
  std::array<int64_t, 4> asked_{-1, -1, -1, -1};
};

class Counter {
 public:
  Counter(const Instance& instance, const LaunchArgs& args, const Extents& extents)
      : instance_(instance),
        args_(args),
        extents_(extents),
        dtypes_(instance),
        scalars_(launch_scalars(instance.plan())) {
    for (const Lane& lane : instance.plan().lanes) {
      works_.emplace_back();
      for (const Step* step : text_steps(lane.body)) works_.back().push_back(work(lane, *step));
    }
  }

  RankStats rank(int rank) {
    stats_ = RankStats{};
    for (int lane = 0; lane < static_cast<int>(works_.size()); ++lane)
      for (int channel = 0; channel < instance_.channels(); ++channel) walk(rank, lane, channel);
    return stats_;
  }

 private:
  struct StepWork {
    double flops = 0;
    bool tile = false;
    int64_t cols = 0;
  };

  StepWork work(const Lane& lane, const Step& step) const {
    StepWork result;
    if (step.kernel.name.empty()) return result;
    const kernel::Kernel& kernel =
        instance_.plan().kernels[static_cast<size_t>(find_kernel(instance_.plan(), step.kernel.name))];
    result.tile = kernel::kind(kernel) == kernel::Kind::tile;
    if (!result.tile) {
      const std::vector<Dtype> inputs = dtypes_.inputs(lane, step);
      result.flops = kernel::work(kernel::type(kernel, inputs)).flops;
      return result;
    }
    for (size_t i = 0; i < kernel.scalars.size(); ++i) {
      const auto at = std::find(scalars_.begin(), scalars_.end(), step.kernel.scalars[i]);
      const auto index = static_cast<size_t>(at - scalars_.begin());
      if (kernel.scalars[i] == "cols" && index < args_.scalars.size())
        result.cols = static_cast<int64_t>(args_.scalars[index].as_f64());
    }
    return result;
  }

  void walk(int rank, int lane, int channel) {
    Walk walk(instance_, rank, lane, channel);
    rank_ = rank, lane_ = lane, channel_ = channel;
    while (walk.next_block()) {
      block_.head = walk.block();
      if (!block_.head.loop) {
        count_chunk(walk, 0, 1);
        continue;
      }
      const std::span<const uint16_t> spaces(block_.head.spaces.data(), block_.head.spaces.size());
      const int64_t iterations = extents_.iterations(spaces, channel), alike = full_chunks(spaces);
      if (channel == 0 && iterations > 0 && is_large(spaces)) ++stats_.passes;
      if (alike > 0) count_chunk(walk, 0, alike);
      for (int64_t chunk = alike; chunk < iterations; ++chunk) count_chunk(walk, chunk, 1);
    }
  }

  bool is_large(std::span<const uint16_t> spaces) const {
    return std::any_of(spaces.begin(), spaces.end(), [&](uint16_t s) {
      const Space& space = instance_.plan().spaces[s];
      return space.kind != Space::Kind::fixed && space.derived == Space::Derived::no;
    });
  }

  // Chunks 0 to here-1 are full in every part of every space.
  int64_t full_chunks(std::span<const uint16_t> spaces) {
    int64_t least = INT64_MAX;
    for (const uint16_t space : spaces)
      for (const int64_t part : sizes_of(space).firsts())
        least = std::min(least, extents_.share(space, part, channel_).size() / extents_.chunk_elements(space));
    return least;
  }

  PartSizes& sizes_of(int space) {
    const auto found = sizes_.find(space);
    if (found != sizes_.end()) return found->second;
    return sizes_.emplace(space, PartSizes(extents_, space, instance_.parts(space))).first->second;
  }

  void count_chunk(Walk& walk, int64_t chunk, int64_t times) {
    walk.rewind_block();
    while (walk.next(step_)) {
      for (const FlatAwait& a : step_.after) stats_.awaits += times * a.peer_count * a.channel_count;
      for (int slice = 0; slice < block_.head.slices && !step_.operands.empty(); ++slice)
        count_step(chunk, slice, static_cast<double>(times));
    }
  }

  int64_t cells(const FlatOperand& o, int64_t chunk, int slice) {
    const int space = instance_.buffer_space(o.name);
    const auto& looped = block_.head.spaces;
    const bool part_of_loop =
        block_.head.loop && std::find(looped.begin(), looped.end(), static_cast<uint16_t>(space)) != looped.end();
    int64_t elements = 0;
    PartSizes& sizes = sizes_of(space);
    const int64_t parts = instance_.parts(space);
    for (int64_t i = 0; i < o.part_count; ++i) {
      const int64_t part = part_at(o, i, parts);
      elements += part_of_loop ? sizes.slice(part, channel_, chunk, slice, block_.head.slices) : sizes.part(part);
    }
    return elements;
  }

  void count_step(int64_t chunk, int slice, double times) {
    const int main = main_operand(instance_, block_, step_);
    const int64_t count = main < 0 ? 0 : cells(step_.operands[static_cast<size_t>(main)], chunk, slice);
    if (count == 0) return;
    stats_.steps += static_cast<int64_t>(times);
    const size_t sources = size_t{step_.reduced} + step_.others;
    int64_t first_source = 0, summands = 0;
    for (size_t i = 0; i < step_.operands.size(); ++i) {
      const FlatOperand& o = step_.operands[i];
      const int64_t elements = o.kind == Operand::Kind::slice ? cells(o, chunk, slice) : count;
      if (i == 0) first_source = elements;
      if (i < step_.reduced) summands += o.peer_count;
      count_operand(o, elements, i >= sources, times);
    }
    const StepWork& work = works_[static_cast<size_t>(lane_)][step_.source_step];
    if (work.tile)
      stats_.matmul_flops += times * 2.0 * static_cast<double>(first_source) * static_cast<double>(work.cols);
    const double mine = work.tile ? 0 : work.flops * static_cast<double>(count);
    stats_.flops += times * (mine + static_cast<double>(std::max<int64_t>(0, summands - 1) * count));
  }

  void count_operand(const FlatOperand& o, int64_t elements, bool target, double times) {
    if (o.kind == Operand::Kind::constant) return;
    const Dtype dtype = o.kind == Operand::Kind::slice ? instance_.dtype(o.name) : dtypes_.link(o.name);
    const double bytes = times * static_cast<double>(elements * size_bytes(dtype));
    if (o.kind != Operand::Kind::slice) {
      (target ? stats_.messages_sent : stats_.messages_received) += static_cast<int64_t>(times) * o.peer_count;
      (target ? stats_.bytes_sent : stats_.bytes_received) += static_cast<int64_t>(bytes) * o.peer_count;
      return;
    }
    const int offset = (rank_ - o.peer_first + instance_.ranks()) % instance_.ranks();
    const int here = offset < o.peer_count ? 1 : 0, there = o.peer_count - here;
    if (target) stats_.bytes_written_here += bytes * here, stats_.bytes_written_mapped += bytes * there;
    if (!target || o.accumulate) stats_.bytes_read_here += bytes * here, stats_.bytes_read_mapped += bytes * there;
  }

  const Instance& instance_;
  const LaunchArgs& args_;
  const Extents& extents_;
  const Dtypes dtypes_;
  const std::vector<Id> scalars_;
  std::vector<std::vector<StepWork>> works_;  // per lane, per step of its text
  std::map<int, PartSizes> sizes_;            // by space
  RankStats stats_;
  int rank_ = 0, lane_ = 0, channel_ = 0;
  AssembledBlock block_;  // only its head
  FlatStep step_;
};

}  // namespace

Dtype message_dtype(const Instance& instance, int family) { return Dtypes(instance).link(family); }

namespace {

// A ring has n ranks with 2n steps each, so that walking all of them takes a minute at 1,024. Rank r+g does what rank r
// does, so g ranks say it all, but for parts that are a grain larger than others.
int64_t classes_walked(const Instance& instance) {
  constexpr int exact_ranks = 64;
  return instance.ranks() <= exact_ranks ? instance.ranks() : period(instance);
}

}  // namespace

std::vector<RankStats> stats(const Instance& instance, const LaunchArgs& args,
                             const std::vector<int64_t>& chunk_elements) {
  const Extents extents(instance, args.spaces, chunk_elements);
  Counter counter(instance, args, extents);
  std::vector<RankStats> ranks;
  const int64_t walked = classes_walked(instance);
  for (int rank = 0; rank < instance.ranks(); ++rank)
    ranks.push_back(rank < walked ? counter.rank(rank) : ranks[static_cast<size_t>(rank % walked)]);
  const std::vector<int64_t> hops = critical_hops(instance, extents);
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].critical_hops = hops[rank];
  return ranks;
}

}  // namespace weft::plan
