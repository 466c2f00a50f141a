// The recipe of a launch, carried out: extents from sizes, memory by name, scalars by expression.
//
// Segment tables are looked up by content and live as long as the process: a launch hands out pointers to them, and a
// model has one list of shapes.
#include <algorithm>
#include <memory>
#include <mutex>

#include "weft/lower/lower.h"

namespace weft::lower {
namespace {

const plan::SegmentTable* shared_table(const std::vector<int64_t>& lengths) {
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, std::unique_ptr<plan::SegmentTable>> tables;
  const std::lock_guard lock(mutex);
  std::unique_ptr<plan::SegmentTable>& table = tables[lengths];
  if (!table) table = std::make_unique<plan::SegmentTable>(plan::SegmentTable{lengths});
  return table.get();
}

// Position in a value of `shape` -> element of the coarser value, aligned from the right.
plan::Meeting meeting(const std::vector<int64_t>& shape, const std::vector<int64_t>& coarse) {
  plan::Meeting meeting{shape, std::vector<int64_t>(shape.size(), 0)};
  int64_t stride = 1;
  for (size_t i = 1; i <= coarse.size(); ++i) {
    const int64_t size = coarse[coarse.size() - i];
    if (size != 1) meeting.stride[shape.size() - i] = stride;
    stride *= size;
  }
  return meeting;
}

plan::Cut cut_of(const std::vector<int64_t>& shape, int dim) {
  plan::Cut cut{1, 1, 1};
  if (dim < 0) {
    for (const int64_t size : shape) cut.axis *= size;
    return cut;
  }
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    (d < dim ? cut.outer : d == dim ? cut.axis : cut.inner) *= shape[static_cast<size_t>(d)];
  return cut;
}

int64_t elements_of(const std::vector<int64_t>& shape, size_t from = 0) {
  int64_t product = 1;
  for (size_t d = from; d < shape.size(); ++d) product *= shape[d];
  return product;
}

plan::SpaceExtent extent(const Lowered& lowered, size_t s, const ir::Sizes& sizes, int rank) {
  const SpaceRecipe& recipe = lowered.spaces[s];
  const plan::Space& space = lowered.plan.spaces[s];
  plan::SpaceExtent result;
  const std::vector<int64_t> shape = ir::shape_of(recipe.shape, sizes);
  if (!recipe.ragged.empty()) {
    std::vector<int64_t> counts = ir::ragged_parts(sizes, recipe.ragged, rank);
    for (int64_t& count : counts) count *= elements_of(shape, 1);
    result.extent = plan::Given{std::move(counts)};
    return result;
  }
  if (space.derived == plan::Space::Derived::row || space.derived == plan::Space::Derived::column)
    result.meeting = meeting(ir::shape_of(lowered.spaces[static_cast<size_t>(recipe.of)].shape, sizes), shape);
  if (space.kind == plan::Space::Kind::fixed) {
    result.extent = cut_of(shape, -1);
    return result;
  }
  result.extent = cut_of(shape, recipe.cut);
  if (!recipe.tensors.empty()) result.segments = shared_table(ir::tensors_lengths(sizes, recipe.tensors));
  return result;
}

std::vector<plan::SpaceExtent> extents(const Lowered& lowered, const ir::Sizes& sizes, int rank) {
  std::vector<plan::SpaceExtent> list;
  for (size_t s = 0; s < lowered.spaces.size(); ++s) list.push_back(extent(lowered, s, sizes, rank));
  return list;
}

expr::ScalarValue whole(int64_t value) { return {true, value, static_cast<double>(value)}; }

expr::ScalarValue scalar(const std::string& name, const ir::Sizes& sizes, int rank) {
  if (name == "ranks") return whole(sizes.ranks);
  if (const auto found = sizes.scalars.find(name); found != sizes.scalars.end()) return found->second;
  if (const auto found = sizes.dims.find(name); found != sizes.dims.end()) return whole(found->second);
  if (sizes.tensors.count(name)) return whole(ir::tensors_total(sizes, name));
  if (name == "rank") return whole(rank);
  if (sizes.scalars.empty()) return {};  // they come with each launch
  throw Error(ErrorKind::user, fmt::format("no value for {}", name), fmt::format("hand it in: {}=...", name));
}

}  // namespace

plan::LaunchArgs launch_args(const Lowered& lowered, const ir::Sizes& sizes, int rank,
                             const std::map<ir::Name, plan::Binding>& bindings) {
  plan::LaunchArgs args;
  args.spaces = extents(lowered, sizes, rank);
  for (size_t b = 0; b < lowered.buffers.size(); ++b) {
    const BufferRecipe& recipe = lowered.buffers[b];
    const ir::Name& name = recipe.state ? recipe.state_name : recipe.value;
    args.buffers.emplace_back();
    if (name.empty() || bindings.empty()) continue;
    const auto bound =
        std::find_if(bindings.begin(), bindings.end(), [&](const auto& binding) { return recipe.is(binding.first); });
    if (bound == bindings.end())
      throw Error(ErrorKind::user, fmt::format("nothing is bound to {}", name),
                  fmt::format("bind memory to {}, {}", name,
                              recipe.state   ? "a state"
                              : recipe.input ? "an input"
                                             : "an output"));
    args.buffers.back() = bound->second;
  }
  for (const expr::Expr& value : lowered.scalars)
    args.scalars.push_back(
        expr::evaluate_scalar(value, [&](const std::string& name) { return scalar(name, sizes, rank); }));
  return args;
}

plan::LaunchArgs common_launch_args(const Lowered& lowered, const ir::Sizes& sizes) {
  for (const SpaceRecipe& recipe : lowered.spaces)
    if (!recipe.ragged.empty())
      throw Error(ErrorKind::unsupported,
                  fmt::format("{}: rows that every rank counts for itself, {}, in what is said of all ranks",
                              lowered.plan.name, recipe.ragged),
                  "`weft run` and `weft tune` measure it on ranks; equal blocks (dim T) can be simulated");
  return launch_args(lowered, sizes, 0, {});
}

namespace {

// A buffer of some depth holds that many chunks of each share of the part.
int64_t part_elements(const plan::Extents& extents, const plan::Instance& instance, int space, int64_t part,
                      int depth) {
  if (depth == 0) return extents.part_size(space, part);
  int64_t elements = 0;
  for (int c = 0; c < instance.channels(); ++c)
    elements += extents.chunk(space, part, c, 0).size() * std::min<int64_t>(depth, extents.chunks(space, c));
  return elements;
}

}  // namespace

int64_t buffer_bytes(const Lowered& lowered, const ir::Sizes& sizes, int rank, int buffer) {
  const plan::Instance instance(lowered.plan, sizes.ranks);
  const plan::Extents extents(instance, lower::extents(lowered, sizes, rank), lowered.chunk_elements);
  const plan::Buffer& text = lowered.plan.buffers[static_cast<size_t>(buffer)];
  const int space = instance.buffer_space(buffer);
  if (const SpaceRecipe& recipe = lowered.spaces[static_cast<size_t>(space)]; !recipe.ragged.empty() && !text.depth)
    return elements_of(ir::shape_of(recipe.shape, sizes)) * size_bytes(instance.dtype(buffer));
  const int64_t own = instance.own_part(buffer, rank), parts = instance.parts(space);
  int64_t elements = 0;
  for (int64_t p = 0; p < parts; ++p)
    if (own < 0 ? own != expr::none : own == p) elements += part_elements(extents, instance, space, p, text.depth);
  return elements * size_bytes(instance.dtype(buffer));
}

}  // namespace weft::lower
