// The order of events in a symbolic run: clocks, messages, users. Values are in verify_step.cpp.
#include "weft/plan/verify_run.h"

#include <algorithm>

#include "weft/plan/verify_post.h"

namespace weft::plan {

namespace {

// Draws from {0, 1, 3}; seed 0 always 1, so that one run has every step work.
int draw(uint64_t what, uint64_t seed) {
  if (seed == 0) return 1;
  uint64_t x = (what + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
  constexpr int counts[] = {0, 1, 3};
  return counts[(x ^ (x >> 29)) % 3];
}

}  // namespace

void Findings::add(Finding finding, const std::string& kind) {
  std::string step = finding.step;  // instances of one step of the text are one fault
  step = step.substr(0, step.find('('));
  if (full() || !known_.insert(finding.rule + "|" + finding.lane + "|" + step + "|" + kind).second) return;
  list_.push_back(std::move(finding));
}

int ClockPool::take(const uint32_t* clock, int holders) {
  if (holders == 0) return -1;
  int id = static_cast<int>(holders_.size());
  if (free_.empty()) {
    holders_.push_back(0);
    data_.resize(data_.size() + width_);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  at(holders_, id) = holders;
  std::copy(clock, clock + width_, data_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(id) * width_));
  return id;
}

void ClockPool::release(int id) {
  if (id >= 0 && --at(holders_, id) == 0) free_.push_back(id);
}

SymbolicRun::SymbolicRun(const Subject& subject, const Variant& variant, Findings& findings)
    : subject_(&subject),
      variant_(variant),
      findings_(&findings),
      spaces_(subject.instance, subject.assembly, variant),
      memory_(subject.instance, spaces_, variant.alias),
      actors_(subject.assembly.lanes.size() + static_cast<size_t>(subject.instance.ranks())),
      clocks_(actors_ * actors_),
      pool_(actors_),
      links_(subject.assembly.links.size()) {
  const auto ranks = static_cast<size_t>(subject.instance.ranks());
  begun_.assign(ranks, std::vector<std::vector<Term>>(verified_launches));
  ended_ = begun_;
  for (size_t i = 0; i < links_.size(); ++i)
    links_[i].credit.assign(
        static_cast<size_t>(at(subject.instance.plan().families, subject.assembly.links[i].family).slots), -1);
  for (const AssembledLane& lane : subject.assembly.lanes)
    for (const AssembledBlock& block : lane.blocks)
      for (const AssembledStep& step : block.steps)
        for (const Awaited& awaited : step.after) {
          done_[{awaited.lane, awaited.block, awaited.step}];
          done_[{awaited.lane, awaited.block, -1}];
        }
  size_t total = 0;
  for (size_t b = 0; b < subject.instance.plan().buffers.size(); ++b) {
    snapshot_base_.push_back(total);
    total += memory_.buffer_cells(static_cast<int>(b));
  }
  snapshot_base_.push_back(total);
}

bool SymbolicRun::run() {
  MachineOptions options;
  options.launches = verified_launches;
  Machine machine(subject_->assembly, *this, options);
  bool whole = false;
  try {
    whole = machine.run();
    if (!whole) {
      const std::vector<Wait> waits = machine.waits();
      Finding finding;
      if (!waits.empty()) finding = subject_->at(waits[0].lane, waits[0].block, waits[0].step, "V8", "");
      finding.rule = "V8";
      finding.message = "the run does not end; " + machine.deadlock() +
                        ". Remedy: more slots than slices, another order of steps, or a lane of its own";
      findings_->add(finding, "deadlock");
    }
  } catch (const Halt&) {}
  steps_ = machine.steps();
  for (size_t i = 0; whole && i < links_.size(); ++i)
    if (!links_[i].queue.empty()) {
      const Message& left = links_[i].queue.front();
      findings_->add(
          subject_->at(
              left.lane, left.block, left.step, "V7",
              fmt::format("{} messages to rank {} are never received. Remedy: receive them, or do not send them",
                          links_[i].queue.size(), subject_->assembly.links[i].to)),
          "unread");
      whole = false;
    }
  return whole;
}

std::string SymbolicRun::actor_name(int actor) const {
  const auto& lanes = subject_->assembly.lanes;
  if (actor >= static_cast<int>(lanes.size()))
    return fmt::format("the user of rank {}", actor - static_cast<int>(lanes.size()));
  const AssembledLane& lane = at(lanes, actor);
  return fmt::format("rank {} lane {} channel {}", lane.rank, at(subject_->instance.plan().lanes, lane.lane).name,
                     lane.channel);
}

void SymbolicRun::report(const Event& event, std::string rule, std::string message, std::string cell,
                         const std::string& kind) {
  Finding finding = subject_->at(event.lane, event.block, event.step, std::move(rule), std::move(message));
  finding.cell = std::move(cell);
  findings_->add(std::move(finding), kind);
  if (findings_->full()) throw Halt{};
}

void SymbolicRun::merge(int actor, const uint32_t* other) {
  uint32_t* mine = clock(actor);
  for (size_t i = 0; i < actors_; ++i) mine[i] = std::max(mine[i], other[i]);
}

// ---- steps
void SymbolicRun::perform(const Event& event) {
  for (const Cause& cause : event.causes) {
    const auto& history = done_.at({cause.lane, cause.block, cause.step});
    merge(event.lane, pool_[history[static_cast<size_t>(cause.index)]]);
  }
  std::vector<Message> messages;
  if (!event.empty) receive(event, messages);
  ++clock(event.lane)[event.lane];
  if (!event.empty && !event.what->flat.operands.empty()) {
    const int holders = static_cast<int>(event.what->receives.size() + event.what->sends.size());
    const int snapshot = pool_.take(clock(event.lane), holders);
    give_back(event, snapshot);
    compute(event, messages, snapshot);
  }
  if (event.last_slice) complete(event);
}

void SymbolicRun::receive(const Event& event, std::vector<Message>& messages) {
  for (int link : event.what->receives) {
    messages.push_back(std::move(at(links_, link).queue.front()));
    at(links_, link).queue.pop_front();
    ++at(links_, link).received;
    merge(event.lane, pool_[messages.back().clock]);
    pool_.release(messages.back().clock);
    check_message(event, messages.back());
  }
  for (int link : event.what->sends) {  // the slot was given back by whoever took the message `slots` before
    LinkState& state = at(links_, link);
    const int credit = state.credit[static_cast<size_t>(state.sent++) % state.credit.size()];
    if (credit >= 0) merge(event.lane, pool_[credit]);
  }
}

void SymbolicRun::check_message(const Event& event, const Message& message) {
  const auto& lanes = subject_->assembly.lanes;
  const Block& here = at(at(lanes, event.lane).blocks, event.block).head;
  const Block& there = at(at(lanes, message.lane).blocks, message.block).head;
  const std::string from = subject_->assembly.describe(message.lane, message.block, message.step);
  joined_.insert({{event.lane, event.block}, {message.lane, message.block}});
  bool shared = here.loop == there.loop && !here.loop;
  for (uint16_t space : here.spaces)
    shared |= std::find(there.spaces.begin(), there.spaces.end(), space) != there.spaces.end();
  if (!shared || message.chunk != event.chunk || message.launch != event.launch) {
    report(event, "V7",
           fmt::format("iteration {} of launch {} receives what {} sent in iteration {} of launch {}{}. Remedy: send "
                       "and receive in the same "
                       "iteration of loops over the same space",
                       event.chunk, event.launch, from, message.chunk, message.launch,
                       shared ? "" : " of a loop over another space"),
           "", "iteration");
    throw Halt{};
  }
}

void SymbolicRun::give_back(const Event& event, int snapshot) {
  for (int link : event.what->receives) {
    LinkState& state = at(links_, link);
    int& credit = state.credit[static_cast<size_t>(state.received - 1) % state.credit.size()];
    pool_.release(credit);
    credit = snapshot;
  }
}

void SymbolicRun::complete(const Event& event) {
  ++clock(event.lane)[event.lane];
  const auto history = done_.find({event.lane, event.block, event.step});
  if (history != done_.end()) history->second.push_back(pool_.take(clock(event.lane), 1));
}

void SymbolicRun::left(int lane, int block, int) {
  const auto history = done_.find({lane, block, -1});
  if (history != done_.end()) history->second.push_back(pool_.take(clock(lane), 1));
}

// ---- loops
int SymbolicRun::chunks(int rank, int launch, int space, int part) {
  const SpaceShape& shape = spaces_[space];
  if (shape.kind != Space::Kind::given) return spaces_.chunks(space, part);
  if (!shape.cut) return 1;
  const int base = at(subject_->given_base, space);
  if (base >= 0)
    return draw(static_cast<uint64_t>(at(subject_->given_class, base + rank * shape.parts + part)), variant_.seed);
  read_counts(-1, launch, space, rank);
  return at(count_values_, counts_.at({rank, launch, space}) + part);
}

// The counts of a `given by` space are what its buffer holds: a number drawn from each cell's term, so that two spaces
// whose counts are copies of one another have equal counts. `lane`: which reads them as its loop begins, or -1.
void SymbolicRun::read_counts(int lane, int launch, int space, int rank) {
  const Plan& plan = subject_->instance.plan();
  const int buffer = find_buffer(plan, at(plan.spaces, space).by_buffer);
  const bool known = counts_.contains({rank, launch, space});
  if (known && lane < 0) return;
  const int base = static_cast<int>(count_values_.size());
  for (int part = 0; part < spaces_[space].parts; ++part) {
    Cell& cell = memory_[memory_.index(rank, buffer, {part, 0, 0, 0}, 0)];
    if (!known)
      count_values_.push_back(cell.term == no_term ? 0 : draw(subject_->terms.fingerprint(cell.term), variant_.seed));
    if (lane < 0) continue;
    const int race = memory_.access(cell, lane, clock(lane), false);
    const bool stale =
        cell.term == no_term || (at(plan.buffers, buffer).role == Buffer::Role::scratch && cell.launch != launch);
    if (race < 0 && !stale) continue;
    Finding finding;
    finding.rule = race >= 0 ? "V9" : "V10";
    finding.rank = rank;
    finding.lane = at(plan.lanes, at(subject_->assembly.lanes, lane).lane).name;
    finding.channel = at(subject_->assembly.lanes, lane).channel;
    finding.cell = cell_name(rank, buffer, {part, 0, 0, 0});
    finding.message = fmt::format("the loop over {} begins before {} is written. Remedy: await the step that writes it",
                                  at(plan.spaces, space).name, at(plan.buffers, buffer).name);
    findings_->add(finding, "counts");
    throw Halt{};
  }
  if (!known) counts_[{rank, launch, space}] = base;
}

int64_t SymbolicRun::iterations(int lane, int block, int launch) {
  const AssembledLane& where = at(subject_->assembly.lanes, lane);
  int most = 0;
  for (uint16_t space : at(where.blocks, block).head.spaces) {
    const bool by_buffer = spaces_[space].kind == Space::Kind::given && at(subject_->given_base, space) < 0;
    if (by_buffer) read_counts(lane, launch, space, where.rank);
    for (int part = 0; part < spaces_[space].parts; ++part)
      most = std::max(most, chunks(where.rank, launch, space, part));
  }
  return most;
}

// ---- users: they write inputs before a launch; after it they read results and may overwrite inputs
template <typename F>
void SymbolicRun::each_cell(int rank, int launch, int buffer, F&& f) {
  const int space = subject_->instance.buffer_space(buffer);
  const SpaceShape& shape = spaces_[space];
  const int64_t own = subject_->instance.own_part(buffer, rank);
  for (int part = 0; part < shape.parts; ++part) {
    if (own != -1 && own != part) continue;
    for (int share = 0; share < shape.shares; ++share)
      for (int chunk = 0; chunk < chunks(rank, launch, space, part); ++chunk)
        for (int slice = 0; slice < shape.slices; ++slice) f(Coord{part, share, chunk, slice});
  }
}

// Whose content a rank's input stands for: -1 where all ranks have the same, else the first that has.
int SymbolicRun::holder(int buffer, int rank) const {
  const Buffer& text = at(subject_->instance.plan().buffers, buffer);
  if (!text.repl) return rank;
  if (!text.repl_of) return -1;
  PostNumbers numbers(subject_->instance);
  numbers.begin(rank);
  const int64_t mine = numbers(text.repl_of);
  for (int other = 0; other < rank; ++other) {
    numbers.begin(other);
    if (numbers(text.repl_of) == mine) return other;
  }
  return rank;
}

void SymbolicRun::touch_user(int rank, int launch, int buffer, const Coord& coord, bool end) {
  const Buffer& text = at(subject_->instance.plan().buffers, buffer);
  using Role = Buffer::Role;
  Cell& cell = memory_[memory_.index(rank, buffer, coord, 0)];
  const bool reads =
      end && (text.role == Role::out || text.role == Role::inout || text.role == Role::state) && cell.term != no_term;
  const bool fresh =
      !end && (text.role == Role::in || text.role == Role::inout || (text.role == Role::state && launch == 0));
  if (!end && text.role == Role::out && memory_.root(buffer) == buffer) cell.term = no_term;
  if (!reads && !fresh && !(end && text.role == Role::in)) return;
  const int race = memory_.access(cell, user(rank), clock(user(rank)), !reads);
  if (fresh) {
    cell.term = subject_->terms.input(buffer, holder(buffer, rank), coord, launch);
    cell.launch = launch;
  }
  if (race < 0) return;
  Finding finding;
  finding.rule = "V9";
  finding.rank = rank;
  finding.cell = cell_name(rank, buffer, coord);
  finding.message = fmt::format(
      "the user of rank {} {} while {} still {} it. Remedy: let the launch end after an await on the steps of the "
      "peers that use the buffer",
      rank, reads ? "reads a result" : "writes an input", actor_name(race), reads ? "writes" : "reads");
  if (race < static_cast<int>(subject_->assembly.lanes.size()))
    finding.lane = at(subject_->instance.plan().lanes, at(subject_->assembly.lanes, race).lane).name;
  findings_->add(finding, "user" + text.name);
  if (findings_->full()) throw Halt{};
}

void SymbolicRun::user_access(int rank, int launch, bool end) {
  ++clock(user(rank))[user(rank)];
  const auto& buffers = subject_->instance.plan().buffers;
  for (int pass = 0; pass < 2; ++pass)  // plain buffers first: `given by` spaces read their counts
    for (size_t b = 0; b < buffers.size(); ++b) {
      const bool counted = spaces_[subject_->instance.buffer_space(static_cast<int>(b))].kind == Space::Kind::given;
      if (buffers[b].role == Buffer::Role::scratch || counted != (pass == 1)) continue;
      if (!end && pass == 1 && buffers[b].role == Buffer::Role::out) {  // counts may not be known yet: forget all
        for (size_t i = 0;
             memory_.root(static_cast<int>(b)) == static_cast<int>(b) && i < memory_.buffer_cells(static_cast<int>(b));
             ++i)
          memory_[memory_.buffer_base(rank, static_cast<int>(b)) + i].term = no_term;
        continue;
      }
      each_cell(rank, launch, static_cast<int>(b),
                [&](const Coord& coord) { touch_user(rank, launch, static_cast<int>(b), coord, end); });
    }
}

std::vector<Term> SymbolicRun::snapshot(int rank) {
  std::vector<Term> cells(snapshot_base_.back());
  for (size_t b = 0; b + 1 < snapshot_base_.size(); ++b)
    for (size_t i = 0; i < memory_.buffer_cells(static_cast<int>(b)); ++i)
      cells[snapshot_base_[b] + i] = memory_[memory_.buffer_base(rank, static_cast<int>(b)) + i].term;
  return cells;
}

void SymbolicRun::begin_launch(int rank, int launch) {
  user_access(rank, launch, false);
  for (size_t i = 0; i < subject_->assembly.lanes.size(); ++i)
    if (subject_->assembly.lanes[i].rank == rank) merge(static_cast<int>(i), clock(user(rank)));
  at(at(begun_, rank), launch) = snapshot(rank);
}

void SymbolicRun::end_launch(int rank, int launch) {
  for (size_t i = 0; i < subject_->assembly.lanes.size(); ++i)
    if (subject_->assembly.lanes[i].rank == rank) merge(user(rank), clock(static_cast<int>(i)));
  at(at(ended_, rank), launch) = snapshot(rank);
  user_access(rank, launch, true);
}

Term SymbolicRun::before(int rank, int launch, int buffer, const Coord& coord) const {
  const auto& cells = at(at(begun_, rank), launch);
  if (cells.empty()) return no_term;
  return cells[at(snapshot_base_, buffer) + memory_.index(rank, buffer, coord, 0) - memory_.buffer_base(rank, buffer)];
}

Term SymbolicRun::after(int rank, int launch, int buffer, const Coord& coord) const {
  const auto& cells = at(at(ended_, rank), launch);
  if (cells.empty()) return no_term;
  return cells[at(snapshot_base_, buffer) + memory_.index(rank, buffer, coord, 0) - memory_.buffer_base(rank, buffer)];
}

std::string SymbolicRun::cell_name(int rank, int buffer, const Coord& c) const {
  std::string text = fmt::format("{}@{}[{}]", at(subject_->instance.plan().buffers, buffer).name, rank, c.part);
  const SpaceShape& shape = spaces_[subject_->instance.buffer_space(buffer)];
  if (shape.cut) text += fmt::format(" channel {} chunk {} slice {}", c.share, c.chunk, c.slice);
  return text;
}

}  // namespace weft::plan
