// Starting ranks, and finding the schedule that a word stands for.
#include <algorithm>

#include "weft/api/weft.h"
#include "weft/base/log.h"
#include "weft/codegen/library.h"
#include "weft/topo/machine.h"
#include "weft/tune/file.h"

namespace weft {
namespace {

bool looks_like_text(const std::string& choice) { return choice.rfind("schedule ", 0) == 0; }

// "fused": of the candidates that dominance keeps, the one with fewest units: most is cut, most is fused.
schedule::Schedule most_fused(const std::vector<schedule::Candidate>& candidates) {
  const schedule::Candidate* found = nullptr;
  size_t fewest = SIZE_MAX;
  for (const schedule::Candidate& candidate : candidates) {
    const size_t units = ir::units(candidate.program).size();
    if (candidate.dropped || units > fewest) continue;
    if (units == fewest && found && candidate.schedule.directives.size() <= found->schedule.directives.size()) continue;
    fewest = units;
    found = &candidate;
  }
  WEFT_CHECK(found, "a space without a candidate");
  schedule::Schedule schedule = found->schedule;
  schedule.name = "fused";
  return schedule;
}

std::optional<schedule::Schedule> tuned(const ir::Program& program, const ir::Sizes& sizes) {
  const auto entries = tune::read_tuning(tune::default_tuning_path());
  const auto entry = tune::find_tuning(entries, program, sizes.ranks, tune::total_elements(program, sizes),
                                       topo::fingerprint(topo::detect()));
  if (!entry) return {};
  return schedule::parse_schedule(entry->schedule);
}

}  // namespace

schedule::Schedule resolve_schedule(const ir::Program& program, const std::string& choice, const ir::Sizes& sizes) {
  if (looks_like_text(choice)) return schedule::parse_schedule(choice);
  if (choice.find('/') != std::string::npos || choice.ends_with(".schedule"))
    return schedule::parse_schedule(read_file(choice));
  if (choice == "tuned")
    if (auto found = tuned(program, sizes)) return *found;
  if (choice == "tuned")
    WEFT_LOG(warn, "api",
             "no tuning entry of {} on {} ranks near this size: taking the most fused schedule (run `weft tune`)",
             program.name, sizes.ranks);
  const schedule::Space space = schedule::enumerate(program);
  if (choice == "fused" || choice == "tuned") return most_fused(space.candidates);
  std::vector<std::string> names;
  for (const schedule::Candidate& candidate : space.candidates) {
    if (candidate.schedule.name == choice || (choice == "plain" && candidate.plain)) return candidate.schedule;
    names.push_back(candidate.schedule.name);
  }
  throw Error(
      ErrorKind::user, fmt::format("{} has no schedule named {}", program.name, choice),
      "plain, fused, tuned, a schedule file (with a / or .schedule in its name), or one of " + join(names, ", "));
}

Rank::Rank(transport::Transport& transport)
    : kernels_(codegen::generated_library()),
      communicator_(std::make_unique<runtime::Communicator>(transport, *kernels_)) {}
Rank::~Rank() = default;
int Rank::rank() const { return communicator_->rank(); }
int Rank::size() const { return communicator_->size(); }
runtime::Communicator& Rank::communicator() { return *communicator_; }
Executable Rank::prepare(const ir::Program& program, const PrepareOptions& options) {
  return Executable(*communicator_, program, options);
}

void run(int ranks, const std::function<void(Rank&)>& body, const RunOptions& options) {
  const auto on_rank = [&](transport::Transport& transport) {
    Rank rank(transport);
    body(rank);
  };
  transport::RankOptions rank_options;
  rank_options.pin = options.pin;
  rank_options.timeout_ns = static_cast<int64_t>(options.timeout_s * 1e9);
  if (options.threads)
    transport::run_threads(ranks, on_rank, rank_options);
  else
    transport::run_processes(ranks, on_rank, rank_options);
}

}  // namespace weft
