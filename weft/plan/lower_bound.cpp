// Posts are read as the verifier reads them (verify_post.h), but for whom they name and not for what they say.
#include "weft/plan/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "weft/base/dtype.h"
#include "weft/plan/at.h"
#include "weft/plan/instance_impl.h"
#include "weft/plan/verify_post.h"

namespace weft::plan {
namespace {

constexpr int most_ranks = 64;

// What one result asks for.
struct Need {
  double bytes = 0;
  std::vector<double> sent, received;  // per rank, at least
  std::set<int> shared;                // buffers of peers that it reads
};

class Reader {
 public:
  Reader(const Instance& instance, const LaunchArgs& args)
      : instance_(instance), extents_(instance, args.spaces, {}), numbers_(instance) {}

  Need need(const Post& post, const Operand& target) {
    need_ = {0, std::vector<double>(ranks()), std::vector<double>(ranks()), {}};
    const int buffer = find_buffer(instance_.plan(), target.name), space = instance_.buffer_space(buffer);
    element_bytes_ = size_bytes(instance_.dtype(buffer));
    for (size_t family = 0; family < instance_.plan().families.size(); ++family)
      if (const auto wire = instance_.wire(static_cast<int>(family))) narrow(*wire);
    std::map<std::pair<int64_t, std::set<int>>, std::vector<int>> holders;  // by part and contributors
    for (int rank = 0; rank < instance_.ranks(); ++rank)
      for (int64_t part = 0; part < instance_.parts(space); ++part)
        if (holds(buffer, rank, part)) holders[{part, contributors(post, rank, part)}].push_back(rank);
    for (const auto& [result, where] : holders) count(extents_.part_size(space, result.first), result.second, where);
    return std::move(need_);
  }

 private:
  size_t ranks() const { return static_cast<size_t>(instance_.ranks()); }
  void narrow(Dtype dtype) { element_bytes_ = std::min(element_bytes_, size_bytes(dtype)); }
  bool holds(int buffer, int rank, int64_t part) const {
    const int64_t own = instance_.own_part(buffer, rank);
    return own == -1 || own == part;
  }

  std::set<int> contributors(const Post& post, int rank, int64_t part) {
    std::set<int> list;
    numbers_.begin(rank);
    numbers_.push(post.var, part);
    collect(post.value, rank, list);
    numbers_.pop();
    return list;
  }

  void collect(const PostTerm& term, int rank, std::set<int>& list) {
    if (term.kind == PostTerm::Kind::cell) return collect_cell(term, rank, list);
    if (term.kind != PostTerm::Kind::reduce) {
      for (const PostTerm& arg : term.args) collect(arg, rank, list);
      return;
    }
    for (int64_t i = numbers_(term.lo), end = numbers_(term.hi); i < end; ++i) {
      numbers_.push(term.var, i);
      collect(term.args[0], rank, list);
      numbers_.pop();
    }
  }

  void collect_cell(const PostTerm& term, int rank, std::set<int>& list) {
    const int buffer = find_buffer(instance_.plan(), term.cell.name);
    if (buffer < 0) return;
    const int from = source(term, buffer, rank);
    if (from < 0) return;
    list.insert(from);
    if (from == rank) return;
    need_.shared.insert(buffer);
    narrow(instance_.dtype(buffer));
  }

  // The rank whose memory a cell of a post means; -1: none.
  int source(const PostTerm& term, int buffer, int rank) {
    if (at(instance_.plan().buffers, buffer).repl) return rank;
    if (term.cell.peers) {
      const int64_t peer = numbers_(term.cell.peers->first);
      return peer == expr::none ? -1 : static_cast<int>(wrap(peer, instance_.ranks()));
    }
    const int64_t part = wrap(numbers_(term.cell.parts.first), instance_.parts(instance_.buffer_space(buffer)));
    if (holds(buffer, rank, part)) return rank;
    for (int other = 0; other < instance_.ranks(); ++other)
      if (holds(buffer, other, part)) return other;
    return -1;
  }

  void count(int64_t elements, const std::set<int>& from, const std::vector<int>& to) {
    if (from.empty()) return;
    const double bytes = static_cast<double>(elements * element_bytes_);
    const bool meet = std::any_of(to.begin(), to.end(), [&](int rank) { return from.count(rank) > 0; });
    need_.bytes += bytes * static_cast<double>(from.size() + to.size() - (meet ? 2 : 1));
    for (const int rank : to)
      if (from.size() > 1 || !from.count(rank)) need_.received[static_cast<size_t>(rank)] += bytes;
    for (const int rank : from)
      if (to.size() > 1 || to.front() != rank) need_.sent[static_cast<size_t>(rank)] += bytes;
  }

  const Instance& instance_;
  const Extents extents_;
  PostNumbers numbers_;
  Need need_;
  int64_t element_bytes_ = 0;
};

// The larger of both, figure by figure.
void take_larger(Need& into, const Need& other) {
  into.bytes = std::max(into.bytes, other.bytes);
  for (size_t rank = 0; rank < into.sent.size(); ++rank) {
    into.sent[rank] = std::max(into.sent[rank], other.sent[rank]);
    into.received[rank] = std::max(into.received[rank], other.received[rank]);
  }
  into.shared.insert(other.shared.begin(), other.shared.end());
}

// Needs that read no buffer in common stand beside each other.
std::vector<Need> apart(std::vector<Need> needs) {
  std::vector<Need> groups;
  for (Need& need : needs) {
    for (size_t g = 0; g < groups.size();) {
      const bool common = std::any_of(need.shared.begin(), need.shared.end(),
                                      [&](int buffer) { return groups[g].shared.count(buffer) > 0; });
      if (!common) {
        ++g;
        continue;
      }
      take_larger(need, groups[g]);
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
    }
    groups.push_back(std::move(need));
  }
  return groups;
}

bool found_on_device(const LaunchArgs& args) {
  return std::any_of(args.spaces.begin(), args.spaces.end(),
                     [](const SpaceExtent& space) { return std::holds_alternative<OnDevice>(space.extent); });
}

}  // namespace

std::optional<LowerBound> lower_bound(const Instance& instance, const LaunchArgs& args) {
  if (instance.ranks() > most_ranks || found_on_device(args)) return std::nullopt;
  Reader reader(instance, args);
  std::vector<Need> needs;
  for (const Post& post : instance.plan().posts)
    for (const Operand& target : post.targets) needs.push_back(reader.need(post, target));
  LowerBound bound;
  const auto n = static_cast<size_t>(instance.ranks());
  std::vector<double> sent(n), received(n);
  for (const Need& need : apart(std::move(needs))) {
    bound.bytes += need.bytes;
    for (size_t rank = 0; rank < n; ++rank) sent[rank] += need.sent[rank], received[rank] += need.received[rank];
  }
  bound.busiest_bytes = std::ceil(bound.bytes / static_cast<double>(n));
  for (const std::vector<double>* each : {&sent, &received})
    bound.busiest_bytes = std::max(bound.busiest_bytes, *std::max_element(each->begin(), each->end()));
  bound.critical_hops = bound.bytes > 0 ? 1 : 0;
  return bound;
}

}  // namespace weft::plan
