// The driver: requirements, inputs checked against their declarations, one statement after the other on all ranks.
#include "weft/ir/evaluate.h"

#include <algorithm>
#include <cstring>

#include "weft/ir/evaluate_op.h"

namespace weft::ir {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape == b.shape && a.i == b.i && a.f.size() == b.f.size() &&
         (a.f.empty() || std::memcmp(a.f.data(), b.f.data(), a.f.size() * sizeof(double)) == 0);
}

// Whether all ranks of each group hold one value; else names two that differ.
std::optional<std::pair<int, int>> differing(const Type& type, const GroupRanks& group,
                                             const std::vector<Tensor>& values) {
  if (!std::holds_alternative<Replicated>(type.layout)) return {};
  for (const std::vector<int>& members : group.members)
    for (const int rank : members)
      if (!same_bits(values[static_cast<size_t>(rank)], values[static_cast<size_t>(members[0])]))
        return std::pair{members[0], rank};
  return {};
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return fmt::format("[{}]", join(sizes, ", "));
}

class Evaluation {
 public:
  Evaluation(const Program& program, const Sizes& sizes, const Values& inputs, const EvaluateOptions& options)
      : program_(program), sizes_(sizes), inputs_(inputs), options_(options), types_(infer(program)) {}

  Result run() {
    if (sizes_.ranks < 1) throw Error(ErrorKind::user, fmt::format("{} ranks", sizes_.ranks), "at least one");
    check_requirements(program_, sizes_);
    for (const TensorDecl& decl : program_.tensors) take_input(decl);
    for (const TensorDecl& decl : program_.tensors) check_shapes(decl);
    for (const Unit& unit : units(program_))
      for (const Op* op : unit.ops) compute(*op);
    for (const Update& update : program_.updates) values_["update:" + update.state] = values_.at(update.value);
    return {std::move(values_)};
  }

 private:
  void take_input(const TensorDecl& decl) {
    const auto found = inputs_.find(decl.name);
    if (found == inputs_.end())
      throw Error(ErrorKind::user, fmt::format("no value for {} {}", decl.state ? "state" : "input", decl.name),
                  fmt::format("hand in {} for every rank", print(decl.type)));
    if (static_cast<int>(found->second.size()) != sizes_.ranks)
      throw Error(
          ErrorKind::user,
          fmt::format("{} has values for {} ranks, the launch has {}", decl.name, found->second.size(), sizes_.ranks),
          "hand in one tensor for every rank");
    const GroupRanks group = group_ranks(program_, decl.type.group, sizes_);
    if (const auto ranks = differing(decl.type, group, found->second))
      throw Error(ErrorKind::user,
                  fmt::format("{} is declared replicated but differs between ranks {} and {}", decl.name, ranks->first,
                              ranks->second),
                  "declare it local, or hand in one value");
    values_[decl.name] = found->second;
  }

  // Rows of a ragged size on this rank; nothing for other sizes.
  std::optional<int64_t> ragged_rows(const Size& size, const GroupRanks& group, int rank) const {
    const RaggedDecl* ragged = ragged_of(program_, size.name);
    if (!ragged) return {};
    const std::vector<Tensor>& counts = values_.at(ragged->counts);
    int64_t rows = 0;
    if (size.name == ragged->name) {
      for (const int64_t count : counts[static_cast<size_t>(rank)].i) rows += count;
    } else {
      for (const int from : group.members[static_cast<size_t>(group.group_of[static_cast<size_t>(rank)])])
        rows += counts[static_cast<size_t>(from)].i.at(static_cast<size_t>(group.index_of[static_cast<size_t>(rank)]));
    }
    return rows;
  }

  std::vector<int64_t> expected_shape(const Type& type, const GroupRanks& group, int rank) const {
    std::vector<int64_t> shape;
    for (const Size& size : type.shape) {
      const std::optional<int64_t> rows = ragged_rows(size, group, rank);
      shape.push_back(rows ? *rows : shape_of({size}, sizes_)[0]);
    }
    if (const auto* sliced = std::get_if<Sliced>(&type.layout)) {
      int64_t& extent = shape[static_cast<size_t>(sliced->dim)];
      const auto [begin, end] = slice_of(extent, group.index_of[static_cast<size_t>(rank)], group.size());
      extent = end - begin;
    }
    return shape;
  }

  void check_shapes(const TensorDecl& decl) const {
    const GroupRanks group = group_ranks(program_, decl.type.group, sizes_);
    const auto* rooted = std::get_if<Root>(&decl.type.layout);
    const int root = rooted ? root_of(rooted->rank) : 0;
    if (root >= group.size())
      throw Error(ErrorKind::user, fmt::format("{}: root {} of a group of {} ranks", decl.name, root, group.size()),
                  "roots count from 0");
    for (int rank = 0; rank < sizes_.ranks; ++rank) {
      if (!holds(decl.type, group, rank, root)) continue;
      const Tensor& tensor = values_.at(decl.name)[static_cast<size_t>(rank)];
      const std::vector<int64_t> shape = expected_shape(decl.type, group, rank);
      int64_t size = 1;
      for (const int64_t extent : shape) size *= extent;
      if (tensor.dtype != decl.type.dtype || tensor.shape != shape || tensor.size() != size)
        throw Error(
            ErrorKind::user,
            fmt::format("{} on rank {} is {}{} with {} elements; it is declared {}, here {}", decl.name, rank,
                        name(tensor.dtype), text_of(tensor.shape), tensor.size(), print(decl.type), text_of(shape)),
            "hand in the rank's own part: whole for replicated and local, its slice for sliced");
    }
  }

  int root_of(const std::string& text) const {
    return RankTensors{program_, sizes_, types_, options_, values_, {}}.root(text);
  }

  void compute(const Op& op) {
    RankTensors ranks{program_, sizes_,  types_,
                      options_, values_, std::vector<Tensor>(static_cast<size_t>(sizes_.ranks))};
    const Type& type = types_.at(op.name);
    op.def->evaluate(op, ranks);
    for (Tensor& tensor : ranks.out) {
      tensor.dtype = type.dtype;
      if (options_.round_named)
        for (double& value : tensor.f) value = round_to(type.dtype, value);
    }
    const auto ranks_that_differ = differing(type, group_ranks(program_, type.group, sizes_), ranks.out);
    WEFT_CHECK(!ranks_that_differ, "{} is replicated but differs between ranks {} and {}", op.name,
               ranks_that_differ ? ranks_that_differ->first : 0, ranks_that_differ ? ranks_that_differ->second : 0);
    values_[op.name] = std::move(ranks.out);
  }

  const Program& program_;
  const Sizes& sizes_;
  const Values& inputs_;
  const EvaluateOptions& options_;
  Types types_;
  Values values_;
};

}  // namespace

Result evaluate(const Program& program, const Sizes& sizes, const Values& inputs, const EvaluateOptions& options) {
  return Evaluation(program, sizes, inputs, options).run();
}

}  // namespace weft::ir
