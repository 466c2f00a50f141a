// The Program: what to compute, a list of statements over tensors that have a layout over ranks. docs/program.md is its
// specification; rules are numbered there and cited by every error.
//
// A statement is one operation; a pointwise expression of any depth is one operation. Values never change and names are
// never reused; only `update` and `out` have effect, so nothing is ordered but by data. Programs are plain structs:
// rewrites copy and edit them, infer() decides what they mean, nothing is cached inside.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/text.h"
#include "weft/expr/expr.h"

namespace weft::ir {

constexpr int program_version = 1;
using Name = std::string;  // x, x.s (its slice), x.p (its pending form), z.h1 (hoisted)

// A size: an integer, a declared name, or one element per tensor of a `tensors P` dimension ("#P").
// Two sizes are equal when their names (or integers) are.
struct Size {
  std::string name;  // empty: the integer
  int64_t value = 1;
  bool per_tensor = false;  // "#P"
  bool operator==(const Size&) const = default;
};
using Shape = std::vector<Size>;
std::string print(const Size& size);
std::string print(const Shape& shape);

enum class ReduceOp : uint8_t { sum, prod, min, max, avg };
std::string_view name(ReduceOp op);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);

struct Replicated {
  bool operator==(const Replicated&) const = default;
};
struct Sliced {
  int dim = 0;
  bool operator==(const Sliced&) const = default;
};
struct Local {
  bool operator==(const Local&) const = default;
};
struct Partial {
  ReduceOp op = ReduceOp::sum;
  bool operator==(const Partial&) const = default;
};
struct Root {
  std::string rank = "0";
  bool operator==(const Root&) const = default;
};  // an integer or a dim name
using Layout = std::variant<Replicated, Sliced, Local, Partial, Root>;
std::string print(const Layout& layout);

// Absent on the first `first` and last `last` groups (values that came by send, and what is computed of them).
struct Presence {
  int first = 0, last = 0;
  bool operator==(const Presence&) const = default;
};

struct Type {
  Dtype dtype = Dtype::f32;
  Shape shape;
  Layout layout = Replicated{};
  std::string group = "world";
  Presence presence;
  bool operator==(const Type&) const = default;
};
std::string print(const Type& type);  // "f32[B, S] sliced(1)", with " on stage" unless world

// ---- declarations, in the order written
struct DimDecl {
  std::vector<std::string> names;
};
struct RequireDecl {
  expr::Expr condition;
};
struct TensorsDecl {
  std::string name;
};
struct RaggedDecl {
  std::string name, counts;
};
struct GroupDecl {
  std::string name, of;
  expr::Expr parts;
  bool across = false;
};  // world.split(parts) | of.across
struct ScalarDecl {
  std::string name;
  Dtype dtype = Dtype::f64;
};
struct LetDecl {
  std::string name;
  expr::Expr value;
};
using HeaderDecl = std::variant<DimDecl, RequireDecl, TensorsDecl, RaggedDecl, GroupDecl, ScalarDecl, LetDecl>;
struct TensorDecl {
  bool state = false;
  Name name;
  Type type;
  SourceLine line;
};

// Attributes of operations beside their tensors; which ones an operation has is in its OpDef.
struct Attrs {
  std::optional<ReduceOp> reduce;  // all_reduce reduce_scatter reduce
  std::optional<int> dim;          // reduce_scatter scatter all_to_all (new dimension)
  std::string root;                // reduce broadcast gather
  std::vector<int> dims;           // folds: reduced dimensions as written (may be negative)
  std::string by;                  // folds: `by P`
  int hops = 0;                    // send: 1 or -1
  bool operator==(const Attrs&) const = default;
};

struct OpDef;
struct Op {
  Name name;
  const OpDef* def = nullptr;
  std::vector<Name> args;  // tensors, in order of appearance
  Attrs attrs;
  expr::Expr value;        // map, folds: the expression; null else
  std::optional<int> cut;  // `cut d`
  SourceLine line;
};

struct Block {
  enum class Kind : uint8_t { fuse, overlap } kind = Kind::fuse;
  std::string name;
  std::vector<Name> members;
};
struct Update {
  Name state, value;
  SourceLine line;
};
struct Out {
  Name value;
  SourceLine line;
};

struct Program {
  std::string name;
  std::vector<HeaderDecl> header;
  std::vector<TensorDecl> tensors;  // in and state
  std::vector<Op> ops;              // in the order of the user's text; derived ones where their origin stood
  std::vector<Block> blocks;        // members of an overlap may be names of fuse blocks
  std::vector<Update> updates;
  std::vector<Out> outs;
};

// ---- look-ups (all linear; programs are tens of lines)
const Op* find_op(const Program& program, const Name& name);
const TensorDecl* find_tensor(const Program& program, const Name& name);
std::vector<const Op*> uses(const Program& program, const Name& name);  // operations that read it
bool is_scalar(const Program& program, const std::string& name);        // scalar or let
std::vector<std::string> dims(const Program& program);                  // declared sizes, tensors and ragged included
std::map<std::string, expr::Expr> lets(const Program& program);
std::optional<std::string> update_of(const Program& program, const Name& value);  // the state it updates
bool is_out(const Program& program, const Name& value);

// Units in canonical order: a statement or an outermost block with its members; blocks stand where their first member
// can stand. F8 (cycle) when there is none.
struct Unit {
  const Block* block = nullptr;
  std::vector<const Op*> ops;
};
std::vector<Unit> units(const Program& program);
// The same inside a unit that is an overlap block: its statements and fuse blocks.
std::vector<Unit> units(const Program& program, const Unit& overlap);

// ---- text form: print(parse(t)) is canonical, parse(print(p)) == p. Errors: kind user with line, caret, rule, remedy.
Program parse(std::string_view text);
std::string print(const Program& program);
std::string print(const Op& op);
bool equal(const Program& a, const Program& b);  // by canonical text

// ---- inference: types of all values, rules F, S, D, W, L. Throws Error(user) at the first broken rule.
using Types = std::map<Name, Type>;
Types infer(const Program& program);
Type infer(const Program& program, const Op& op, const Types& types);

// A value of one element per launch or per tensor of a list: it travels whole and is never cut (lowering, Z6).
bool is_small(const Type& type);

}  // namespace weft::ir
