// Instance: a plan with its number of ranks and parameters. Names become indices, expressions become numbers or code.
#include <algorithm>

#include "weft/base/limits.h"
#include "weft/plan/instance_impl.h"

namespace weft::plan {
namespace {

using Slots = std::function<int(const std::string&)>;

int no_slot(const std::string&) { return -1; }

// e as a sum of slots: coefficients by slot and a constant, or false where it is no such sum.
bool linear(const expr::Node& e, int64_t sign, const Slots& slot, std::map<int, int64_t>& coefficients,
            int64_t& constant) {
  switch (e.op) {
    case expr::Op::integer:
      constant += sign * e.integer;
      return e.integer != expr::none && std::abs(e.integer) < (int64_t{1} << 40);
    case expr::Op::name: {
      const int s = slot(e.name);
      if (s >= 0) coefficients[s] += sign;
      return s >= 0;
    }
    case expr::Op::neg: return linear(*e.args[0], -sign, slot, coefficients, constant);
    case expr::Op::add:
      return linear(*e.args[0], sign, slot, coefficients, constant) &&
             linear(*e.args[1], sign, slot, coefficients, constant);
    case expr::Op::sub:
      return linear(*e.args[0], sign, slot, coefficients, constant) &&
             linear(*e.args[1], -sign, slot, coefficients, constant);
    default: return false;
  }
}

// A sum of at most two slots, one of them positive.
std::optional<Number> as_sum(const Expr& e, const Slots& slot) {
  std::map<int, int64_t> coefficients;
  Number number;
  if (!linear(*e, 1, slot, coefficients, number.k) || coefficients.size() > 2) return {};
  int positive = 0;
  for (const auto& [s, coefficient] : coefficients) {
    if (coefficient != 1 && coefficient != -1) return {};
    const bool first = coefficient == 1 && positive++ == 0;
    (first ? number.a : number.b) = static_cast<int16_t>(s);
    if (!first) number.sign = coefficient;
  }
  if (coefficients.size() == 2 && positive == 0) return {};
  return number;
}

bool is_variable_free(const Expr& e) {
  for (const std::string& name : expr::names(e))
    if (name != "none") return false;
  return true;
}

// ---- the parts of the constructor

std::string parameter(const Instance::Impl& impl, const std::string& name) {
  const auto found = impl.params.find(name);
  return found == impl.params.end() ? name : found->second;
}

std::optional<int64_t> integer_of(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end) return {};
  return value;
}

void take_params(Instance::Impl& impl, const std::map<Id, std::string>& given) {
  for (const Param& p : impl.plan.params) impl.params[p.name] = p.value;
  for (const auto& [name, value] : given) {
    const auto found = impl.params.find(name);
    if (found == impl.params.end())
      refuse(fmt::format("plan {} has no parameter {}", impl.plan.name, name),
             "its parameters are the `param` lines of its text");
    if (integer_of(found->second).has_value() != integer_of(value).has_value() ||
        parse_dtype(found->second).has_value() != parse_dtype(value).has_value())
      refuse(fmt::format("parameter {} = {} is of another kind than {}", name, value, found->second),
             "give an integer for an integer, a dtype for a dtype, a reduction for a reduction");
    found->second = value;
  }
  impl.constants["n"] = expr::integer(impl.ranks);
  for (const auto& [name, value] : impl.params)
    if (const auto number = integer_of(value)) impl.constants[name] = expr::integer(*number);
}

int64_t constant(Instance::Impl& impl, const Expr& e, const std::string& what) {
  const Number number = compile_number(impl, e, no_slot);
  if (!number.is_constant()) return impl.value(number, nullptr);
  if (number.k == expr::none) refuse(fmt::format("{} is none", what), "it must be a number");
  return number.k;
}

std::string text(const Expr& e) { return expr::print(e, expr::Syntax::plan); }

void check_requirements(Instance::Impl& impl) {
  for (const Expr& e : impl.plan.requirements) {
    if (constant(impl, e, "a requirement") != 0) continue;
    throw Error(ErrorKind::plan,
                fmt::format("plan {} does not run with n = {}: require {}", impl.plan.name, impl.ranks, text(e)),
                "choose another number of ranks, other parameters or another plan", "V1");
  }
}

void take_tables(Instance::Impl& impl) {
  for (const TableText& t : impl.plan.tables) {
    std::vector<int64_t> sizes;
    for (const Expr& e : t.dims) sizes.push_back(constant(impl, e, "a size of table " + t.name));
    const auto columns = static_cast<int64_t>(t.rows.empty() ? 0 : t.rows[0].size()),
               rows = static_cast<int64_t>(t.rows.size());
    const bool fits = sizes.empty() || (sizes.back() == columns && (sizes.size() == 2 ? sizes[0] : 1) == rows);
    if (!columns || !fits)
      refuse(fmt::format("table {} has {} rows of {} numbers, its sizes say otherwise for n = {}", t.name, rows,
                         columns, impl.ranks),
             "a table is made for one number of ranks: make it anew");
    impl.tables[t.name].rows = t.rows;
  }
}

void take_lets(Instance::Impl& impl) {
  const auto& lets = impl.plan.lets;
  for (size_t i = 0; i < lets.size(); ++i) {
    const Slots earlier = [&](const std::string& name) {
      if (name == "r" || name == "c") return name == "r" ? slot_r : slot_c;
      for (size_t k = 0; k < i; ++k)
        if (lets[k].name == name) return first_let + static_cast<int>(k);
      return -1;
    };
    impl.lets.push_back(compile_number(impl, lets[i].value, earlier));
  }
  impl.slots = first_let + static_cast<int>(lets.size());
}

Dtype dtype_of(const Instance::Impl& impl, const std::string& name, const std::string& what) {
  const std::optional<Dtype> dtype = parse_dtype(parameter(impl, name));
  if (!dtype)
    refuse(fmt::format("{} has dtype `{}`, which is none", what, parameter(impl, name)),
           "name a dtype or a parameter that names one");
  return *dtype;
}

// Whose parts are its senders': a given space whose counts the launch says, with a part for each rank.
void check_from(const Instance::Impl& impl, const Space& s) {
  const int from = find_space(impl.plan, s.from);
  const bool known = from >= 0 && from < static_cast<int>(impl.parts.size()) - 1;  // the last one is this space
  const Space* other = known ? &impl.plan.spaces[static_cast<size_t>(from)] : nullptr;
  if (!other || other->kind != Space::Kind::given || !other->by_buffer.empty())
    refuse(fmt::format("space {} is given from {}, which is no given space above it", s.name, s.from),
           "name a space whose counts the launch says");
  if (impl.parts.back() != impl.ranks || impl.parts[static_cast<size_t>(from)] != impl.ranks)
    refuse(fmt::format("space {} is given from {}: they have {} and {} parts on {} ranks", s.name, s.from,
                       impl.parts.back(), impl.parts[static_cast<size_t>(from)], impl.ranks),
           "a part for each rank: parts n");
}

void take_spaces(Instance::Impl& impl) {
  for (const Space& s : impl.plan.spaces) {
    impl.parts.push_back(constant(impl, s.parts, "the parts of space " + s.name));
    if (impl.parts.back() < 1)
      refuse(fmt::format("space {} has {} parts", s.name, impl.parts.back()), "a space has at least one part");
    int64_t count = -1;
    if (s.kind == Space::Kind::fixed && !s.count) count = 1;
    const bool size = s.count && s.count->op == expr::Op::name && !impl.constants.count(s.count->name);
    if (s.count && !size) count = constant(impl, s.count, "the count of space " + s.name);
    if (s.count && !size && count < 0)
      refuse(fmt::format("space {} has {} elements", s.name, count), "a count is not negative");
    impl.blocks.push_back(s.derived == Space::Derived::block ? constant(impl, s.block, "the block of space " + s.name)
                                                             : 0);
    if (s.derived == Space::Derived::block && impl.blocks.back() < 1)
      refuse(fmt::format("space {} has blocks of no elements", s.name), "by block K, K at least 1");
    for (const Id& other : {s.of, s.like})
      if (!other.empty() && find_space(impl.plan, other) < 0)
        refuse(fmt::format("space {} names space {}, which is not declared", s.name, other), "declare it");
    if (!s.from.empty()) check_from(impl, s);
    if (!s.by_buffer.empty() && find_buffer(impl.plan, s.by_buffer) < 0)
      refuse(fmt::format("space {} is given by {}, which is no buffer", s.name, s.by_buffer), "declare the buffer");
    impl.counts.push_back(count);
  }
}

Number own_number(Instance::Impl& impl, const Buffer& b) {
  const Slots rank = [&](const std::string& name) {
    if (name == "r" || name == "c") return name == "r" ? slot_r : slot_c;
    for (size_t k = 0; k < impl.plan.lets.size(); ++k)
      if (impl.plan.lets[k].name == name) return first_let + static_cast<int>(k);
    return -1;
  };
  return b.own ? compile_number(impl, b.own, rank) : Number{};
}

void take_buffers(Instance::Impl& impl) {
  const auto& buffers = impl.plan.buffers;
  for (const Buffer& b : buffers) {
    impl.spaces.push_back(find_space(impl.plan, b.space));
    if (impl.spaces.back() < 0)
      refuse(fmt::format("buffer {} lies in space {}, which is not declared", b.name, b.space), "declare the space");
    impl.dtypes.push_back(dtype_of(impl, b.dtype, "buffer " + b.name));
    impl.owns.push_back(own_number(impl, b));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    size_t root = i;
    for (size_t hops = 0; !buffers[root].alias.empty(); ++hops) {
      const int next = find_buffer(impl.plan, buffers[root].alias);
      if (next < 0 || hops > buffers.size())
        refuse(
            fmt::format("buffer {} is an alias of {}, which is no other buffer", buffers[i].name, buffers[root].alias),
            "an alias names a buffer above it");
      root = static_cast<size_t>(next);
    }
    impl.roots.push_back(static_cast<int>(root));
  }
}

}  // namespace

