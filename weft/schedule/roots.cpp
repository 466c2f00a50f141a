// A schedule holds for all numbers of ranks, so a root is looked at only where that number is known: before a launch.
// Replayed programs are not looked at: their statements have names that the user did not write.
#include "weft/schedule/roots.h"

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/ir/evaluate_op.h"
#include "weft/ir/roots.h"

namespace weft::schedule {

void check_roots(const ir::Program& naive, const Schedule& schedule, const ir::Sizes& sizes) {
  ir::check_roots(naive, sizes);
  const ir::Types types = ir::infer(naive);
  for (const Directive& directive : schedule.directives) {
    const std::vector<std::string>& words = directive.words;
    if (directive.name != "split" || words.size() != 3 || words[1] != "root" || !types.count(words[0])) continue;
    const int ranks = ir::group_ranks(naive, types.at(words[0]).group, sizes).size();
    if (const auto refusal = ir::refused_root(naive, sizes, words[2], ranks))
      throw Error(ErrorKind::user, fmt::format("split {}: {}", join(words, " "), refusal->message), refusal->remedy,
                  "L3");
  }
}

}  // namespace weft::schedule
