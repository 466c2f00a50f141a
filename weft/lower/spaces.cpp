// Pass 2: every value gets a space.
//
// Values that meet element by element in a statement, or that a collective turns into one another, share a space: a
// union-find over statements, then one space per (shape, cut). What is broadcast against them is coarser: one element,
// one per tensor, one per row or column; it lives in a `fixed` space derived from the one it meets, is kept whole on
// every rank, and is computed once, outside loops.
#include <algorithm>
#include <numeric>

#include "weft/lower/work.h"

namespace weft::lower {
namespace {

bool is_one(const ir::Size& size) { return size.name.empty() && size.value == 1; }

ir::Shape stripped(const ir::Shape& shape) {  // leading ones say nothing
  auto first = std::find_if_not(shape.begin(), shape.end(), is_one);
  return {first, shape.end()};
}

class Classes {
 public:
  explicit Classes(Work& work) : work_(work), parent_(work.values.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    broadcast_against_.assign(parent_.size(), none);
  }

  void run() {
    for (Value& v : work_.values) grade(v);
    for (const Value& v : work_.values)
      if (v.op) meet(*v.op);
    for (size_t i = 0; i < parent_.size(); ++i)
      if (broadcast_against_[i] != none) mark_coarse(i);
    for (size_t i = 0; i < parent_.size(); ++i)
      if (work_.values[i].grade == Grade::big) place_big(i);
    for (size_t i = 0; i < parent_.size(); ++i)
      if (work_.values[i].grade != Grade::big) place_coarse(i);
    relate_rows();
  }

 private:
  static constexpr size_t none = static_cast<size_t>(-1);

  size_t index(const ir::Name& name) const { return static_cast<size_t>(&work_.value(name) - work_.values.data()); }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(a)] = find(b); }

  void grade(Value& v) const {
    const ir::Shape shape = stripped(v.type->shape);
    if (shape.empty())
      v.grade = Grade::one;
    else if (shape.size() == 1 && shape[0].per_tensor)
      v.grade = Grade::segment;
    else if (std::any_of(shape.begin(), shape.end(), [](const ir::Size& s) { return s.per_tensor; }))
      unsupported(v.name, fmt::format("a shape of {}", ir::print(v.type->shape)),
                  "one value per tensor has the shape [#P]");
    if (v.grade != Grade::big && (std::holds_alternative<ir::Sliced>(v.type->layout)))
      unsupported(v.name, "a small value that is cut", "leave it whole: it is one number, or one per tensor");
  }

  void meet(const ir::Op& op) {
    const size_t result = index(op.name);
    if (is_op(op, "matmul")) return;
    if (is_communication(op)) {
      const bool same_rows =
          work_.types.at(op.name).shape == work_.types.at(op.args[0]).shape;  // else those of the peers
      if (work_.values[result].grade == Grade::big && same_rows) join(result, index(op.args[0]));
      return;
    }
    const ir::Factors factors = op.def->factors(*work_.program, op, work_.types);
    ir::Shape loop;  // of the iteration: factors' sizes
    for (const ir::Size& size : factors.size) loop.push_back(size);
    loop = stripped(loop);
    size_t leader = is_fold(op) || work_.values[result].grade != Grade::big ? none : result;
    for (const ir::Name& arg : op.args)
      if (leader == none && work_.values[index(arg)].grade == Grade::big && stripped(work_.types.at(arg).shape) == loop)
        leader = index(arg);
    if (leader == none) return check_coarse_statement(op);
    for (const ir::Name& arg : op.args) {
      const size_t a = index(arg);
      if (work_.values[a].grade != Grade::big) continue;
      if (stripped(work_.types.at(arg).shape) == loop)
        join(a, leader);
      else
        broadcasts_.push_back({a, leader, &op});
    }
    if (is_fold(op) && work_.values[result].grade == Grade::big) broadcasts_.push_back({result, leader, &op});
    for (const auto& [a, against, by] : broadcasts_) broadcast_against_[a] = against;
  }

  void check_coarse_statement(const ir::Op& op) const {
    for (const ir::Name& arg : op.args)
      if (work_.value(arg).grade == Grade::big)
        unsupported(op, "no operand has all of its dimensions", "name the product first, then fold it");
    if (op.args.empty())
      unsupported(op, "a value computed of nothing", "make it a let, or write the number where it is used");
  }

  // Everything in the class of a broadcast operand is coarse, so nothing in it may need a loop.
  void mark_coarse(size_t i) {
    const size_t c = find(i);
    if (find(broadcast_against_[i]) == c)
      unsupported(work_.values[i].name, "it is broadcast against itself", "give it a name of its own");
    for (size_t k = 0; k < parent_.size(); ++k) {
      if (find(k) != c) continue;
      const Value& v = work_.values[k];
      check_coarse(v);
      if (broadcast_against_[k] != none && find(broadcast_against_[k]) != find(broadcast_against_[i]))
        unsupported(v.name, "it is broadcast against values of two shapes", "copy it under another name");
      work_.values[k].grade = Grade::coarse;
      broadcast_against_[k] = broadcast_against_[i];
    }
  }

