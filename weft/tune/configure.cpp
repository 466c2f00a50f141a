// Coordinates and their steps. Values that mean the default are not written down, so that two texts of one
// configuration are equal and schedules say only what was chosen.
#include "weft/tune/configure.h"

#include <algorithm>

#include "weft/algo/algorithm.h"
#include "weft/ir/ops.h"

namespace weft::tune {
namespace {

constexpr int most_channels = 4;
constexpr int64_t least_chunk_bytes = 16 << 10, most_chunk_bytes = 4 << 20;

// The collectives of large values that a scheduled program has: what an algorithm must be able to do.
std::vector<algo::Collective> collectives(const ir::Program& program) {
  const ir::Types types = ir::infer(program);
  std::vector<algo::Collective> out;
  for (const ir::Op& op : program.ops)
    for (const algo::Collective collective :
         {algo::Collective::all_reduce, algo::Collective::reduce_scatter, algo::Collective::all_gather,
          algo::Collective::broadcast, algo::Collective::reduce})
      if (op.def->name == algo::name(collective) && !ir::is_small(types.at(op.name))) out.push_back(collective);
  return out;
}

std::string binary_count(int64_t count) {  // as parse_count reads it: 64Ki
  if (count % (1 << 20) == 0) return fmt::format("{}Mi", count >> 20);
  return count % 1024 == 0 ? fmt::format("{}Ki", count >> 10) : fmt::format("{}", count);
}

void step_protocol(const schedule::LaunchConfig& from, std::vector<schedule::LaunchConfig>& out) {
  const std::string now = from.protocol.value_or("simple");
  for (const char* protocol : {"simple", "ll", "ll128"}) {
    if (protocol == now) continue;
    out.push_back(from);
    out.back().protocol = protocol;
    if (out.back().protocol == "simple") out.back().protocol.reset();
  }
}

void step_channels(const schedule::LaunchConfig& from, std::vector<schedule::LaunchConfig>& out) {
  const int now = from.channels.value_or(1);
  for (const int channels : {now / 2, now * 2}) {
    if (channels < 1 || channels > most_channels) continue;
    out.push_back(from);
    out.back().channels = channels;
    if (channels == 1) out.back().channels.reset();
  }
}

void step_chunk(const schedule::LaunchConfig& from, int64_t largest_bytes, std::vector<schedule::LaunchConfig>& out) {
  const int64_t now = from.chunk_bytes.value_or(default_chunk_bytes);
  for (const int64_t bytes : {now / 4, now * 4}) {
    if (bytes < least_chunk_bytes || bytes > most_chunk_bytes || std::min(bytes, now) >= largest_bytes) continue;
    out.push_back(from);
    out.back().chunk_bytes = bytes;
    if (bytes == default_chunk_bytes) out.back().chunk_bytes.reset();
  }
}

}  // namespace

std::vector<schedule::LaunchConfig> algorithm_configurations(const ir::Program& scheduled,
                                                             const SearchOptions& options) {
  const std::vector<algo::Collective> needed = collectives(scheduled);
  std::vector<schedule::LaunchConfig> out;
  if (needed.empty()) return {{}};
  for (const algo::Algorithm* algorithm : algo::algorithms()) {
    const bool able =
        std::all_of(needed.begin(), needed.end(), [&](algo::Collective c) { return algorithm->supports(c); });
    const bool rank_order = algorithm->order() == plan::Order::rank && algorithm->round() == plan::Round::once;
    if (!able || (algorithm->needs_mapped() && !options.mapped) || (!rank_order && !options.any_order)) continue;
    schedule::LaunchConfig config;
    config.algorithm = std::string(algorithm->name());
    if (!rank_order) config.order = "any", config.round = "hops";
    out.push_back(config);
  }
  return out;
}

std::vector<schedule::LaunchConfig> steps_from(const schedule::LaunchConfig& from, bool links, int64_t largest_bytes) {
  std::vector<schedule::LaunchConfig> out;
  out.push_back(from);
  if (from.stream.value_or(false))
    out.back().stream.reset();
  else
    out.back().stream = true;
  if (links) step_protocol(from, out);
  step_channels(from, out);
  step_chunk(from, largest_bytes, out);
  return out;
}

std::string print_configuration(const schedule::LaunchConfig& config) {
  std::string text = config.algorithm.value_or("");
  if (config.protocol) text += " " + *config.protocol;
  if (config.channels) text += fmt::format(" channels {}", *config.channels);
  if (config.chunk_bytes) text += fmt::format(" chunk {}", binary_count(*config.chunk_bytes));
  if (config.stream.value_or(false)) text += " stream";
  return text.empty() ? "" : "[" + std::string(trim(text)) + "]";
}

schedule::LaunchConfig configuration_of(const schedule::Schedule& schedule) {
  for (const schedule::LaunchConfig& launch : schedule.launches)
    if (launch.target == "*") return launch;
  return {};
}

schedule::Schedule with_configuration(schedule::Schedule schedule, const schedule::LaunchConfig& config) {
  const bool says = config.algorithm || config.protocol || config.channels || config.chunk_bytes || config.order ||
                    config.round || config.stream;
  schedule.launches.clear();
  if (says) schedule.launches.push_back(config);
  return schedule;
}

}  // namespace weft::tune
