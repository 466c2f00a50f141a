// Bounds keep one attempt short: programs are evaluated with sizes of a few elements, plans are verified where they have
// some hundred steps. A fuzzer that waits finds little.
#include "tests/fuzz/texts.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "tests/support/source_dir.h"
#include "tests/unit/plan/run_plan.h"
#include "tests/unit/schedule/meaning.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/foreign/msccl.h"
#include "weft/lower/lower.h"
#include "weft/plan/verify.h"
#include "weft/sim/goal.h"

namespace weft::fuzz {
namespace {

// Runs `act`; an error must be of one of these kinds. Returns whether there was none.
bool refused_as_it_should_be(const char* what, std::initializer_list<ErrorKind> kinds,
                             const std::function<void()>& act) {
  try {
    act();
    return false;
  } catch (const Error& error) {
    for (const ErrorKind kind : kinds)
      if (error.kind() == kind) return true;
    throw Fault(fmt::format("{}: an error of kind {}: {}", what, name(error.kind()), error.what()));
  }
}

// What is printed must read back and print as the same.
void require_fixed_point(const char* what, const std::string& once, const std::function<std::string()>& again) {
  std::string twice;
  try {
    twice = again();
  } catch (const Error& error) {
    throw Fault(fmt::format("{}: printed\n{}\nit does not read back: {}", what, once, error.what()));
  }
  if (once != twice) throw Fault(fmt::format("{}: printed\n{}\nit reads back and prints\n{}", what, once, twice));
}

// The planted faults: a printer that drops a word.
std::string without(std::string text, const std::string& word, bool planted) {
  const size_t at = planted ? text.find(word) : std::string::npos;
  return at == std::string::npos ? text : text.erase(at, word.size());
}

// ---- programs
int64_t elements(const ir::Type& type, const ir::Sizes& sizes) {
  double all = 1;
  for (const int64_t extent : ir::shape_of(type.shape, sizes)) all *= static_cast<double>(extent);
  return all > 1e6 ? 1'000'000 : static_cast<int64_t>(all);
}

ir::Sizes small_sizes(const ir::Program& program, int ranks) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  for (const ir::HeaderDecl& decl : program.header) {
    if (const auto* dim = std::get_if<ir::DimDecl>(&decl))
      for (const auto& name : dim->names) sizes.dims[name] = 4;
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl)) sizes.dims[ragged->name] = 4;
    if (const auto* tensors = std::get_if<ir::TensorsDecl>(&decl)) sizes.tensors[tensors->name] = {{3}, {0}, {2, 2}};
    if (const auto* scalar = std::get_if<ir::ScalarDecl>(&decl))
      sizes.scalars[scalar->name] =
          scalar->dtype == Dtype::i64 ? expr::ScalarValue{true, 2, 2} : expr::ScalarValue{false, 0, 0.5};
  }
  return sizes;
}

void evaluate_small(const ir::Program& program, const ir::Types& types) {
  schedule::test::World world;
  world.sizes = small_sizes(program, 2);
  world.integers = true;
  for (const auto& [name, type] : types)  // roots and stages are more ranks than there are here
    if (elements(type, world.sizes) > 4096 || type.group != ir::Type().group ||
        std::holds_alternative<ir::Root>(type.layout))
      return;
  schedule::test::meaning(program, world);
}

void try_program(std::string_view text, bool planted) {
  ir::Program program;
  ir::Types types;
  const auto user = {ErrorKind::user, ErrorKind::unsupported};
  if (refused_as_it_should_be("program", user, [&] { program = ir::parse(text), types = ir::infer(program); })) return;
  const std::string once = ir::print(program);
  require_fixed_point("program", once, [&] { return ir::print(ir::parse(without(once, " cut 1", planted))); });
  bool ragged = false;  // counts are data, which a random text has no sizes for
  for (const ir::HeaderDecl& decl : program.header) ragged |= std::holds_alternative<ir::RaggedDecl>(decl);
  if (ragged || !program.blocks.empty()) return;
  refused_as_it_should_be("program, evaluated", user, [&] { evaluate_small(program, types); });
  refused_as_it_should_be("program, lowered", user, [&] { lower::lower(schedule::canonical(program), {}, {}); });
}

