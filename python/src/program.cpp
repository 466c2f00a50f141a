// Programs, schedules, pictures, predictions and tuning.
#include "python/src/bindings.h"
#include "weft/api/calibrate.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/codegen/library.h"
#include "weft/runtime/shapes.h"
#include "weft/tune/file.h"
#include "weft/view/graph.h"

namespace weft::python {
namespace {

using ir::Program;

nb::dict tensor_dict(const ir::TensorDecl& tensor) {
  nb::dict out;
  out["name"] = tensor.name;
  out["dtype"] = std::string(name(tensor.type.dtype));
  out["shape"] = ir::print(tensor.type.shape);
  out["layout"] = ir::print(tensor.type.layout);
  return out;
}

nb::list tensors_of(const Program& program, bool state) {
  nb::list out;
  for (const ir::TensorDecl& tensor : program.tensors)
    if (tensor.state == state) out.append(tensor_dict(tensor));
  return out;
}

std::vector<std::string> scalars_of(const Program& program) {
  std::vector<std::string> names;
  for (const ir::HeaderDecl& line : program.header)
    if (const auto* scalar = std::get_if<ir::ScalarDecl>(&line)) names.push_back(scalar->name);
  return names;
}

std::vector<std::string> lists_of(const Program& program) {
  std::vector<std::string> names;
  for (const ir::HeaderDecl& line : program.header)
    if (const auto* list = std::get_if<ir::TensorsDecl>(&line)) names.push_back(list->name);
  return names;
}

std::string type_text(const Program& program, const std::string& value) {
  const ir::Types types = ir::infer(program);
  const auto found = types.find(value);
  if (found == types.end()) throw Error(ErrorKind::user, program.name + " has no value " + value);
  return ir::print(found->second);
}

lower::Lowered lowered(const Program& program, const std::string& choice, int ranks, bool mapped) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  const schedule::Schedule schedule = resolve_schedule(program, choice, sizes);
  lower::LowerOptions options;
  options.ranks = ranks;
  options.mapped = mapped;
  return lower::lower(schedule::replay(program, schedule), schedule.launches, options);
}

std::string cpp_of(const lower::Lowered& lowered, int ranks) {
  std::string text;
  for (const kernel::StepShape& shape : runtime::step_shapes(plan::Instance(lowered.plan, ranks), lowered.stream))
    text += codegen::source_of(shape) + "\n";
  return text;
}

// The forms of `weft show`.
std::string show(const Program& program, const std::string& as, const std::string& choice, int ranks, bool mapped) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  if (as == "plan") return plan::print(lowered(program, choice, ranks, mapped).plan);
  if (as == "cpp") return cpp_of(lowered(program, choice, ranks, mapped), ranks);
  const schedule::Schedule schedule = resolve_schedule(program, choice, sizes);
  if (as == "schedule") return schedule::print(schedule);
  const Program scheduled = schedule::replay(program, schedule);
  if (as == "program") return ir::print(scheduled);
  if (as == "dot") return view::dot(scheduled);
  if (as == "svg") return view::svg(view::dot(scheduled));
  throw Error(ErrorKind::user, fmt::format("a program cannot be shown as {}", as),
              "program, schedule, plan, cpp, dot or svg");
}

nb::list schedules(const Program& program, int limit) {
  schedule::EnumerateOptions options;
  options.max_candidates = limit;
  const schedule::Space space = schedule::enumerate(program, options);
  nb::list out;
  for (const schedule::Candidate& candidate : space.candidates) {
    nb::dict row;
    row["name"] = candidate.schedule.name;
    row["plain"] = candidate.plain;
    row["schedule"] = schedule::one_line(candidate.schedule);
    row["text"] = schedule::print(candidate.schedule);
    out.append(row);
  }
  return out;
}

nb::dict trial_dict(const tune::Trial& trial) {
  nb::dict row;
  row["name"] = trial.schedule.name;
  row["schedule"] = trial.label;
  row["text"] = schedule::print(trial.schedule);
  row["plain"] = trial.plain;
  row["predicted_ns"] = trial.prediction.total_ns;
  row["read_bytes"] = trial.prediction.read_bytes;
  row["written_bytes"] = trial.prediction.written_bytes;
  row["exchanged_bytes"] = trial.prediction.sent_bytes;
  row["passes"] = trial.prediction.passes;
  row["bound"] = trial.prediction.bound;
  if (trial.rounds_ns.empty()) return row;
  row["median_ns"] = trial.median_ns();
  row["spread"] = trial.spread();
  row["check"] = trial.check;
  return row;
}

