// Schedules: sets of choices, written as checked rewrites, and the launch configuration behind them.
//
// A schedule never changes what a program means. It is checked, not trusted: replay infers every intermediate program
// and erase() of the result must give the user's program byte for byte (program.md, 1.10). The rewritten text depends on
// what was chosen and not on the order, so the tuner enumerates sets of choices, never paths.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"

namespace weft::schedule {

constexpr int schedule_version = 1;

// ---- one rewrite
struct Refusal {
  std::string rule, op, message, remedy;
  std::vector<std::string> tensors;
};
[[noreturn]] void refuse(const Refusal& refusal);  // Error(user): "y: R3: no operand of y ... \n remedy"

enum class Bits : uint8_t {
  kept,
  order,
  tolerance,
  numerics
};  // kept | kept under order rank, round once | to tolerance | changes numbers

struct Args {
  std::vector<std::string> words;
};  // what stands behind the directive, ':' removed

class Rewrite {  // one file each
 public:
  virtual ~Rewrite() = default;
  virtual std::string_view name() const = 0;  // split merge reorder cut store fuse overlap commute narrow
  virtual std::optional<Refusal> check(const ir::Program&, const Args&) const = 0;
  virtual ir::Program apply(const ir::Program&,
                            const Args&) const = 0;  // only after check; caller runs canonical() and infer()
  virtual Bits bits(const ir::Program&, const Args&) const = 0;
};
const std::vector<const Rewrite*>& rewrites();
const Rewrite* find_rewrite(std::string_view name);  // null: there is none
// check, apply, canonical, infer. Throws Error(user) on refusal; `program` is never half changed.
ir::Program apply(const ir::Program& program, std::string_view directive, const Args& args);
ir::Program canonical(const ir::Program& program);  // N1 N2 N3
// The user's program again: blocks, suffixes, gathers of .s and all_reduces of .p removed, scatters all_reduces again.
ir::Program erase(const ir::Program& scheduled);
// Is `scheduled` a schedule of `naive`? Throws Error(user): E1 erased it is another program, E2 a value of the user's has
// another type (states stored in parts aside), E3 an x.s that is no slice or an x.p that is not pending. erase.cpp.
void check_scheduled(const ir::Program& naive, const ir::Program& scheduled);

// ---- launch configuration
struct LaunchConfig {        // one `launch` line; unset: the chooser decides
  std::string target = "*";  // a collective, a group, or *
  std::optional<std::string> algorithm, protocol;
  std::optional<int> channels;
  std::optional<int64_t> chunk_bytes;
  std::optional<std::string> order, round;  // rank fixed any; once hops
  std::optional<bool> stream;               // non-temporal stores of what is pushed
};

struct Directive {
  std::string name;
  std::vector<std::string> words;
};
struct Schedule {
  std::string name, program;
  std::vector<Directive> directives;  // canonical order: split, reorder and cut, store, fuse, overlap
  std::vector<LaunchConfig> launches;
};
Schedule parse_schedule(std::string_view text);  // F0, F1 errors as in programs
std::string print(const Schedule& schedule);     // canonical
std::string one_line(const Schedule& schedule);  // "split a; reorder m1 v1; fuse f: ..." for tables

ir::Program replay(const ir::Program& naive, const Schedule& schedule);  // checked: inference and erase-and-compare
Schedule derive(const ir::Program& naive, const ir::Program& scheduled, std::string name = "s");
Bits bits(const ir::Program& naive, const Schedule& schedule);  // the weakest of its rewrites

// ---- the space
struct EnumerateOptions {
  bool prune = true;               // dominance Z1 to Z6; "all whole" always stays
  bool keep_state_shapes = false;  // do not store states sliced
  bool fuse = true;
  bool loose_numerics = false;  // also each statement that commute takes, alone, and gathers in bf16 (narrow)
  std::vector<int> dims = {};   // dimensions to cut; empty: all that exist
  int max_candidates = 4096;
  bool count_dropped = false;  // let Space::schedules count those of dropped layouts too
  uint64_t sample_dropped_seed = 0;
  int sample_dropped = 0;  // also return so many of the pruned ones, marked
};
struct Candidate {
  Schedule schedule;
  ir::Program program;
  bool dropped = false;
  bool plain = false;
};
// Schedules count overlaps too (each linked pair overlapped or not), which are not generated while nothing lowers them.
struct Space {
  std::vector<Candidate> candidates;
  int64_t layouts = 0, layouts_kept = 0, schedules = 0, schedules_kept = 0;
  bool truncated = false;  // too many layouts or candidates: not all are here
};
// The first candidate is always the plain schedule: nothing split, computations pre-fused into maximal convex groups.
Space enumerate(const ir::Program& naive, const EnumerateOptions& options = {});
ir::Program prefuse(const ir::Program& program);  // maximal convex groups of computations

}  // namespace weft::schedule
