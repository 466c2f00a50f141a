// period: the smallest g so that rank r+g does what rank r does, shifted by g. A simulator walks g ranks instead of n.
//
// Ways: compare all walks (n^2 steps for a ring), sample some (unsound), or read it off the text. Here: for each divisor
// g of n, every expression is evaluated not to a number but to how it *changes* when r becomes r+g modulo n: by d, up to
// a multiple of m (m = 0: by exactly d). r changes by g modulo n; r % q not at all where q divides both; r/q by g/q. What
// decides a step's existence must not change at all, a peer must change by g modulo n, a part must change somehow known
// (parts of an even space are alike). What the arithmetic cannot follow counts as irregular: the answer is n, never wrong.
#include <numeric>

#include "weft/plan/instance_impl.h"

namespace weft::plan {
namespace {

struct Change {
  bool known = false;
  int64_t d = 0, m = 0;
  std::optional<int64_t> constant;  // the value itself, where it is the same for all r, c and variables
  bool none_at() const { return known && d == 0 && m == 0; }
};

Change unknown() { return {}; }
Change unchanged() { return {true, 0, 0, {}}; }
Change same(int64_t value) { return {true, 0, 0, value}; }

int64_t modulo(int64_t d, int64_t m) { return m ? wrap(d, m) : d; }
Change by(int64_t d, int64_t m) { return {true, modulo(d, std::abs(m)), std::abs(m), {}}; }

class Shift {
 public:
  Shift(const Instance& instance, int64_t g)
      : plan_(instance.plan()), impl_(instance.impl()), n_(instance.ranks()), g_(g) {
    for (const Let& let : plan_.lets) names_[let.name] = change(let.value);
  }

  bool holds() {
    for (const Buffer& b : plan_.buffers)
      if (b.own && !change(b.own).known) return false;
    for (const Lane& lane : plan_.lanes)
      if (!body(lane.body)) return false;
    return true;
  }

 private:
  // ---- expressions
  Change change(const Expr& e) const {
    if (!e) return same(1);
    if (e->op == expr::Op::integer) return same(e->integer);
    if (e->op == expr::Op::name) return name(e->name);
    std::vector<Change> args;
    bool constant = true, still = true;
    for (const Expr& a : e->args) {
      args.push_back(change(a));
      constant = constant && args.back().constant.has_value();
      still = still && args.back().none_at();
    }
    if (constant) return fold(*e, args);
    if (e->op == expr::Op::call && e->name == "sel") return select(args);
    if (still) return unchanged();
    return arithmetic(*e, args);
  }

  Change name(const std::string& name) const {
    if (name == "none") return same(expr::none);
    if (name == "r") return by(g_, n_);
    if (name == "c") return unchanged();
    if (const auto found = names_.find(name); found != names_.end()) return found->second;
    const auto found = impl_.constants.find(name);
    return found == impl_.constants.end() ? unchanged() : same(found->second->integer);
  }

  Change fold(const expr::Node& e, const std::vector<Change>& args) const {
    expr::Node node = e;
    for (size_t i = 0; i < args.size(); ++i)
      node.args[i] = *args[i].constant == expr::none ? expr::name("none") : expr::integer(*args[i].constant);
    try {
      const expr::IntCode code(
          std::make_shared<const expr::Node>(node), [](const std::string&) { return -1; }, impl_.tables);
      return same(code.run(nullptr));
    } catch (const Error&) {
      return unknown();  // such as a division by zero in a branch that is not taken
    }
  }

  // The same branch is taken at r and r+g, so a branch that is none stays none.
  static Change select(const std::vector<Change>& args) {
    if (args.size() != 3 || !args[0].none_at()) return unknown();
    if (args[0].constant) return *args[0].constant ? args[1] : args[2];
    if (args[1].constant == expr::none) return without_value(args[2]);
    if (args[2].constant == expr::none) return without_value(args[1]);
    if (!args[1].known || !args[2].known) return unknown();
    return by(args[1].d, std::gcd(std::gcd(args[1].m, args[2].m), args[1].d - args[2].d));
  }
  static Change without_value(Change c) {
    c.constant.reset();
    return c;
  }

  Change arithmetic(const expr::Node& e, const std::vector<Change>& args) const {
    if (args.size() == 1) return e.op == expr::Op::neg && args[0].known ? by(-args[0].d, args[0].m) : unknown();
    if (args.size() != 2) return unknown();
    const Change &a = args[0], &b = args[1];
    const bool presence = e.op == expr::Op::eq || e.op == expr::Op::ne;
    if (presence && a.known && b.known && (a.constant == expr::none || b.constant == expr::none)) return unchanged();
    if (!a.known || !b.known) return unknown();
    const int64_t m = std::gcd(a.m, b.m);
    switch (e.op) {
      case expr::Op::add: return by(a.d + b.d, m);
      case expr::Op::sub: return by(a.d - b.d, m);
      case expr::Op::mul:
        return b.constant   ? by(a.d * *b.constant, a.m * *b.constant)
               : a.constant ? by(b.d * *a.constant, b.m * *a.constant)
                            : unknown();
      case expr::Op::mod: return remainder(a, b);
      case expr::Op::div: return quotient(a, b);
      case expr::Op::lt:
      case expr::Op::gt:
      case expr::Op::le:
      case expr::Op::ge:
      case expr::Op::eq:
      case expr::Op::ne: return m == 0 && a.d == b.d ? unchanged() : unknown();
      default: return unknown();
    }
  }

