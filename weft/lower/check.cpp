// The sentences behind the passes, checked with WEFT_VERIFY=1: what a pass left must hold for the ones that lean on it, so
// that a mistake is named where it was made and not five passes later. They ask the questions anew, from the program and
// the types, and share no code with the pass that they check. All failures are internal errors.
#include "weft/lower/check.h"

namespace weft::lower {

// Every value has a space; in a statement, big operands are of its loop's space or read whole.
void check_spaces(const Work& work) {
  for (const Value& v : work.values) {
    WEFT_CHECK(v.space >= 0, "{} has no space", v.name);
    const SpaceInfo& info = work.spaces[static_cast<size_t>(v.space)];
    WEFT_CHECK(info.grade == v.grade, "{} lies in a space of another grade", v.name);
    if (const auto* sliced = std::get_if<ir::Sliced>(&v.type->layout); sliced && v.grade == Grade::big)
      WEFT_CHECK(info.cut >= 0 && info.in_parts, "{} is sliced({}), its space is not cut", v.name, sliced->dim);
    if (!v.op || is_op(*v.op, "matmul")) continue;
    const int loop = loop_space(work, *v.op);
    for (const ir::Name& arg : v.op->args) {
      const Value& a = work.value(arg);
      const bool other_rows = is_op(*v.op, "all_to_all") && !work.spaces[static_cast<size_t>(a.space)].ragged.empty();
      WEFT_CHECK(a.grade != Grade::big || loop < 0 || a.space == loop || other_rows,
                 "{} reads {} in a loop over another space", v.name, arg);
      if (a.grade == Grade::segment || a.grade == Grade::coarse)
        WEFT_CHECK(loop < 0 || work.spaces[static_cast<size_t>(a.space)].of == loop,
                   "{} meets {}, which is derived of another space", v.name, arg);
    }
  }
}

// What is read element by element in a loop was made in it or in an earlier one; folds are read in later ones.
void check_phases(const Work& work) {
  for (const Value& v : work.values) {
    if (!v.op) continue;
    const int loop = loop_space(work, *v.op);
    for (const ir::Name& arg : v.op->args) {
      const Value& a = work.value(arg);
      if (!a.op || a.unit != v.unit) continue;
      WEFT_CHECK(a.phase <= v.phase, "{} is in phase {} and reads {} of phase {}", v.name, v.phase, arg, a.phase);
      WEFT_CHECK(loop < 0 || a.grade == Grade::big || a.phase < v.phase, "{} reads {} before it is finished", v.name,
                 arg);
    }
  }
}

void check_places(const Work& work) {
  std::set<plan::Id> names;
  for (const plan::Buffer& buffer : work.out.plan.buffers)
    WEFT_CHECK(names.insert(buffer.name).second, "two buffers {}", buffer.name);
  WEFT_CHECK(work.out.plan.buffers.size() == work.out.buffers.size(), "buffers without a recipe");
  for (const Value& v : work.values)
    for (const Home& home : v.homes)
      WEFT_CHECK(names.count(home.buffer), "{} lives in {}, which is no buffer", v.name, home.buffer);
  for (const ir::Update& update : work.program->updates) {
    const Value& v = work.value(update.value);
    int written = 0;
    for (const Home& home : v.homes) written += v.op && home.buffer == work.ids.at(update.state);
    for (const plan::Id& state : v.copies) written += state == work.ids.at(update.state);
    WEFT_CHECK(written == 1, "state {} is written {} times", update.state, written);
  }
}

// The plan reads back from its own text, its kernels are well formed, labels of a lane name one step.
void check_plan(const Work& work) {
  const plan::Plan& plan = work.out.plan;
  for (const kernel::Kernel& kernel : plan.kernels) kernel::check(kernel);
  const std::string text = plan::print(plan);
  WEFT_CHECK(plan::print(plan::parse(text)) == text, "the plan does not read back from its text");
  WEFT_CHECK(work.out.spaces.size() == plan.spaces.size() && work.out.buffers.size() == plan.buffers.size(),
             "recipes do not fit the plan");
}

std::string identity(const schedule::LaunchConfig& line) {
  std::string text = "launch " + line.target;
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) text += fmt::format(" {} {}", name, *value);
  };
  add("algorithm", line.algorithm);
  add("protocol", line.protocol);
  add("channels", line.channels);
  add("chunk_bytes", line.chunk_bytes);
  add("order", line.order);
  add("round", line.round);
  add("stream", line.stream);
  return text + "\n";
}

}  // namespace weft::lower
