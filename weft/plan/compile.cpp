// Lanes -> lists of operations: what a walk executes. See instance_impl.h.
#include <algorithm>

#include "weft/plan/instance_impl.h"

namespace weft::plan {
namespace {

class Compiler {
 public:
  explicit Compiler(Instance::Impl& impl) : impl_(impl), levels_from_(impl.slots) {}

  void lane(const Lane& lane) {
    lane_ = &lane;
    out_ = CompiledLane{};
    body(lane.body);
    out_.ops.push_back({Op::Kind::end});
    impl_.lanes.push_back(std::move(out_));
  }
  int slots() const { return levels_from_ + 2 * deepest_; }

 private:
  // ---- items
  void body(const Body& items) {
    for (const Item& item : items) {
      if (const auto* s = std::get_if<Step>(&item)) step(*s);
      if (const auto* f = std::get_if<For>(&item)) for_item(*f);
      if (const auto* w = std::get_if<When>(&item)) when(*w);
      if (const auto* l = std::get_if<Loop>(&item)) loop(*l);
    }
  }

  int32_t here() const { return static_cast<int32_t>(out_.ops.size()); }

  void for_item(const For& f) {
    Op begin{Op::Kind::for_begin}, end{Op::Kind::for_end};
    begin.lo = number(f.lo, "a bound of for " + f.var);
    begin.hi = number(f.hi, "a bound of for " + f.var);
    begin.slot = end.slot = static_cast<int16_t>(levels_from_ + 2 * static_cast<int>(variables_.size()));
    const int32_t at = here();
    out_.ops.push_back(begin);
    variables_.push_back(f.var);
    deepest_ = std::max(deepest_, static_cast<int>(variables_.size()));
    body(f.body);
    variables_.pop_back();
    end.jump = at + 1;
    out_.ops.push_back(end);
    out_.ops[static_cast<size_t>(at)].jump = here();
  }

  void when(const When& w) {
    Op op{Op::Kind::when};
    op.lo = number(w.cond, "a condition");
    const int32_t at = here();
    out_.ops.push_back(op);
    body(w.body);
    out_.ops[static_cast<size_t>(at)].jump = here();
  }

  void loop(const Loop& l) {
    if (in_loop_)
      refuse(fmt::format("lane {} has a loop in a loop", lane_->name),
             "one loop goes over the chunks of all its spaces");
    Block block;
    block.loop = true;
    block.slices = l.slices;
    if (l.slices < 1)
      refuse(fmt::format("lane {} has a loop with {} slices", lane_->name, l.slices), "at least one slice");
    for (const Id& space : l.spaces) block.spaces.push_back(index(find_space(impl_.plan, space), "space", space));
    Op begin{Op::Kind::loop_begin};
    begin.item = static_cast<int32_t>(out_.loops.size());
    out_.loops.push_back(block);
    const int32_t at = here();
    out_.ops.push_back(begin);
    in_loop_ = true;
    body(l.body);
    in_loop_ = false;
    out_.ops[static_cast<size_t>(at)].jump = here();
    out_.ops.push_back({Op::Kind::loop_end});
  }

  void step(const Step& s) {
    CompiledStep c;
    step_ = &s;
    c.text = &s;
    c.ordinal = static_cast<uint16_t>(out_.steps.size());
    if (!s.label.empty()) c.label = label(s.label);
    if (!s.kernel.name.empty()) c.kernel = index(find_kernel(impl_.plan, s.kernel.name), "kernel", s.kernel.name);
    c.reduction = reduction(s);
    c.reduced = static_cast<uint16_t>(s.reduced.size());
    c.others = static_cast<uint16_t>(s.others.size());
    for (const auto* list : {&s.reduced, &s.others, &s.targets})
      for (const Operand& o : *list) c.operands.push_back(operand(o));
    for (size_t i = 0; i < s.targets.size(); ++i)
      c.operands[size_t{c.reduced} + c.others + i].place = static_cast<uint16_t>(i);
    for (const Await& a : s.after) c.after.push_back(await(a));
    for (size_t i = 0; i < variables_.size(); ++i)
      c.index.push_back(static_cast<int16_t>(levels_from_ + 2 * static_cast<int>(i)));
    step_ = nullptr;
    Op op{Op::Kind::step};
    op.item = c.ordinal;
    out_.steps.push_back(std::move(c));
    out_.ops.push_back(op);
  }

  kernel::Reduction reduction(const Step& s) const {
    if (s.reduction_param.empty()) return s.reduction;
    const auto found = impl_.params.find(s.reduction_param);
    const auto value = found == impl_.params.end() ? std::nullopt : kernel::parse_reduction(found->second);
    if (!value) refuse(fmt::format("{}: {} names no reduction", place(), s.reduction_param), "param NAME = sum");
    return *value;
  }