  // A coarse value is whole on every rank. Of a fold of slices, and of what is computed of it alone, each rank's own
  // part is filled, and only that is met by its slices.
  void check_coarse(const Value& v) const {
    const bool sliced = std::holds_alternative<ir::Sliced>(v.type->layout);
    const bool seen = !v.op || ir::is_out(*work_.program, v.name) || ir::update_of(*work_.program, v.name);
    const bool moved = v.op && is_communication(*v.op) && !is_op(*v.op, "all_reduce") && !is_op(*v.op, "broadcast") &&
                       !is_op(*v.op, "send");
    if ((sliced && seen) || moved)
      unsupported(v.name, "it is broadcast and also cut or communicated", "keep what is broadcast replicated");
  }

  // What arrives is counted by who sent it: `given from` says so, once for each pair of spaces.
  void relate_rows() {
    std::vector<plan::Space>& spaces = work_.out.plan.spaces;
    for (const Value& v : work_.values) {
      if (!v.op || v.grade != Grade::big || !is_op(*v.op, "all_to_all")) continue;
      auto pair = std::minmax(v.space, work_.value(v.op->args[0]).space);  // declared before it is named
      plan::Space& later = spaces[static_cast<size_t>(pair.second)];
      if (pair.first != pair.second) later.from = spaces[static_cast<size_t>(pair.first)].name;
    }
  }

  // all_to_all: part p is the block of rows for rank p, so all parts have as many rows.
  bool in_blocks(size_t c) {
    for (size_t k = 0; k < parent_.size(); ++k)
      for (const Value* reader : work_.readers(work_.values[k].name))
        if (find(k) == c && is_op(*reader->op, "all_to_all")) return true;
    return false;
  }

  // The dimension that the class is cut along: slices, `cut d`, and what a reduce_scatter makes.
  int cut_of(size_t c) {
    int cut = -1;
    ir::Name by;
    const auto add = [&](int dim, const ir::Name& name) {
      if (cut >= 0 && cut != dim)
        unsupported(name, fmt::format("{} and {} are cut along different dimensions and meet", by, name),
                    "cut both along one dimension");
      cut = dim, by = name;
    };
    for (size_t k = 0; k < parent_.size(); ++k) {
      const Value& v = work_.values[k];
      const int lead = static_cast<int>(v.type->shape.size() - stripped(v.type->shape).size());
      if (const auto* sliced = std::get_if<ir::Sliced>(&v.type->layout); sliced && find(k) == c)
        add(sliced->dim - lead, v.name);
      if (v.op && v.op->cut && is_fold(*v.op))
        for (const ir::Name& arg : v.op->args)
          if (find(index(arg)) == c && work_.value(arg).grade == Grade::big) add(*v.op->cut, v.name);
      if (find(k) == c && in_blocks(c)) add(0, v.name);
    }
    return cut;
  }

  void place_big(size_t i) {
    const size_t c = find(i);
    if (work_.values[c].grade == Grade::big && work_.values[c].space >= 0) {
      work_.values[i].space = work_.values[c].space;
      return;
    }
    SpaceInfo info;
    info.shape = stripped(work_.values[i].type->shape);
    info.group = work_.values[i].type->group;
    info.cut = cut_of(c);
    if (info.shape.size() == 1 && is_tensors(info.shape[0].name))
      info.tensors = info.shape[0].name;
    else if (std::any_of(info.shape.begin(), info.shape.end(), [&](const ir::Size& s) { return is_tensors(s.name); }))
      unsupported(work_.values[i].name,
                  fmt::format("a list of tensors with further dimensions, {}", ir::print(info.shape)),
                  "a `tensors P` value has the shape [P]");
    info.in_parts = info.cut >= 0 || has_owner_of_parts(c);
    const bool ragged = ir::ragged_of(*work_.program, info.shape[0].name) != nullptr;
    if (ragged) info.ragged = info.shape[0].name, info.cut = -1, info.in_parts = true;
    const int space = find_or_add(info, ragged ? 1 : grain(c, info));
    if (ragged || in_blocks(c))
      work_.out.plan.spaces[static_cast<size_t>(space)].kind =
          ragged ? plan::Space::Kind::given : plan::Space::Kind::equal;
    work_.values[i].space = work_.values[c].space = space;
  }

  bool is_tensors(const std::string& name) const {
    for (const ir::HeaderDecl& decl : work_.program->header)
      if (const auto* t = std::get_if<ir::TensorsDecl>(&decl); t && t->name == name) return true;
    return false;
  }

  // A whole all_reduce that goes in two shots needs parts although no value of the program is cut.
  bool has_owner_of_parts(size_t c) {
    for (size_t u = 0; u < work_.units.size(); ++u)
      for (const ir::Op* op : work_.units[u].ops)
        if (is_op(*op, "all_reduce") && find(index(op->name)) == c &&
            work_.choices[u].algorithm->owner(algo::Collective::all_reduce) == algo::Owner::part)
          return true;
    return false;
  }

