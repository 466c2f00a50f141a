// What calls are called, and which of them make sense.
#include <algorithm>

#include "weft/api/collectives.h"
#include "weft/base/text.h"

namespace weft {
namespace {

constexpr std::pair<Combine, std::string_view> combine_rows[] = {
    {Combine::sum, "sum"},
    {Combine::prod, "prod"},
    {Combine::min, "min"},
    {Combine::max, "max"},
    {Combine::avg, "avg"},
    {Combine::premul_sum, "premul_sum"},
    {Combine::bit_and, "bit_and"},
    {Combine::bit_or, "bit_or"},
    {Combine::bit_xor, "bit_xor"},
    {Combine::logical_and, "logical_and"},
    {Combine::logical_or, "logical_or"},
};

}  // namespace

std::optional<Operation> parse_operation(std::string_view text) {
  for (const Operation operation : all_operations())
    if (name(operation) == text) return operation;
  return std::nullopt;
}

const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> list = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                              Operation::broadcast,  Operation::reduce,         Operation::scatter,
                                              Operation::gather,     Operation::all_to_all,     Operation::barrier};
  return list;
}

std::string_view name(Combine combine) { return combine_rows[static_cast<size_t>(combine)].second; }

std::optional<Combine> parse_combine(std::string_view text) {
  for (const auto& [combine, name] : combine_rows)
    if (name == text) return combine;
  return std::nullopt;
}

const std::vector<Combine>& all_combines() {
  static const std::vector<Combine> list = [] {
    std::vector<Combine> all;
    for (const auto& row : combine_rows) all.push_back(row.first);
    return all;
  }();
  return list;
}

std::string why_illegal(Combine combine, Dtype dtype) {
  const bool bits = combine == Combine::bit_and || combine == Combine::bit_or || combine == Combine::bit_xor;
  if (dtype == Dtype::f64x2) return "f64x2 exists inside plans only";
  if (bits && is_float(dtype))
    return fmt::format("{} combines bits of integers, not of {}", name(combine), name(dtype));
  if ((combine == Combine::avg || combine == Combine::premul_sum) && dtype == Dtype::boolean)
    return fmt::format("{} of truth values has no meaning", name(combine));
  return "";
}

std::string describe(const Call& call) {
  std::string text(name(call.operation));
  if (call.operation == Operation::barrier) return text;
  if (reduces(call.operation)) text += fmt::format(" {}", name(call.combine));
  text += fmt::format(" {}, ", name(call.dtype));
  if (call.counts.empty()) {
    text += fmt::format("{} elements", call.count);
  } else {
    std::vector<std::string> list;
    for (const int64_t count : call.counts.first(std::min<size_t>(call.counts.size(), 16)))
      list.push_back(std::to_string(count));
    text += fmt::format("{}{} elements", join(list, " + "), call.counts.size() > 16 ? " + ..." : "");
  }
  if (has_root(call.operation)) text += fmt::format(", root {}", call.root);
  return text;
}

}  // namespace weft
