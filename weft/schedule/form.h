// A program with its types at hand, and the small questions that every rewrite asks.
//
// Problem: a rewrite looks at types all the time and changes two or three statements; the space of LAMB's schedules is
// some thousand rewrites. Ways: infer the whole program before and after each; keep types inside the program (then
// nobody knows when they are stale); carry both side by side while rewriting. We take the last: a rewrite adds the types
// of the statements it adds, and no other type can change, since a value read in its part is the same value. The public
// apply() still infers everything afterwards, so nothing rests on that argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/ir/ops.h"
#include "weft/ir/program.h"
#include "weft/schedule/schedule.h"

namespace weft::schedule {

struct Form {
  ir::Program program;
  ir::Types types;
};
Form form_of(const ir::Program& program);  // infers; throws as infer does

// ---- names: x.s is the slice of x, x.p its pending form (program.md, 1.7)
bool is_slice_name(const ir::Name& name);
bool is_pending_name(const ir::Name& name);
bool is_derived_name(const ir::Name& name);
ir::Name origin(const ir::Name& name);  // m1.s -> m1; names without such a suffix stay

// ---- operations
const ir::OpDef* definition(std::string_view name);  // of the registry; internal error if it has none
bool is_op(const ir::Op& op, std::string_view name);
bool is_computation(const ir::Op& op);  // map, fold, matmul, conv2d
bool is_gather(const ir::Op& op);       // all_gather, broadcast: whole again
bool is_scatter(const ir::Op& op);      // reduce_scatter, reduce
ir::Op communication(std::string_view op, ir::Name name, ir::Name arg, ir::Attrs attrs, const SourceLine& line);
// Reads other names instead; each operand once, in order of appearance.
void rename_operands(ir::Op& op, const std::map<ir::Name, ir::Name>& to);
// The all_gather or broadcast that makes `name` out of a `.s`, or null: what rewrites may move past.
const ir::Op* gather_of_slice(const ir::Program& program, const ir::Name& name);
bool is_live_out(const ir::Program& program, const ir::Name& name);  // an output, a state's new content, ragged counts
const ir::Block* block_of(const ir::Program& program, const ir::Name& member);
size_t position(const ir::Program& program, const ir::Name& name);  // index in ops; ops.size() if none

// ---- where a statement works
struct Cut {  // on slices of one factor, on one rank, or whole
  enum class Kind : uint8_t { whole, factor, root } kind = Kind::whole;
  int factor = -1;
  std::string root;
  bool operator==(const Cut&) const = default;
};
Cut cut_of(const Form& form, const ir::Op& op);
bool holds_cut(const ir::Type& type);  // sliced or root(k)
bool is_replicated(const ir::Type& type);
// The shape a statement runs over: the operands' common one, so that a fold's is larger than its result's.
ir::Shape iteration_shape(const Form& form, const ir::Op& op);

// ---- canonical form
void canonicalize(Form& form);  // N1 N2 N3; types stay right

// ---- the steps that rewrites are made of. check never changes anything; apply only after check, result canonical.
std::optional<Refusal> check_split(const Form& form, const ir::Name& x, const ir::Layout& cut);
void apply_split(Form& form, const ir::Name& x, const ir::Layout& cut);
std::optional<Refusal> check_merge(const Form& form, const ir::Name& x);
void apply_merge(Form& form, const ir::Name& x);

struct Divided {  // what becomes of y: y.s or y.p, and its type
  ir::Op op;
  ir::Type type;
};
// With a dimension: `cut y d` (no gathered operand needed); without: `reorder y`.
std::optional<Refusal> divide(const Form& form, const ir::Name& y, std::optional<int> dim, Divided* result);
void apply_divided(Form& form, const ir::Name& y, Divided divided);
Bits bits_of_divided(const Form& form, const Divided& divided);

std::optional<Refusal> check_store(const Form& form, const ir::Name& state);
void apply_store(Form& form, const ir::Name& state);
std::optional<Refusal> check_fuse(const Form& form, const std::string& name, const std::vector<ir::Name>& members);
// Members are statements or fuse blocks, producers first.
std::optional<Refusal> check_overlap(const Form& form, const std::string& name, const std::vector<ir::Name>& members);
std::optional<Refusal> check_block_name(const Form& form, const std::string& name);  // K1, O1
std::optional<Refusal> check_commute(const Form& form, const ir::Name& y);
void apply_commute(Form& form, const ir::Name& y);
std::optional<Refusal> check_narrow(const Form& form, const ir::Name& y, Dtype wire);
void apply_narrow(Form& form, const ir::Name& y, Dtype wire);
// The members as one more block; nothing is checked.
void add_block(Form& form, ir::Block::Kind kind, const std::string& name, const std::vector<ir::Name>& members);

// ---- one class for each directive, in its own file
const Rewrite& split_rewrite();
const Rewrite& merge_rewrite();
const Rewrite& reorder_rewrite();
const Rewrite& cut_rewrite();
const Rewrite& store_rewrite();
const Rewrite& fuse_rewrite();
const Rewrite& overlap_rewrite();
const Rewrite& commute_rewrite();
const Rewrite& narrow_rewrite();

// Words that a directive cannot be made of: "F5: split takes ...".
Refusal malformed(std::string_view directive, std::string_view usage);
// `name` is no statement of the program: the nearest one, or what there is.
Refusal no_statement(const Form& form, std::string_view rule, const std::string& at, const ir::Name& name);
std::optional<int> parse_dimension(std::string_view word);  // 0, 1, 2 ...

}  // namespace weft::schedule