  // Slices that a user sees have exact borders; those of our own may be coarser, a cache line of most types.
  int64_t grain(size_t c, const SpaceInfo& info) {
    for (size_t k = 0; k < parent_.size(); ++k)
      if (find(k) == c && work_.values[k].decl && std::holds_alternative<ir::Sliced>(work_.values[k].type->layout) &&
          !is_stored(work_.values[k]))
        return 1;
    return info.cut > 0 || (info.cut == 0 && info.shape.size() > 1) ? 1 : 16;
  }

  // A state that a rewrite cut: it is updated with a slice of our own.
  bool is_stored(const Value& v) const {
    for (const ir::Update& update : work_.program->updates)
      if (update.state == v.name) return v.decl->state && update.value.size() > 2 && update.value.ends_with(".s");
    return false;
  }

  int find_or_add(const SpaceInfo& info, int64_t grain) {
    for (size_t s = 0; s < work_.spaces.size(); ++s) {
      SpaceInfo& other = work_.spaces[s];
      if (other.grade != Grade::big || other.shape != info.shape || other.group != info.group ||
          (other.cut != info.cut && other.cut >= 0 && info.cut >= 0))
        continue;
      other.cut = std::max(other.cut, info.cut);
      other.in_parts = other.in_parts || info.in_parts;
      work_.out.plan.spaces[s].grain = std::min(work_.out.plan.spaces[s].grain, grain);
      work_.out.plan.spaces[s].parts = parts_of(other);
      return static_cast<int>(s);
    }
    plan::Space space;
    space.name = work_.fresh("s");
    space.parts = parts_of(info);
    space.grain = grain;
    return add(space, info);
  }

  plan::Expr parts_of(const SpaceInfo& info) const {
    return algo::number(info.in_parts ? work_.groups.at(info.group).size() : "1");
  }

  void place_coarse(size_t i) {
    Value& v = work_.values[i];
    SpaceInfo info;
    info.grade = v.grade;
    info.shape = stripped(v.type->shape);
    if (v.grade == Grade::segment) info.tensors = info.shape[0].name, info.of = base_of_tensors(info.tensors, v);
    if (v.grade == Grade::coarse) info.of = work_.values[find(broadcast_against_[i])].space;
    for (size_t s = 0; s < work_.spaces.size(); ++s) {
      const SpaceInfo& other = work_.spaces[s];
      if (other.grade == info.grade && other.shape == info.shape && other.of == info.of) v.space = static_cast<int>(s);
    }
    if (v.space >= 0) return;
    plan::Space space;
    space.name = work_.fresh("t");
    space.parts = algo::number("1");
    space.kind = plan::Space::Kind::fixed;
    if (info.of >= 0) space.of = work_.out.plan.spaces[static_cast<size_t>(info.of)].name, derive(space, v);
    v.space = add(space, info);
  }

  static void derive(plan::Space& space, const Value& v) {
    using Derived = plan::Space::Derived;
    const bool row = is_one(v.type->shape.back());
    space.derived = v.grade == Grade::segment ? Derived::segment : row ? Derived::row : Derived::column;
    space.count = expr::name(v.grade == Grade::segment ? "T" : row ? "R" : "H");
  }

  int base_of_tensors(const std::string& tensors, const Value& v) const {
    for (size_t s = 0; s < work_.spaces.size(); ++s)
      if (work_.spaces[s].grade == Grade::big && work_.spaces[s].tensors == tensors) return static_cast<int>(s);
    unsupported(v.name, fmt::format("one value per tensor of {}, which has no value of its own", tensors),
                "use a value of shape [P] in the program");
  }

  int add(plan::Space space, SpaceInfo info) {
    work_.out.plan.spaces.push_back(std::move(space));
    work_.spaces.push_back(std::move(info));
    return static_cast<int>(work_.spaces.size()) - 1;
  }

  struct Broadcast {
    size_t operand, against;
    const ir::Op* by;
  };
  Work& work_;
  std::vector<size_t> parent_, broadcast_against_;
  std::vector<Broadcast> broadcasts_;
};

}  // namespace

void lay_out_spaces(Work& work) {
  for (const ir::TensorDecl& decl : work.program->tensors) {
    Value v;
    v.name = decl.name;
    v.type = &work.types.at(decl.name);
    v.decl = &decl;
    work.values.push_back(v);
  }
  for (size_t u = 0; u < work.units.size(); ++u)
    for (const ir::Op* op : work.units[u].ops) {
      Value v;
      v.name = op->name;
      v.type = &work.types.at(op->name);
      v.op = op;
      v.unit = static_cast<int>(u);
      work.values.push_back(v);
    }
  Classes(work).run();
}

}  // namespace weft::lower
