// Program -> Plan. lower.cpp is the story of the compiler, told in order, with the invariant that holds after each
// pass.
//
// One program, one plan. The plan knows no sizes, so beside it stands the recipe of a launch: which program tensor each
// buffer is, which shape and cut each space has, how each launch scalar is computed from sizes and program scalars.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"
#include "weft/plan/launch.h"
#include "weft/schedule/schedule.h"

namespace weft::lower {

struct LowerOptions {
  int ranks = 2;                    // only for choosing; the plan holds for all
  bool mapped = true;               // user buffers can be mapped by peers: direct algorithms are possible
  schedule::LaunchConfig fallback;  // where the schedule says nothing; unset: the chooser
};

struct SpaceRecipe {
  ir::Shape shape;      // of the whole value
  int cut = -1;         // dimension cut over ranks; -1: whole values only (flat)
  int of = -1;          // derived: index of the space it is derived from
  std::string tensors;  // scattered over `tensors P`
  std::string ragged;   // rows counted at run time: T or T.t; part p is what goes to, or came from, rank p
};
struct BufferRecipe {
  ir::Name value;  // the input, the state, or the output; "" = scratch
  bool input = false, output = false, state = false;
  ir::Name state_name;  // state: the state whose memory this is; `value` may be an output that lies there too

  bool is(const ir::Name& name) const { return !name.empty() && (name == value || (state && name == state_name)); }
};
struct Lowered {
  plan::Plan plan;
  std::vector<SpaceRecipe> spaces;      // per space of the plan
  std::vector<BufferRecipe> buffers;    // per buffer of the plan
  std::vector<expr::Expr> scalars;      // per launch_scalars(plan): over program scalars, dims, `ranks`
  std::vector<int64_t> chunk_elements;  // per space, from chunk_bytes; 0: default
  bool stream = false;
  std::string identity;  // canonical text of program and schedule, for agreement
};

// `scheduled` is the program after replay. Error(unsupported) names the statement that has no lowering.
Lowered lower(const ir::Program& scheduled, const std::vector<schedule::LaunchConfig>& launches,
              const LowerOptions& options);

// The launch of one rank: extents from sizes; bindings by program name ("m": a state, "g": an input, "w1": an output;
// an output that is also a state's new value lies in the state's memory: either name will do). No bindings at all: every
// buffer is left unbound, for callers that bind by index. Sizes without scalars: they are 0 here and come with each launch. In
// `scalars`, `rank` is this rank (sizes of what it has a slice of).
plan::LaunchArgs launch_args(const Lowered& lowered, const ir::Sizes& sizes, int rank,
                             const std::map<ir::Name, plan::Binding>& bindings);
// What is the same on all ranks, for who looks at a plan without running it. Error(unsupported) for ragged rows, of which
// every rank has its own.
plan::LaunchArgs common_launch_args(const Lowered& lowered, const ir::Sizes& sizes);
// Bytes that each buffer of this rank needs for these sizes (states stored sliced: only the own part). Of ragged rows the
// most: dims[T], and dims["T.t"] or ranks * dims[T].
int64_t buffer_bytes(const Lowered& lowered, const ir::Sizes& sizes, int rank, int buffer);

}  // namespace weft::lower
