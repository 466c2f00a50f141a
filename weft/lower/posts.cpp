// Pass 8: what the plan must compute, for the verifier: one post per group of results, read off the program.
//
// Every output and state is written as kernels over inputs, old states, reductions over ranks and folds over parts. The
// verifier expands kernels expression by expression, so the fused plan and this statement by statement reading of the
// program meet in the same terms; nothing of the lowering's own decisions (phases, places, algorithms) enters here.
#include <algorithm>

#include "weft/lower/kernels.h"

namespace weft::lower {
namespace {

using namespace plan;

PostTerm cell(Operand operand) {
  PostTerm term;
  term.cell = std::move(operand);
  return term;
}

PostTerm reduce(kernel::Reduction reduction, const Id& var, const std::string& hi, PostTerm arg) {
  PostTerm term;
  term.kind = PostTerm::Kind::reduce;
  term.reduction = reduction;
  term.var = var;
  term.lo = algo::number("0");
  term.hi = algo::number(hi);
  term.args.push_back(std::move(arg));
  return term;
}

// Where a term is evaluated: which part, and on which rank where that matters ("" = here).
struct Place {
  std::string part, peer;
  int hops = 0;            // groups between here and there
  std::string guard = {};  // where it is asked for; "": everywhere
};

class PostMaker {
 public:
  explicit PostMaker(Work& work) : work_(work) {}

  void run() {
    for (size_t s = 0; s < work_.spaces.size(); ++s) {
      // One post for what is on the same ranks: in the order of states, then outputs.
      std::map<std::string, std::vector<std::pair<Id, ir::Name>>> targets;
      for (const ir::Update& update : work_.program->updates)
        if (work_.value(update.value).space == static_cast<int>(s))
          targets[where(update.value)].emplace_back(work_.id(update.state), update.value);
      for (const ir::Out& out : work_.program->outs)
        if (const Value& v = work_.value(out.value);  // inputs stay as they are
            v.op && v.space == static_cast<int>(s) && has_memory(out.value))
          targets[where(out.value)].emplace_back(work_.id(out.value), out.value);
      for (const auto& [ranks, list] : targets) post(list);
    }
  }

 private:
  // An output that is a state's new content lies in the state, whose post says all of it.
  bool has_memory(const ir::Name& out) const { return plan::find_buffer(work_.out.plan, work_.id(out)) >= 0; }

  // Which ranks have it, where that is not all of them.
  std::string where(const ir::Name& name) const {
    const ir::Type& type = work_.types.at(name);
    const auto* root = std::get_if<ir::Root>(&type.layout);
    const bool everywhere = work_.spaces[static_cast<size_t>(work_.value(name).space)].in_parts && root;
    const std::string at_root = everywhere ? fmt::format("r == {}", root->rank) : "";
    return work_.group(name).is_world() ? at_root : fmt::format("{} {} {}", type.group, ir::print(type), at_root);
  }

  // The root has all parts of such a value, the others none that anybody asks for.
  std::string guard(const ir::Name& name) const {
    const auto* root = std::get_if<ir::Root>(&work_.types.at(name).layout);
    const Value& v = work_.value(name);
    if (!root || v.grade != Grade::big || !work_.spaces[static_cast<size_t>(v.space)].in_parts) return "";
    return expr::print(work_.group(name).place(algo::number("r == " + root->rank)), expr::Syntax::plan);
  }

  // Maps are lines of one kernel; everything else is an input of it.
  struct Body {
    Body(Work& work, const std::string& base) : kernel(work, base) {}
    KernelMaker kernel;
    std::vector<PostTerm> args;
    std::vector<ir::Name> known;
    bool lines = false;
  };

