// Enumerate, price, choose. Rounds and judgement are in rounds.cpp.
#include "weft/tune/search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "weft/ir/ops.h"
#include "weft/plan/walk.h"
#include "weft/schedule/roots.h"
#include "weft/tune/configure.h"
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
  for (const schedule::LaunchConfig& launch : schedule.launches)
    if (const std::string config = print_configuration(launch); !config.empty()) add(config);
  if (schedule.directives.empty() && !plain) text = "plain" + (text.empty() ? "" : "; " + text);
  return text;
}

double working_set(const lower::Lowered& lowered, const ir::Sizes& sizes) {
  double bytes = 0;
  for (size_t buffer = 0; buffer < lowered.buffers.size(); buffer++)
    bytes += static_cast<double>(lower::buffer_bytes(lowered, sizes, 0, static_cast<int>(buffer)));
  return bytes;
}

// Of the link that moves most: bytes on the wire for a byte of a message, and bytes of the rings it goes through.
void price_links(const plan::Instance& instance, const std::vector<int64_t>& chunk, PriceOptions& options) {
  for (const plan::Family& family : instance.plan().families) {
    const double wire = family.protocol == plan::Protocol::ll      ? 2
                        : family.protocol == plan::Protocol::ll128 ? 8.0 / 7
                                                                   : 1;
    options.wire = std::max(options.wire, wire);
    options.packed |= family.protocol != plan::Protocol::simple;
    const int64_t elements = chunk.empty() ? 0 : *std::max_element(chunk.begin(), chunk.end());
    options.ring_bytes = std::max(options.ring_bytes, 4.0 * static_cast<double>(elements * family.slots) * wire);
  }
}

Prediction price(const lower::Lowered& lowered, const ir::Program& program, const topo::Machine& machine,
                 const SearchOptions& options) {
  const plan::Instance instance(lowered.plan, options.ranks);
  const plan::LaunchArgs args = lower::launch_args(lowered, options.sizes, 0, {});
  const std::vector<int64_t> chunk = chunk_elements(lowered, options.ranks);
  PriceOptions prices;
  prices.stream = lowered.stream;
  prices.working_set_bytes = working_set(lowered, options.sizes);
  prices.elements = largest_tensor(program, options.sizes);
  price_links(instance, chunk, prices);
  return predict(plan::stats(instance, args, chunk), machine, prices);
}

// A candidate of which many trials are made: what they have in common is computed once.
struct Base {
  const ir::Program& naive;
  const topo::Machine& machine;
  const SearchOptions& options;
  schedule::Schedule schedule;
  ir::Program program;  // after replay
  schedule::Bits bits;
  bool plain = false, dropped = false;
};

Trial make_trial(const Base& base, const schedule::LaunchConfig& config) {
  Trial trial;
  trial.plain = base.plain;
  trial.dropped = base.dropped;
  trial.schedule = with_configuration(base.schedule, config);
  trial.program = base.program;
  trial.bits = base.bits;
  lower::LowerOptions lowering;
  lowering.ranks = base.options.ranks;
  lowering.mapped = base.options.mapped;
  trial.lowered = lower::lower(base.program, trial.schedule.launches, lowering);
  trial.prediction = price(trial.lowered, base.naive, base.machine, base.options);
  trial.label = label_of(trial.schedule, trial.plain);
  return trial;
}

// Nothing where an algorithm cannot carry the schedule; any other error is a fault and must be seen.
std::optional<Trial> try_trial(const Base& base, const schedule::LaunchConfig& config, std::string* refused = nullptr) {
  try {
    return make_trial(base, config);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    if (refused) *refused = error.what();
    return {};
  }
}

int64_t largest_bytes(const SearchOptions& options, const ir::Program& program) {
  return 4 * largest_tensor(program, options.sizes);
}

bool has_links(const Trial& trial) { return !trial.lowered.plan.families.empty(); }

