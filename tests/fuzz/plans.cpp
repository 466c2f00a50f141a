// Shipped plans, and what becomes of their mutants.
//
// A mutant that the verifier accepts is judged by numbers. Where it still has the original's inputs and results, all bytes of
// results are compared, over several numbers of ranks, orders and delays; small whole numbers, so that another order of sums
// is no difference. What it promises about order and rounding is compared as text: a weaker promise than the original's is
// no fault of results. A mutant with other inputs or results, or another goal (its post, or a kernel that the post names),
// is another plan: for it the verifier's verdict must stand by itself, so it must run to its end as verified plans do.
#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/fuzz/campaign.h"
#include "tests/support/source_dir.h"
#include "tests/unit/plan/run_plan.h"
#include "weft/algo/algorithm.h"
#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::fuzz {
namespace {

void add_folder(const std::string& folder, std::vector<ShippedPlan>& list) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(checkout_dir() + "/tests/cases/" + folder))
    if (entry.path().extension() == ".plan") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string text = read_file(checkout_dir() + "/tests/cases/" + folder + "/" + name + ".plan");
    // Products of lowered programs need the sizes of their own factors, which tests/unit/lower knows.
    const plan::Plan plan = plan::parse(text);
    const bool tiles = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                                   [](const kernel::Kernel& k) { return kernel::kind(k) == kernel::Kind::tile; });
    if (folder == "lower" && tiles) continue;
    list.push_back({name, text});
  }
}

// What make_plan gives each collective, with the usual request and a root that is not 0.
void add_registry(std::vector<ShippedPlan>& list) {
  std::vector<const algo::Algorithm*> algorithms = algo::algorithms();
  algorithms.push_back(algo::find_algorithm("hierarchical:2"));
  for (const algo::Algorithm* algorithm : algorithms)
    for (int c = 0; c <= static_cast<int>(algo::Collective::barrier); ++c)
      for (const algo::Counts counts : {algo::Counts::even, algo::Counts::given, algo::Counts::exchanged}) {
        algo::PlanRequest request;
        request.collective = static_cast<algo::Collective>(c);
        request.counts = counts;
        request.grain = 1;
        request.root = algo::has_root(request.collective) ? 1 : 0;
        request.to = 1;
        if (!algorithm->supports(request.collective, counts)) continue;
        try {
          const plan::Plan plan = algo::make_plan(*algorithm, request);
          list.push_back({plan.name, plan::print(plan)});
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::unsupported) throw;
        }
      }
}

plan::cases::PlanSizes sizes_for(const plan::Plan& plan, int n) {
  plan::cases::PlanSizes sizes;
  constexpr int64_t inner = 2;
  sizes.even = 4 * n * inner;
  sizes.equal_part = 5;
  sizes.fixed = inner * inner;
  sizes.row = plan::Meeting{{4 * n, inner}, {1, 0}};
  sizes.column = plan::Meeting{{4 * n, inner}, {0, 1}};
  for (const plan::Space& space : plan.spaces)
    if (space.derived == plan::Space::Derived::segment) sizes.segments = {3, sizes.even - 3};
  int given = 0;  // one such space: all ranks know the same counts; several: what one sends another gets
  for (const plan::Space& space : plan.spaces) given += space.kind == plan::Space::Kind::given;
  sizes.given = [given](int, int rank, int64_t part) { return 4 * (((given > 1 ? rank : 0) + part) % 3); };
  sizes.scalars.assign(plan::launch_scalars(plan).size(), {true, inner, static_cast<double>(inner)});
  return sizes;
}

std::vector<unsigned char> results(const plan::Plan& plan, int n, uint64_t seed) {
  plan::cases::PlanRun run(plan, n, sizes_for(plan, n));
  int64_t bound = 0;  // of inputs and states, whatever scratch is declared between them
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.role == plan::Buffer::Role::scratch || buffer.role == plan::Buffer::Role::out) continue;
    ++bound;
    const bool counts = std::any_of(plan.spaces.begin(), plan.spaces.end(),
                                    [&](const plan::Space& s) { return s.by_buffer == buffer.name; });
    run.fill(buffer.name, [&](int its, int64_t i) {
      const int rank = buffer.repl ? 0 : its;
      return counts ? static_cast<double>(4 * ((rank + i) % 3)) : static_cast<double>((rank * 7 + i) % 16 + 1 + bound);
    });
  }
  bool grains = false;  // in units of rows such memory would be too small
  for (const plan::Space& space : plan.spaces) grains |= space.grain > 1;
  for (plan::LaunchArgs& args : run.args)
    for (size_t s = 0; s < plan.spaces.size(); ++s)
      if (!grains && plan.spaces[s].kind == plan::Space::Kind::even) args.spaces[s].extent = plan::Cut{1, 4 * n, 2};
  plan::InterpretOptions options;
  options.seed = seed;
  options.delay = seed % 2 ? 0.2 : 0;
  options.launches = 2;
  options.chunk_elements.assign(plan.spaces.size(), 4);
  run.run(options);
  const std::string wrong = failures_in([&run] { run.expect_canaries(); });
  if (!wrong.empty()) throw Error(ErrorKind::internal, wrong);
  return run.results();
}

