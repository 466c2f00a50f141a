// The last passes: what is not needed goes, what is implied is written down.
//
// `trim` does not run the verifier: lowering emits no await that lane order implies, keeps one handshake where one
// serves, and drops families and lets that no step names. plan::trim proves away what is left, where somebody wants
// that.
#include <algorithm>

#include "weft/lower/work.h"

namespace weft::lower {

using namespace plan;

namespace {

// Families that steps name, "" in lane L being L.
void named_families(const Body& body, const Id& lane, std::set<Id>& names) {
  for (const Item& item : body) {
    if (const auto* step = std::get_if<Step>(&item)) {
      for (const auto* list : {&step->reduced, &step->others, &step->targets})
        for (const Operand& operand : *list)
          if (operand.kind == Operand::Kind::send || operand.kind == Operand::Kind::recv)
            names.insert(operand.name.empty() ? lane : operand.name);
    } else if (const auto* repeat = std::get_if<For>(&item))
      named_families(repeat->body, lane, names);
    else if (const auto* when = std::get_if<When>(&item))
      named_families(when->body, lane, names);
    else
      named_families(std::get<Loop>(item).body, lane, names);
  }
}

int root_of(const ir::Type& type) {
  const auto* root = std::get_if<ir::Root>(&type.layout);
  return root ? std::stoi(root->rank) : -1;
}

void add_requirement(std::vector<plan::Expr>& list, const std::string& text) {
  const plan::Expr e = algo::number(text);
  for (const plan::Expr& known : list)
    if (expr::print(known, expr::Syntax::plan) == expr::print(e, expr::Syntax::plan)) return;
  list.push_back(e);
}

void require_roots(Work& work) {
  std::map<std::string, int> largest;
  for (const Value& v : work.values) {
    int& most = largest[v.type->group];
    most = std::max(most, root_of(*v.type));
    if (v.op && !v.op->attrs.root.empty()) most = std::max(most, std::stoi(v.op->attrs.root));
  }
  std::vector<plan::Expr>& requirements = work.out.plan.requirements;
  for (const auto& [name, root] : largest) {
    const GroupMap& group = work.groups.at(name);
    if (group.parts() > 1) add_requirement(requirements, fmt::format("n % {} == 0", group.parts()));
    if (root > 0) add_requirement(requirements, fmt::format("{} > {}", group.size(), root));
  }
}

// A space of coarser values has as many parts as its largest buffer of partial folds; a value of one part owns part 0.
void size_small_spaces(Work& work) {
  Plan& plan = work.out.plan;
  for (size_t s = 0; s < work.spaces.size(); ++s)
    if (work.spaces[s].grade != Grade::big) plan.spaces[s].parts = expr::integer(work.spaces[s].parts);
  for (const Value& v : work.values) {
    if (v.grade == Grade::big || work.spaces[static_cast<size_t>(v.space)].parts == 1) continue;
    const int b = find_buffer(plan, work.id(v.name));
    if (b >= 0 && !plan.buffers[static_cast<size_t>(b)].own)
      plan.buffers[static_cast<size_t>(b)].own = expr::integer(0);
  }
}

// The weakest promise of the algorithms that reduce.
void promise(Work& work) {
  Plan& plan = work.out.plan;
  for (const Value& v : work.values) {
    if (!v.op || v.grade != Grade::big || !(is_op(*v.op, "all_reduce") || is_scatter(*v.op))) continue;
    const algo::Algorithm& algorithm = *work.choices[static_cast<size_t>(v.unit)].algorithm;
    plan.order = std::max(plan.order, algorithm.order());
    if (algorithm.round() == Round::hops && accumulate_dtype(v.type->dtype) != v.type->dtype) plan.round = Round::hops;
  }
}

void chunks(Work& work) {
  work.out.chunk_elements.assign(work.spaces.size(), 0);
  for (const Value& v : work.values) {
    if (!v.op || v.grade != Grade::big) continue;
    const int64_t bytes = work.choices[static_cast<size_t>(v.unit)].chunk_bytes;
    if (bytes <= 0) continue;
    int64_t& chunk = work.out.chunk_elements[static_cast<size_t>(v.space)];
    const int64_t elements = std::max<int64_t>(1, bytes / size_bytes(v.type->dtype));
    chunk = chunk == 0 ? elements : std::min(chunk, elements);
  }
  // Chunk k of what is sent is chunk k of what arrives, also where rows are counted by the other side.
  for (size_t passes = 0; passes < work.spaces.size(); ++passes)
    for (const Value& v : work.values)
      if (v.op && v.grade == Grade::big && is_op(*v.op, "all_to_all")) {
        int64_t& from = work.out.chunk_elements[static_cast<size_t>(work.value(v.op->args[0]).space)];
        int64_t& to = work.out.chunk_elements[static_cast<size_t>(v.space)];
        from = to = from == 0 || to == 0 ? std::max(from, to) : std::min(from, to);
      }
}

}  // namespace

void trim(Work& work) {
  Plan& plan = work.out.plan;
  std::set<Id> families;
  for (const Lane& lane : plan.lanes) named_families(lane.body, lane.name, families);
  std::erase_if(plan.families, [&](const Family& family) { return !families.count(family.name); });
  const auto empty = [](const Lane& lane) { return lane.body.empty() && lane.name != "main"; };
  std::erase_if(plan.lanes, empty);
  if (plan.lanes[0].body.empty())
    unsupported(work.program->name, "nothing is computed: every output is an input or a state as it is",
                "put out a copy: y = x, and out y");
}

void finish(Work& work) {
  Plan& plan = work.out.plan;
  plan.name = work.program->name;
  plan.channels = expr::integer(work.channels);
  require_roots(work);
  size_small_spaces(work);
  promise(work);
  chunks(work);
  for (const SpaceInfo& info : work.spaces) {
    SpaceRecipe recipe;
    recipe.shape = info.shape;
    recipe.cut = info.cut;
    recipe.of = info.of;
    recipe.tensors = info.tensors;
    recipe.ragged = info.ragged;
    work.out.spaces.push_back(recipe);
  }
  for (const Id& scalar : launch_scalars(plan)) {
    const auto known = work.scalar_values.find(scalar);
    WEFT_CHECK(known != work.scalar_values.end(), "launch scalar {} has no value", scalar);
    work.out.scalars.push_back(known->second);
  }
}

}  // namespace weft::lower
