// Halves joined, and the complete plan of one collective: buffers x -> y, with the post that the verifier proves.
#include <optional>

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

bool gathers(Collective c) {
  return c == Collective::all_reduce || c == Collective::all_gather || c == Collective::broadcast;
}

// Where contributions are multiplied first: what is reduced then.
constexpr const char* premultiplied = "px";

ScatterSite scatter_site(const PlanRequest& request) {
  ScatterSite site;
  site.collective = request.collective;
  site.buffer = request.premultiply ? premultiplied : "x";
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
  if (reduces(request.collective)) site.joint = "fin";
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

PostTerm applied(const Id& kernel, const std::vector<Id>& scalars, PostTerm term) {
  PostTerm result;
  result.kind = PostTerm::Kind::kernel;
  result.call = {kernel, scalars};
  result.args = {std::move(term)};
  return result;
}

Post post(const PlanRequest& request) {
  Post result;
  result.var = "p";
  result.targets = {slice("y", part("p"))};
  result.value = cell(slice_at("x", peer(request.collective == Collective::broadcast ? "root" : "p"), part("p")));
  if (!reduces(request.collective)) return result;
  PostTerm sum;
  sum.kind = PostTerm::Kind::reduce;
  sum.reduction = request.reduction;
  sum.var = "i";
  sum.lo = number("0");
  sum.hi = number("n");
  sum.args = {cell(slice_at("x", peer("i"), part("p")))};
  if (request.premultiply) sum.args = {applied("premul", {"scale"}, sum.args[0])};
  result.value = request.average ? applied("avg", {}, sum) : sum;
  return result;
}

Space space(Owner owner, const PlanRequest& request) {
  Space result;
  result.name = "s";
  result.parts = number(owner == Owner::part ? "n" : "1");
  result.grain = request.grain;
  if (request.counts == Counts::given) result.kind = Space::Kind::given;
  return result;
}

// Chunk by chunk where only this rank reads the products; all of them before the loop where peers do.
void premultiply(const Algorithm& algorithm, const PlanRequest& request, Joined& joined) {
  Buffer made;
  made.name = premultiplied;
  made.space = "s";
  made.dtype = "T";
  made.mapped = algorithm.needs_mapped();
  made.depth = algorithm.needs_mapped() ? 0 : 1;
  joined.scratch.push_back(made);
  const Parts all = algorithm.owner(request.collective) == Owner::part ? parts("0", "n") : part("0");
  Step step = copy("pre", slice("x", all), {slice(premultiplied, all)});
  step.kernel = {"premul", {"scale"}};
  if (algorithm.needs_mapped())
    joined.before.insert(joined.before.begin(), Loop{{"s"}, 1, {step}});
  else
    joined.loop.insert(joined.loop.begin(), step);
}

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::user, what, remedy);
}

void check_reduction(const PlanRequest& request) {
  const bool special = request.average || request.premultiply;
  if (special && !reduces(request.collective))
    refuse(fmt::format("an average or a premultiplied sum in {}, which reduces nothing", name(request.collective)),
           "ask for it in all_reduce, reduce_scatter or reduce");
  if (special && request.reduction != kernel::Reduction::sum)
    refuse(fmt::format("the average or premultiplied sum of a {}", kernel::name(request.reduction)),
           "both are sums: an average divides by the ranks, a premultiplied one multiplies first");
  const std::optional<Dtype> dtype = parse_dtype(request.dtype);
  if (special && dtype == Dtype::boolean)
    refuse("an average or a premultiplied sum of bools", "convert them to a number first");
  if (dtype && reduces(request.collective)) kernel::check_reduction(request.reduction, *dtype);
}