// ---- schedules, of the programs under tests/cases/program
struct Known {
  ir::Program program;
  schedule::test::Meaning meaning;
};
const schedule::test::World& small_world() {
  static const schedule::test::World world = schedule::test::world(2, 5);
  return world;
}
const Known* known(const std::string& name) {
  static std::map<std::string, Known> all = [] {
    std::map<std::string, Known> list;
    for (const char* each : {"adam", "adamw_clip", "lamb", "adam_mixed", "attention_end", "mlp", "sgd_int"}) {
      Known known{ir::parse(read_file(checkout_dir() + "/tests/cases/program/" + each + ".weft")), {}};
      known.meaning = schedule::test::meaning(known.program, small_world());
      list.emplace(known.program.name, std::move(known));
    }
    return list;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

void try_schedule(std::string_view text, bool planted) {
  schedule::Schedule schedule;
  const auto user = {ErrorKind::user, ErrorKind::unsupported};
  if (refused_as_it_should_be("schedule", user, [&] { schedule = schedule::parse_schedule(text); })) return;
  const std::string once = schedule::print(schedule);
  require_fixed_point("schedule", once,
                      [&] { return schedule::print(schedule::parse_schedule(without(once, " channels 3", planted))); });
  const Known* program = known(schedule.program);
  if (!program) return;
  ir::Program scheduled;
  if (refused_as_it_should_be("schedule, replayed", user,
                              [&] { scheduled = schedule::replay(program->program, schedule); }))
    return;
  bool roots = false;  // of ranks that two ranks may not have
  for (const schedule::Directive& directive : schedule.directives)
    for (const std::string& word : directive.words) roots |= word == "root";
  if (roots || schedule::bits(program->program, schedule) == schedule::Bits::numerics) return;
  const double off = schedule::test::difference(program->meaning, schedule::test::meaning(scheduled, small_world()));
  if (!(off <= 1e-9)) throw Fault(fmt::format("accepted, and {} away from what {} means", off, schedule.program));
  refused_as_it_should_be("schedule, lowered", user, [&] { lower::lower(scheduled, schedule.launches, {}); });
}

// ---- plans
int64_t steps_of(const plan::Instance& instance, int64_t most) {
  int64_t steps = 0;
  plan::FlatStep step;
  for (int rank = 0; rank < instance.ranks(); ++rank)
    for (size_t lane = 0; lane < instance.plan().lanes.size(); ++lane)
      for (int channel = 0; channel < instance.channels(); ++channel) {
        plan::Walk walk(instance, rank, static_cast<int>(lane), channel);
        while (walk.next_block())
          while (walk.next(step))
            if (++steps > most) return steps;
      }
  return steps;
}

bool is_small(const plan::Instance& instance) {
  constexpr int64_t most_parts = 256, most_steps = 400;
  for (size_t s = 0; s < instance.plan().spaces.size(); ++s) {
    const plan::Space& space = instance.plan().spaces[s];
    if (instance.parts(static_cast<int>(s)) > most_parts || instance.fixed_count(static_cast<int>(s)) > 64)
      return false;
    if (space.kind == plan::Space::Kind::given) return false;  // counts must agree between ranks
  }
  for (const plan::Buffer& buffer : instance.plan().buffers)
    if (buffer.depth > 4) return false;
  return instance.channels() <= 4 && steps_of(instance, most_steps) <= most_steps;
}

// What the verifier accepts runs to its end, in two orders, writes no byte elsewhere, and gives the same twice.
void run_verified(const plan::Plan& plan, int ranks) {
  std::vector<unsigned char> first;
  for (const uint64_t seed : {1u, 2u}) {
    plan::cases::PlanSizes sizes;
    sizes.even = 8 * ranks, sizes.equal_part = 3, sizes.fixed = 4, sizes.segments = {3, 8 * ranks - 3};
    sizes.scalars.assign(plan::launch_scalars(plan).size(), {true, 2, 2});
    plan::InterpretOptions options;
    options.seed = seed, options.delay = 0.3, options.launches = 2;
    options.chunk_elements.assign(plan.spaces.size(), 4);
    std::optional<plan::cases::PlanRun> run;
    try {
      run.emplace(plan, ranks, sizes);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::user) return;  // extents that do not fit such a plan
      throw Fault(fmt::format("verified for {} ranks, then: {}", ranks, error.what()));
    }
    for (const plan::Buffer& buffer : plan.buffers)
      if (buffer.role != plan::Buffer::Role::scratch && buffer.role != plan::Buffer::Role::out)
        run->fill(buffer.name,
                  [&](int rank, int64_t i) { return static_cast<double>((buffer.repl ? 0 : rank) * 3 + i % 5 + 1); });
    try {
      run->run(options);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::user || error.kind() == ErrorKind::unsupported) return;
      throw Fault(fmt::format("verified for {} ranks, then in the interpreter: {}", ranks, error.what()));
    }
    if (seed == 1) first = run->results();
    if (first != run->results()) throw Fault(fmt::format("verified for {} ranks, and two orders differ", ranks));
  }
}