// Downhill by prediction from a configuration, a coordinate at a time, until no step saves 2 %: less than that the model
// cannot tell, and what is not said the chooser may still decide. `seen` counts what was priced.
Trial descend(const Base& base, Trial at, int64_t& seen) {
  constexpr double worth = 0.98;
  for (int moves = 0; moves < 12; moves++) {
    std::optional<Trial> better;
    for (const schedule::LaunchConfig& step :
         steps_from(configuration_of(at.schedule), has_links(at), largest_bytes(base.options, base.naive))) {
      std::optional<Trial> next = try_trial(base, step);
      seen++;
      const double bar = better ? better->prediction.total_ns : worth * at.prediction.total_ns;
      if (next && next->prediction.total_ns < bar) better = std::move(next);
    }
    if (!better) break;
    at = std::move(*better);
  }
  return at;
}

schedule::LaunchConfig other_stores(schedule::LaunchConfig config) {
  if (config.stream.value_or(false))
    config.stream.reset();
  else
    config.stream = true;
  return config;
}

// Which algorithms suit depends on the collectives far more than on what is computed between them: the first schedule with
// a set of collectives is priced with every algorithm, the others with the few that came out best.
class Starts {
 public:
  std::vector<Trial> of(const Base& base, std::string& refused) {
    constexpr size_t promising = 4;
    std::vector<schedule::LaunchConfig> configs = algorithm_configurations(base.program, base.options);
    std::string signature;
    for (const ir::Op& op : base.program.ops)
      if (op.def->op_class == ir::OpClass::communication) signature += std::string(op.def->name) + " ";
    auto& best = best_[signature];
    std::vector<Trial> starts;
    for (const schedule::LaunchConfig& config : configs) {
      if (!best.empty() && std::find(best.begin(), best.end(), config.algorithm) == best.end()) continue;
      if (auto start = try_trial(base, config, &refused)) starts.push_back(std::move(*start));
    }
    std::stable_sort(starts.begin(), starts.end(), faster);
    if (best.empty())
      for (size_t i = 0; i < std::min(promising, starts.size()); i++)
        best.push_back(configuration_of(starts[i].schedule).algorithm);
    return starts;
  }
  static bool faster(const Trial& a, const Trial& b) { return a.prediction.total_ns < b.prediction.total_ns; }

 private:
  std::map<std::string, std::vector<std::optional<std::string>>> best_;
};

// What may be worth measuring of one candidate: of its best algorithms the best configuration downhill, and that with the
// other kind of stores; of the others what nobody chose anything for.
void take_starts(const Base& base, std::vector<Trial> starts, double best_ns, SearchSpace& out) {
  constexpr double hopeless = 1.6, clearly_worse = 1.2;
  constexpr size_t walked = 2;
  const double mine = starts.front().prediction.total_ns;
  for (size_t i = 0; i < starts.size(); i++) {
    Trial& start = starts[i];
    const bool promising = start.plain || start.prediction.total_ns < hopeless * best_ns;
    if (i < walked && promising && start.prediction.total_ns < clearly_worse * mine)
      start = descend(base, std::move(start), out.configurations);
    if (i < walked) {
      std::optional<Trial> flipped = try_trial(base, other_stores(configuration_of(start.schedule)));
      out.configurations++;
      if (flipped) out.trials.push_back(std::move(*flipped));
    }
    out.trials.push_back(std::move(start));
  }
}

std::string algorithm_of(const Trial& trial) { return configuration_of(trial.schedule).algorithm.value_or(""); }

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