void check(const Algorithm& algorithm, const PlanRequest& request) {
  if (!algorithm.supports(request.collective)) unsupported(algorithm, request.collective);
  if (!algorithm.supports(request.collective, request.counts))
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} has no {} with counts of its own for each part", algorithm.name(), name(request.collective)),
        "take pairwise, which moves each part by itself");
  check_reduction(request);
  if (request.channels < 1 || request.slots < 1 || request.slices < 1)
    refuse(fmt::format("{} channels, {} slots, {} slices", request.channels, request.slots, request.slices),
           "each is at least 1");
  if (request.slices >= request.slots && !algorithm.needs_mapped())
    refuse(
        fmt::format("{} slices and {} slots", request.slices, request.slots),
        "a link needs more slots than a chunk has slices, or all ranks hold a message that they cannot pass on (V8)");
  if (has_root(request.collective) && request.root < 0)
    refuse(fmt::format("root {}", request.root), "a root is a rank, from 0");
  if (request.from < 0 || request.to < 0)
    refuse(fmt::format("a message from {} to {}", request.from, request.to), "both are ranks, from 0");
}

Step joint(const PlanRequest& request, const std::vector<Half>& spreading) {
  Step step;
  step.label = reduces(request.collective) ? "fin" : "own";
  if (!reduces(request.collective))
    step.others = {slice("x", part(request.collective == Collective::all_gather ? "r" : "0"))};
  if (request.average) step.kernel.name = "avg";
  if (request.collective == Collective::reduce_scatter) step.targets = {slice("y", part("r"))};
  if (request.collective == Collective::reduce) step.targets = {slice("y", part("0"))};
  for (const Half& half : spreading) step.targets = half.joint.targets;
  return step;
}

// The pieces of a plan whose halves have met.
Plan assemble(const Algorithm& algorithm, const PlanRequest& request, const Joined& joined) {
  Plan plan;
  plan.name = fmt::format("{}_{}{}", algorithm.plan_name(), name(request.collective),
                          request.counts == Counts::even ? "" : "_v");
  plan.order = reduces(request.collective) ? algorithm.order() : Order::rank;
  plan.round = reduces(request.collective) ? algorithm.round() : Round::once;
  plan.params.push_back({"T", request.dtype});
  if (has_root(request.collective)) {
    plan.params.push_back({"root", std::to_string(request.root)});
    plan.requirements.push_back(number("root < n"));
  }
  plan.lets = joined.lets;
  plan.channels = expr::integer(request.channels);
  plan.spaces = {space(algorithm.owner(request.collective), request)};
  plan.buffers = buffers(algorithm, request.collective, joined);
  plan.families = joined.families;
  plan.posts = {post(request)};
  if (request.average) plan.kernels.push_back(average_kernel(request.dtype));
  if (request.premultiply) plan.kernels.push_back(premultiply_kernel());
  Lane main{"main", joined.before};
  main.body.push_back(Loop{{"s"}, request.slices, joined.loop});
  main.body.insert(main.body.end(), joined.behind.begin(), joined.behind.end());
  plan.lanes = {main};
  plan.lanes.insert(plan.lanes.end(), joined.lanes.begin(), joined.lanes.end());
  return plan;
}

}  // namespace

Id own_gather_family(const Algorithm& algorithm) { return algorithm.gather_family(); }

Plan make_plan(const Algorithm& algorithm, const PlanRequest& asked) {
  check(algorithm, asked);
  PlanRequest request = asked;
  const int multiple = algorithm.channel_multiple();
  request.channels = (request.channels + multiple - 1) / multiple * multiple;
  if (std::optional<Plan> plan = algorithm.whole_plan(request)) return *plan;
  std::optional<Half> reducing;
  std::vector<Half> spreading;
  if (reduces(request.collective)) reducing = algorithm.scatter(scatter_site(request));
  if (gathers(request.collective)) spreading.push_back(algorithm.gather(gather_site(algorithm, request)));
  Joined joined = join(reducing ? &*reducing : nullptr, spreading, joint(request, spreading));
  if (request.premultiply) premultiply(algorithm, request, joined);
  return assemble(algorithm, request, joined);
}

}  // namespace weft::algo