  static Change remainder(const Change& a, const Change& b) {
    if (!b.constant || *b.constant < 1) return unknown();
    const int64_t q = *b.constant;
    if (a.m % q == 0 && a.d % q == 0) return unchanged();
    return by(a.d, std::gcd(a.m, q));
  }
  static Change quotient(const Change& a, const Change& b) {
    if (!b.constant || *b.constant < 1 || a.m % *b.constant || a.d % *b.constant) return unknown();
    return by(a.d / *b.constant, a.m / *b.constant);
  }

  // ---- text
  bool still(const Expr& e) const { return !e || change(e).none_at(); }

  bool follows(const Expr& e) const {  // a rank that moves along
    const Change c = change(e);
    if (c.constant == expr::none) return true;
    return c.known && c.m % n_ == 0 && (c.d - g_) % n_ == 0;
  }

  bool everybody(const Peers& p) const {
    const Change first = change(p.first), last = change(p.last);
    return p.last && first.constant && last.constant && *first.constant != expr::none && *last.constant != expr::none &&
           (*last.constant - *first.constant) % n_ == 0;
  }

  bool peers(const std::optional<Peers>& p) const {
    if (!p) return true;
    return (follows(p->first) && (!p->last || follows(p->last))) || everybody(*p);
  }

  // -1: the ranks below r; 1: those above; 0: neither. Both in one list are all others, whoever r is.
  int side(const std::optional<Peers>& p) const {
    if (!p || !p->last) return 0;
    const Expr r = expr::name("r");
    if (change(p->first).constant == 0 && expr::equal(p->last, r)) return -1;
    const bool above = expr::equal(p->first, expr::binary(expr::Op::add, r, expr::integer(1)));
    return above && change(p->last).constant == n_ ? 1 : 0;
  }

  bool operands(const std::vector<Operand>& list) const {
    std::map<std::pair<Operand::Kind, Id>, int> balance;
    for (const Operand& o : list) {
      if (!change(o.parts.first).known || !still(o.parts.count) || !still(o.parts.by) || !still(o.parts.run))
        return false;
      if (!peers(o.peers)) {
        const int where = side(o.peers);
        if (where == 0) return false;
        balance[{o.kind, o.name}] += where;
      }
    }
    for (const auto& [what, open] : balance)
      if (open != 0) return false;
    return true;
  }

  bool step(const Step& s) const {
    for (const Await& a : s.after) {
      for (const Expr& e : a.index)
        if (!still(e)) return false;
      if (!still(a.channel) || !peers(a.peers)) return false;
    }
    return operands(s.reduced) && operands(s.others) && operands(s.targets);
  }

  bool body(const Body& items) {
    for (const Item& item : items) {
      if (const auto* s = std::get_if<Step>(&item); s && !step(*s)) return false;
      if (const auto* w = std::get_if<When>(&item);
          w && !(still(w->cond) && (change(w->cond).constant == 0 || body(w->body))))
        return false;
      if (const auto* l = std::get_if<Loop>(&item); l && !body(l->body)) return false;
      if (const auto* f = std::get_if<For>(&item); f && !for_item(*f)) return false;
    }
    return true;
  }

  bool for_item(const For& f) {
    if (!still(f.lo) || !still(f.hi)) return false;
    const Change lo = change(f.lo), hi = change(f.hi);
    if (lo.constant && hi.constant && *lo.constant >= *hi.constant) return true;  // never runs
    const auto outer = names_.find(f.var);
    const std::optional<Change> kept = outer == names_.end() ? std::nullopt : std::optional(outer->second);
    names_[f.var] = unchanged();
    const bool good = body(f.body);
    if (kept)
      names_[f.var] = *kept;
    else
      names_.erase(f.var);
    return good;
  }

  const Plan& plan_;
  const Instance::Impl& impl_;
  const int64_t n_, g_;
  std::map<std::string, Change> names_;  // lets and variables
};

}  // namespace

int64_t period(const Instance& instance) {
  const int64_t n = instance.ranks();
  for (int64_t g = 1; g <= n / 2; ++g)
    if (n % g == 0 && Shift(instance, g).holds()) return g;
  return n;
}

}  // namespace weft::plan
