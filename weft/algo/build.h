// Building plan fragments: operands, steps and blocks from short texts, for algorithms and for lowering.
//
// Algorithms could be whole plan texts, but a compiler must edit them at labels; or trees built node by node, which
// nobody can read. Here the numbers are text (`"r-j"`), because that is what plan.md writes, and the structure is code.
#pragma once

#include "weft/algo/algorithm.h"

namespace weft::algo {

// An expression over r, n, c, lets and variables in the syntax of plans. Errors are internal: the texts are ours.
plan::Expr number(std::string_view text);

plan::Peers peer(std::string_view rank);
plan::Peers peers(std::string_view first, std::string_view last);
inline plan::Peers everyone() { return peers("0", "n"); }
plan::Parts part(std::string_view first);
plan::Parts parts(std::string_view first, std::string_view count);

plan::Operand slice(const plan::Id& buffer, plan::Parts parts);
plan::Operand slice_at(const plan::Id& buffer, plan::Peers peers, plan::Parts parts);
plan::Operand accumulate(const plan::Id& buffer, plan::Parts parts);
plan::Operand receive(const plan::Id& family, plan::Peers from);
plan::Operand send(const plan::Id& family, plan::Peers to);
plan::Operand constant(double value);
// The same part of several buffers of this rank.
std::vector<plan::Operand> slices(const std::vector<plan::Id>& buffers, const plan::Parts& parts);
std::vector<plan::Operand> operator+(std::vector<plan::Operand> a, const std::vector<plan::Operand>& b);

plan::Await after(const plan::Id& label);
plan::Await after(const plan::Id& label, plan::Peers at);

plan::Step copy(const plan::Id& label, plan::Operand source, std::vector<plan::Operand> targets);
plan::Step reduce(const plan::Id& label, kernel::Reduction reduction, std::vector<plan::Operand> sources,
                  std::vector<plan::Operand> targets);
plan::Step wait(const plan::Id& label, std::vector<plan::Await> awaits);  // a step without operands
plan::For each(const plan::Id& variable, std::string_view lo, std::string_view hi, plan::Body body);
plan::When when(plan::Expr condition, plan::Body body);
plan::When when(std::string_view condition, plan::Body body);
plan::Expr same(plan::Expr a, plan::Expr b);
plan::Expr other(plan::Expr a, plan::Expr b);

// The parts that make the whole value at an owner that has it all: the site's, or part 0.
plan::Parts whole(const plan::Parts& all);
plan::Family family(const plan::Id& name, plan::Protocol protocol, int slots, const std::string& wire);
plan::Family family(const ScatterSite& site);
plan::Family family(const GatherSite& site);

[[noreturn]] void unsupported(const Algorithm& algorithm, Collective collective);

// A condition in text that must hold for an operand to be there: `part` where it holds, absent where not.
plan::Parts part_if(std::string_view condition, const plan::Parts& parts);

// A whole plan from the text behind its head (name, order, round, T, root, channels). In the text {link} stands for
// protocol, slots and wire as requested, {loop} for the end of a loop line, {grain} for a space's grain; braces of the
// plan are doubled.
plan::Plan plan_from_text(const Algorithm& algorithm, const PlanRequest& request, std::string_view text);

// The kernel of an average: divides by the ranks; of integers toward zero, in 64 bits (ranks may not fit the dtype).
kernel::Kernel average_kernel(const std::string& dtype);
// What a premultiplied sum does to a contribution: `scale * x`, the launch's scalar.
kernel::Kernel premultiply_kernel();

// Adds what is not there yet; blocks, awaits and lets are compared by their text.
void add_new(plan::Body& into, const plan::Body& items);
void add_new(std::vector<plan::Await>& into, const std::vector<plan::Await>& awaits);
void add_new(std::vector<plan::Let>& into, const std::vector<plan::Let>& lets);
// Two families of one name must agree: Error(internal) where they do not.
void add_new(std::vector<plan::Family>& into, const std::vector<plan::Family>& families);

}  // namespace weft::algo
