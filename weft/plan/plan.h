// The Plan: what runs, exactly. One text for all ranks; the one thing that algorithms and the compiler end in and that
// runtime, code generator, simulator, verifier, interpreter and timeline begin from. docs/plan.md is its specification.
//
// There is one kind of step: it reduces some sources from left to right, applies a kernel to the result and the other
// sources, and writes the targets. Every primitive of the literature (send, recv-reduce-copy-send, one-sided reduce,
// matmul tile ...) is that form. A plan knows parts and chunks, never sizes; how parts lie in memory is the launch's
// affair (launch.h). Numbers are integer expressions over r (this rank), n (ranks), c (channel), `for` variables,
// parameters, lets and tables: the text is the generator, and walk.h is how everybody reads it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weft/expr/expr.h"
#include "weft/kernel/kernel.h"

namespace weft::plan {

using Id = std::string;
using expr::Expr;

constexpr int plan_version = 1;

// q, or a..b (the ranks a to b-1, in that order). Modulo n. A first that evaluates to `none`: the operand is absent.
struct Peers {
  Expr first, last;
};  // last null: one peer
// f | f : k | f : k by d | f : k by d run u. Modulo the parts of the space. Null: 1 part, by 1 (or run), run 1.
struct Parts {
  Expr first, count, by, run;
};

struct Operand {
  enum class Kind : uint8_t { slice, recv, send, constant } kind = Kind::slice;
  Id name;                     // slice: buffer; recv, send: family ("": the lane's own)
  std::optional<Peers> peers;  // slice: mapped peers, absent = here; recv, send: always
  Parts parts;                 // slice
  bool accumulate = false;     // target `+q[p]`
  double value = 0;            // constant
};

// [lane[{channel or *}].]label[(indices)][@peers] [lag k]
struct Await {
  Id lane;  // "": this lane
  Id label;
  Expr channel;  // null: the same channel
  bool all_channels = false;
  std::vector<Expr> index;
  bool has_index = false;  // without: every instance
  std::optional<Peers> peers;
  int lag = 0;
};

struct KernelCall {
  Id name;
  std::vector<Id> scalars;
};  // name "": copy

struct Step {
  Id label;                                              // may be empty
  kernel::Reduction reduction = kernel::Reduction::sum;  // of `reduced`; a parameter may name it (reduction_param)
  Id reduction_param;
  std::vector<Operand> reduced, others, targets;
  KernelCall kernel;
  std::vector<Await> after;
};

struct For;
struct When;
struct Loop;
using Item = std::variant<Step, For, When, Loop>;
using Body = std::vector<Item>;
struct For {
  Id var;
  Expr lo, hi;
  Body body;
};
struct When {
  Expr cond;
  Body body;
};
struct Loop {
  std::vector<Id> spaces;
  int slices = 1;
  Body body;
};

enum class Order : uint8_t { rank, fixed, any };  // V12: what is promised about the order of sums
enum class Round : uint8_t { once, hops };

struct Param {
  Id name;
  std::string value;
};  // an integer, a dtype or a reduction; part of the identity
struct Let {
  Id name;
  Expr value;
};  // per (rank, channel), in order
// table NAME[DIM] = ints | table NAME[DIM][DIM] = ints ; ints. Sizes as written (checked against the rows by Instance);
// none: printed from the rows.
struct TableText {
  Id name;
  std::vector<std::vector<int64_t>> rows;
  std::vector<Expr> dims;
};

struct Space {
  enum class Kind : uint8_t { even, equal, given, fixed } kind = Kind::even;
  // A derived space has one element per segment (tensor), per row, per column or per block of `of`: an element of
  // `of` meets exactly one element of it. row: the innermost dimension is broadcast; column: it is not, outer ones
  // may be (the launch says which: launch.h, Meeting).
  enum class Derived : uint8_t { no, segment, row, column, block } derived = Derived::no;
  Id name;
  Expr parts;
  // fixed: elements of *each* part (null: 1). A name that is declared nowhere is a size that the launch says: `fixed T
  // of s by segment` has one element per tensor in each part.
  Expr count;
  // equal like S; derived of S; given by BUFFER; given from S: part p counts what part r of S counts on rank p
  Id like, of, by_buffer, from;
  Expr block;         // by block K
  int64_t grain = 1;  // elements
};

struct Buffer {
  enum class Role : uint8_t { in, out, inout, state, scratch } role = Role::scratch;
  Id name, space;
  std::string dtype;                  // a dtype, or a parameter that names one
  bool mapped = false, repl = false;  // peers may access it; same content on all ranks
  Expr repl_of;                       // repl: on ranks where this is equal; null: on all
  Expr own;                           // null: all parts; else only that part exists here
  int depth = 0;                      // 0: all chunks; d: d chunks, in turn
  Id alias;                           // same memory as that buffer
};

enum class Protocol : uint8_t { simple, ll, ll128 };
struct Family {
  Id name;
  Protocol protocol = Protocol::simple;
  int slots = 4;
  std::string wire;
};  // wire "": as sent

struct Lane {
  Id name;
  Body body;
};

// What must hold after a launch, and the verifier's goal: `post y[p] = sum(i in 0..n: x@i[p])`, or through kernels:
// `post m[p], w1[p] = adam(lr, step)(sum(i in 0..n: g@i[p]), m[p], w[p])` (one kernel output per target).
struct PostTerm {
  enum class Kind : uint8_t { cell, reduce, kernel, constant } kind = Kind::cell;
  Operand cell;                                          // a slice; its expressions may use the bound variables
  kernel::Reduction reduction = kernel::Reduction::sum;  // reduce: args[0] for var in lo..hi, left to right
  Id reduction_param, var;
  Expr lo, hi;
  KernelCall call;
  std::vector<PostTerm> args;
  double value = 0;
};
struct Post {
  Id var;
  std::vector<Operand> targets;
  PostTerm value;
};  // var ranges over the parts of the targets' space

struct Plan {
  Id name;
  Order order = Order::rank;
  Round round = Round::once;
  std::vector<Param> params;
  std::vector<Expr> requirements;  // require COND
  std::vector<TableText> tables;
  std::vector<Let> lets;
  Expr channels;
  std::vector<Space> spaces;
  std::vector<Buffer> buffers;
  std::vector<Family> families;  // named after the lane that receives, by custom
  std::vector<Post> posts;
  std::vector<kernel::Kernel> kernels;
  std::vector<Lane> lanes;
};

// Text form (docs/plan.md, 2). print(parse(print(p))) == print(p), byte for byte. Errors: kind plan, rule V1, with
// line and caret. parse checks names (V1); everything else is verify's.
Plan parse(std::string_view text);
std::string print(const Plan& plan);
std::string print(const Step& step);
std::string print(const Operand& operand);
uint64_t hash(const Plan& plan);  // of the canonical text

const Space& space_of(const Plan& plan, const Id& buffer);
int find_space(const Plan& plan, const Id& name);  // index or -1; likewise below
int find_buffer(const Plan& plan, const Id& name);
int find_family(const Plan& plan, const Id& name);
int find_lane(const Plan& plan, const Id& name);
int find_kernel(const Plan& plan, const Id& name);

}  // namespace weft::plan