nb::list rows_of(const std::vector<tune::Trial>& trials) {
  nb::list out;
  for (const tune::Trial& trial : trials) out.append(trial_dict(trial));
  return out;
}

// Ranks are threads here: a Python process that has threads must not be forked.
nb::list explain(const Program& program, const ir::Sizes& sizes, int limit, bool mapped, bool any_order) {
  std::vector<tune::Trial> trials;
  {
    nb::gil_scoped_release release;
    tune::SearchOptions search;
    search.ranks = sizes.ranks;
    search.sizes = sizes;
    search.limit = limit;
    search.mapped = mapped;
    search.any_order = any_order;
    search.samples = 0;
    trials = tune::make_trials(program, api::machine_for(sizes.ranks, "threads"), search).trials;
  }
  return rows_of(trials);
}

nb::dict tune_now(const Program& program, const ir::Sizes& sizes, const std::map<std::string, double>& scalars,
                  int limit, double seconds, bool any_order, bool store) {
  api::TuneReport report;
  std::string best;
  {
    nb::gil_scoped_release release;
    api::TuneRequest request;
    request.program = program;
    request.sizes = sizes;
    request.scalars = scalars;
    request.transport = "threads";
    request.machine = api::machine_for(sizes.ranks, "threads");
    request.search.limit = limit;
    request.search.any_order = any_order;
    request.rounds.seconds = seconds;
    report = api::tune_program(request);
    best = schedule::print(tune::best(report.space.trials).schedule);
    if (store) api::store_best(report, program, sizes, tune::default_tuning_path());
  }
  nb::dict out;
  out["best"] = best;
  out["rows"] = rows_of(report.space.trials);
  out["why"] = report.explanation;
  return out;
}

}  // namespace

ir::Sizes sizes_of(int ranks, const std::map<std::string, int64_t>& dims, const Shapes& tensors) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  sizes.dims = dims;
  sizes.tensors = tensors;
  return sizes;
}

void bind_programs(nb::module_& module) {
  nb::class_<ir::Sizes>(module, "Sizes", "Numbers for a program's sizes, and shapes for its lists of tensors.");
  module.def("sizes", &sizes_of, nb::arg("ranks"), nb::arg("dims"), nb::arg("tensors"));
  nb::class_<Program>(module, "Program", "A checked program (see weft.Program).")
      .def_prop_ro("name", [](const Program& p) { return p.name; })
      .def_prop_ro("text", [](const Program& p) { return ir::print(p); })
      .def_prop_ro("inputs", [](const Program& p) { return tensors_of(p, false); })
      .def_prop_ro("states", [](const Program& p) { return tensors_of(p, true); })
      .def_prop_ro("dims", [](const Program& p) { return ir::dims(p); })
      .def_prop_ro("lists", &lists_of)
      .def_prop_ro("scalars", &scalars_of)
      .def_prop_ro("outputs",
                   [](const Program& p) {
                     std::vector<std::string> names;
                     for (const ir::Out& out : p.outs) names.push_back(out.value);
                     return names;
                   })
      .def("type_of", &type_text, nb::arg("value"));
  module.def(
      "parse",
      [](const std::string& text) {
        Program program = ir::parse(text);
        ir::infer(program);
        return program;
      },
      nb::arg("text"));
  module.def("show", &show, nb::arg("program"), nb::arg("form"), nb::arg("schedule"), nb::arg("ranks"),
             nb::arg("mapped"));
  module.def("schedules", &schedules, nb::arg("program"), nb::arg("limit"));
  module.def("explain", &explain, nb::arg("program"), nb::arg("sizes"), nb::arg("limit"), nb::arg("mapped"),
             nb::arg("any_order"));
  module.def("tune", &tune_now, nb::arg("program"), nb::arg("sizes"), nb::arg("scalars"), nb::arg("limit"),
             nb::arg("seconds"), nb::arg("any_order"), nb::arg("store"));
}

}  // namespace weft::python
