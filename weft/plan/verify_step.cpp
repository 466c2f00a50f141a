// What one step does to symbolic cells: which it names, what it reads, computes and writes.
#include <algorithm>

#include "weft/plan/verify_run.h"

namespace weft::plan {

namespace {

bool in_loop(const Spot& spot, int space) {
  return spot.loop && std::find(spot.head->spaces.begin(), spot.head->spaces.end(), static_cast<uint16_t>(space)) !=
                          spot.head->spaces.end();
}

bool narrower(Dtype a, Dtype b) { return size_bytes(a) < size_bytes(b); }

}  // namespace

Spot SymbolicRun::spot(const Event& event) const {
  const AssembledLane& lane = at(subject_->assembly.lanes, event.lane);
  const Block& head = at(lane.blocks, event.block).head;
  return {head.loop, &head, lane.channel, event.slice, event.chunk, event.turn};
}

void SymbolicRun::cells(int space, const FlatOperand& operand, int rank, const Spot& spot, int launch,
                        std::vector<Coord>& out) {
  const SpaceShape& shape = spaces_[space];
  const bool looped = in_loop(spot, space);
  const int step = looped ? shape.slices / spot.head->slices : shape.slices;
  const int first = looped ? spot.slice * step : 0;
  for (int64_t i = 0; i < operand.part_count; ++i) {
    const int part = static_cast<int>(part_at(operand, i, shape.parts));
    const int chunks = this->chunks(rank, launch, space, part);
    if (looped) {
      for (int slice = first; slice < first + step && spot.chunk < chunks; ++slice)
        out.push_back({part, spot.channel, static_cast<int>(spot.chunk), slice});
      continue;
    }
    for (int share = 0; share < shape.shares; ++share)
      for (int chunk = 0; chunk < chunks; ++chunk)
        for (int slice = 0; slice < shape.slices; ++slice) out.push_back({part, share, chunk, slice});
  }
}

bool SymbolicRun::empty(const Event& event) {
  const FlatStep& flat = event.what->flat;
  if (flat.operands.empty()) return false;
  const AssembledLane& lane = at(subject_->assembly.lanes, event.lane);
  const int main = main_operand(subject_->instance, at(lane.blocks, event.block), flat);
  if (main < 0) return false;
  const FlatOperand& operand = at(flat.operands, main);
  const Spot here = spot(event);
  const int space = subject_->instance.buffer_space(operand.name);
  const SpaceShape& shape = spaces_[space];
  const int rank = operand.here ? lane.rank : operand.peer_first;
  for (int64_t i = 0; i < operand.part_count; ++i) {
    const int chunks = this->chunks(rank, event.launch, space, static_cast<int>(part_at(operand, i, shape.parts)));
    if (in_loop(here, space) ? here.chunk < chunks : chunks > 0) return false;
  }
  return true;
}

// The slices of the step, one entry per peer; `main`: the entry that gives the cells, or -1.
void SymbolicRun::name_cells(const Event& event, std::vector<Named>& named, int& main) {
  const AssembledLane& lane = at(subject_->assembly.lanes, event.lane);
  const AssembledBlock& block = at(lane.blocks, event.block);
  const FlatStep& flat = event.what->flat;
  const int main_index = main_operand(subject_->instance, block, flat);
  const Spot here = spot(event);
  main = -1;
  for (size_t i = 0; i < flat.operands.size(); ++i) {
    const FlatOperand& operand = flat.operands[i];
    if (operand.kind != Operand::Kind::slice) continue;
    if (main_index == static_cast<int>(i)) main = static_cast<int>(named.size());
    for (int p = 0; p < operand.peer_count; ++p) {
      Named entry;
      entry.operand = &operand;
      entry.rank = operand.here ? lane.rank : (operand.peer_first + p) % subject_->instance.ranks();
      entry.aligned = is_aligned(subject_->instance, block, flat, main_index, operand);
      cells(subject_->instance.buffer_space(operand.name), operand, entry.rank, here, event.launch, entry.cells);
      named.push_back(std::move(entry));
    }
  }
}

// V2: all aligned operands handle the same list of cells.
void SymbolicRun::check_sizes(const Event& event, const std::vector<Named>& named, int main) {
  const bool tile = is_tile(subject_->instance, event.what->flat);
  const Named& first = at(named, main);
  const int space = subject_->instance.buffer_space(first.operand->name);
  sizes_.clear();
  for (const Coord& coord : first.cells) sizes_.push_back(spaces_.size_key(space, coord));
  for (const Named& other : named) {
    const int its = subject_->instance.buffer_space(other.operand->name);
    if (!other.aligned) continue;
    bool same = other.cells.size() == first.cells.size();
    for (size_t i = 0; same && i < first.cells.size(); ++i)
      same = its != space && (tile || at(subject_->instance.plan().spaces, its).derived != Space::Derived::no)
                 ? pack(other.cells[i]) == pack(first.cells[i])
                 : spaces_.size_key(its, other.cells[i]) == sizes_[i];
    if (same) continue;
    const auto text = [&](const Named& x) {
      return x.cells.empty()
                 ? "no cell"
                 : fmt::format("{} cells from {}", x.cells.size(), cell_name(x.rank, x.operand->name, x.cells[0]));
    };
    report(event, "V2",
           fmt::format("{} and {} do not have the same sizes. Remedy: name the same parts, or parts of `equal` spaces",
                       text(first), text(other)),
           "", "sizes");
    throw Halt{};
  }
}

// V2: what is of a derived space and not aligned finds its elements from the step's, which must be of the space that it is
// derived of: an element of another has another position, and would meet another row.
void SymbolicRun::check_meetings(const Event& event, const std::vector<Named>& named, int main) {
  if (is_tile(subject_->instance, event.what->flat)) return;
  const auto& spaces = subject_->instance.plan().spaces;
  const Space& its = at(spaces, subject_->instance.buffer_space(at(named, main).operand->name));
  for (const Named& other : named) {
    const int space = subject_->instance.buffer_space(other.operand->name);
    const Space& derived = at(spaces, space);
    if (other.aligned || derived.derived == Space::Derived::no || its.derived != Space::Derived::no) continue;
    if (derived.of == its.name || its.like == derived.of || subject_->instance.fixed_count(space) == 1) continue;
    report(event, "V2",
           fmt::format(
               "{} lies in space {}, which does not meet the step's cells: it is derived of {}, and they are of {}. "
               "Remedy: put it into a space of them, or read it outside of the loop",
               at(subject_->instance.plan().buffers, other.operand->name).name, derived.name, derived.of, its.name),
           "", "meets" + std::to_string(space));
    throw Halt{};
  }
}

Term SymbolicRun::read(const Event& event, const Named& named, const Coord& coord) {
  const int buffer = named.operand->name;
  Cell& cell = memory_[memory_.index(named.rank, buffer, coord, event.turn)];
  const int race = memory_.access(cell, event.lane, clock(event.lane), false);
  if (race >= 0)
    report(event, "V9",
           fmt::format("reads what {} writes, and nothing orders the two. Remedy: await that step, or add `when c == "
                       "0` to what runs in every channel",
                       actor_name(race)),
           cell_name(named.rank, buffer, coord), "read" + std::to_string(buffer));
  const bool scratch = at(subject_->instance.plan().buffers, memory_.root(buffer)).role == Buffer::Role::scratch;
  if (cell.term == no_term || (scratch && cell.launch != event.launch)) {
    report(event, "V10",
           fmt::format("reads a cell that {}. Remedy: write it first, in this launch",
                       cell.term == no_term ? "was never written" : "holds what an earlier launch left"),
           cell_name(named.rank, buffer, coord), "read" + std::to_string(buffer));
    throw Halt{};
  }
  return cell.term;
}

SymbolicRun::Source SymbolicRun::load(const Event& event, const Named& named, bool tile) {
  Source source;
  source.dtype = subject_->instance.dtype(named.operand->name);
  for (const Coord& coord : named.cells) source.terms.push_back(read(event, named, coord));
  if (named.aligned) return source;
  const int space = subject_->instance.buffer_space(named.operand->name);
  const Space& text = at(subject_->instance.plan().spaces, space);
  if (!tile && text.derived == Space::Derived::no && subject_->instance.fixed_count(space) != 1) {
    report(event, "V2",
           fmt::format("{} lies in space {}, which does not meet the step's cells. Remedy: put the space into the "
                       "loop, or derive it (of ... by ...)",
                       at(subject_->instance.plan().buffers, named.operand->name).name, text.name),
           "", "meets" + std::to_string(space));
    throw Halt{};
  }
  source.terms = {subject_->terms.all(source.terms)};
  source.whole = true;
  return source;
}

std::vector<SymbolicRun::Source> SymbolicRun::sources(const Event& event, std::vector<Message>& messages,
                                                      const std::vector<Named>& named, int main) {
  const FlatStep& flat = event.what->flat;
  const bool tile = is_tile(subject_->instance, flat);
  std::vector<Source> list;
  size_t next_named = 0, next_message = 0;
  for (size_t i = 0; i < size_t{flat.reduced} + flat.others; ++i) {
    const FlatOperand& operand = flat.operands[i];
    if (operand.kind == Operand::Kind::constant) {
      const Dtype dtype = main < 0 ? Dtype::f64 : subject_->instance.dtype(at(named, main).operand->name);
      list.push_back({{subject_->terms.constant(operand.value)}, true, false, dtype});
      continue;
    }
    for (int p = 0; p < operand.peer_count; ++p) {
      if (operand.kind == Operand::Kind::slice) {
        list.push_back(load(event, named[next_named++], tile));
        continue;
      }
      Message& message = messages[next_message++];
      if (message.sizes != sizes_) {
        report(event, "V7",
               fmt::format("the message from {} has {} cells of other sizes than the {} handled here. Remedy: send and "
                           "receive the same parts",
                           subject_->assembly.describe(message.lane, message.block, message.step), message.sizes.size(),
                           sizes_.size()),
               "", "sizes");
        throw Halt{};
      }
      list.push_back({std::move(message.terms), false, true, message.dtype});
    }
  }
  return list;
}

// One list of outputs per cell. `nominal`: the dtype of what links without a wire type carry.
void SymbolicRun::values(const Event& event, const std::vector<Source>& sources, const std::vector<Named>& named,
                         int main, std::vector<std::vector<TermOutput>>& out, Dtype& nominal) {
  const FlatStep& flat = event.what->flat;
  const Step& text = *at(subject_->text, at(subject_->assembly.lanes, event.lane).lane)[flat.source_step];
  size_t reduced = 0;
  std::vector<Dtype> arrived, dtypes;
  for (size_t i = 0; i < flat.reduced; ++i)
    reduced += flat.operands[i].kind == Operand::Kind::constant ? 1 : static_cast<size_t>(flat.operands[i].peer_count);
  for (size_t i = 0; i < reduced; ++i)
    if (sources[i].message) arrived.push_back(sources[i].dtype);
  const Dtype folded = reduced ? reduced_dtype(subject_->instance, flat, arrived) : Dtype::f32;
  const Dtype accumulator = reduced ? accumulator_of_step(subject_->instance, flat, arrived) : Dtype::f32;
  nominal = reduced ? folded : sources[0].dtype;
  if (reduced) dtypes.push_back(folded);
  for (size_t i = reduced; i < sources.size(); ++i) dtypes.push_back(sources[i].dtype);
  const bool kernel = flat.kernel != FlatStep::no_kernel;
  const int space = main < 0 ? 0 : subject_->instance.buffer_space(at(named, main).operand->name);
  const bool all_whole = std::all_of(sources.begin(), sources.end(), [](const Source& s) { return s.whole; });
  const bool tile = is_tile(subject_->instance, flat);
  std::vector<Term> terms, inputs;
  for (size_t cell = 0; cell < sizes_.size(); ++cell) {
    const auto term = [&](const Source& source) { return source.terms[source.whole ? 0 : cell]; };
    terms.clear();
    inputs.clear();
    for (size_t i = 0; i < reduced; ++i) terms.push_back(term(sources[i]));
    if (reduced) inputs.push_back(subject_->terms.fold(flat.reduction, accumulator, terms, folded));
    if (reduced && kernel) inputs[0] = subject_->terms.cast(folded, inputs[0]);
    for (size_t i = reduced; i < sources.size(); ++i) inputs.push_back(term(sources[i]));
    if (!kernel) {
      out.push_back({{inputs[0], false, flat.reduction}});
      continue;
    }
    const Term position =
        tile && !all_whole ? no_term : subject_->terms.position(spaces_[space].twin, at(named, main).cells[cell]);
    try {
      out.push_back(subject_->kernels.apply(flat.kernel, text.kernel.scalars, dtypes, inputs, position));
    } catch (const Error& error) {
      report(event, "V1", error.message() + (error.remedy().empty() ? "" : ". Remedy: " + error.remedy()), "",
             "kernel");
      throw Halt{};
    }
  }
}

void SymbolicRun::compute(const Event& event, std::vector<Message>& messages, int snapshot) {
  std::vector<Named> named;
  int main = -1;
  name_cells(event, named, main);
  if (main < 0) {
    if (event.what->receives.empty() && event.what->sends.empty())
      report(event, "V2", "no operand says which cells this step handles. Remedy: name a slice of the loop's space", "",
             "no cells");
    else
      report(event, "V2", "a step with links and no slice has no extent. Remedy: receive into a slice, or send one", "",
             "no cells");
    throw Halt{};
  }
  check_sizes(event, named, main);
  check_meetings(event, named, main);
  std::vector<std::vector<TermOutput>> results;
  Dtype nominal = Dtype::f32;
  values(event, sources(event, messages, named, main), named, main, results, nominal);
  store(event, named, results, nominal, snapshot);
}

// ---- targets. A value that goes to several of them is first rounded to the narrowest type on a wire.
void SymbolicRun::store(const Event& event, const std::vector<Named>& named,
                        const std::vector<std::vector<TermOutput>>& values, Dtype nominal, int snapshot) {
  const FlatStep& flat = event.what->flat;
  const size_t sources = size_t{flat.reduced} + flat.others;
  size_t next_named = 0, next_send = 0;
  for (size_t i = 0; i < sources; ++i)
    if (flat.operands[i].kind == Operand::Kind::slice) next_named += static_cast<size_t>(flat.operands[i].peer_count);
  std::vector<std::optional<Dtype>> narrow(std::max<size_t>(values.empty() ? 1 : values[0].size(), 1));
  const bool copied = flat.kernel == FlatStep::no_kernel;
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[sources + t];
    if (target.kind != Operand::Kind::send || target.peer_count == 0) continue;
    std::optional<Dtype> wire = subject_->instance.wire(target.name);
    if (!wire && copied) wire = nominal;
    std::optional<Dtype>& narrowest = at(narrow, output_of_target(subject_->instance, flat, t));
    if (wire && (!narrowest || narrower(*wire, *narrowest))) narrowest = wire;
  }
  for (size_t t = 0; t < flat.targets; ++t) {
    const FlatOperand& target = flat.operands[sources + t];
    const int output = output_of_target(subject_->instance, flat, t);
    if (target.kind == Operand::Kind::send) {
      send(event, target, next_send, values, output, at(narrow, output), nominal, snapshot);
      continue;
    }
    for (int p = 0; p < target.peer_count; ++p) {
      const Named& entry = named[next_named++];
      if (target.accumulate)
        accumulate(event, entry, values, output);
      else
        write(event, entry, values, output, at(narrow, output));
    }
  }
}

