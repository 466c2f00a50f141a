#include "weft/algo/build.h"

namespace weft::algo {

using namespace plan;

Expr number(std::string_view text) { return expr::parse(text, expr::Syntax::plan); }

Peers peer(std::string_view rank) { return {number(rank), nullptr}; }
Peers peers(std::string_view first, std::string_view last) { return {number(first), number(last)}; }
Parts part(std::string_view first) { return {number(first), nullptr, nullptr, nullptr}; }
Parts parts(std::string_view first, std::string_view count) { return {number(first), number(count), nullptr, nullptr}; }

Operand slice(const Id& buffer, Parts parts) {
  Operand operand;
  operand.name = buffer;
  operand.parts = std::move(parts);
  return operand;
}

Operand slice_at(const Id& buffer, Peers peers, Parts parts) {
  Operand operand = slice(buffer, std::move(parts));
  operand.peers = std::move(peers);
  return operand;
}

Operand accumulate(const Id& buffer, Parts parts) {
  Operand operand = slice(buffer, std::move(parts));
  operand.accumulate = true;
  return operand;
}

Operand receive(const Id& family, Peers from) {
  Operand operand;
  operand.kind = Operand::Kind::recv;
  operand.name = family;
  operand.peers = std::move(from);
  return operand;
}

Operand send(const Id& family, Peers to) {
  Operand operand = receive(family, std::move(to));
  operand.kind = Operand::Kind::send;
  return operand;
}

Operand constant(double value) {
  Operand operand;
  operand.kind = Operand::Kind::constant;
  operand.value = value;
  return operand;
}

std::vector<Operand> slices(const std::vector<Id>& buffers, const Parts& parts) {
  std::vector<Operand> operands;
  for (const Id& buffer : buffers) operands.push_back(slice(buffer, parts));
  return operands;
}

std::vector<Operand> operator+(std::vector<Operand> a, const std::vector<Operand>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Await after(const Id& label) {
  Await await;
  await.label = label;
  return await;
}

Await after(const Id& label, Peers at) {
  Await await = after(label);
  await.peers = std::move(at);
  return await;
}

Step copy(const Id& label, Operand source, std::vector<Operand> targets) {
  Step step;
  step.label = label;
  step.others = {std::move(source)};
  step.targets = std::move(targets);
  return step;
}

Step reduce(const Id& label, kernel::Reduction reduction, std::vector<Operand> sources, std::vector<Operand> targets) {
  Step step;
  step.label = label;
  step.reduction = reduction;
  step.reduced = std::move(sources);
  step.targets = std::move(targets);
  return step;
}

Step wait(const Id& label, std::vector<Await> awaits) {
  Step step;
  step.label = label;
  step.after = std::move(awaits);
  return step;
}

For each(const Id& variable, std::string_view lo, std::string_view hi, Body body) {
  return {variable, number(lo), number(hi), std::move(body)};
}
When when(Expr condition, Body body) { return {std::move(condition), std::move(body)}; }
When when(std::string_view condition, Body body) { return when(number(condition), std::move(body)); }
Expr same(Expr a, Expr b) { return expr::binary(expr::Op::eq, std::move(a), std::move(b)); }
Expr other(Expr a, Expr b) { return expr::binary(expr::Op::ne, std::move(a), std::move(b)); }

Parts whole(const Parts& all) { return all.first ? all : part("0"); }

Family family(const Id& name, Protocol protocol, int slots, const std::string& wire) {
  Family result;
  result.name = name.empty() ? "main" : name;
  result.protocol = protocol;
  result.slots = slots;
  result.wire = wire;
  return result;
}
Family family(const ScatterSite& site) { return family(site.family, site.protocol, site.slots, site.wire); }
Family family(const GatherSite& site) { return family(site.family, site.protocol, site.slots, site.wire); }

void unsupported(const Algorithm& algorithm, Collective collective) {
  std::string able;
  for (const Algorithm* other : algorithms())
    if (other->supports(collective)) able += (able.empty() ? "" : ", ") + std::string(other->name());
  throw Error(ErrorKind::unsupported, fmt::format("{} has no {}", algorithm.name(), name(collective)),
              fmt::format("take one of: {}", able));
}

Half Algorithm::scatter(const ScatterSite& site) const { unsupported(*this, site.collective); }
Half Algorithm::gather(const GatherSite& site) const { unsupported(*this, site.collective); }

Parts part_if(std::string_view condition, const Parts& parts) {
  Parts result = parts;
  result.first = expr::call("sel", {number(condition), parts.first, expr::name("none")});
  return result;
}

namespace {

std::string_view name_of(Protocol protocol) {
  return protocol == Protocol::simple ? "simple" : protocol == Protocol::ll ? "ll" : "ll128";
}
std::string_view name_of(Order order) {
  return order == Order::rank ? "rank" : order == Order::fixed ? "fixed" : "any";
}

kernel::Kernel one_line(const Id& name, const std::string& line) {
  kernel::Kernel kernel;
  kernel.name = name;
  kernel.inputs = {"x"};
  kernel.outputs = {"y"};
  kernel::Assignment assignment;
  assignment.name = "y";
  assignment.value = expr::parse(line, expr::Syntax::program);
  kernel.body = {assignment};
  return kernel;
}

}  // namespace

kernel::Kernel average_kernel(const std::string& dtype) {
  const std::optional<Dtype> known = parse_dtype(dtype);
  if (!known || !is_integer(*known)) return one_line("avg", "x / ranks");
  if (!is_signed(*known)) return one_line("avg", fmt::format("{}(u64(x) / ranks)", dtype));
  return one_line("avg", fmt::format("{}(select(x < 0, (i64(x) + (ranks - 1)) / ranks, i64(x) / ranks))", dtype));
}

kernel::Kernel premultiply_kernel() {
  kernel::Kernel kernel = one_line("premul", "scale * x");
  kernel.scalars = {"scale"};
  return kernel;
}

Plan plan_from_text(const Algorithm& algorithm, const PlanRequest& request, std::string_view text) {
  const bool sums = reduces(request.collective);
  std::string head =
      fmt::format("plan 1 {}_{}{}\norder {}\nround {}\nparam T = {}\n", algorithm.plan_name(), name(request.collective),
                  request.counts == Counts::even ? "" : "_v", name_of(sums ? algorithm.order() : Order::rank),
                  sums && algorithm.round() == Round::hops ? "hops" : "once", request.dtype);
  if (has_root(request.collective)) head += fmt::format("param root = {}\nrequire root < n\n", request.root);
  head += fmt::format("channels {}\n", request.channels);
  const std::string wire = request.wire.empty() ? "" : " wire " + request.wire;
  return plan::parse(
      head + fmt::format(fmt::runtime(text),
                         fmt::arg("link", fmt::format("{} slots {}{}", name_of(request.protocol), request.slots, wire)),
                         fmt::arg("loop", request.slices > 1 ? fmt::format(" slices {}:", request.slices) : ":"),
                         fmt::arg("grain", request.grain > 1 ? fmt::format(" grain {}", request.grain) : "")));
}

namespace {

// Blocks have no text of their own: they are compared through a lane that holds nothing else.
std::string text(const Item& item) {
  Plan plan;
  plan.name = "x";
  plan.lanes.push_back({"main", {item}});
  return plan::print(plan);
}
std::string text(const Await& await) {
  Step step;
  step.after = {await};
  return plan::print(step);
}
std::string text(const Let& let) { return let.name + "=" + expr::print(let.value, expr::Syntax::plan); }

template <typename T>
void add_by_text(std::vector<T>& into, const std::vector<T>& items) {
  for (const T& item : items) {
    bool known = false;
    for (const T& other : into) known = known || text(other) == text(item);
    if (!known) into.push_back(item);
  }
}

}  // namespace

void add_new(Body& into, const Body& items) { add_by_text(into, items); }
void add_new(std::vector<Await>& into, const std::vector<Await>& awaits) { add_by_text(into, awaits); }
void add_new(std::vector<Let>& into, const std::vector<Let>& lets) { add_by_text(into, lets); }

void add_new(std::vector<Family>& into, const std::vector<Family>& families) {
  for (const Family& family : families) {
    const Family* known = nullptr;
    for (const Family& other : into)
      if (other.name == family.name) known = &other;
    WEFT_CHECK(
        !known || (known->protocol == family.protocol && known->slots == family.slots && known->wire == family.wire),
        "two collectives share the link family {} and want it different", family.name);
    if (!known) into.push_back(family);
  }
}

}  // namespace weft::algo