  void post(const std::vector<std::pair<Id, ir::Name>>& targets) {
    Post post;
    post.var = "p";
    std::vector<Id> outputs;
    Body body(work_, work_.id(source(targets[0].second)));
    const Place here{"p", "", 0, guard(targets[0].second)};
    for (const auto& [buffer, value] : targets) reduced_first(body, source(value), here);
    for (const auto& [buffer, value] : targets) {
      post.targets.push_back(algo::slice(buffer, algo::part("p")));
      need(body, source(value), here);
      outputs.push_back(work_.id(source(value)));
    }
    post.value = close(body, std::move(outputs));
    work_.out.plan.posts.push_back(std::move(post));
  }

  // What a gather gathers: the same value.
  ir::Name source(const ir::Name& name) const {
    const Value& v = work_.value(name);
    const bool gathers = v.op && (is_gather(*v.op) || is_op(*v.op, "gather") || is_op(*v.op, "scatter")) &&
                         !std::holds_alternative<ir::Local>(work_.types.at(v.op->args[0]).layout);
    return gathers ? source(v.op->args[0]) : name;
  }

  // A step's kernel takes the reduced value first.
  void reduced_first(Body& body, const ir::Name& name, const Place& place) {
    const Value& v = work_.value(name);
    if (!v.op || std::count(body.known.begin(), body.known.end(), name)) return;
    if (is_map(*v.op))
      for (const ir::Name& arg : v.op->args) reduced_first(body, source(arg), place);
    else if (v.grade == Grade::big && is_communication(*v.op))
      need(body, name, place);
  }

  void need(Body& body, const ir::Name& name, const Place& place) {
    if (std::count(body.known.begin(), body.known.end(), name)) return;
    const Value& v = work_.value(name);
    if (v.op && is_map(*v.op)) {
      for (const ir::Name& arg : v.op->args) need(body, arg, place);
      body.kernel.map(*v.op);
      body.lines = true;
    } else if (source(name) != name) {
      need(body, source(name), place);
      body.kernel.same(work_.id(name), work_.id(source(name)));
      body.lines = true;
    } else {
      leaf(body, v, place);
    }
    body.known.push_back(name);
  }

  void leaf(Body& body, const Value& v, const Place& place) {
    const Id id = work_.id(v.name);
    body.kernel.input(id);
    body.args.push_back(term(v, place));
    const bool average = v.op && v.op->attrs.reduce == ir::ReduceOp::avg;
    // A finished fold is rounded to its own type; it arrives in the accumulator's.
    if (is_finished_fold(v.name) && v.type->dtype != Dtype::f64) body.kernel.cast(id, v.type->dtype), body.lines = true;
    if (average) body.kernel.average(id, work_.group(v.name)), body.lines = true;
  }

  bool is_finished_fold(const ir::Name& name) const {
    const Value& v = work_.value(name);
    if (!v.op || std::holds_alternative<ir::Partial>(v.type->layout)) return false;
    if (is_fold(*v.op)) return true;
    const bool reduces = is_op(*v.op, "all_reduce") || is_scatter(*v.op);
    return reduces && work_.value(v.op->args[0]).op && is_fold(*work_.value(v.op->args[0]).op);
  }

  PostTerm close(Body& body, std::vector<Id> outputs) {
    const bool bare = !body.lines && outputs.size() == 1 && body.args.size() == 1;
    if (bare) {
      body.kernel.drop();
      return body.args[0];
    }
    PostTerm term;
    term.kind = PostTerm::Kind::kernel;
    term.call = body.kernel.finish_shared(std::move(outputs));
    term.args = std::move(body.args);
    return term;
  }

  // A product, or a map of random numbers or indices, that makes elements of `name` at their places. A post says a value
  // where it is, so what is exchanged later must not depend on that.
  const ir::Op* placed_by(const ir::Name& name) const {
    const Value& v = work_.value(name);
    if (!v.op || v.grade != Grade::big) return nullptr;
    bool placed = is_op(*v.op, "matmul");
    if (is_map(*v.op))
      expr::visit(v.op->value, [&](const expr::Node& node) { placed |= node.name == "rand" || node.name == "index"; });
    if (placed) return v.op;
    for (const ir::Name& arg : v.op->args)
      if (const ir::Op* found = placed_by(arg)) return found;
    return nullptr;
  }