void SymbolicRun::write(const Event& event, const Named& named, const std::vector<std::vector<TermOutput>>& values,
                        int output, const std::optional<Dtype>& narrow) {
  const int buffer = named.operand->name;
  if (!named.aligned && !values.empty()) {
    report(event, "V2",
           fmt::format("{} is written cell by cell, but its space is not the step's. Remedy: +{}[..] to fold into "
                       "coarser cells, or another space",
                       at(subject_->instance.plan().buffers, buffer).name,
                       at(subject_->instance.plan().buffers, buffer).name),
           "", "target");
    throw Halt{};
  }
  for (size_t i = 0; i < named.cells.size(); ++i) {
    const TermOutput& value = at(values[i], output);
    if (value.folds) {
      report(event, "V1",
             fmt::format("the kernel folds output {}, which needs a coarser target. Remedy: +{}[..]", output,
                         at(subject_->instance.plan().buffers, buffer).name),
             "", "fold");
      throw Halt{};
    }
    Cell& cell = memory_[memory_.index(named.rank, buffer, named.cells[i], event.turn)];
    const int race = memory_.access(cell, event.lane, clock(event.lane), true);
    if (race >= 0)
      report(event, "V9",
             fmt::format("writes what {} uses, and nothing orders the two. Remedy: await that step, or add `when c == "
                         "0` to what runs in every channel",
                         actor_name(race)),
             cell_name(named.rank, buffer, named.cells[i]), "write" + std::to_string(buffer));
    Term term = value.term;
    if (narrow && (!subject_->terms.has_dtype(term) || narrower(*narrow, subject_->terms.dtype(term))))
      term = subject_->terms.cast(*narrow, term);
    cell.term = subject_->terms.cast(subject_->instance.dtype(buffer), term);
    cell.launch = event.launch;
  }
}

