// Products of sizes are bounded by ir (2^53 elements a value), their bytes over all values and ranks are not: doubles.
#include "weft/api/need.h"

#include <algorithm>
#include <cmath>

#include "weft/api/memory.h"
#include "weft/base/file.h"

namespace weft::api {
namespace {

double elements_of(const ir::Type& type, const ir::Sizes& sizes) {
  double elements = 1;
  for (const int64_t extent : ir::shape_of(type.shape, sizes)) elements *= static_cast<double>(extent);
  return elements;
}

// The evaluator holds eight bytes an element: on each rank, or a part on each.
double held_bytes(const ir::Type& type, const ir::Sizes& sizes) {
  return 8 * elements_of(type, sizes) * (std::holds_alternative<ir::Sliced>(type.layout) ? 1 : sizes.ranks);
}

// By this factor, and by half at most.
void shrink(int64_t& extent, double factor) {
  extent = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(extent) * std::max(0.5, factor)));
}

bool shrink_tensors(std::vector<std::vector<int64_t>>& shapes, double factor) {
  bool changed = false;
  for (std::vector<int64_t>& shape : shapes) {
    const auto longest = std::max_element(shape.begin(), shape.end());
    if (longest == shape.end() || *longest < 2) continue;
    shrink(*longest, factor);
    changed = true;
  }
  return changed;
}

// Brings one value's elements down by `factor`, or a part of the way. False: nothing in its shape can give.
bool shrink_value(const ir::Type& type, double factor, ir::Sizes& sizes) {
  const ir::Size* longest = nullptr;
  int64_t most = 1;
  const std::vector<int64_t> extents = ir::shape_of(type.shape, sizes);
  for (size_t d = 0; d < extents.size(); d++)
    if (extents[d] > most && !type.shape[d].name.empty() && !type.shape[d].per_tensor)
      most = extents[d], longest = &type.shape[d];
  if (!longest) return false;
  if (const auto list = sizes.tensors.find(longest->name); list != sizes.tensors.end())
    return shrink_tensors(list->second, factor);
  shrink(sizes.dims.at(longest->name), factor);
  return true;
}

}  // namespace

void require_memory(double bytes, const std::string& what, const std::string& remedy) {
  const auto free = static_cast<double>(free_memory_bytes());
  if (bytes <= free) return;
  throw Error(ErrorKind::io,
              fmt::format("not enough memory for {}: {} needed, {} free", what, human_bytes(bytes), human_bytes(free)),
              remedy);
}

double ranks_bytes(const std::vector<tune::Trial>& trials, const ir::Sizes& sizes) {
  double most = 0;
  for (const tune::Trial& trial : trials)
    most = std::max(most, static_cast<double>(lay_out(trial.lowered, sizes, 0, true).total_bytes));
  return most * sizes.ranks;
}

double reference_bytes(const ir::Program& program, const ir::Sizes& sizes, int launches) {
  const ir::Types types = ir::infer(program);
  double bytes = 0;
  for (const auto& [name, type] : types) bytes += held_bytes(type, sizes);
  const auto kept = [&](const ir::Name& name, int times) {  // whole on every rank, whatever its layout
    bytes += 8.0 * times * elements_of(types.at(name), sizes) * sizes.ranks;
  };
  for (const ir::Out& out : program.outs) kept(out.value, launches);
  for (const ir::TensorDecl& tensor : program.tensors)
    if (tensor.state) kept(tensor.name, launches + 2);  // old and new ones beside what is kept
  return 1.1 * bytes;
}

namespace {

// One program for each `require`, so that those which do not hold can be counted.
std::vector<ir::Program> by_requirement(const ir::Program& program) {
  std::vector<ir::Program> list;
  for (const ir::HeaderDecl& kept : program.header) {
    if (!std::holds_alternative<ir::RequireDecl>(kept)) continue;
    ir::Program one = program;
    std::erase_if(one.header, [](const ir::HeaderDecl& decl) { return std::holds_alternative<ir::RequireDecl>(decl); });
    one.header.push_back(kept);
    list.push_back(std::move(one));
  }
  return list;
}

int64_t broken(const std::vector<ir::Program>& requirements, const ir::Sizes& sizes) {
  return std::count_if(requirements.begin(), requirements.end(), [&](const ir::Program& one) {
    try {
      ir::check_requirements(one, sizes);
      return false;
    } catch (const Error&) { return true; }
  });
}

// Sizes a little smaller, dim by dim, until what the program requires holds again. False: there are none near.
bool settle(const std::vector<ir::Program>& requirements, const ir::Sizes& full, ir::Sizes& sizes) {
  constexpr int64_t furthest = 1 << 16;
  int64_t left = broken(requirements, sizes);
  for (bool moved = true; left > 0 && moved;) {
    moved = false;
    for (auto& [name, size] : sizes.dims) {
      if (size == full.dims.at(name)) continue;
      const int64_t from = size;
      for (size = from - 1; size >= std::max<int64_t>(1, from - furthest); --size)
        if (const int64_t now = broken(requirements, sizes); now < left) {
          left = now, moved = true;
          break;
        }
      if (!moved) size = from;
      if (moved) break;
    }
  }
  return left == 0;
}

ir::Sizes shrunk(const ir::Program& program, const ir::Sizes& sizes, int64_t elements) {
  const ir::Types types = ir::infer(program);
  ir::Sizes out = sizes;
  std::vector<ir::Name> fixed;  // values that can be made no smaller
  for (;;) {
    const ir::Name* largest = nullptr;
    double most = static_cast<double>(elements);
    for (const auto& [name, type] : types)
      if (elements_of(type, out) > most && std::find(fixed.begin(), fixed.end(), name) == fixed.end())
        most = elements_of(type, out), largest = &name;
    if (!largest) return out;
    if (!shrink_value(types.at(*largest), static_cast<double>(elements) / most, out)) fixed.push_back(*largest);
  }
}

}  // namespace

ir::Sizes scaled(const ir::Program& program, const ir::Sizes& sizes, int64_t elements) {
  ir::Sizes out = shrunk(program, sizes, elements);
  return settle(by_requirement(program), sizes, out) ? out : sizes;
}

}  // namespace weft::api
