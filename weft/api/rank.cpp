// Starting ranks, and finding the schedule that a word stands for.
#include <algorithm>
#include <filesystem>

#include "weft/api/weft.h"
#include "weft/base/env.h"
#include "weft/base/log.h"
#include "weft/codegen/library.h"
#include "weft/topo/machine.h"
#include "weft/transport/spec.h"
#include "weft/tune/file.h"

namespace weft {
namespace {

bool looks_like_text(const std::string& choice) { return choice.rfind("schedule ", 0) == 0; }

bool can_be_lowered(const schedule::Candidate& candidate) {
  try {
    lower::lower(candidate.program, candidate.schedule.launches, {});
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return false;
  }
}

// "fused": of the candidates that dominance keeps, the one with fewest units that lowering takes: most is cut, most is
// fused. Where none can be lowered it is the first, whose lowering then says why.
schedule::Schedule most_fused(const std::vector<schedule::Candidate>& candidates) {
  struct Ranked {
    size_t units;
    const schedule::Candidate* candidate;
  };
  std::vector<Ranked> best;
  for (const schedule::Candidate& candidate : candidates)
    if (!candidate.dropped) best.push_back({ir::units(candidate.program).size(), &candidate});
  WEFT_CHECK(!best.empty(), "a space without a candidate");
  std::stable_sort(best.begin(), best.end(), [](const Ranked& a, const Ranked& b) {
    if (a.units != b.units) return a.units < b.units;
    return a.candidate->schedule.directives.size() > b.candidate->schedule.directives.size();
  });
  const auto found =
      std::find_if(best.begin(), best.end(), [](const Ranked& r) { return can_be_lowered(*r.candidate); });
  schedule::Schedule schedule = (found == best.end() ? best.front() : *found).candidate->schedule;
  schedule.name = "fused";
  return schedule;
}

// The same error, with the file that it is in.
template <typename Act>
auto in_file(const std::string& file, const Act& act) {
  try {
    return act();
  } catch (const Error& error) { throw Error(error.kind(), fmt::format("{}: {}", file, error.what())); }
}

schedule::Schedule from_file(const std::string& path) {
  const std::string text = read_file(path);
  return in_file("schedule file " + path, [&] { return schedule::parse_schedule(text); });
}

std::optional<schedule::Schedule> tuned(const ir::Program& program, const ir::Sizes& sizes,
                                        std::string_view transport) {
  const std::filesystem::path path = tune::default_tuning_path();
  if (!env("WEFT_TUNING").empty() && !std::filesystem::exists(path))
    throw Error(ErrorKind::user, fmt::format("there is no tuning file {}, which WEFT_TUNING names", path.string()),
                "tune with `weft tune`, which writes it, or unset WEFT_TUNING");
  const auto entries = tune::read_tuning(path);
  const auto entry = tune::find_tuning(entries, program, sizes.ranks, tune::total_elements(program, sizes),
                                       topo::fingerprint(topo::detect()), transport::layer_of(transport));
  if (!entry) return {};
  return in_file(fmt::format("tuning file {}, entry of {}", path.string(), entry->program), [&] {
    schedule::Schedule schedule = schedule::parse_schedule(entry->schedule);
    schedule::replay(program, schedule);
    return schedule;
  });
}

schedule::Schedule named(const ir::Program& program, const std::string& choice) {
  schedule::EnumerateOptions enumeration;
  if (choice == "plain") enumeration.max_candidates = 1;  // the first; the others need not be made
  const schedule::Space space = schedule::enumerate(program, enumeration);
  if (choice == "fused") return most_fused(space.candidates);
  const auto chosen = [&choice](const schedule::Space& among) -> const schedule::Schedule* {
    for (const schedule::Candidate& candidate : among.candidates)
      if (candidate.schedule.name == choice || (choice == "plain" && candidate.plain)) return &candidate.schedule;
    return nullptr;
  };
  if (const schedule::Schedule* found = chosen(space)) return *found;
  if (std::filesystem::is_regular_file(choice)) return from_file(choice);
  enumeration.loose_numerics = true;  // names that `weft explain --numerics loose` lists
  if (const schedule::Space loose = schedule::enumerate(program, enumeration); const auto* found = chosen(loose))
    return *found;
  std::vector<std::string> names;
  for (const schedule::Candidate& candidate : space.candidates) names.push_back(candidate.schedule.name);
  throw Error(ErrorKind::user,
              fmt::format("{} has no schedule named {}, and there is no file {}", program.name, choice, choice),
              "plain, fused, tuned, a schedule file, or one of " + join(names, ", "));
}

}  // namespace

schedule::Schedule resolve_schedule(const ir::Program& program, const std::string& choice, const ir::Sizes& sizes,
                                    std::string_view transport) {
  if (looks_like_text(choice)) return schedule::parse_schedule(choice);
  if (choice == "tune")
    throw Error(ErrorKind::user, "schedule \"tune\" measures on running ranks",
                "give it to Rank::prepare, or call `weft tune` and then take \"tuned\"");
  if (choice.find('/') != std::string::npos || choice.ends_with(".schedule")) return from_file(choice);
  if (choice != "tuned") return named(program, choice);
  if (auto found = tuned(program, sizes, transport)) return *found;
  WEFT_LOG(warn, "api",
           "no tuning entry of {} on {} ranks near this size: taking the most fused schedule (run `weft tune`)",
           program.name, sizes.ranks);
  return named(program, "fused");
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
