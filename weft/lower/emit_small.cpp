// Pass 6: what is done once. Folds' totals, small values, products of matrices.
//
// A fold over a cut or channelled value leaves one partial result per channel: q[f*C+c] for fold f. Under `when c == 0`
// the channels' partials are joined in channel order; pending ones go to all ranks, those of a phase that agree in type
// and reduction in one message, and are added in rank order. So a norm depends on ranks, channels and chunk size, and
// never on timing.
#include <algorithm>

#include "weft/lower/emit.h"

namespace weft::lower {

using namespace plan;

namespace {

std::string count(int64_t k) { return std::to_string(k); }

// The constant that a fold begins with: what changes nothing, in the dtype of the partials. (The ends of 64 bits are no
// f64; what is nearest is stored as them.)
double identity(const ir::Op& op, Dtype accumulator) {
  char bytes[8];
  kernel::store_identity(fold_reduction(op), accumulator, bytes);
  if (is_float(accumulator)) return load_f64(accumulator, bytes);
  const int64_t whole = load_i64(accumulator, bytes);
  return accumulator == Dtype::u64 ? static_cast<double>(static_cast<uint64_t>(whole)) : static_cast<double>(whole);
}

}  // namespace

// The folds of one loop that agree in space, reduction and accumulator share a buffer, pending ones of one phase first
// of all: their local sums lie side by side and travel together.
void Emitter::prepare_folds(const Group& group) {
  const int64_t channels = work_.channels;
  std::vector<const ir::Op*> left = group.folds;
  while (!left.empty()) {
    const ir::Op& first = *left[0];
    const Value& v = work_.value(first.name);
    const Dtype accumulator = fold_accumulator(first, v.type->dtype);
    std::vector<const ir::Op*> members, others;
    for (const ir::Op* op : left) {
      const Value& w = work_.value(op->name);
      const bool alike = w.space == v.space && fold_reduction(*op) == fold_reduction(first) &&
                         fold_accumulator(*op, w.type->dtype) == accumulator && w.homes.empty() == v.homes.empty();
      (alike ? members : others).push_back(op);
    }
    const int64_t folds = static_cast<int64_t>(members.size());
    const bool bundled = v.homes.empty();  // finished in this phase
    Buffer buffer;
    buffer.name = work_.fresh("q");
    buffer.space = work_.out.plan.spaces[static_cast<size_t>(v.space)].name;
    buffer.dtype = weft::name(accumulator);
    work_.out.plan.buffers.push_back(buffer);
    work_.out.buffers.emplace_back();
    int64_t& needed = work_.spaces[static_cast<size_t>(v.space)].parts;
    needed = std::max(needed, folds * channels + (bundled ? 2 * folds : 0));
    Bundle bundle{buffer.name, {}, folds * channels, folds * channels + folds};
    for (int64_t f = 0; f < folds; ++f) {
      Fold fold{members[static_cast<size_t>(f)], buffer.name, label("fold"), f * channels,
                bundled ? folds * channels + f : -1};
      zero(fold, *fold.op);
      if (bundled) {
        work_.value(fold.op->name).homes = {{buffer.name, algo::part(count(fold.local))}};
        bundle.reduces.push_back(work_.readers(fold.op->name)[0]->op);
      }
      folds_.push_back(fold);
    }
    if (bundled) bundles_.push_back(bundle);
    left = others;
  }
}

void Emitter::zero(const Fold& fold, const ir::Op& op) {
  const std::string part = fold.partial == 0 ? "c" : fmt::format("{}+c", fold.partial);
  const Dtype accumulator = fold_accumulator(op, work_.value(op.name).type->dtype);
  add(algo::copy(label("zero"), algo::constant(identity(op, accumulator)),
                 {algo::slice(fold.buffer, algo::part(part))}));
}

void Emitter::smalls(int unit, int phase) {
  std::vector<const ir::Op*> ops;
  for (const ir::Op* op : work_.units[static_cast<size_t>(unit)].ops)
    if (work_.value(op->name).phase == phase) ops.push_back(op);
  for (const ir::Op* op : ops)
    if (is_fold(*op) && loop_space(work_, *op) >= 0)
      at(op->name),
          join_channels(*std::find_if(folds_.begin(), folds_.end(), [&](const Fold& f) { return f.op == op; }));
  for (const Bundle& bundle : std::exchange(bundles_, {})) at(bundle.reduces[0]->name), finish_bundle(bundle);
  for (const ir::Op* op : ops) {
    const Value& v = work_.value(op->name);
    if (loop_space(work_, *op) >= 0 || (is_op(*op, "all_reduce") && !v.made_by.empty())) continue;
    at(is_op(*op, "send") ? op->args[0] : op->name);
    if (is_op(*op, "matmul"))
      matmul(*op);
    else if (is_op(*op, "send"))
      small_send(*op);
    else if (is_map(*op))
      small_map(*op);
    else if (is_fold(*op))
      small_fold(*op);
    else if (is_op(*op, "all_reduce"))
      all_reduce(*op);
    else if (is_op(*op, "reduce"))
      small_reduce(*op);
    else if (is_op(*op, "broadcast"))
      small_broadcast(*op);
    else
      unsupported(*op, fmt::format("{} of a small value", op->def->name), "leave it whole");
  }
}

void Emitter::made_here(const ir::Name& name, const Id& label) {
  Value& v = work_.value(name);
  v.made_by = label;
  v.by_channel_zero = true;
}

// loc: sum(q[0], q[1]) -> q[2] after main{*}.fold
void Emitter::join_channels(const Fold& fold) {
  std::vector<Operand> partials;
  for (int c = 0; c < work_.channels; ++c)
    partials.push_back(algo::slice(fold.buffer, algo::part(count(fold.partial + c))));
  Step step = algo::reduce(label("loc"), fold_reduction(*fold.op), std::move(partials), homes(fold.op->name, {}));
  if (work_.channels > 1) {
    Await await = algo::after(fold.label);
    await.lane = "main";
    await.all_channels = true;
    step.after = {await};
  }
  add_once_at(site(work_, *fold.op), {step});
  made_here(fold.op->name, step.label);
}

// A fold of what small values hold, on channel 0: 0 -> q[0]; q_t -> k_t -> +q[0]; q[0] -> t
void Emitter::small_fold(const ir::Op& op) {
  const Value& v = work_.value(op.name);
  const auto refuse_part = [&](const Value& operand) {
    if (operand.grade == Grade::coarse && std::holds_alternative<ir::Sliced>(operand.type->layout))
      unsupported(op, fmt::format("each rank has only its own part of {}", operand.name),
                  "all_gather the large value that it is made of, or all_reduce each fold");
  };
  for (const ir::Name& arg : op.args) refuse_part(work_.value(arg));
  if (op.cut)
    unsupported(op, fmt::format("a fold of {} in parts, which every rank holds whole here", op.args[0]),
                fmt::format("leave the fold whole: every rank folds all of {}", op.args[0]));
  if (v.grade != Grade::one)
    unsupported(op, fmt::format("a fold of {}, which is a fold itself, over some of its dimensions", op.args[0]),
                "fold the large value over all of these dimensions at once: sum(x, 1, 2)");
  Buffer buffer;
  buffer.name = work_.fresh("q");
  buffer.space = work_.out.plan.spaces[static_cast<size_t>(v.space)].name;
  buffer.dtype = weft::name(fold_accumulator(op, v.type->dtype));
  work_.out.plan.buffers.push_back(buffer);
  work_.out.buffers.emplace_back();
  const Operand partial = algo::slice(buffer.name, algo::part("0"));
  Step fold;
  fold.label = label("fold");
  KernelMaker kernel(work_, work_.id(op.name));
  for (const ir::Name& arg : op.args) {
    kernel.input(work_.id(arg));
    fold.others.push_back(read(arg, {}, -1));
    add_await(fold.after, arg, false);
  }
  kernel.fold(op);
  fold.kernel = kernel.finish({work_.id(op.name)});
  fold.targets = {algo::accumulate(buffer.name, algo::part("0"))};
  const Id text = label("loc");
  add_once_at(site(work_, op),
              {algo::copy(label("zero"), algo::constant(identity(op, fold_accumulator(op, v.type->dtype))), {partial}),
               fold, algo::copy(text, partial, homes(op.name, {}))});
  made_here(op.name, text);
}

Id Emitter::norm_family(const ir::Op& op, const Operand& source) {
  const bool one = work_.value(op.name).grade == Grade::one;
  const std::string& dtype =
      work_.out.plan.buffers[static_cast<size_t>(find_buffer(work_.out.plan, source.name))].dtype;
  return family_name("norm", one ? Protocol::ll : Protocol::simple, 1, dtype);
}

// put: q[2] -> norm>0..r, norm>r+1..n;  tot: sum(norm<0..r, q[2], norm<r+1..n) -> q[3]
void Emitter::exchange(const Operand& source, const ir::Op& op, std::vector<Operand> targets) {
  const Id f = norm_family(op, source);
  const bool average = *op.attrs.reduce == ir::ReduceOp::avg;
  Step put =
      algo::copy(label("put"), source, {algo::send(f, algo::peers("0", "r")), algo::send(f, algo::peers("r+1", "n"))});
  Step total = algo::reduce(
      label("tot"), reduction(*op.attrs.reduce),
      {algo::receive(f, algo::peers("0", "r")), source, algo::receive(f, algo::peers("r+1", "n"))}, std::move(targets));
  if (average) {
    KernelMaker kernel(work_, work_.id(op.name));
    kernel.input(work_.id(op.name));
    kernel.average(work_.id(op.name), work_.group(op.name));
    total.kernel = kernel.finish({work_.id(op.name)});
  }
  add_once(put);
  add_once(total);
}

void Emitter::finish_bundle(const Bundle& bundle) {
  const int64_t folds = static_cast<int64_t>(bundle.reduces.size());
  const auto run = [&](int64_t first) {
    return folds == 1 ? algo::part(count(first)) : algo::parts(count(first), count(folds));
  };
  const ir::Op& first = *bundle.reduces[0];
  if (folds == 1) {
    exchange(algo::slice(bundle.buffer, run(bundle.local)), first, homes(first.name, {}));
    return made_here(first.name, "tot" + (labels_["tot"] == 1 ? "" : count(labels_["tot"])));
  }
  exchange(algo::slice(bundle.buffer, run(bundle.local)), first, {algo::slice(bundle.buffer, run(bundle.total))});
  for (int64_t f = 0; f < folds; ++f) {
    const ir::Op& op = *bundle.reduces[static_cast<size_t>(f)];
    const Id text = label("get");
    add_once(algo::copy(text, algo::slice(bundle.buffer, algo::part(count(bundle.total + f))), homes(op.name, {})));
    made_here(op.name, text);
  }
}

void Emitter::all_reduce(const ir::Op& op) {
  exchange(read(op.args[0], {}, -1), op, homes(op.name, {}));
  made_here(op.name, "tot" + (labels_["tot"] == 1 ? "" : count(labels_["tot"])));
}

void Emitter::small_reduce(const ir::Op& op) {
  if (*op.attrs.reduce == ir::ReduceOp::avg)
    unsupported(op, "the average of a small value at one rank", "all_reduce(avg, ..), or divide by ranks there");
  const Operand source = read(op.args[0], {}, -1);
  const Id f = norm_family(op, source);
  const Site root{Site::Kind::root, op.attrs.root};
  add_once(algo::when(algo::other(algo::number("r"), algo::number(root.root)),
                      {algo::copy(label("put"), source, {algo::send(f, algo::peer(root.root))})}));
  const Id text = label("tot");
  add_once(algo::when(at_root(root), {algo::reduce(text, reduction(*op.attrs.reduce),
                                                   {algo::receive(f, algo::peers("0", "r")), source,
                                                    algo::receive(f, algo::peers("r+1", "n"))},
                                                   homes(op.name, {}))}));
  made_here(op.name, text);
}

void Emitter::small_broadcast(const ir::Op& op) {
  const Operand source = read(op.args[0], {}, -1);
  const Id f = norm_family(op, source);
  const auto* from = std::get_if<ir::Root>(&work_.types.at(op.args[0]).layout);
  const Site root{Site::Kind::root, from ? from->rank : op.attrs.root};
  const std::vector<Operand> here = homes(op.name, {});
  const std::vector<Operand> sends = {algo::send(f, algo::peers("0", "r")), algo::send(f, algo::peers("r+1", "n"))};
  add_once(algo::when(at_root(root), {algo::copy(label("put"), source, algo::operator+(here, sends))}));
  const Id text = label("get");
  add_once(algo::when(algo::other(algo::number("r"), algo::number(root.root)),
                      {algo::copy(text, algo::receive(f, algo::peer(root.root)), here)}));
  made_here(op.name, text);
}

void Emitter::small_send(const ir::Op& op) {
  Body steps = send_steps(op, read(op.args[0], {}, -1), homes(op.name, {}));
  at_all_of(op.args[0]);
  for (const Item& item : steps) add_once(item);
  work_.value(op.name).by_channel_zero = true;
}

void Emitter::small_map(const ir::Op& op) {
  Step step;
  step.label = label("small");
  KernelMaker kernel(work_, work_.id(op.name));
  for (const ir::Name& arg : op.args) {
    kernel.input(work_.id(arg));
    step.others.push_back(read(arg, {}, -1));
    add_await(step.after, arg, false);
  }
  kernel.map(op);
  step.kernel = kernel.finish({work_.id(op.name)});
  step.targets = homes(op.name, {});
  add_once_at(site(work_, op), {step});
  made_here(op.name, step.label);
}

}  // namespace weft::lower
