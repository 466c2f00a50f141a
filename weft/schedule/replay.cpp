// From a schedule to the scheduled program, checked at every step and once as a whole.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/launch.h"
#include "weft/schedule/written.h"

namespace weft::schedule {
namespace {

// commute and narrow change what is computed: for them inference and their own rules are all there is.
bool erasable(const Schedule& schedule) {
  return std::none_of(schedule.directives.begin(), schedule.directives.end(),
                      [](const Directive& d) { return d.name == "commute" || d.name == "narrow"; });
}

void check_program(const ir::Program& naive, const Schedule& schedule) {
  if (schedule.program == naive.name) return;
  throw Error(ErrorKind::user, schedule.name + ": ", "",
              fmt::format("this is a schedule of {}, the program is {}", schedule.program, naive.name),
              "take a schedule of this program, or tune one", "F3");
}

}  // namespace

ir::Program replay(const ir::Program& naive, const Schedule& schedule) {
  check_program(naive, schedule);
  check_written(form_of(naive));
  ir::Program program = canonical(naive);
  for (const Directive& directive : schedule.directives)
    program = apply(program, directive.name, Args{directive.words});
  if (erasable(schedule)) check_scheduled(naive, program);
  check_targets(schedule.launches, program);
  return program;
}

Bits bits(const ir::Program& naive, const Schedule& schedule) {
  Bits weakest = Bits::kept;
  ir::Program program = canonical(naive);
  for (const Directive& directive : schedule.directives) {
    const Rewrite* rewrite = find_rewrite(directive.name);
    Args args{directive.words};
    ir::Program next = apply(program, directive.name, args);  // refuses what cannot be applied
    weakest = std::max(weakest, rewrite->bits(program, args));
    program = std::move(next);
  }
  return weakest;
}

}  // namespace weft::schedule