std::string without_launches(const Trial& trial) {
  schedule::Schedule bare = trial.schedule;
  bare.launches.clear();
  return schedule::print(bare);
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
    const std::string key = without_launches(trial);
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

std::vector<int64_t> chunk_elements(const lower::Lowered& lowered, int ranks) {
  std::vector<int64_t> chunk = plan::default_chunk(plan::Instance(lowered.plan, ranks), default_chunk_bytes);
  for (size_t space = 0; space < chunk.size(); space++)
    if (space < lowered.chunk_elements.size() && lowered.chunk_elements[space] > 0)
      chunk[space] = lowered.chunk_elements[space];
  return chunk;
}

int64_t largest_tensor(const ir::Program& program, const ir::Sizes& sizes) {
  int64_t largest = 1;
  for (const ir::TensorDecl& tensor : program.tensors) {
    int64_t elements = 1;
    for (const int64_t size : ir::shape_of(tensor.type.shape, sizes)) elements *= size;
    largest = std::max(largest, elements);
  }
  return largest;
}

namespace {

// A plan would only say that it does not run on so few ranks.
void check_roots(const ir::Program& naive, const schedule::Schedule& schedule, const SearchOptions& options) {
  ir::Sizes sizes = options.sizes;
  sizes.ranks = options.ranks;
  schedule::check_roots(naive, schedule, sizes);
}

}  // namespace

SearchSpace make_trials(const ir::Program& naive, const topo::Machine& machine, const SearchOptions& options) {
  check_roots(naive, {}, options);
  schedule::EnumerateOptions enumeration;
  enumeration.keep_state_shapes = options.keep_state_shapes;
  enumeration.loose_numerics = options.loose_numerics;
  enumeration.sample_dropped = options.samples;
  enumeration.count_dropped = options.count_all;
  enumeration.sample_dropped_seed = options.sample_seed;
  const schedule::Space space = schedule::enumerate(naive, enumeration);
  SearchSpace out;
  out.layouts = space.layouts;
  out.schedules = space.schedules;
  out.kept = space.schedules_kept;
  std::string refused;
  std::vector<Base> bases;
  for (const schedule::Candidate& candidate : space.candidates)
    bases.push_back({naive, machine, options, candidate.schedule, candidate.program,
                     schedule::bits(naive, candidate.schedule), candidate.plain, candidate.dropped});
  Starts algorithms;
  std::vector<std::vector<Trial>> starts;
  double best_ns = HUGE_VAL;
  for (const Base& base : bases) {
    starts.push_back(algorithms.of(base, refused));
    out.configurations += static_cast<int64_t>(starts.back().size());
    if (!starts.back().empty()) best_ns = std::min(best_ns, starts.back().front().prediction.total_ns);
  }
  for (size_t i = 0; i < bases.size(); i++)
    if (!starts[i].empty()) take_starts(bases[i], std::move(starts[i]), best_ns, out);
  if (std::none_of(out.trials.begin(), out.trials.end(), [](const Trial& t) { return t.plain; }))
    throw Error(ErrorKind::unsupported,
                fmt::format("the plain schedule of {} cannot be lowered: {}", naive.name, refused));
  choose(out.trials, options.limit);
  return out;
}

Trial make_trial(const ir::Program& naive, const schedule::Schedule& chosen, const topo::Machine& machine,
                 const SearchOptions& options) {
  check_roots(naive, chosen, options);
  const Base base{naive, machine, options, chosen, schedule::replay(naive, chosen), schedule::bits(naive, chosen)};
  Trial trial = make_trial(base, configuration_of(chosen));
  if (trial.schedule.launches.size() == chosen.launches.size()) return trial;
  // Launch lines of single groups: as they stand.
  lower::LowerOptions lowering;
  lowering.ranks = options.ranks;
  lowering.mapped = options.mapped;
  trial.schedule = chosen;
  trial.lowered = lower::lower(base.program, chosen.launches, lowering);
  trial.prediction = price(trial.lowered, naive, machine, options);
  trial.label = label_of(chosen, false);
  return trial;
}

std::vector<Trial> neighbours(const Trial& from, const std::vector<Trial>& known, const ir::Program& naive,
                              const topo::Machine& machine, const SearchOptions& options, double ratio) {
  const Base base{naive, machine, options, from.schedule, from.program, from.bits, from.plain, from.dropped};
  const schedule::LaunchConfig here = configuration_of(from.schedule);
  std::vector<schedule::LaunchConfig> steps = steps_from(here, has_links(from), largest_bytes(options, naive));
  for (const schedule::LaunchConfig& other : algorithm_configurations(from.program, options))
    if (other.algorithm != here.algorithm) steps.push_back(other);
  std::vector<Trial> out;
  for (const schedule::LaunchConfig& step : steps) {
    std::optional<Trial> next = try_trial(base, step);
    if (!next || next->prediction.total_ns > ratio * from.prediction.total_ns) continue;
    const std::string text = schedule::print(next->schedule);
    const auto same = [&](const Trial& t) { return schedule::print(t.schedule) == text; };
    if (std::any_of(known.begin(), known.end(), same)) continue;
    next->refined = true;
    out.push_back(std::move(*next));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Trial& a, const Trial& b) { return a.prediction.total_ns < b.prediction.total_ns; });
  return out;
}

}  // namespace weft::tune
