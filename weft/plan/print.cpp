// Plan -> canonical text: one text per plan, which is hashed, compared and read back.
//
// Statements come in the order in which names are needed (parameters, numbers, spaces, buffers, links, posts, kernels,
// lanes); what is at its default and optional is left out; order, round and channels are always written.
#include <cmath>

#include "weft/base/hash.h"
#include "weft/plan/plan.h"

namespace weft::plan {
namespace {

// Errors about built plans print what is there: ? stands for what is missing.
std::string text(const Expr& e) { return e ? expr::print(e, expr::Syntax::plan) : "?"; }

// Whole numbers without a point: `0 -> q[c]`.
std::string text(double value) {
  if (std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15)
    return fmt::format("{}", static_cast<int64_t>(value));
  return shortest(value);
}

std::string text(const Peers& peers) {
  return peers.last ? fmt::format("{}..{}", text(peers.first), text(peers.last)) : text(peers.first);
}

std::string text(const std::optional<Peers>& peers) { return peers ? text(*peers) : "?"; }

std::string text(const Parts& parts) {
  std::string out = text(parts.first);
  // by and run need a count before them.
  if (parts.count || parts.by || parts.run) out += " : " + (parts.count ? text(parts.count) : "1");
  if (parts.by) out += " by " + text(parts.by);
  if (parts.run) out += " run " + text(parts.run);
  return out;
}

std::string text(const std::vector<Id>& names) { return join(names, ", "); }
std::string call(const KernelCall& kernel) {
  return kernel.scalars.empty() ? kernel.name : fmt::format("{}({})", kernel.name, text(kernel.scalars));
}

std::string_view word(Order order) { return order == Order::rank ? "rank" : order == Order::fixed ? "fixed" : "any"; }

std::string_view word(Space::Kind kind) {
  switch (kind) {
    case Space::Kind::even: return "even";
    case Space::Kind::equal: return "equal";
    case Space::Kind::given: return "given";
    case Space::Kind::fixed: return "fixed";
  }
  return "";
}

std::string_view word(Space::Derived derived) {
  switch (derived) {
    case Space::Derived::no: return "";
    case Space::Derived::segment: return "segment";
    case Space::Derived::row: return "row";
    case Space::Derived::column: return "column";
    case Space::Derived::block: return "block";
  }
  return "";
}

std::string_view word(Buffer::Role role) {
  switch (role) {
    case Buffer::Role::in: return "in";
    case Buffer::Role::out: return "out";
    case Buffer::Role::inout: return "inout";
    case Buffer::Role::state: return "state";
    case Buffer::Role::scratch: return "scratch";
  }
  return "";
}

std::string_view word(Protocol protocol) {
  return protocol == Protocol::simple ? "simple" : protocol == Protocol::ll ? "ll" : "ll128";
}

class Printer {
 public:
  std::string whole(const Plan& plan) {
    header(plan);
    for (const Space& s : plan.spaces) space(s);
    for (const Buffer& b : plan.buffers) buffer(b);
    for (const Family& f : plan.families)
      line(fmt::format("link {} {} slots {}{}", f.name, word(f.protocol), f.slots,
                       f.wire.empty() ? "" : fmt::format(" wire {}", f.wire)));
    for (const Post& p : plan.posts) line(fmt::format("post {} = {}", operands(p.targets), term(p.value)));
    for (const kernel::Kernel& k : plan.kernels) line(kernel::print(k));
    for (const Lane& lane : plan.lanes) {
      lane_ = lane.name;
      line(fmt::format("lane {}:", lane.name));
      body(lane.body, 2);
    }
    return std::move(out_);
  }

  std::string step(const Step& s) const {
    std::string out = s.label.empty() ? "" : s.label + ":";
    const auto add = [&](const std::string& piece) { out += (out.empty() ? "" : " ") + piece; };
    if (!s.reduced.empty() || !s.others.empty()) add(sources(s));
    if (!s.kernel.name.empty()) add(fmt::format("-> {}", call(s.kernel)));
    if (!s.targets.empty()) add(fmt::format("-> {}", operands(s.targets)));
    std::string awaits;
    for (const Await& a : s.after) awaits += (awaits.empty() ? "after " : ", ") + await(a);
    if (!awaits.empty()) add(awaits);
    return out;
  }

  std::string operand(const Operand& o) const {
    const Id family = o.name == lane_ ? "" : o.name;
    switch (o.kind) {
      case Operand::Kind::constant: return text(o.value);
      case Operand::Kind::recv: return fmt::format("{}<{}", family, text(o.peers));
      case Operand::Kind::send: return fmt::format("{}>{}", family, text(o.peers));
      case Operand::Kind::slice: break;
    }
    return fmt::format("{}{}{}[{}]", o.accumulate ? "+" : "", o.name, o.peers ? fmt::format("@{}", text(*o.peers)) : "",
                       text(o.parts));
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }

  void header(const Plan& plan) {
    line(fmt::format("plan {} {}", plan_version, plan.name));
    line(fmt::format("order {}", word(plan.order)));
    line(fmt::format("round {}", plan.round == Round::once ? "once" : "hops"));
    for (const Param& p : plan.params) line(fmt::format("param {} = {}", p.name, p.value));
    for (const Expr& e : plan.requirements) line(fmt::format("require {}", text(e)));
    for (const TableText& t : plan.tables) line(table(t));
    for (const Let& l : plan.lets) line(fmt::format("let {} = {}", l.name, text(l.value)));
    line(fmt::format("channels {}", plan.channels ? text(plan.channels) : "1"));
  }

