// Pass 1: units in canonical order, and what each launches with.
//
// The chooser is a pure function of what all ranks agree on: the schedule's launch lines, then the fallback, then
// whether buffers are mapped. Sizes are unknown here; a tuner that knows them writes launch lines.
#include <algorithm>

#include "weft/ir/names.h"
#include "weft/lower/work.h"

namespace weft::lower {
namespace {

void check_known(const ir::Op& op) {
  static const std::set<std::string_view> known = {
      "map",    "sum",        "prod",      "amax", "amin",   "matmul",  "all_reduce", "reduce_scatter",
      "reduce", "all_gather", "broadcast", "send", "gather", "scatter", "all_to_all"};
  if (!known.count(op.def->name))
    unsupported(op, fmt::format("{} has no lowering", op.def->name),
                "all_reduce, reduce_scatter, reduce, all_gather, broadcast, gather, scatter, send, all_to_all, matmul, "
                "maps and folds have");
  if (is_op(op, "all_to_all") && op.attrs.dim)
    unsupported(op, "an all_to_all of slices has no lowering", "all_gather the value, and slice it with `cut`");
}

void check_root(const ir::Op& op) {
  if (op.attrs.root.empty()) return;
  const bool digits =
      std::all_of(op.attrs.root.begin(), op.attrs.root.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) unsupported(op, fmt::format("its root is {}", op.attrs.root), "write the root as a rank: 0, 1, ...");
}

// Counts are exchanged before a launch, so they are what is handed in, and every rank has its own.
void check_ragged(const Work& work, const ir::RaggedDecl& ragged) {
  const ir::TensorDecl* counts = ir::find_tensor(*work.program, ragged.counts);
  if (!counts || counts->state || !std::holds_alternative<ir::Local>(counts->type.layout))
    unsupported(ragged.name, fmt::format("counts that the program computes, {}", ragged.counts),
                fmt::format("hand them in: in {} i64[R] local", ragged.counts));
  for (const auto& [name, type] : work.types)
    for (size_t d = 0; d < type.shape.size(); ++d) {
      const ir::RaggedDecl* of = ir::ragged_of(*work.program, type.shape[d].name);
      if (of != nullptr && of->name == ragged.name && (d > 0 || type.group != "world" || type.shape[d].per_tensor))
        unsupported(name, fmt::format("a shape of {}", ir::print(type)), "ragged rows are dimension 0, of all ranks");
    }
}

template <typename T>
void take(std::optional<T>& into, const std::optional<T>& from) {
  if (!into) into = from;
}

// Names by which a launch line may mean a unit: its block, a collective in it, or what that was split from.
bool means(const std::string& target, const ir::Unit& unit) {
  if (unit.block && unit.block->name == target) return true;
  return std::any_of(unit.ops.begin(), unit.ops.end(), [&](const ir::Op* op) {
    return is_communication(*op) && (op->name == target || op->name == target + ".s" || op->name == target + ".p");
  });
}

schedule::LaunchConfig config_of(const Work& work, const ir::Unit& unit) {
  schedule::LaunchConfig config;
  const auto merge = [&](const schedule::LaunchConfig& from) {
    take(config.algorithm, from.algorithm);
    take(config.protocol, from.protocol);
    take(config.channels, from.channels);
    take(config.chunk_bytes, from.chunk_bytes);
    take(config.order, from.order);
    take(config.round, from.round);
    take(config.stream, from.stream);
  };
  for (const schedule::LaunchConfig& line : *work.launches)
    if (line.target != "*" && means(line.target, unit)) merge(line);
  for (const schedule::LaunchConfig& line : *work.launches)
    if (line.target == "*") merge(line);
  merge(work.options->fallback);
  return config;
}

algo::Collective collective_of(const ir::Op& op) {
  if (is_op(op, "all_reduce")) return algo::Collective::all_reduce;
  if (is_op(op, "reduce_scatter")) return algo::Collective::reduce_scatter;
  if (is_op(op, "reduce")) return algo::Collective::reduce;
  return is_op(op, "all_gather") ? algo::Collective::all_gather : algo::Collective::broadcast;
}

bool is_big_collective(const Work& work, const ir::Op& op) {
  return is_communication(op) && !is_move(op) && !ir::is_small(work.types.at(op.name));
}

// A sum in another order, or rounded on the way, needs the schedule's word.
void check_promise(const Work& work, const ir::Op& op, const algo::Algorithm& algorithm,
                   const schedule::LaunchConfig& config) {
  if (is_gather(op)) return;
  const std::string order = config.order.value_or("rank"), round = config.round.value_or("once");
  const Dtype dtype = work.types.at(op.name).dtype;
  const auto rank_of = [](std::string_view o) { return o == "rank" ? 0 : o == "fixed" ? 1 : 2; };
  if (static_cast<int>(algorithm.order()) > rank_of(order) && is_float(dtype))
    throw Error(ErrorKind::user, fmt::format("launch {}: {} does not keep order {}", op.name, algorithm.name(), order),
                fmt::format("say `order {}` in the launch line, or take pairwise or direct",
                            algorithm.order() == plan::Order::any ? "any" : "fixed"));
  if (algorithm.round() == plan::Round::hops && round != "hops" && accumulate_dtype(dtype) != dtype)
    throw Error(ErrorKind::user,
                fmt::format("launch {}: {} rounds partial sums of {} at every hop", op.name, algorithm.name(),
                            weft::name(dtype)),
                "say `round hops` in the launch line, or take pairwise or direct");
}

// Members of a group across others do not lie side by side, so they are spoken to one at a time.
std::string default_algorithm(const Work& work, const ir::Unit& unit) {
  if (!work.group(unit.ops[0]->name).across()) return work.options->mapped ? "direct" : "pairwise";
  const auto halves = [](const ir::Op* op) { return is_op(*op, "reduce_scatter") || is_op(*op, "all_gather"); };
  return std::any_of(unit.ops.begin(), unit.ops.end(), halves) ? "ring" : "chain";
}

const algo::Algorithm& algorithm_of(const Work& work, const ir::Unit& unit, const schedule::LaunchConfig& config) {
  const std::string name = config.algorithm.value_or(default_algorithm(work, unit));
  const algo::Algorithm* algorithm = algo::find_algorithm(name);
  std::string known;
  for (const algo::Algorithm* a : algo::algorithms()) known += (known.empty() ? "" : ", ") + std::string(a->name());
  if (!algorithm) {
    std::vector<std::string> names;
    for (const algo::Algorithm* a : algo::algorithms()) names.emplace_back(a->name());
    throw Error(ErrorKind::user, fmt::format("launch: no algorithm {}", name),
                ir::did_you_mean(name, names) + "there are " + known);
  }
  bool big = false;
  for (const ir::Op* op : unit.ops) {
    if (!is_big_collective(work, *op)) continue;
    big = true;
    if (!algorithm->supports(collective_of(*op)))
      throw Error(ErrorKind::user, fmt::format("launch {}: {} has no {}", op->name, name, op->def->name),
                  fmt::format("take another of: {}", known));
    check_promise(work, *op, *algorithm, config);
  }
  if (big && algorithm->needs_mapped() && !work.options->mapped)
    throw Error(ErrorKind::user, fmt::format("launch: {} needs buffers that peers can map", name),
                "bind buffers from an arena, or take pairwise");
  return *algorithm;
}

plan::Protocol protocol_of(const std::string& text) {
  if (text == "simple") return plan::Protocol::simple;
  if (text == "ll") return plan::Protocol::ll;
  if (text == "ll128") return plan::Protocol::ll128;
  throw Error(ErrorKind::user, fmt::format("launch: no protocol {}", text), "simple, ll, ll128");
}

void check_targets(const Work& work) {
  for (const schedule::LaunchConfig& line : *work.launches) {
    const auto meant = [&](const ir::Unit& unit) { return means(line.target, unit); };
    if (line.target != "*" && std::none_of(work.units.begin(), work.units.end(), meant))
      throw Error(ErrorKind::user, fmt::format("launch {}: no collective and no group has this name", line.target),
                  "name a group, a collective, or *");
  }
}

}  // namespace

void take_units(Work& work) {
  work.units = ir::units(*work.program);
  for (const ir::Unit& unit : work.units) {
    if (unit.block && unit.block->kind == ir::Block::Kind::overlap)
      unsupported(unit.block->name, "overlap blocks are not lowered yet",
                  "leave the overlap out: its members run one after the other");
    for (const ir::Op* op : unit.ops) check_known(*op), check_root(*op);
  }
  for (const ir::HeaderDecl& decl : work.program->header)
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl)) check_ragged(work, *ragged);
}

void choose(Work& work) {
  check_targets(work);
  for (const ir::Unit& unit : work.units) {
    const schedule::LaunchConfig config = config_of(work, unit);
    Choice choice;
    choice.algorithm = &algorithm_of(work, unit, config);
    choice.protocol = protocol_of(config.protocol.value_or("simple"));
    choice.chunk_bytes = config.chunk_bytes.value_or(0);
    work.choices.push_back(choice);
    // One plan has one number of channels: the largest that any unit asks for.
    work.channels = std::max(work.channels, config.channels.value_or(1));
    work.out.stream = work.out.stream || config.stream.value_or(false);
  }
}

}  // namespace weft::lower