// Inputs and results: what a caller binds. Dtypes, roles, the parts that ranks own, and how their spaces are cut.
std::string interface_of(const plan::Plan& plan) {
  std::map<std::string, std::string> spaces;
  std::string text;
  for (const std::string& line : split(plan::print(plan), '\n')) {
    const std::vector<std::string> w = words(line);
    if (w.empty() || (w[0] != "space" && w[0] != "buffer")) continue;
    if (w[0] == "space") spaces[w[1]] = line;
    if (w[0] == "space" || w[4] == "scratch") continue;
    text += fmt::format("{} {} {}", w[1], w[3], w[4]);
    const size_t own = line.find(" own ");
    text += (own == std::string::npos ? "" : line.substr(own)) + " of " + spaces[w[2]] + "\n";
  }
  return text;
}
std::string goal_of(const plan::Plan& plan) {
  std::string text;
  for (const std::string& line : split(plan::print(plan), '\n'))
    if (line.rfind("post ", 0) == 0 || line.rfind("param ", 0) == 0) text += line + "\n";
  plan::Plan kernels = plan;
  kernels.lanes.clear();
  const std::string all = plan::print(kernels);
  const size_t at = all.find("\nkernel ");
  return text + (at == std::string::npos ? "" : all.substr(at));
}

// ---- the same steps in other words: a proof, with no numbers
// What a walk gives, names by what they name and not by where they are declared. Labels only where somebody awaits them.
std::string said(const plan::Instance& instance, const plan::FlatStep& step) {
  const plan::Plan& plan = instance.plan();
  std::string text;
  if (step.reduced > 1 || (step.reduced == 1 && step.operands[0].peer_count > 1))
    text += fmt::format("{} {}:", kernel::name(step.reduction), step.reduced);
  if (step.kernel != plan::FlatStep::no_kernel) text += plan.kernels[step.kernel].name;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const plan::FlatOperand& o = step.operands[i];
    const bool slice = o.kind == plan::Operand::Kind::slice, constant = o.kind == plan::Operand::Kind::constant;
    if (i == size_t{step.reduced} + step.others) text += " ->";
    text += fmt::format(" {}{}{} ", static_cast<int>(o.kind), o.accumulate ? "+" : "",
                        constant ? std::to_string(o.value)
                        : slice  ? plan.buffers[o.name].name
                                 : plan.families[o.name].name);
    text += fmt::format("{}@{}+{}", o.here, o.peer_first, o.peer_count);
    if (!slice) continue;
    const int64_t parts = instance.parts(instance.buffer_space(o.name));
    if (o.part_count > 4 * parts)
      text += fmt::format(" all {} of {} by {} run {}", o.part_count, o.part_first, o.part_by, o.part_run);
    for (int64_t k = 0; k < std::min(o.part_count, 4 * parts); ++k)
      text += fmt::format(",{}", plan::part_at(o, k, parts));
  }
  return text;
}

std::string awaited(const plan::Instance& instance, const plan::FlatStep& step) {
  std::string text;
  for (const plan::FlatAwait& a : step.after) {
    text += fmt::format(" {}.{} {}+{} {}+{} lag {}", instance.plan().lanes[a.lane].name, instance.label(a.label),
                        a.channel_first, a.channel_count, a.peer_first, a.peer_count, a.lag);
    for (const int64_t index : a.index) text += fmt::format(" {}", index);
  }
  return text;
}