void SymbolicRun::accumulate(const Event& event, const Named& named, const std::vector<std::vector<TermOutput>>& values,
                             int output) {
  const int buffer = named.operand->name;
  for (size_t i = 0; i < named.cells.size(); ++i) {
    const Coord& coord = named.cells[i];
    Cell& cell = memory_[memory_.index(named.rank, buffer, coord, event.turn)];
    if (cell.term == no_term || cell.launch != event.launch) {
      report(
          event, "V10",
          "accumulates into a cell that has no value in this launch. Remedy: write an initial value (0 -> ...) first",
          cell_name(named.rank, buffer, coord), "accumulate");
      throw Halt{};
    }
    const int race = memory_.access(cell, event.lane, clock(event.lane), true);
    if (race >= 0)
      report(event, "V9",
             fmt::format("accumulates into what {} uses, and nothing orders the two. Remedy: one cell per channel, "
                         "added up afterwards",
                         actor_name(race)),
             cell_name(named.rank, buffer, coord), "accumulate" + std::to_string(buffer));
    if (values.empty()) continue;
    std::vector<Term> contributions{cell.term};
    for (size_t k = 0; k < values.size(); ++k)  // a coarser space in the loop: cell by cell; else everything
      if (!named.aligned || k == i) contributions.push_back(at(values[k], output).term);
    cell.term = subject_->terms.bag(at(values[0], output).reduction, std::move(contributions),
                                    subject_->instance.dtype(buffer));
  }
}

