// Halves joined, and the complete plan of one collective: buffers x -> y, with the post that the verifier proves.
#include "weft/algo/build.h"

namespace weft::algo {

using namespace plan;

Joined join(const Half* scatter, const std::vector<Half>& gathers, Step step, Body more) {
  std::vector<const Half*> halves;
  if (scatter) halves.push_back(scatter);
  for (const Half& gather : gathers) halves.push_back(&gather);
  if (scatter) {
    step.reduction = scatter->joint.reduction;
    step.reduced = scatter->joint.reduced;
    step.others.insert(step.others.begin(), scatter->joint.others.begin(), scatter->joint.others.end());
  }
  Joined joined;
  Expr guard;
  for (const Half* half : halves) {
    WEFT_CHECK(half->owner == halves.front()->owner, "two halves with different owners meet at {}", step.label);
    add_new(joined.before, half->before);
    add_new(step.after, half->joint.after);
    add_new(joined.behind, half->behind);
    add_new(joined.lets, half->lets);
    add_new(joined.families, half->families);
    joined.lanes.insert(joined.lanes.end(), half->lanes.begin(), half->lanes.end());
    joined.mapped.insert(joined.mapped.end(), half->mapped.begin(), half->mapped.end());
    joined.scratch.insert(joined.scratch.end(), half->scratch.begin(), half->scratch.end());
    if (half->guard) guard = half->guard;
  }
  if (scatter) joined.loop = scatter->head;
  Body joint = {std::move(step)};
  joint.insert(joint.end(), more.begin(), more.end());
  if (guard)
    joined.loop.push_back(when(guard, std::move(joint)));
  else
    joined.loop.insert(joined.loop.end(), joint.begin(), joint.end());
  for (const Half& gather : gathers) joined.loop.insert(joined.loop.end(), gather.tail.begin(), gather.tail.end());
  return joined;
}

namespace {

bool scatters(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce_scatter || c == Collective::reduce;
}
bool gathers(Collective c) {
  return c == Collective::all_reduce || c == Collective::all_gather || c == Collective::broadcast;
}
bool has_root(Collective c) { return c == Collective::broadcast || c == Collective::reduce; }

ScatterSite scatter_site(const PlanRequest& request) {
  ScatterSite site;
  site.collective = request.collective;
  site.buffer = "x";
  site.space = "s";
  site.dtype = "T";
  site.reduction = request.reduction;
  site.wire = request.wire;
  site.slots = request.slots;
  site.slices = request.slices;
  site.protocol = request.protocol;
  if (has_root(request.collective)) site.root = expr::name("root");
  return site;
}

// A pairwise gather has links of its own, so that a peer's next contribution never stands before a result; the ring
// needs one link a neighbour, and so does whoever only gathers.
GatherSite gather_site(const Algorithm& algorithm, const PlanRequest& request) {
  GatherSite site;
  site.collective = request.collective;
  site.homes = {"y"};
  site.space = "s";
  site.wire = request.wire;
  site.slots = request.slots;
  site.slices = request.slices;
  site.protocol = request.protocol;
  if (scatters(request.collective)) site.joint = "fin";
  if (has_root(request.collective)) site.root = expr::name("root");
  if (request.collective == Collective::all_reduce) site.family = own_gather_family(algorithm);
  return site;
}

Buffer buffer(const Id& name, Buffer::Role role, const Joined& joined) {
  Buffer result;
  result.name = name;
  result.space = "s";
  result.dtype = "T";
  result.role = role;
  for (const Id& mapped : joined.mapped) result.mapped = result.mapped || mapped == name;
  return result;
}

// In place where nobody reads a contribution that its owner may have overwritten: everybody reads all of it one-shot.
std::vector<Buffer> buffers(const Algorithm& algorithm, Collective collective, const Joined& joined) {
  Buffer x = buffer("x", Buffer::Role::in, joined), y = buffer("y", Buffer::Role::out, joined);
  const bool read_whole = algorithm.owner(collective) == Owner::everyone && algorithm.needs_mapped();
  if (collective == Collective::all_reduce && !read_whole) y.alias = "x";
  if (collective == Collective::all_gather) x.own = number("r");
  if (collective == Collective::reduce_scatter) y.own = number("r");
  if (collective == Collective::reduce) y.own = number("sel(r == root, 0, none)");
  std::vector<Buffer> list = {x, y};
  list.insert(list.end(), joined.scratch.begin(), joined.scratch.end());
  return list;
}

PostTerm cell(Operand operand) {
  PostTerm term;
  term.cell = std::move(operand);
  return term;
}

Post post(const PlanRequest& request) {
  Post result;
  result.var = "p";
  result.targets = {slice("y", part("p"))};
  result.value = cell(slice_at("x", peer(request.collective == Collective::broadcast ? "root" : "p"), part("p")));
  if (!scatters(request.collective)) return result;
  PostTerm sum;
  sum.kind = PostTerm::Kind::reduce;
  sum.reduction = request.reduction;
  sum.var = "i";
  sum.lo = number("0");
  sum.hi = number("n");
  sum.args = {cell(slice_at("x", peer("i"), part("p")))};
  result.value = sum;
  if (!request.average) return result;
  PostTerm mean;
  mean.kind = PostTerm::Kind::kernel;
  mean.call.name = "avg";
  mean.args = {sum};
  result.value = mean;
  return result;
}

kernel::Kernel average() {
  kernel::Kernel kernel;
  kernel.name = "avg";
  kernel.inputs = {"x"};
  kernel.outputs = {"y"};
  kernel::Assignment line;
  line.name = "y";
  line.value = expr::parse("x / ranks", expr::Syntax::program);
  kernel.body = {line};
  return kernel;
}

Space space(Owner owner, int64_t grain) {
  Space result;
  result.name = "s";
  result.parts = number(owner == Owner::part ? "n" : "1");
  result.grain = grain;
  return result;
}

void check(const Algorithm& algorithm, const PlanRequest& request) {
  if (!algorithm.supports(request.collective)) unsupported(algorithm, request.collective);
  if (request.average && !scatters(request.collective))
    throw Error(ErrorKind::user, fmt::format("an average in {}, which reduces nothing", name(request.collective)),
                "ask for it in all_reduce, reduce_scatter or reduce");
  if (request.average && request.reduction != kernel::Reduction::sum)
    throw Error(ErrorKind::user, fmt::format("the average of a {}", kernel::name(request.reduction)),
                "an average is a sum divided by the ranks");
  if (request.channels < 1 || request.slots < 1 || request.slices < 1)
    throw Error(ErrorKind::user,
                fmt::format("{} channels, {} slots, {} slices", request.channels, request.slots, request.slices),
                "each is at least 1");
  if (request.slices >= request.slots && !algorithm.needs_mapped())
    throw Error(
        ErrorKind::user, fmt::format("{} slices and {} slots", request.slices, request.slots),
        "a link needs more slots than a chunk has slices, or all ranks hold a message that they cannot pass on (V8)");
  if (has_root(request.collective) && request.root < 0)
    throw Error(ErrorKind::user, fmt::format("root {}", request.root), "a root is a rank, from 0");
}

Step joint(const PlanRequest& request, const std::vector<Half>& spreading) {
  Step step;
  step.label = scatters(request.collective) ? "fin" : "own";
  if (!scatters(request.collective))
    step.others = {slice("x", part(request.collective == Collective::all_gather ? "r" : "0"))};
  if (request.average) step.kernel.name = "avg";
  if (request.collective == Collective::reduce_scatter) step.targets = {slice("y", part("r"))};
  if (request.collective == Collective::reduce) step.targets = {slice("y", part("0"))};
  for (const Half& half : spreading) step.targets = half.joint.targets;
  return step;
}

}  // namespace

Id own_gather_family(const Algorithm& algorithm) {
  if (algorithm.name() == "ring" || algorithm.needs_mapped()) return "";
  return algorithm.name() == "chain" ? "down" : "ag";
}

Plan make_plan(const Algorithm& algorithm, const PlanRequest& request) {
  check(algorithm, request);
  std::optional<Half> reducing;
  std::vector<Half> spreading;
  if (scatters(request.collective)) reducing = algorithm.scatter(scatter_site(request));
  if (gathers(request.collective)) spreading.push_back(algorithm.gather(gather_site(algorithm, request)));
  Joined joined = join(reducing ? &*reducing : nullptr, spreading, joint(request, spreading));

  Plan plan;
  plan.name = fmt::format("{}_{}", algorithm.name(), name(request.collective));
  plan.order = scatters(request.collective) ? algorithm.order() : Order::rank;
  plan.round = scatters(request.collective) ? algorithm.round() : Round::once;
  plan.params.push_back({"T", request.dtype});
  if (has_root(request.collective)) {
    plan.params.push_back({"root", std::to_string(request.root)});
    plan.requirements.push_back(number("root < n"));
  }
  plan.lets = joined.lets;
  plan.channels = expr::integer(request.channels);
  plan.spaces = {space(algorithm.owner(request.collective), request.grain)};
  plan.buffers = buffers(algorithm, request.collective, joined);
  plan.families = joined.families;
  plan.posts = {post(request)};
  if (request.average) plan.kernels = {average()};
  Loop loop;
  loop.spaces = {"s"};
  loop.slices = request.slices;
  loop.body = joined.loop;
  Lane main{"main", joined.before};
  main.body.push_back(loop);
  main.body.insert(main.body.end(), joined.behind.begin(), joined.behind.end());
  plan.lanes = {main};
  plan.lanes.insert(plan.lanes.end(), joined.lanes.begin(), joined.lanes.end());
  return plan;
}

}  // namespace weft::algo