// Whether somebody awaits a label: one that nobody does may be called anything.
bool is_awaited(const plan::Plan& plan, const std::string& label) {
  const std::string text = plan::print(plan);
  for (size_t at = text.find(" after "); at != std::string::npos; at = text.find(" after ", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    for (size_t k = line.find(label); k != std::string::npos; k = line.find(label, k + 1)) {
      const char before = line[k - 1], after = k + label.size() < line.size() ? line[k + label.size()] : ' ';
      if (!std::isalnum(static_cast<unsigned char>(before)) && before != '_' &&
          !std::isalnum(static_cast<unsigned char>(after)) && after != '_')
        return true;
    }
  }
  return false;
}

// All steps of a plan on n ranks, with its declarations; awaits by the number of the step awaited among those of its lane.
std::string unfolded(const plan::Plan& plan, int n) {
  const plan::Instance instance(plan, n);
  std::vector<std::string> head, lanes;
  plan::Plan declared = plan;
  declared.lanes.clear(), declared.lets.clear(), declared.tables.clear(), declared.requirements.clear();
  for (const std::string& line : split(plan::print(declared), '\n')) head.push_back(line);
  std::stable_sort(head.begin(), head.end());
  std::set<int> waited;
  for (int label = 0; label < instance.label_count(); ++label)
    if (is_awaited(plan, instance.label(label))) waited.insert(label);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane)
    for (int rank = 0; rank < n; ++rank)
      for (int channel = 0; channel < instance.channels(); ++channel) {
        std::string text = fmt::format("{} {} {}", plan.lanes[lane].name, rank, channel);
        plan::Walk walk(instance, rank, static_cast<int>(lane), channel);
        plan::FlatStep step;
        while (walk.next_block()) {
          text += walk.block().loop ? fmt::format(" loop {}", walk.block().slices) : " once";
          for (const uint16_t space : walk.block().spaces) text += " " + plan.spaces[space].name;
          while (walk.next(step)) {
            const bool named = step.label != plan::FlatStep::no_label && waited.count(step.label);
            if (step.operands.empty() && step.after.empty() && !named) continue;
            text +=
                "\n" + (named ? instance.label(step.label) + ":" : "") + said(instance, step) + awaited(instance, step);
          }
        }
        lanes.push_back(text);
      }
  std::sort(lanes.begin(), lanes.end());
  return join(head, "\n") + join(lanes, "\n");
}

bool says_the_same(const plan::Plan& original, const plan::Plan& mutant) {
  const std::vector<int> ranks = plan::admitted_ranks(original);
  if (ranks != plan::admitted_ranks(mutant)) return false;
  for (const int n : ranks)
    if (n <= 8 && unfolded(original, n) != unfolded(mutant, n)) return false;
  return true;
}

// "" or how it differs from the original in the interpreter.
std::string compare(const plan::Plan& original, const plan::Plan& mutant) {
  const bool same_ends = interface_of(original) == interface_of(mutant),
             same_goal = goal_of(original) == goal_of(mutant);
  const std::vector<int> admitted = plan::admitted_ranks(mutant);
  int checked = 0;
  for (const int n : plan::admitted_ranks(original)) {
    if ((n == 1 && admitted.size() > 1) || std::find(admitted.begin(), admitted.end(), n) == admitted.end()) continue;
    if (++checked > 3) break;
    std::vector<unsigned char> want;
    if (same_ends && same_goal) want = results(original, n, 1);
    for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
      const std::vector<unsigned char> got = results(mutant, n, seed);
      if (want.empty()) want = got;
      if (got != want) return fmt::format("another result on {} ranks in order {}", n, seed);
    }
  }
  return "";
}

}  // namespace

const std::vector<ShippedPlan>& shipped_plans() {
  static const std::vector<ShippedPlan> all = [] {
    std::vector<ShippedPlan> list, distinct;
    add_folder("plan", list);
    add_folder("lower", list);
    add_registry(list);
    std::map<std::string, int> texts;
    for (ShippedPlan& plan : list)
      if (texts[plan.text]++ == 0) distinct.push_back(std::move(plan));
    return distinct;
  }();
  return all;
}

Fate try_plan_mutant(const PlanMutant& mutant, Tally& tally, const Planted& planted) {
  ++tally.mutants;
  plan::Plan damaged;
  std::string why;
  try {
    damaged = plan::parse(mutant.text);
    plan::VerifyOptions options;
    options.cache = false;
    options.max_findings = planted.verifier_misses ? 20 : 1;
    plan::Verdict verdict = plan::verify(damaged, options);
    if (planted.verifier_misses) std::erase_if(verdict.findings, planted.verifier_misses);
    if (!verdict.ok() || plan::admitted_ranks(damaged).empty()) return ++tally.rejected, Fate::rejected;
    why = compare(plan::parse(shipped_plans()[mutant.plan].text), damaged);
  } catch (const Error& error) {
    const bool refused = damaged.name.empty() && error.kind() != ErrorKind::internal;
    if (refused) return ++tally.rejected, Fate::rejected;
    why = error.what();
  }
  std::string kind = mutant.kind;
  if (why.empty() && says_the_same(plan::parse(shipped_plans()[mutant.plan].text), damaged)) kind = "same steps";
  if (why.empty() && reason_of(kind).empty()) why = "a survivor of a kind without a reason";
  if (why.empty()) return ++tally.still_right, ++tally.kinds[kind], Fate::still_right;
  ++tally.unexplained;
  tally.faults.push_back(fmt::format("accepted: {}: {}", mutant.name(), why));
  return Fate::wrong;
}

}  // namespace weft::fuzz
