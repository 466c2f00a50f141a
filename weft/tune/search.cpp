// Enumerate, price, choose. Rounds and judgement are in rounds.cpp.
#include "weft/tune/search.h"

#include <algorithm>

#include "weft/algo/algorithm.h"
#include "weft/ir/ops.h"
#include "weft/plan/walk.h"
#include "weft/tune/file.h"

namespace weft::tune {
namespace {

// One line for a table: "split a; reorder m1 v1; fuse f: ...", and the launch configuration behind it.
std::string label_of(const schedule::Schedule& schedule, bool plain) {
  std::string text;
  const auto add = [&](const std::string& piece) { text += (text.empty() ? "" : "; ") + piece; };
  if (plain) add("plain");
  for (const schedule::Directive& directive : schedule.directives)
    if (!plain) add(directive.name + " " + join(directive.words, " "));
  for (const schedule::LaunchConfig& launch : schedule.launches) {
    std::string config = launch.algorithm.value_or("");
    if (launch.chunk_bytes) config += fmt::format(" chunk {}", human_bytes(static_cast<double>(*launch.chunk_bytes)));
    if (launch.stream.value_or(false)) config += " stream";
    if (!config.empty()) add("[" + std::string(trim(config)) + "]");
  }
  return text;
}

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

// The launch configurations of a candidate. On CPU ranks one thread advances all lanes, so one channel is enough; what
// matters is the algorithm, and whether what is pushed bypasses the cache.
std::vector<schedule::LaunchConfig> configurations(const ir::Program& program, const SearchOptions& options) {
  const std::vector<algo::Collective> needed = collectives(program);
  std::vector<schedule::LaunchConfig> out;
  for (const algo::Algorithm* algorithm : algo::algorithms()) {
    const bool able =
        std::all_of(needed.begin(), needed.end(), [&](algo::Collective c) { return algorithm->supports(c); });
    const bool rank_order = algorithm->order() == plan::Order::rank && algorithm->round() == plan::Round::once;
    if (!able || (algorithm->needs_mapped() && !options.mapped) || (!rank_order && !options.any_order)) continue;
    for (const bool stream : {false, true}) {
      schedule::LaunchConfig config;
      if (!needed.empty()) config.algorithm = std::string(algorithm->name());
      if (!rank_order) config.order = "any", config.round = "hops";
      if (stream) config.stream = true;
      out.push_back(config);
    }
    if (needed.empty()) break;
  }
  return out;
}

double working_set(const lower::Lowered& lowered, const ir::Sizes& sizes) {
  double bytes = 0;
  for (size_t buffer = 0; buffer < lowered.buffers.size(); buffer++)
    bytes += static_cast<double>(lower::buffer_bytes(lowered, sizes, 0, static_cast<int>(buffer)));
  return bytes;
}

Prediction price(const lower::Lowered& lowered, const ir::Program& program, const topo::Machine& machine,
                 const SearchOptions& options) {
  const plan::Instance instance(lowered.plan, options.ranks);
  const plan::LaunchArgs args = lower::launch_args(lowered, options.sizes, 0, {});
  std::vector<int64_t> chunk = plan::default_chunk(instance, 256 << 10);
  for (size_t space = 0; space < chunk.size(); space++)
    if (space < lowered.chunk_elements.size() && lowered.chunk_elements[space] > 0)
      chunk[space] = lowered.chunk_elements[space];
  return predict(plan::stats(instance, args, chunk), machine,
                 {lowered.stream, working_set(lowered, options.sizes), largest_tensor(program, options.sizes)});
}

Trial make_trial(const schedule::Candidate& candidate, const schedule::LaunchConfig* config, const ir::Program& naive,
                 const topo::Machine& machine, const SearchOptions& options) {
  Trial trial;
  trial.plain = candidate.plain;
  trial.dropped = candidate.dropped;
  trial.schedule = candidate.schedule;
  if (config && (config->algorithm || config->stream || config->chunk_bytes)) trial.schedule.launches = {*config};
  trial.program = candidate.program;
  trial.bits = schedule::bits(naive, candidate.schedule);
  lower::LowerOptions lowering;
  lowering.ranks = options.ranks;
  lowering.mapped = options.mapped;
  trial.lowered = lower::lower(candidate.program, trial.schedule.launches, lowering);
  trial.prediction = price(trial.lowered, naive, machine, options);
  trial.label = label_of(trial.schedule, trial.plain);
  return trial;
}

std::string algorithm_of(const Trial& trial) {
  return trial.schedule.launches.empty() ? "" : trial.schedule.launches[0].algorithm.value_or("");
}

// Of one schedule: its best configuration; where the model is to be doubted also the same algorithm with the other kind
// of stores, and the best of the other algorithms.
bool worth_measuring(const Trial& trial, const std::vector<std::string>& algorithms_kept, bool several) {
  if (algorithms_kept.empty()) return true;
  if (!several || algorithms_kept.size() >= 3) return false;
  const auto same = std::count(algorithms_kept.begin(), algorithms_kept.end(), algorithm_of(trial));
  const bool first = algorithm_of(trial) == algorithms_kept.front();
  return first ? same < 2
               : same == 0 && static_cast<size_t>(std::count(algorithms_kept.begin(), algorithms_kept.end(),
                                                             algorithms_kept.front())) == algorithms_kept.size();
}

// Keeps the plain schedule, the best predicted of the others, and the sampled dropped ones. The plain schedule and the
// favourite are measured in several configurations, the others in their best one, so that the few rounds see different
// schedules and not one schedule in many dresses.
void choose(std::vector<Trial>& trials, int limit) {
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.prediction.total_ns < b.prediction.total_ns; });
  std::vector<Trial> kept;
  std::map<std::string, std::vector<std::string>> algorithms;  // kept so far, per schedule without its launch lines
  std::string favourite;
  for (Trial& trial : trials) {
    schedule::Schedule bare = trial.schedule;
    bare.launches.clear();
    const std::string key = schedule::print(bare);
    if (favourite.empty()) favourite = key;
    std::vector<std::string>& mine = algorithms[key];
    if (!worth_measuring(trial, mine, trial.plain || key == favourite)) continue;
    if (static_cast<int>(kept.size()) >= limit && !trial.plain && !(trial.dropped && mine.empty())) continue;
    mine.push_back(algorithm_of(trial));
    kept.push_back(std::move(trial));
  }
  trials = std::move(kept);
  for (size_t i = 0; i < trials.size(); i++) trials[i].id = static_cast<int>(i);
}

}  // namespace