  // The value of one name as a term of its own.
  PostTerm whole(const ir::Name& name, const Place& place) {
    Body body(work_, work_.id(source(name)));
    reduced_first(body, source(name), place);
    need(body, source(name), place);
    return close(body, {work_.id(source(name))});
  }

  PostTerm term(const Value& v, const Place& place) {
    if (!v.op) return declared(v, place);
    const ir::Op& op = *v.op;
    if (is_fold(op)) return fold(v, place);
    if (is_op(op, "matmul")) return matmul(op, place);
    Place there = place;
    if (is_gather(op)) {  // a local value of the root
      there.peer = op.attrs.root;
      return whole(op.args[0], there);
    }
    if (is_op(op, "send")) {
      there.hops -= op.attrs.hops;
      return whole(op.args[0], there);
    }
    if (is_op(op, "all_to_all")) {  // my part p is what rank p has as its part for me
      if (const ir::Op* placed = placed_by(op.args[0]))
        unsupported(op, fmt::format("{} depends on where its elements lie, and they are exchanged", placed->name),
                    "put it out, and exchange it in a program of its own");
      there.peer = place.part;
      there.part = place.peer.empty() ? expr::print(work_.group(op.name).place(algo::number("r")), expr::Syntax::plan)
                                      : place.peer;
      return whole(op.args[0], there);
    }
    const Id var = variable();
    there.peer = var;
    return reduce(reduction(*op.attrs.reduce), var, work_.group(op.name).size(), whole(op.args[0], there));
  }

  PostTerm declared(const Value& v, const Place& place) {
    const Id buffer = work_.id(v.name);
    const Parts parts = algo::part(v.grade == Grade::big ? place.part : "0");
    const GroupMap& group = work_.group(v.name);
    // Local and pending inputs alike are every rank's own.
    const bool local =
        std::holds_alternative<ir::Local>(v.type->layout) || std::holds_alternative<ir::Partial>(v.type->layout);
    const auto* root = std::get_if<ir::Root>(&v.type->layout);
    if (group.is_world() && place.guard.empty() && !root && (!local || place.peer.empty()))
      return cell(algo::slice(buffer, parts));
    std::string peer = local && !place.peer.empty() ? group.peer(place.peer) : "r";
    if (root) peer = group.peer(root->rank);
    if (std::holds_alternative<ir::Sliced>(v.type->layout)) peer = group.peer(place.part);
    peer = group.shifted(peer, place.hops);
    if (!place.guard.empty()) peer = fmt::format("sel({}, {}, none)", place.guard, peer);
    return cell(algo::slice_at(buffer, algo::peer(peer), parts));
  }

  // A cut fold is its rank's part, and an all_reduce around it names the rank; else it goes over all parts.
  PostTerm fold(const Value& v, const Place& place) {
    const ir::Op& op = *v.op;
    const int space = loop_space(work_, op);
    const bool small = space < 0, parted = site(work_, op).kind == Site::Kind::part;
    const auto at_part = [&](const std::string& part) {
      Place there = place;
      there.part = part;
      return there;
    };
    if (small) return fold_at(op, at_part("0"));
    if (std::holds_alternative<ir::Sliced>(v.type->layout)) return fold_at(op, place);
    if (parted) return fold_at(op, at_part(place.peer));
    if (!work_.spaces[static_cast<size_t>(space)].in_parts) return fold_at(op, at_part("0"));
    const Id var = variable();
    return reduce(fold_reduction(op), var, work_.group(op.name).size(), fold_at(op, at_part(var)));
  }