// A verdict is asked for only where it takes a moment.
bool verified(const plan::Plan& plan, int ranks) {
  plan::VerifyOptions options;
  options.ranks = {ranks};
  options.cache = false;
  options.max_findings = 2;
  return plan::verify(plan, options).ok();
}

void try_instance(const plan::Plan& plan, int ranks, bool folds_in_any_order) {
  bool run = false;
  refused_as_it_should_be("plan", {ErrorKind::plan, ErrorKind::user, ErrorKind::unsupported}, [&] {
    const plan::Instance instance(plan, ranks);
    run = is_small(instance) && verified(plan, ranks) && !folds_in_any_order;
  });
  if (run) run_verified(plan, ranks);
}

// Sums whose order is left open differ in bits where floats round: small whole numbers do not, what kernels make of them may.
bool has_kernels(const plan::Plan& plan) { return !plan.kernels.empty(); }

void try_plan(std::string_view text, bool planted) {
  plan::Plan plan;
  const auto kinds = {ErrorKind::plan, ErrorKind::user, ErrorKind::unsupported};
  if (refused_as_it_should_be("plan", kinds, [&] { plan = plan::parse(text); })) return;
  const std::string once = plan::print(plan);
  require_fixed_point("plan", once, [&] { return plan::print(plan::parse(without(once, " lag 3", planted))); });
  for (const int ranks : {1, 2, 3}) try_instance(plan, ranks, has_kernels(plan));
}

// ---- plans of others
void try_msccl(std::string_view text, bool planted) {
  foreign::Msccl schedule;
  const auto kinds = {ErrorKind::plan, ErrorKind::unsupported};
  if (refused_as_it_should_be("msccl", kinds, [&] { schedule = foreign::read_msccl(text); })) return;
  const std::string once = plan::print(schedule.plan);
  require_fixed_point("msccl", once, [&] { return plan::print(plan::parse(without(once, "link ch3 ", planted))); });
  if (schedule.ranks <= 4) try_instance(schedule.plan, schedule.ranks, false);
}

void try_goal(std::string_view text, bool planted) {
  const auto user = {ErrorKind::user, ErrorKind::unsupported};
  std::optional<sim::Goal> goal;
  if (refused_as_it_should_be("goal", user, [&] { goal = sim::parse_goal(text); })) return;
  if (goal->ranks() > 64) return;
  const std::string once = sim::print_goal(*goal);
  require_fixed_point("goal", once, [&] { return sim::print_goal(sim::parse_goal(without(once, " tag 3", planted))); });
  if (sim::parse_goal(once).image() != goal->image()) throw Fault("goal: reads back as another image\n" + once);
  for (const sim::GoalMode mode : {sim::GoalMode::original, sim::GoalMode::fork})
    refused_as_it_should_be("goal, simulated", user, [&] { sim::simulate_goal(*goal, {}, mode); });
}

template <Try attempt>
void bounded(std::string_view text, bool planted) {
  if (text.size() <= most_bytes) attempt(text, planted);
}

}  // namespace

const std::vector<TextForm>& text_forms() {
  static const std::vector<TextForm> forms = {
      {"program", &bounded<try_program>, "a printer that drops ` cut 1`"},
      {"schedule", &bounded<try_schedule>, "a printer that drops ` channels 3`"},
      {"plan", &bounded<try_plan>, "a printer that drops ` lag 3`"},
      {"msccl", &bounded<try_msccl>, "a printer that drops `link ch3 `"},
      {"goal", &bounded<try_goal>, "a printer that drops ` tag 3`"}};
  return forms;
}

}  // namespace weft::fuzz