int64_t largest_tensor(const ir::Program& program, const ir::Sizes& sizes) {
  int64_t largest = 1;
  for (const ir::TensorDecl& tensor : program.tensors) {
    int64_t elements = 1;
    for (const int64_t size : ir::shape_of(tensor.type.shape, sizes)) elements *= size;
    largest = std::max(largest, elements);
  }
  return largest;
}

SearchSpace make_trials(const ir::Program& naive, const topo::Machine& machine, const SearchOptions& options) {
  schedule::EnumerateOptions enumeration;
  enumeration.keep_state_shapes = options.keep_state_shapes;
  enumeration.sample_dropped = options.samples;
  enumeration.count_dropped = options.count_all;
  enumeration.sample_dropped_seed = options.sample_seed;
  const schedule::Space space = schedule::enumerate(naive, enumeration);
  SearchSpace out;
  out.layouts = space.layouts;
  out.schedules = space.schedules;
  out.kept = space.schedules_kept;
  std::string refused;
  for (const schedule::Candidate& candidate : space.candidates)
    for (const schedule::LaunchConfig& config : configurations(candidate.program, options)) {
      try {
        out.trials.push_back(make_trial(candidate, &config, naive, machine, options));
        out.configurations++;
      } catch (const Error& error) {
        // An algorithm that cannot carry this schedule is no candidate; anything else is a fault and must be seen.
        if (error.kind() != ErrorKind::unsupported) throw;
        refused = error.what();
      }
    }
  if (std::none_of(out.trials.begin(), out.trials.end(), [](const Trial& t) { return t.plain; }))
    throw Error(ErrorKind::unsupported,
                fmt::format("the plain schedule of {} cannot be lowered: {}", naive.name, refused));
  choose(out.trials, options.limit);
  return out;
}

Trial make_trial(const ir::Program& naive, const schedule::Schedule& chosen, const topo::Machine& machine,
                 const SearchOptions& options) {
  schedule::Candidate candidate;
  candidate.schedule = chosen;
  candidate.program = schedule::replay(naive, chosen);
  candidate.plain = false;
  return make_trial(candidate, nullptr, naive, machine, options);
}

}  // namespace weft::tune
