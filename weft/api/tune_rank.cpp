// One rank of a tuning job. It lays one trial after the other over the same block, so that a search needs the memory of
// its hungriest schedule and no more.
//
// Between two trials whose states lie alike nothing is refilled: states go on, as in training. Comparisons of bits go by
// digests that do not depend on the order of elements, since trials hold different slices of the same values.
#include "weft/api/tune_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "weft/api/pattern.h"
#include "weft/api/reference.h"
#include "weft/api/scalars.h"
#include "weft/base/file.h"
#include "weft/codegen/library.h"
#include "weft/ir/evaluate_op.h"

namespace weft::api {

struct TuneRank::Loaded {
  int id = -1;
  const tune::Trial* trial = nullptr;
  Layout layout;
  plan::LaunchArgs args;
  std::shared_ptr<runtime::Loaded> plan;
  std::unique_ptr<runtime::Bound> bound;
};

int64_t block_bytes(const TuneJob& job) {
  int64_t most = 4096;
  for (const tune::Trial& trial : job.trials)
    most = std::max(most, lay_out(trial.lowered, job.sizes, 0, true).total_bytes);
  return most;
}

tune::Trial lowered_trial(const TuneJob& job, int id, const schedule::Schedule& schedule) {
  tune::Trial trial;
  trial.id = id;
  trial.schedule = schedule;
  trial.program = schedule::replay(job.program, schedule);
  lower::LowerOptions options;
  options.ranks = job.sizes.ranks;
  options.mapped = job.mapped;
  trial.lowered = lower::lower(trial.program, schedule.launches, options);
  return trial;
}

std::vector<ir::Name> results(const ir::Program& program) {
  std::vector<ir::Name> names;
  for (const ir::Out& out : program.outs) names.push_back(out.value);
  for (const ir::Update& update : program.updates) names.push_back(update.state);
  return names;
}

TuneRank::TuneRank(transport::Transport& transport, const TuneJob& job)
    : transport_(transport),
      job_(job),
      kernels_(codegen::generated_library()),
      communicator_(std::make_unique<runtime::Communicator>(transport, *kernels_)) {
  block_ = communicator_->allocate(job.block_bytes, "the tuner's block");
  words_ = communicator_->allocate(4096, "the tuner's meeting point");
}

TuneRank::~TuneRank() = default;

std::string TuneRank::command(std::string_view text) {
  const std::vector<std::string> word = words(text);
  WEFT_CHECK(word.size() >= 2, "command '{}'", text);
  const int id = std::stoi(word[1]);
  if (word[0] == "trial") return join(id, text.substr(text.find('\n') + 1));
  if (word[0] == "time") return time(id, std::stoi(word.at(2)));
  if (word[0] == "bits") {
    if (word.size() > 2) digests_.clear();
    return compare_bits(id, word.size() > 2 ? std::stoi(word[2]) : job_.compare_with);
  }
  if (word[0] == "reference") return compare_reference(id);
  internal_failure(__FILE__, __LINE__, "command", std::string(text));
}

std::string TuneRank::join(int id, std::string_view schedule) {
  joined_.insert_or_assign(id, lowered_trial(job_, id, schedule::parse_schedule(schedule)));
  return "done";
}

const tune::Trial& TuneRank::trial(int id) const {
  const auto found = joined_.find(id);
  return found == joined_.end() ? job_.trials.at(static_cast<size_t>(id)) : found->second;
}

// The same memory holds the same elements of every state.
bool TuneRank::states_lie_as_in(const Loaded& other) const {
  const auto states = [&](const Loaded& loaded) {
    std::vector<std::pair<ir::Name, std::vector<int64_t>>> out;
    const lower::Lowered& lowered = loaded.trial->lowered;
    for (size_t i = 0; i < lowered.buffers.size(); i++) {
      if (!lowered.buffers[i].state) continue;
      out.push_back({lowered.buffers[i].state_name, {}});
      for (const Piece& piece :
           pieces(lowered, job_.sizes, transport_.rank(), static_cast<int>(i), loaded.args.buffers[i]))
        for (const int64_t part : {reinterpret_cast<int64_t>(piece.at), piece.position, piece.count})
          out.back().second.push_back(part);
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  return states(*loaded_) == states(other);
}

void TuneRank::load(int id) {
  if (loaded_ && loaded_->id == id) return;
  auto next = std::make_unique<Loaded>();
  next->id = id;
  next->trial = &trial(id);
  const lower::Lowered& lowered = next->trial->lowered;
  runtime::LoadOptions options;
  options.identity = lowered.identity;
  options.stream = lowered.stream;
  if (std::any_of(lowered.chunk_elements.begin(), lowered.chunk_elements.end(), [](int64_t c) { return c > 0; }))
    options.chunk_elements = lowered.chunk_elements;
  next->layout = lay_out(lowered, job_.sizes, transport_.rank(), true);
  next->args = launch_args(lowered, job_.sizes, transport_.rank(), next->layout, static_cast<std::byte*>(block_.data));
  filled_ = filled_ && loaded_ && states_lie_as_in(*next);
  loaded_.reset();  // frees what the last trial's plan owned first
  next->plan = communicator_->load(lowered.plan, options);
  next->args.scalars =
      launch_scalars(lowered, job_.sizes, default_scalars(job_.program, job_.scalars, 1), transport_.rank());
  next->bound = std::make_unique<runtime::Bound>(*communicator_, next->plan, next->args);
  loaded_ = std::move(next);
}

void TuneRank::fill_counts(const ir::RaggedDecl& counted, size_t buffer) {
  const Dtype dtype = *parse_dtype(loaded_->trial->lowered.plan.buffers[buffer].dtype);
  auto* at = static_cast<std::byte*>(std::get<plan::Dense>(loaded_->args.buffers[buffer]).data);
  for (const int64_t count : ir::ragged_parts(job_.sizes, counted.name, transport_.rank()))
    store_i64(dtype, std::exchange(at, at + size_bytes(dtype)), count);
}

void TuneRank::fill_buffers(bool inputs, bool states) {
  const lower::Lowered& lowered = loaded_->trial->lowered;
  for (size_t i = 0; i < lowered.buffers.size(); i++) {
    const lower::BufferRecipe& recipe = lowered.buffers[i];
    if (!(recipe.state ? states : recipe.input && inputs)) continue;
    const ir::Name& name = recipe.state ? recipe.state_name : recipe.value;
    if (const ir::RaggedDecl* counted = counts_of(job_.program, name)) {
      fill_counts(*counted, i);
      continue;
    }
    const Pattern pattern = pattern_of(job_.program, name, transport_.rank(), launches_);
    const Dtype dtype = *parse_dtype(lowered.plan.buffers[i].dtype);
    for (const Piece& piece :
         pieces(lowered, job_.sizes, transport_.rank(), static_cast<int>(i), loaded_->args.buffers[i]))
      fill(pattern, dtype, piece);
  }
}

void TuneRank::fresh() {
  launches_ = 0;
  fill_buffers(false, true);
  filled_ = true;
}

void TuneRank::rewrite_inputs() { fill_buffers(true, false); }

void TuneRank::launch_once() {
  launches_++;
  rewrite_inputs();
  meet();
  loaded_->bound->launch(launch_scalars(loaded_->trial->lowered, job_.sizes,
                                        default_scalars(job_.program, job_.scalars, launches_), transport_.rank()));
}

// A word for each rank, where all are mapped: ranks leave it closer together than a barrier.
void TuneRank::meet() {
  const std::vector<std::byte*>& at = words_.window->at;
  if (std::find(at.begin(), at.end(), nullptr) != at.end()) return transport_.barrier("a timed launch");
  const auto word = [&](int rank) {
    return reinterpret_cast<std::atomic<uint64_t>*>(at[static_cast<size_t>(rank)] + words_.offset);
  };
  word(transport_.rank())->store(++meetings_, std::memory_order_release);
  const int64_t deadline = now_ns() + transport_.timeout_ns();
  for (int rank = 0; rank < transport_.size(); rank++)
    for (uint32_t spins = 0; word(rank)->load(std::memory_order_acquire) < meetings_; spins++) {
      if (spins % 64 == 63) std::this_thread::yield();
      if (spins % 4096 != 4095) continue;
      if (transport_.abort_word().load(std::memory_order_acquire))
        throw Error(transport_.failure().kind, transport_.failure().message);
      if (now_ns() > deadline)
        fail(ErrorKind::timeout, "rank {} waited for rank {} between two timed launches", transport_.rank(), rank);
    }
}

std::string TuneRank::time(int id, int repeats) {
  const bool changed = !loaded_ || loaded_->id != id;
  load(id);
  if (changed && !filled_) fresh();
  if (changed && repeats > 1) launch_once();  // a single launch is long enough to have warmed up by itself
  std::string out;
  for (int repeat = 0; repeat < repeats; repeat++) {
    launches_++;
    rewrite_inputs();
    const auto scalars = launch_scalars(loaded_->trial->lowered, job_.sizes,
                                        default_scalars(job_.program, job_.scalars, launches_), transport_.rank());
    meet();
    const int64_t begin = now_ns();
    loaded_->bound->launch(scalars);
    out += fmt::format("{} ", now_ns() - begin);
  }
  return out;
}

// Those that this rank's groups have.
std::vector<ir::Name> TuneRank::results() const {
  const ir::Types types = ir::infer(job_.program);
  std::vector<ir::Name> names = api::results(job_.program);
  std::erase_if(names, [&](const ir::Name& name) {
    const ir::Type& type = types.at(name);
    return !ir::present(type, ir::group_ranks(job_.program, type.group, job_.sizes), transport_.rank());
  });
  return names;
}

// The positions of `name` that a trial holds on this rank.
std::vector<Piece> TuneRank::held(const tune::Trial& trial, const ir::Name& name) const {
  const int buffer = buffer_of(trial.lowered, name);
  WEFT_CHECK(buffer >= 0, "no buffer of {}", name);
  const Layout layout = lay_out(trial.lowered, job_.sizes, transport_.rank(), true);
  return pieces(trial.lowered, job_.sizes, transport_.rank(), buffer, bindings(layout, nullptr)[buffer]);
}

// The digest of `name` in the loaded trial's memory, over the positions wanted.
uint64_t TuneRank::digest_over(const ir::Name& name, const std::vector<Piece>& wanted) const {
  const lower::Lowered& mine = loaded_->trial->lowered;
  const int buffer = buffer_of(mine, name);
  const int64_t element = size_bytes(*parse_dtype(mine.plan.buffers[static_cast<size_t>(buffer)].dtype));
  uint64_t sum = 0;
  for (const Piece& have :
       pieces(mine, job_.sizes, transport_.rank(), buffer, loaded_->args.buffers[static_cast<size_t>(buffer)]))
    for (const Piece& want : wanted) {
      const int64_t begin = std::max(have.position, want.position),
                    end = std::min(have.position + have.count, want.position + want.count);
      if (begin < end)
        sum +=
            digest(element, {static_cast<std::byte*>(have.at) + (begin - have.position) * element, begin, end - begin});
    }
  return sum;
}

std::string TuneRank::key_of(const tune::Trial& trial, const ir::Name& name) const {
  std::string key = name;
  for (const Piece& piece : held(trial, name)) key += fmt::format(" {}:{}", piece.position, piece.count);
  return key;
}

// Digests, in trial `with`, of what trial `id` and any other known by now hold.
void TuneRank::remember_digests(int with, int id) {
  load(with);
  fresh();
  launch_once();
  launch_once();
  std::vector<const tune::Trial*> trials = {&trial(id)};
  for (const tune::Trial& trial : job_.trials) trials.push_back(&trial);
  for (const tune::Trial* trial : trials)
    for (const ir::Name& name : api::results(job_.program)) {
      const auto [found, unknown] = digests_.try_emplace(key_of(*trial, name), 0);
      if (unknown) found->second = digest_over(name, held(*trial, name));
    }
  meet();
}

std::string TuneRank::compare_bits(int id, int with) {
  for (const ir::Name& name : api::results(job_.program))  // on all ranks alike: what follows is done together
    if (!digests_.count(key_of(trial(id), name))) {
      remember_digests(with, id);
      break;
    }
  load(id);
  fresh();
  launch_once();
  launch_once();
  std::string differ;
  for (const ir::Name& name : results())
    if (digest_over(name, held(*loaded_->trial, name)) != digests_.at(key_of(*loaded_->trial, name)))
      differ += (differ.empty() ? "" : ", ") + name;
  meet();
  return differ.empty() ? "same" : differ;
}

// Largest |got - expected| over the value's own scale (root mean square), among the positions this rank holds.
namespace {

double rounded(Dtype dtype, double value) {
  std::array<std::byte, 16> room{};
  store_f64(dtype, room.data(), value);
  return load_f64(dtype, room.data());
}

// What is not finite must be so on both sides, unless the finite side is within a hundredth of the dtype's overflow.
bool same_beyond(Dtype dtype, double got, double want) {
  want = rounded(dtype, want);
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (got == want) return true;
  const double least = std::abs(got) < std::abs(want) ? got : want;
  return std::signbit(got) == std::signbit(want) && !std::isfinite(rounded(dtype, least * 1.01));
}

}  // namespace

double TuneRank::error_of(const ir::Name& name, const ir::Tensor& expected) {
  const lower::Lowered& lowered = loaded_->trial->lowered;
  const int buffer = buffer_of(lowered, name);
  const Dtype dtype = *parse_dtype(lowered.plan.buffers[static_cast<size_t>(buffer)].dtype);
  const int64_t element = size_bytes(dtype);
  double squares = 0, worst = 0;
  size_t finite = 0;  // an infinite value must not hide what the others are off by
  for (const double value : expected.f)
    if (std::isfinite(value)) squares += value * value, ++finite;
  const double scale = std::sqrt(squares / std::max<double>(1, static_cast<double>(finite)));
  for (const Piece& piece :
       pieces(lowered, job_.sizes, transport_.rank(), buffer, loaded_->args.buffers[static_cast<size_t>(buffer)]))
    for (int64_t i = 0; i < piece.count; i++) {
      const void* at = static_cast<std::byte*>(piece.at) + i * element;
      const size_t position = static_cast<size_t>(piece.position + i);
      if (!is_float(dtype)) {
        if (load_i64(dtype, at) != expected.i[position]) return HUGE_VAL;
        continue;
      }
      const double got = load_f64(dtype, at), want = expected.f[position];
      if (!std::isfinite(got) || !std::isfinite(want)) {
        if (!same_beyond(dtype, got, want)) return HUGE_VAL;
        continue;
      }
      worst = std::max(worst, std::abs(got - want) / (std::abs(want) + scale + 1e-30));
    }
  return worst;
}

std::string TuneRank::compare_reference(int id) {
  load(id);
  fresh();
  double worst = 0;
  std::string where;
  for (int launch = 0; launch < 2; launch++) {
    launch_once();
    for (const ir::Name& name : results()) {
      const auto& per_rank = (*job_.expected)[static_cast<size_t>(launch)].at(name);
      const double error = error_of(name, per_rank[static_cast<size_t>(transport_.rank()) % per_rank.size()]);
      if (error > worst) worst = error, where = fmt::format("{} after launch {}", name, launch + 1);
    }
    meet();
  }
  return fmt::format("{} {}", worst, where);
}

}  // namespace weft::api