  // A fold goes over the cells of the first buffer in its term; where that lies in another space than what is folded (a
  // product's operand, what a fold of folds is made of), the space is named.
  PostTerm fold_at(const ir::Op& op, const Place& place) {
    PostTerm term;
    term.kind = PostTerm::Kind::kernel;
    KernelMaker kernel(work_, work_.id(op.name));
    const int loop = loop_space(work_, op);
    for (const ir::Name& arg : op.args) {
      kernel.input(work_.id(arg));
      PostTerm value = whole(arg, place);
      const int space = work_.value(arg).space;
      if ((loop < 0 || space == loop) && space_of(value) != space)
        value = elements(arg, place.part, place.part + "+1", place);
      term.args.push_back(std::move(value));
    }
    kernel.fold(op);
    term.call = kernel.finish_shared({work_.id(op.name)});
    return term;
  }

  // Of the first buffer in it; -1: it has none. Elements that are read whole are no cells to go over: none of the spaces.
  int space_of(const PostTerm& term) const {
    constexpr int read_whole = -2;
    if (term.kind == PostTerm::Kind::reduce && !term.reduction_param.empty()) return read_whole;
    if (term.kind == PostTerm::Kind::cell) {
      const int buffer = find_buffer(work_.out.plan, term.cell.name);
      const Id& name = work_.out.plan.buffers[static_cast<size_t>(buffer)].space;
      return find_space(work_.out.plan, name);
    }
    for (const PostTerm& arg : term.args)
      if (const int found = space_of(arg); found != -1) return found;
    return -1;
  }

  PostTerm matmul(const ir::Op& op, const Place& place) {
    PostTerm term;
    term.kind = PostTerm::Kind::kernel;
    for (const Kernel& kernel : work_.out.plan.kernels)
      if (kernel.outputs[0] == work_.id(op.name) && kernel::kind(kernel) == kernel::Kind::tile)
        term.call.name = kernel.name;
    term.call.scalars = work_.matmul_scalars.at(op.name);
    for (const ir::Name& arg : op.args) {
      const Value& v = work_.value(arg);
      const bool sliced = std::holds_alternative<ir::Sliced>(v.type->layout);
      const std::string part = sliced && !place.peer.empty() ? place.peer : place.part;
      const bool in_parts = work_.spaces[static_cast<size_t>(v.space)].in_parts;
      Place there = place;
      there.part = part;
      PostTerm value = whole(arg, there);
      const std::string n = work_.group(arg).size();
      const bool met =
          v.space == work_.value(op.name).space;  // an operand of the result's space would mean its own cell
      const Value& from = work_.value(source(arg));
      const bool exchanged = from.op && is_op(*from.op, "all_to_all");  // each part is another rank's
      if (value.kind != PostTerm::Kind::cell || met || exchanged)
        value = sliced ? elements(arg, part, part + "+1", place) : elements(arg, "0", in_parts ? n : "1", place);
      else if (!sliced)
        value.cell.parts = in_parts ? algo::parts("0", n) : algo::part("0");
      term.args.push_back(std::move(value));
    }
    return term;
  }

  // A computed operand is read whole: its elements in parts lo..hi.
  PostTerm elements(const ir::Name& name, const std::string& lo, const std::string& hi, const Place& place) {
    const Id var = variable();
    Place there = place;
    there.part = var;
    PostTerm term = reduce(kernel::Reduction::sum, var, hi, whole(name, there));
    term.lo = algo::number(lo);
    term.reduction_param = work_.out.plan.spaces[static_cast<size_t>(work_.value(name).space)].name;
    return term;
  }

  Id variable() {
    static constexpr const char* names[] = {"i", "j", "k", "l"};
    const int n = variables_++;
    return n < 4 ? Id(names[n]) : fmt::format("i{}", n);
  }

  using Kernel = kernel::Kernel;
  Work& work_;
  int variables_ = 0;
};

}  // namespace

void state_posts(Work& work) { PostMaker(work).run(); }

}  // namespace weft::lower
