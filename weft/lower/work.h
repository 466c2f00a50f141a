// What the passes of lower.cpp hand on to one another. Internal to the room.
//
// One struct that grows pass by pass: each pass fills the fields named after it and reads only earlier ones. Values are
// held by index, in the order of the program, so that no pass depends on the order of a map.
#pragma once

#include <set>

#include "weft/algo/build.h"
#include "weft/ir/ops.h"
#include "weft/lower/groups.h"
#include "weft/lower/lower.h"

namespace weft::lower {

// Where a statement works: every rank all of it, each rank its part, or one rank all of it.
struct Site {
  enum class Kind : uint8_t { all, part, root } kind = Kind::all;
  std::string root;  // an integer
  bool operator==(const Site&) const = default;
};

// What a value's elements are to a loop over a big space.
enum class Grade : uint8_t {
  big,      // one element each: it is cut into parts and chunks
  one,      // a single element
  segment,  // one per tensor of a `tensors P`
  coarse,   // broadcast: one per row, per column ...
};

struct Home {
  plan::Id buffer;
  plan::Parts parts;
};  // parts of coarser grades; of big ones the reader's site says them

struct Value {
  ir::Name name;
  const ir::Type* type = nullptr;
  const ir::Op* op = nullptr;            // null: in or state
  const ir::TensorDecl* decl = nullptr;  // null: a statement
  // spaces
  Grade grade = Grade::big;
  int space = -1;  // index in plan.spaces
  // loops
  int unit = -1, phase = 0;
  // places
  std::vector<Home> homes;       // empty: it lives in a register of its step
  std::vector<plan::Id> copies;  // states that get it at the end, when their old content is dead
  // lanes: the step behind which channels other than the maker's may read it
  plan::Id made_by;  // label; "" = nothing to wait for
  bool by_channel_zero = false;
  bool made_between_loops = false;  // that step stands between two loops
};

struct SpaceInfo {
  Grade grade = Grade::big;
  ir::Shape shape;
  std::string group = "world";
  int cut = -1, of = -1;
  std::string tensors;
  std::string ragged;     // rows counted at run time
  bool in_parts = false;  // parts n, else 1
  int64_t parts = 1;      // of coarser grades: how many a buffer needs at most
};

// What a unit launches with: the schedule's word, or the chooser's.
struct Choice {
  const algo::Algorithm* algorithm = nullptr;
  plan::Protocol protocol = plan::Protocol::simple;
  int64_t chunk_bytes = 0;
};

struct Work {
  Work(const ir::Program& program, const std::vector<schedule::LaunchConfig>& launches, const LowerOptions& options);

  const ir::Program* program;
  const std::vector<schedule::LaunchConfig>* launches;
  const LowerOptions* options;
  ir::Types types;
  std::map<std::string, expr::Expr> lets;
  std::map<std::string, GroupMap> groups;  // those that values live on
  std::vector<std::string> scalars;        // program scalars in order, then sizes

  // 1. units
  std::vector<ir::Unit> units;
  std::vector<Choice> choices;  // per unit
  int channels = 1;
  // 2. spaces
  std::vector<Value> values;
  std::vector<SpaceInfo> spaces;  // per plan space
  // 3. places, 4. loops ... 8. kernels: the plan itself
  Lowered out;
  std::map<std::string, expr::Expr> scalar_values;           // launch scalar -> expression
  std::map<ir::Name, std::vector<plan::Id>> matmul_scalars;  // launch scalars of a product's kernel call
  std::map<ir::Name, plan::Id> ids;
  std::set<plan::Id> taken;

  Value& value(const ir::Name& name);
  const Value& value(const ir::Name& name) const;
  plan::Id id(const ir::Name& name);                  // its name in the plan: m1.s -> m1_s
  plan::Id fresh(const std::string& base);            // a name of the plan that nothing has yet
  std::vector<Value*> readers(const ir::Name& name);  // statements that read it
  const GroupMap& group(const ir::Name& name) const { return groups.at(types.at(name).group); }
};

// ---- questions about statements
bool is_op(const ir::Op& op, std::string_view name);
bool is_map(const ir::Op& op);
bool is_fold(const ir::Op& op);
bool is_scatter(const ir::Op& op);  // reduce_scatter, reduce
bool is_gather(const ir::Op& op);   // all_gather, broadcast
bool is_move(
    const ir::Op& op);  // send, gather, scatter, all_to_all: by links alone, behind the step that makes what they move
bool is_communication(const ir::Op& op);
Site site(const Work& work, const ir::Op& op);
kernel::Reduction reduction(ir::ReduceOp op);
kernel::Reduction fold_reduction(const ir::Op& op);
Dtype fold_accumulator(const ir::Op& op, Dtype dtype);  // of the partials of a fold with a result of this dtype
// The space whose loop the statement needs, -1 where it is done once, outside loops.
int loop_space(const Work& work, const ir::Op& op);
[[noreturn]] void unsupported(const ir::Op& op, const std::string& what, const std::string& remedy);
[[noreturn]] void unsupported(const ir::Name& name, const std::string& what, const std::string& remedy);

// ---- the passes, in their order (lower.cpp)
ir::Program prepared(const ir::Program& program);
void take_units(Work& work);
void choose(Work& work);
void lay_out_spaces(Work& work);
void find_phases(Work& work);
void find_places(Work& work);
void emit(Work& work);
void state_posts(Work& work);
void trim(Work& work);
void finish(Work& work);

}  // namespace weft::lower
