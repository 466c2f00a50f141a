// The meaning of a program on patterned data: the reference evaluator, launch after launch.
//
// States of a launch are the updates of the one before it, sliced as the program declares them; results are put together
// to whole values, since a schedule may store them otherwise than the program says.
#include "weft/api/reference.h"

#include <numeric>

#include "weft/api/pattern.h"
#include "weft/ir/evaluate_op.h"

namespace weft::api {
namespace {

// Each rank's group's value; nothing on ranks that have none.
std::vector<ir::Tensor> whole_values(std::vector<ir::Tensor> per_rank, const ir::Type& type,
                                     const ir::GroupRanks& group) {
  const auto* sliced = std::get_if<ir::Sliced>(&type.layout);
  if (!sliced) return per_rank;
  for (const std::vector<int>& members : group.members) {
    if (!ir::present(type, group, members[0])) continue;
    std::vector<ir::Tensor> slices;
    for (const int rank : members) slices.push_back(per_rank[static_cast<size_t>(rank)]);
    for (const int rank : members) per_rank[static_cast<size_t>(rank)] = ir::concatenate(slices, sliced->dim);
  }
  return per_rank;
}

// Ragged rows are as many as this rank has.
std::vector<int64_t> shape_on(const ir::Program& program, const ir::Shape& shape, const ir::Sizes& sizes, int rank) {
  std::vector<int64_t> out;
  for (const ir::Size& size : shape) {
    const bool ragged = ir::ragged_of(program, size.name) != nullptr;
    const std::vector<int64_t> parts = ragged ? ir::ragged_parts(sizes, size.name, rank) : std::vector<int64_t>{};
    out.push_back(ragged ? std::accumulate(parts.begin(), parts.end(), int64_t{0}) : ir::shape_of({size}, sizes)[0]);
  }
  return out;
}

ir::Tensor counts_tensor(const ir::Sizes& sizes, const ir::RaggedDecl& counted, Dtype dtype, int rank) {
  ir::Tensor tensor;
  tensor.dtype = dtype;
  tensor.i = ir::ragged_parts(sizes, counted.name, rank);
  tensor.shape = {static_cast<int64_t>(tensor.i.size())};
  return tensor;
}

}  // namespace

const ir::RaggedDecl* counts_of(const ir::Program& program, const ir::Name& name) {
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl); ragged && ragged->counts == name) return ragged;
  return nullptr;
}

ir::Tensor slice(const ir::Tensor& whole, int dim, int rank, int ranks) {
  const auto [begin, end] = ir::slice_of(whole.shape[static_cast<size_t>(dim)], rank, ranks);
  return ir::slice(whole, dim, begin, end);
}

ir::Values patterned_values(const ir::Program& program, const ir::Sizes& sizes, int launch, const ir::Values& states) {
  ir::Values out;
  for (const ir::TensorDecl& tensor : program.tensors) {
    if (const auto old = states.find(tensor.name); tensor.state && old != states.end()) {
      out[tensor.name] = old->second;
      continue;
    }
    const auto* sliced = std::get_if<ir::Sliced>(&tensor.type.layout);
    const ir::GroupRanks group = ir::group_ranks(program, tensor.type.group, sizes);
    for (int rank = 0; rank < sizes.ranks; rank++) {
      if (const ir::RaggedDecl* counted = counts_of(program, tensor.name)) {
        out[tensor.name].push_back(counts_tensor(sizes, *counted, tensor.type.dtype, rank));
        continue;
      }
      const std::vector<int64_t> shape = shape_on(program, tensor.type.shape, sizes, rank);
      ir::Tensor whole = pattern_tensor(pattern_of(program, tensor.name, rank, launch), tensor.type.dtype, shape);
      out[tensor.name].push_back(
          sliced ? slice(whole, sliced->dim, group.index_of[static_cast<size_t>(rank)], group.size())
                 : std::move(whole));
    }
  }
  return out;
}

std::vector<ir::Values> reference_results(const ir::Program& program, ir::Sizes sizes, int launches,
                                          const std::map<std::string, double>& scalars) {
  const ir::Types types = ir::infer(program);
  std::vector<ir::Values> out;
  ir::Values states;
  for (int launch = 1; launch <= launches; launch++) {
    sizes.scalars = default_scalars(program, scalars, launch);
    ir::EvaluateOptions options;
    options.round_named = true;
    const ir::Values inputs = patterned_values(program, sizes, launch, states);
    ir::Result result = ir::evaluate(program, sizes, inputs, options);
    for (const ir::TensorDecl& tensor : program.tensors)
      if (tensor.state) states[tensor.name] = inputs.at(tensor.name);
    for (const ir::Update& update : program.updates) states[update.state] = result.values.at("update:" + update.state);
    ir::Values whole;
    const auto keep = [&](const ir::Name& name, const std::vector<ir::Tensor>& value) {
      whole[name] = whole_values(value, types.at(name), ir::group_ranks(program, types.at(name).group, sizes));
    };
    for (const ir::Out& o : program.outs) keep(o.value, result.values.at(o.value));
    for (const auto& [name, value] : states) keep(name, value);
    out.push_back(std::move(whole));
  }
  return out;
}

}  // namespace weft::api