void refuse(const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::plan, message, remedy, "V1");
}

Number compile_number(Instance::Impl& impl, const Expr& e, const Slots& slot) {
  const Expr known = expr::substitute(e, impl.constants);
  if (const std::optional<Number> sum = as_sum(known, slot)) return *sum;
  Number number;
  expr::IntCode code(known, slot, impl.tables);
  if (is_variable_free(known)) try {
      number.k = code.run(nullptr);
      return number;
    } catch (const Error&) {
      // Division by zero and the like: an error only where the plan gets there.
    }
  number.code = static_cast<int32_t>(impl.codes.size());
  impl.codes.push_back(std::move(code));
  return number;
}

Instance::Instance(Plan plan, int ranks, const std::map<Id, std::string>& params) : impl_(std::make_unique<Impl>()) {
  if (ranks < 1) throw Error(ErrorKind::user, fmt::format("{} ranks", ranks), "a plan runs on at least one rank");
  Impl& impl = *impl_;
  impl.plan = std::move(plan);
  impl.ranks = ranks;
  take_params(impl, params);
  check_requirements(impl);
  take_tables(impl);
  take_lets(impl);
  const int64_t channels = impl.plan.channels ? constant(impl, impl.plan.channels, "the number of channels") : 1;
  if (channels < 1 || channels > most_channels)
    refuse(fmt::format("{} channels", channels), fmt::format("1 to {}", most_channels));
  impl.channels = static_cast<int>(channels);
  take_spaces(impl);
  take_buffers(impl);
  for (const Family& f : impl.plan.families) {
    impl.wires.emplace_back();
    if (!f.wire.empty()) impl.wires.back() = dtype_of(impl, f.wire, "link " + f.name);
    if (f.slots < 1) refuse(fmt::format("link {} has {} slots", f.name, f.slots), "a link has at least one slot");
  }
  compile_lanes(impl);
}