  static std::string table(const TableText& table) {
    std::string sizes, rows;
    for (const Expr& e : table.dims) sizes += fmt::format("[{}]", text(e));
    if (table.dims.empty() && table.rows.size() > 1) sizes += fmt::format("[{}]", table.rows.size());
    if (table.dims.empty() && !table.rows.empty()) sizes += fmt::format("[{}]", table.rows[0].size());
    for (const std::vector<int64_t>& row : table.rows) {
      if (!rows.empty()) rows += " ;";
      for (const int64_t value : row) rows += fmt::format(" {}", value);
    }
    return fmt::format("table {}{} ={}{}", table.name, sizes, rows.starts_with(' ') ? "" : " ", rows);
  }

  void space(const Space& s) {
    std::string out = fmt::format("space {} parts {} {}", s.name, text(s.parts), word(s.kind));
    if (s.count) out += " " + text(s.count);
    if (!s.like.empty()) out += " like " + s.like;
    if (!s.by_buffer.empty()) out += " by " + s.by_buffer;
    if (!s.from.empty()) out += " from " + s.from;
    if (s.derived != Space::Derived::no) out += fmt::format(" of {} by {}", s.of, word(s.derived));
    if (s.block) out += " " + text(s.block);
    if (s.grain != 1) out += fmt::format(" grain {}", s.grain);
    line(out);
  }

  void buffer(const Buffer& b) {
    std::string out = fmt::format("buffer {} {} {} {}", b.name, b.space, b.dtype, word(b.role));
    if (b.mapped) out += " mapped";
    if (b.own) out += " own " + text(b.own);
    if (b.repl) out += b.repl_of ? " repl " + text(b.repl_of) : " repl";
    if (b.depth) out += fmt::format(" depth {}", b.depth);
    if (!b.alias.empty()) out += " alias " + b.alias;
    line(out);
  }

  static std::string reduction_name(kernel::Reduction reduction, const Id& param) {
    return param.empty() ? std::string(kernel::name(reduction)) : param;
  }

  std::string term(const PostTerm& t) const {
    if (t.kind == PostTerm::Kind::constant) return text(t.value);
    if (t.kind == PostTerm::Kind::cell) return operand(t.cell);
    if (t.kind == PostTerm::Kind::reduce)
      return fmt::format("{}({} in {}..{}: {})", reduction_name(t.reduction, t.reduction_param), t.var, text(t.lo),
                         text(t.hi), term(t.args[0]));
    std::string args;
    for (const PostTerm& a : t.args) args += (args.empty() ? "" : ", ") + term(a);
    return fmt::format("{}({})", call(t.call), args);
  }

  std::string operands(const std::vector<Operand>& list) const {
    std::string out;
    for (const Operand& o : list) out += (out.empty() ? "" : ", ") + operand(o);
    return out;
  }

  std::string sources(const Step& s) const {
    if (s.reduced.empty()) return operands(s.others);
    const std::string reduced =
        fmt::format("{}({})", reduction_name(s.reduction, s.reduction_param), operands(s.reduced));
    return s.others.empty() ? reduced : reduced + ", " + operands(s.others);
  }

  std::string await(const Await& a) const {
    const bool channel = a.all_channels || a.channel;
    std::string out;
    if (channel)
      out = fmt::format("{}{{{}}}.", a.lane.empty() ? lane_ : a.lane, a.all_channels ? "*" : text(a.channel));
    else if (!a.lane.empty() && a.lane != lane_)
      out = a.lane + ".";
    out += a.label;
    std::string index;
    for (const Expr& e : a.index) index += (index.empty() ? "" : ", ") + text(e);
    if (a.has_index) out += fmt::format("({})", index);
    if (a.peers) out += fmt::format("@{}", text(*a.peers));
    return a.lag ? out + fmt::format(" lag {}", a.lag) : out;
  }

  void body(const Body& items, size_t indent) {
    const std::string pad(indent, ' ');
    for (const Item& item : items) {
      const Body* inner = nullptr;
      if (const auto* s = std::get_if<Step>(&item)) line(pad + step(*s));
      if (const auto* f = std::get_if<For>(&item)) {
        line(fmt::format("{}for {} in {}..{}:", pad, f->var, text(f->lo), text(f->hi)));
        inner = &f->body;
      }
      if (const auto* w = std::get_if<When>(&item)) {
        line(fmt::format("{}when {}:", pad, text(w->cond)));
        inner = &w->body;
      }
      if (const auto* l = std::get_if<Loop>(&item)) {
        line(fmt::format("{}loop {}{}:", pad, join(l->spaces, " "),
                         l->slices > 1 ? fmt::format(" slices {}", l->slices) : ""));
        inner = &l->body;
      }
      if (inner) body(*inner, indent + 2);
    }
  }

  std::string out_;
  Id lane_;
};

}  // namespace

std::string print(const Plan& plan) { return Printer().whole(plan); }
std::string print(const Step& step) { return Printer().step(step); }
std::string print(const Operand& operand) { return Printer().operand(operand); }
uint64_t hash(const Plan& plan) { return hash64(print(plan)); }

}  // namespace weft::plan