  // ---- operands
  CompiledOperand operand(const Operand& o) {
    CompiledOperand c;
    c.flat.kind = o.kind;
    c.flat.accumulate = o.accumulate;
    c.flat.value = o.value;
    if (o.kind == Operand::Kind::constant) return c;
    const bool slice = o.kind == Operand::Kind::slice;
    c.flat.here = slice;
    if (slice) {
      c.flat.name = index(find_buffer(impl_.plan, o.name), "buffer", o.name);
      c.part_modulus = impl_.parts[static_cast<size_t>(impl_.spaces[c.flat.name])];
      parts(o.parts, c);
    } else {
      const Id& family = o.name.empty() ? lane_->name : o.name;
      c.flat.name = index(find_family(impl_.plan, family), "link", family);
      if (!o.peers) refuse(fmt::format("{}: a message of {} without a peer", place(), family), "<q or >q");
    }
    if (o.peers) peers(*o.peers, c);
    c.varies = Varies::all;
    if (!slice && !c.range) c.varies = Varies::peer;
    if (slice && !c.peers && c.one_part) c.varies = Varies::part;
    return c;
  }

  template <typename Compiled>
  void peers(const Peers& p, Compiled& c) {
    c.peers = true;
    c.range = p.last != nullptr;
    c.peer_first = number(p.first, "a peer");
    if (c.range) c.peer_last = number(p.last, "a peer");
  }

  void parts(const Parts& p, CompiledOperand& c) {
    c.parts = true;
    c.one_part = !p.count && !p.by && !p.run;
    c.part_first = number(p.first, "a part");
    if (c.one_part) return;
    c.part_count = p.count ? number(p.count, "a number of parts") : one();
    c.part_run = p.run ? number(p.run, "the length of a run") : one();
    c.part_by = p.by ? number(p.by, "a stride of parts") : c.part_run;
  }

  static Number one() {
    Number n;
    n.k = 1;
    return n;
  }

  CompiledAwait await(const Await& a) {
    CompiledAwait c;
    const Id& lane = a.lane.empty() ? lane_->name : a.lane;
    c.flat.lane = index(find_lane(impl_.plan, lane), "lane", lane);
    c.flat.label = label(a.label);
    c.flat.has_index = a.has_index;
    c.flat.lag = a.lag;
    c.flat.channel_count = a.all_channels ? impl_.channels : 1;
    c.channel = !a.all_channels;
    if (a.channel)
      c.channel_number = number(a.channel, "a channel");
    else if (c.channel)
      c.channel_number.a = slot_c;
    if (a.peers) peers(*a.peers, c);
    for (const Expr& e : a.index) c.index.push_back(number(e, "an index"));
    return c;
  }

  // ---- names and numbers
  Number number(const Expr& e, const std::string& what) {
    if (!e) refuse(fmt::format("{}: {} is missing", place(), what), "give the expression");
    const auto slot = [&](const std::string& name) {
      if (name == "r") return slot_r;
      if (name == "c") return slot_c;
      for (size_t i = variables_.size(); i-- > 0;)
        if (variables_[i] == name) return levels_from_ + 2 * static_cast<int>(i);
      for (size_t i = 0; i < impl_.plan.lets.size(); ++i)
        if (impl_.plan.lets[i].name == name) return first_let + static_cast<int>(i);
      return -1;
    };
    try {
      return compile_number(impl_, e, slot);
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}: {} {}: {}", place(), what, expr::print(e, expr::Syntax::plan), error.message()),
                  error.remedy(), error.rule());
    }
  }

  uint16_t index(int found, const char* what, const Id& name) const {
    if (found < 0) refuse(fmt::format("{} names {} {}, which is not declared", place(), what, name), "declare it");
    return static_cast<uint16_t>(found);
  }

  uint16_t label(const Id& name) {
    const auto [at, fresh] = impl_.label_ids.emplace(name, static_cast<int>(impl_.labels.size()));
    if (fresh) impl_.labels.push_back(name);
    return static_cast<uint16_t>(at->second);
  }

  std::string place() const {
    return step_ ? fmt::format("lane {}, step `{}`", lane_->name, print(*step_)) : "lane " + lane_->name;
  }

  Instance::Impl& impl_;
  const int levels_from_;
  int deepest_ = 0;
  const Lane* lane_ = nullptr;
  const Step* step_ = nullptr;
  bool in_loop_ = false;
  std::vector<Id> variables_;
  CompiledLane out_;
};

}  // namespace

void compile_lanes(Instance::Impl& impl) {
  Compiler compiler(impl);
  for (const Lane& lane : impl.plan.lanes) compiler.lane(lane);
  impl.slots = compiler.slots();
}

}  // namespace weft::plan