void SymbolicRun::send(const Event& event, const FlatOperand& operand, size_t& next,
                       const std::vector<std::vector<TermOutput>>& values, int output,
                       const std::optional<Dtype>& narrow, Dtype nominal, int snapshot) {
  Message message;
  message.lane = event.lane;
  message.block = event.block;
  message.step = event.step;
  message.launch = event.launch;
  message.chunk = event.chunk;
  message.clock = snapshot;
  message.sizes = sizes_;
  Terms& terms = subject_->terms;
  const std::optional<Dtype> wire = subject_->instance.wire(operand.name);
  const bool copied = event.what->flat.kernel == FlatStep::no_kernel;
  message.dtype = wire.value_or(nominal);
  for (const auto& outputs : values) {
    Term term = at(outputs, output).term;
    if (!wire && !copied && terms.has_dtype(term)) message.dtype = terms.dtype(term);
    if (narrow && terms.has_dtype(term) && narrower(*narrow, terms.dtype(term))) term = terms.cast(*narrow, term);
    message.terms.push_back(terms.has_dtype(term) ? terms.cast(message.dtype, term) : term);
  }
  for (int p = 0; p < operand.peer_count; ++p) at(links_, event.what->sends[next++]).queue.push_back(message);
}

}  // namespace weft::plan
