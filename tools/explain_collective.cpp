// weft explain OPERATION: every algorithm that could run a collective, what the model says of it, and why one is taken.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/bench.h"
#include "tools/verbs.h"
#include "weft/api/collectives_choice.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/transport/board.h"

namespace weft::tools {
namespace {

std::string summation(const algo::Algorithm& algorithm, Operation operation) {
  if (!reduces(operation)) return "-";
  const char* order = algorithm.order() == plan::Order::rank    ? "rank order"
                      : algorithm.order() == plan::Order::fixed ? "one fixed tree"
                                                                : "any order";
  return fmt::format("{}, rounded {}", order, algorithm.round() == plan::Round::once ? "once" : "at hops");
}

}  // namespace

void explain_collective(Operation operation, const CollectiveQuestion& question) {
  api::CallShape shape;
  shape.operation = operation;
  shape.ranks = question.ranks;
  shape.bytes = count_option("--bytes", question.bytes);
  const auto dtype = parse_dtype(question.dtype);
  if (!dtype || *dtype == Dtype::f64x2)
    throw Error(ErrorKind::user, fmt::format("--dtype {}: no such type", question.dtype), "f32, bf16, i64 ...");
  shape.dtype = *dtype;
  api::ChoiceSettings settings;
  settings.any_order = question.any_order;
  settings.oversubscribed = question.ranks > transport::allowed_core_count();
  const bool small = shape.bytes <= api::small_bytes(settings, operation, question.ranks);
  shape.send_mapped = shape.recv_mapped = question.mapped && !small;
  const std::vector<api::Candidate> list = api::candidates(shape, settings);
  if (list.empty())
    throw Error(ErrorKind::unsupported, fmt::format("no plan for {} yet", name(operation)), "see docs/collectives.md");
  const algo::Collective collective = operation;
  nlohmann::json out = nlohmann::json::array();
  if (!question.json)
    std::printf("%s of %lld bytes of %s on %s, %s memory%s\n%-24s %10s %12s %8s  %-28s %s\n",
                std::string(name(operation)).c_str(), static_cast<long long>(shape.bytes), question.dtype.c_str(),
                counted(question.ranks, "rank").c_str(), question.mapped ? "mapped" : "private",
                small ? " (small: links whatever the memory, so ranks need not meet first)" : "", "plan", "predicted",
                "bytes sent", "hops", "sums", "verdict");
  for (const api::Candidate& candidate : list) {
    const algo::Algorithm& algorithm = *candidate.setting.algorithm;
    const auto cost = algorithm.cost(collective, question.ranks, static_cast<double>(shape.bytes));
    const std::string verdict = !candidate.refused.empty()    ? candidate.refused
                                : &candidate == &list.front() ? "taken"
                                                              : "dearer";
    if (question.json)
      out.push_back({{"plan", candidate.setting.text()},
                     {"predicted_ns", candidate.predicted_ns},
                     {"bytes_sent", cost.bytes_sent},
                     {"hops", cost.hops},
                     {"sums", summation(algorithm, operation)},
                     {"verdict", verdict}});
    else
      std::printf("%-24s %10s %12.0f %8.0f  %-28s %s\n", candidate.setting.text().c_str(),
                  human_ns(candidate.predicted_ns).c_str(), cost.bytes_sent, cost.hops,
                  summation(algorithm, operation).c_str(), verdict.c_str());
  }
  if (question.json) std::printf("%s\n", out.dump(2).c_str());
}

}  // namespace weft::tools
