// The space of schedules: layouts, then groups.
//
// Overlaps are counted (each producer and consumer that could run at once doubles the schedules) but not generated while
// nothing lowers them. What dominance drops is not forgotten: a sample can be asked for, so that a tuner can say whether
// pruning ever cost something.
#include <algorithm>
#include <random>

#include "weft/schedule/dominance.h"
#include "weft/schedule/groups.h"
#include "weft/schedule/layouts.h"
#include "weft/schedule/written.h"

namespace weft::schedule {
namespace {

// How many layouts, and how many candidates: a layout costs a pass over the program's statements, a candidate one over
// pairs of them. Programs of up to 22 statements get all 8,192, one of 300 gets 46; the most divided come first, and
// Space::truncated says that some are left out.
size_t cap_of(const Form& naive, const EnumerateOptions& options) {
  if (options.max_candidates <= 1) return 1;
  const size_t n = std::max<size_t>(1, naive.program.ops.size());
  return std::clamp<size_t>((size_t{1} << 22) / (n * n), 16, 8192);
}

std::vector<Directive> joined(const ir::Program& naive, const std::vector<Directive>& steps,
                              const std::vector<ir::Block>& blocks) {
  std::vector<Directive> directives;
  for (const Directive& step : steps) {
    bool joins =
        !directives.empty() && directives.back().name == step.name && (step.name == "reorder" || step.name == "store");
    if (joins)
      directives.back().words.push_back(step.words[0]);
    else
      directives.push_back(step);
  }
  for (const ir::Block& block : blocks) {
    if (is_written_block(naive, block.name)) continue;
    directives.push_back({"fuse", {block.name}});
    directives.back().words.insert(directives.back().words.end(), block.members.begin(), block.members.end());
  }
  return directives;
}

class Enumeration {
 public:
  // `before`: what made this program of the user's (commute), to stand before each schedule.
  Enumeration(const Form& naive, const EnumerateOptions& options, std::vector<Directive> before)
      : options_(options),
        before_(std::move(before)),
        cap_(cap_of(naive, options)),
        layouts_(naive, options, cap_),
        dominance_(layouts_) {}

  Space run() {
    space_.layouts = static_cast<int64_t>(layouts_.nodes().size());
    space_.truncated = layouts_.truncated();
    std::vector<size_t> kept, dropped;
    for (size_t node = 0; node < layouts_.nodes().size(); ++node) {
      if (options_.prune && dominance_.impossible(node)) continue;
      bool keep = node == 0 || !options_.prune || dominance_.rule(node).empty();
      if (keep)
        take(node), kept.push_back(node);
      else
        dropped.push_back(node);
    }
    sample(dropped);
    if (options_.loose_numerics)  // last, so that the others have the names that they have without
      for (const size_t node : kept) take_narrowed(layouts_.nodes()[node]);
    return std::move(space_);
  }

 private:
  std::vector<Form> groupings(const Form& form) const {
    if (!options_.fuse) return {form};
    std::vector<Form> forms = grouped(form);
    if (form.program.blocks.empty()) return forms;
    // A program with blocks of its own: first as it is written.
    const std::string written = ir::print(form.program);
    std::erase_if(forms, [&](const Form& f) { return ir::print(f.program) == written; });
    forms.insert(forms.begin(), form);
    return forms;
  }

  static int64_t overlaps(const Form& form) { return int64_t{1} << std::min(count_links(form), 40); }

  void take(size_t node) {
    ++space_.layouts_kept;
    if (space_.candidates.size() >= cap_) {
      space_.truncated = true;
      return;
    }
    take(layouts_.nodes()[node].form, layouts_.nodes()[node].steps);
  }

  void take(const Form& layout, const std::vector<Directive>& steps) {
    for (const Form& form : groupings(layout)) {
      int64_t schedules = overlaps(form);
      space_.schedules += schedules;
      space_.schedules_kept += schedules;
      if (space_.candidates.size() < std::min(cap_, static_cast<size_t>(std::max(1, options_.max_candidates))))
        emit(form, steps, false);
      else
        space_.truncated = true;
    }
  }

  // The layout with all that can be gathered as bf16 gathered so: its range is that of f32. Other wires a schedule names.
  void take_narrowed(const LayoutNode& node) {
    Form form = node.form;
    std::vector<Directive> steps = node.steps;
    for (const ir::Op& op : node.form.program.ops) {
      if (check_narrow(form, op.name, Dtype::bf16)) continue;
      apply_narrow(form, op.name, Dtype::bf16);
      steps.push_back({"narrow", {op.name, std::string(weft::name(Dtype::bf16))}});
    }
    if (steps.size() > node.steps.size()) take(form, steps);
  }

  void emit(const Form& form, const std::vector<Directive>& layout_steps, bool dropped) {
    Candidate candidate;
    candidate.plain = space_.candidates.empty() && before_.empty();
    candidate.dropped = dropped;
    std::vector<Directive> steps = before_;
    steps.insert(steps.end(), layout_steps.begin(), layout_steps.end());
    candidate.schedule = {
        "", form.program.name, joined(layouts_.nodes()[0].form.program, steps, form.program.blocks), {}};
    candidate.program = form.program;
    space_.candidates.push_back(std::move(candidate));
  }

  void sample(std::vector<size_t> dropped) {
    if (options_.count_dropped)
      for (size_t node : dropped)
        for (const Form& form : groupings(layouts_.nodes()[node].form)) space_.schedules += overlaps(form);
    std::mt19937_64 random(options_.sample_dropped_seed);
    for (int i = 0; i < options_.sample_dropped && !dropped.empty(); ++i) {
      size_t at = static_cast<size_t>(random() % dropped.size());
      const LayoutNode& node = layouts_.nodes()[dropped[at]];
      emit(groupings(node.form).front(), node.steps, true);
      dropped.erase(dropped.begin() + static_cast<ptrdiff_t>(at));
    }
  }

  const EnumerateOptions& options_;
  std::vector<Directive> before_;
  size_t cap_;
  Layouts layouts_;
  Dominance dominance_;
  Space space_;
};

void append(Space& space, Space more) {
  space.layouts += more.layouts;
  space.layouts_kept += more.layouts_kept;
  space.schedules += more.schedules;
  space.schedules_kept += more.schedules_kept;
  space.truncated |= more.truncated;
  std::move(more.candidates.begin(), more.candidates.end(), std::back_inserter(space.candidates));
}

}  // namespace

Space enumerate(const ir::Program& naive, const EnumerateOptions& options) {
  Form form = form_of(naive);
  check_written(form);
  canonicalize(form);
  Space space = Enumeration(form, options, {}).run();
  if (options.loose_numerics) {
    for (const ir::Op& op : form.program.ops) {
      if (check_commute(form, op.name)) continue;
      Form commuted = form;
      apply_commute(commuted, op.name);
      append(space, Enumeration(commuted, options, {{"commute", {op.name}}}).run());
    }
  }
  for (size_t i = 0; i < space.candidates.size(); ++i)
    space.candidates[i].schedule.name = space.candidates[i].plain ? "plain" : "s" + std::to_string(i);
  return space;
}

}  // namespace weft::schedule