Instance::~Instance() = default;

const Plan& Instance::plan() const { return impl_->plan; }
int Instance::ranks() const { return impl_->ranks; }
int Instance::channels() const { return impl_->channels; }
int64_t Instance::parts(int space) const { return impl_->parts[static_cast<size_t>(space)]; }
Dtype Instance::dtype(int buffer) const { return impl_->dtypes[static_cast<size_t>(buffer)]; }
std::optional<Dtype> Instance::wire(int family) const { return impl_->wires[static_cast<size_t>(family)]; }
int64_t Instance::fixed_count(int space) const { return impl_->counts[static_cast<size_t>(space)]; }
int Instance::buffer_space(int buffer) const { return impl_->spaces[static_cast<size_t>(buffer)]; }
int Instance::buffer_root(int buffer) const { return impl_->roots[static_cast<size_t>(buffer)]; }
const Id& Instance::label(int id) const { return impl_->labels[static_cast<size_t>(id)]; }
int Instance::label_count() const { return static_cast<int>(impl_->labels.size()); }

int Instance::label_id(const Id& label) const {
  const auto found = impl_->label_ids.find(label);
  return found == impl_->label_ids.end() ? -1 : found->second;
}

const Step& Instance::step(int lane, int source_step) const {
  return *impl_->lanes[static_cast<size_t>(lane)].steps[static_cast<size_t>(source_step)].text;
}

int64_t Instance::own_part(int buffer, int rank) const {
  const auto b = static_cast<size_t>(buffer);
  if (!impl_->plan.buffers[b].own) return -1;
  const Number& number = impl_->owns[b];
  std::vector<int64_t> values(static_cast<size_t>(impl_->slots));
  impl_->begin(rank, 0, values.data());
  const int64_t part = impl_->value(number, values.data());
  return part == expr::none ? part : wrap(part, parts(buffer_space(buffer)));
}

int64_t Instance::block_elements(int space) const { return impl_->blocks[static_cast<size_t>(space)]; }

}  // namespace weft::plan
