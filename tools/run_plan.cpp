// weft run PLAN: a plan that comes without a program (a plan file, an MSCCL schedule), verified, run on ranks, checked, timed.
//
// Two checks, since either alone can be fooled. On a part of the data (some chunks of it) every rank's results are those of
// the interpreter, bit for bit, out of place and in place. On all of it a schedule's results are what its collective says
// (foreign/meaning.h), which knows nothing of plans. Values are small whole numbers that tell rank and place apart, so that
// sums in any order are exact in every dtype.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tools/run.h"
#include "weft/api/need.h"
#include "weft/base/plural.h"
#include "weft/base/text.h"
#include "weft/codegen/library.h"
#include "weft/foreign/meaning.h"
#include "weft/plan/interpret.h"
#include "weft/plan/verify.h"
#include "weft/runtime/communicator.h"
#include "weft/transport/mapping.h"
#include "weft/transport/spec.h"

namespace weft::tools {
namespace {

using Bytes = std::vector<std::byte>;

struct Subject {
  plan::Plan plan;
  std::optional<foreign::Msccl> schedule;
  int ranks = 2;
  std::map<std::string, std::string> params;
  plan::LaunchArgs args, few;            // asked for; what is checked against the interpreter
  std::vector<int64_t> few_chunk;        // elements of a chunk there, by space
  std::vector<std::vector<Bytes>> want;  // [rank][buffer], of the interpreter; out of place
  std::vector<std::vector<Bytes>> want_in_place;
};

bool is_result(const plan::Buffer& buffer) {
  return buffer.role != plan::Buffer::Role::in && buffer.role != plan::Buffer::Role::scratch;
}

// Small enough to be exact when all ranks' are folded, in the dtype at hand; a product takes ones and twos.
int small_value(Dtype dtype, bool products, int rank, int64_t index) {
  const auto h = static_cast<uint32_t>(index) * 2654435761u + static_cast<uint32_t>(index >> 32) * 40487u +
                 static_cast<uint32_t>(rank) * 2246822519u;
  const auto draw = static_cast<int>((h >> 13) % 8192);
  if (products || dtype == Dtype::boolean) return 1 + draw % 2 - (dtype == Dtype::boolean);
  const int width = size_bytes(dtype) >= 4 ? 15 : size_bytes(dtype) == 2 ? 7 : 3;
  return draw % width - (is_float(dtype) || is_signed(dtype) ? width / 2 : 0);
}

void store(Dtype dtype, std::byte* at, int64_t value) {
  if (is_float(dtype)) return store_f64(dtype, at, static_cast<double>(value));
  store_i64(dtype, at, value);
}

kernel::Reduction reduction_of(const Subject& subject) {
  std::string name = "sum";
  for (const plan::Param& param : subject.plan.params)
    if (param.name == "op") name = param.value;
  if (const auto found = subject.params.find("op"); found != subject.params.end()) name = found->second;
  const auto reduction = kernel::parse_reduction(name);
  if (!reduction)
    throw Error(ErrorKind::user, fmt::format("--param op={}: no reduction", name), "sum, prod, min or max");
  return *reduction;
}

// The buffers of one rank: where they lie, what they hold.
class Memory {
 public:
  // mapped(bytes, name): memory that peers see.
  Memory(const plan::Instance& instance, const plan::LaunchArgs& extents, const std::vector<int64_t>& chunk, int rank,
         bool in_place, bool products, const std::function<std::byte*(int64_t, const std::string&)>& mapped)
      : instance_(instance), rank_(rank), products_(products) {
    const plan::Extents sizes(instance, extents.spaces, chunk);
    const auto& buffers = instance.plan().buffers;
    args = extents;
    data_.resize(buffers.size());
    elements_.resize(buffers.size());
    for (size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].role == plan::Buffer::Role::scratch) continue;
      const auto root = static_cast<size_t>(instance.buffer_root(static_cast<int>(b)));
      elements_[b] = count(sizes, static_cast<int>(b), rank);
      data_[b] = in_place && root != b ? data_[root] : place(sizes, static_cast<int>(b), in_place, mapped);
      args.buffers[b] = plan::Dense{data_[b]};
    }
  }

  void fill() {
    for (size_t b = 0; b < data_.size(); ++b)
      if (role(b) == plan::Buffer::Role::out) std::memset(data_[b], 0x7b, static_cast<size_t>(bytes(b)));
    for (size_t b = 0; b < data_.size(); ++b) {  // inputs last: a result may share their memory
      if (role(b) == plan::Buffer::Role::out || role(b) == plan::Buffer::Role::scratch) continue;
      const Dtype dtype = instance_.dtype(static_cast<int>(b));
      const int rank = instance_.plan().buffers[b].repl ? 0 : rank_;
      for (int64_t i = 0; i < elements_[b]; ++i)
        store(dtype, data_[b] + i * size_bytes(dtype), small_value(dtype, products_, rank, i));
    }
  }

  std::vector<Bytes> results() const {
    std::vector<Bytes> list(data_.size());
    for (size_t b = 0; b < data_.size(); ++b)
      if (is_result(instance_.plan().buffers[b])) list[b].assign(data_[b], data_[b] + bytes(b));
    return list;
  }
  const std::byte* data(int buffer) const { return data_[static_cast<size_t>(buffer)]; }

  plan::LaunchArgs args;

 private:
  plan::Buffer::Role role(size_t b) const { return instance_.plan().buffers[b].role; }
  int64_t bytes(size_t b) const { return elements_[b] * size_bytes(instance_.dtype(static_cast<int>(b))); }
  int64_t count(const plan::Extents& sizes, int buffer, int rank) const {
    const int64_t own = instance_.own_part(buffer, rank);
    const int space = instance_.buffer_space(buffer);
    return own == expr::none ? 0 : own >= 0 ? sizes.part_size(space, own) : sizes.elements(space);
  }
  std::byte* place(const plan::Extents& sizes, int buffer, bool in_place,
                   const std::function<std::byte*(int64_t, const std::string&)>& mapped) {
    const auto& buffers = instance_.plan().buffers;
    bool shared = false;  // who shares the memory of a mapped buffer is mapped
    for (size_t o = 0; o < buffers.size(); ++o)
      shared |= buffers[o].mapped &&
                (static_cast<int>(o) == buffer || (in_place && instance_.buffer_root(static_cast<int>(o)) == buffer));
    int64_t most = 1;
    for (int q = 0; q < instance_.ranks(); ++q) most = std::max(most, count(sizes, buffer, q));
    const int64_t room = most * size_bytes(instance_.dtype(buffer));
    if (shared) return mapped(room, buffers[static_cast<size_t>(buffer)].name);
    own_.push_back(std::make_unique<transport::Mapping>(-1, room, buffers[static_cast<size_t>(buffer)].name));
    return own_.back()->data();
  }

  const plan::Instance& instance_;
  int rank_;
  bool products_;
  std::vector<std::unique_ptr<transport::Mapping>> own_;
  std::vector<std::byte*> data_;
  std::vector<int64_t> elements_;
};

bool has_alias(const plan::Plan& plan) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const plan::Buffer& b) { return !b.alias.empty(); });
}

// ---- what one rank answers
class PlanRank {
 public:
  PlanRank(transport::Transport& transport, const Subject& subject)
      : subject_(subject), kernels_(codegen::generated_library()), communicator_(transport, *kernels_) {}

  std::string answer(const std::string& command) {
    if (command == "few") return few(false, subject_.want);
    if (command == "few in place") return few(true, subject_.want_in_place);
    if (command == "all") return all();
    return std::to_string(time_ns());
  }

 private:
  Memory memory(const plan::Instance& instance, const plan::LaunchArgs& args, const std::vector<int64_t>& chunk,
                bool in_place) {
    const bool products = reduction_of(subject_) == kernel::Reduction::prod;
    return {instance,
            args,
            chunk,
            communicator_.rank(),
            in_place,
            products,
            [this](int64_t bytes, const std::string& name) {
              symmetric_.push_back(communicator_.allocate(bytes, name));
              return static_cast<std::byte*>(symmetric_.back().data);
            }};
  }

  runtime::LoadOptions load_options(const std::vector<int64_t>& chunk) const {
    runtime::LoadOptions options;
    options.params = subject_.params;
    options.chunk_elements = chunk;
    options.verify = false;  // it was, before the ranks were started
    return options;
  }

  // Two launches, one behind the other; "" or what differs from the interpreter.
  std::string few(bool in_place, const std::vector<std::vector<Bytes>>& want) {
    const auto loaded = communicator_.load(subject_.plan, load_options(subject_.few_chunk));
    const plan::Instance instance(subject_.plan, subject_.ranks, subject_.params);
    Memory mine = memory(instance, subject_.few, subject_.few_chunk, in_place);
    const auto& expected = want[static_cast<size_t>(communicator_.rank())];
    for (int launch = 0; launch < 2; ++launch) {
      mine.fill();
      communicator_.transport().barrier("inputs are there");  // a peer may read them from here on
      communicator_.launch(*loaded, mine.args);
      communicator_.transport().barrier("all have run");
      const std::vector<Bytes> got = mine.results();
      for (size_t b = 0; b < got.size(); ++b)
        if (got[b] != expected[b])
          return fmt::format("rank {}: buffer {} is not what the interpreter gives{}", communicator_.rank(),
                             subject_.plan.buffers[b].name, in_place ? ", in place" : "");
    }
    return "";
  }

  void prepare() {
    if (bound_) return;
    loaded_ = communicator_.load(subject_.plan, load_options({}));
    instance_ = std::make_unique<plan::Instance>(subject_.plan, subject_.ranks, subject_.params);
    memory_ = std::make_unique<Memory>(memory(*instance_, subject_.args, {}, false));
    memory_->fill();
    bound_ = std::make_unique<runtime::Bound>(communicator_, loaded_, memory_->args);
    communicator_.transport().barrier("ready");
  }

  // All elements against what the collective says; "" or what differs.
  std::string all() {
    prepare();
    bound_->launch();
    communicator_.transport().barrier("all have run");
    const foreign::Msccl& schedule = *subject_.schedule;
    const foreign::Ends ends = foreign::ends_of(schedule);
    const int space = instance_->buffer_space(ends.result);
    const plan::Extents sizes(*instance_, subject_.args.spaces, {});
    for (int64_t part = 0; part < instance_->parts(space); ++part) {
      const auto sources = foreign::sources_of(schedule, communicator_.rank(), part);
      if (sources.empty()) continue;
      const std::string wrong = compare_part(sources, ends, part, sizes.part_size(space, part));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string compare_part(const std::vector<foreign::Source>& sources, const foreign::Ends& ends, int64_t part,
                           int64_t each) const {
    const Dtype dtype = instance_->dtype(ends.result), wide = accumulate_dtype(dtype);
    const kernel::Reduction reduction = reduction_of(subject_);
    const bool products = reduction == kernel::Reduction::prod;
    std::byte sum[8], next[8], want[8];
    for (int64_t e = 0; e < each; ++e) {
      for (size_t q = 0; q < sources.size(); ++q) {
        store(wide, q == 0 ? sum : next, small_value(dtype, products, sources[q].rank, sources[q].part * each + e));
        if (q > 0) kernel::combine(reduction, wide, sum, next, 1);
      }
      if (is_float(wide))
        store_f64(dtype, want, load_f64(wide, sum));
      else
        store_i64(dtype, want, load_i64(wide, sum));
      const std::byte* got = memory_->data(ends.result) + (part * each + e) * size_bytes(dtype);
      if (std::memcmp(got, want, static_cast<size_t>(size_bytes(dtype))) != 0)
        return fmt::format("rank {}: element {} of chunk {} is {}, not {}", communicator_.rank(), e, part,
                           load_f64(dtype, got), load_f64(dtype, want));
    }
    return "";
  }

  // One round: so many launches that they take a millisecond or more, behind a barrier.
  double time_ns() {
    prepare();
    const auto clock = [] { return std::chrono::steady_clock::now(); };
    const auto once = [&](int64_t launches) {
      communicator_.transport().barrier("a round");
      const auto begin = clock();
      for (int64_t k = 0; k < launches; ++k) bound_->launch();
      return std::chrono::duration<double, std::nano>(clock() - begin).count() / static_cast<double>(launches);
    };
    if (launches_ == 0) {
      int64_t most = 1;  // all ranks launch equally often
      const auto mine = static_cast<int64_t>(std::clamp(1e6 / once(2), 1.0, 1000.0));
      for (const std::string& each : communicator_.transport().exchange(std::to_string(mine), "launches of a round"))
        most = std::max<int64_t>(most, std::stoll(each));
      launches_ = most;
    }
    return once(launches_);
  }

  const Subject& subject_;
  std::unique_ptr<kernel::KernelLibrary> kernels_;
  runtime::Communicator communicator_;
  std::vector<runtime::Symmetric> symmetric_;
  std::shared_ptr<runtime::Loaded> loaded_;
  std::unique_ptr<plan::Instance> instance_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<runtime::Bound> bound_;
  int64_t launches_ = 0;
};

// ---- before ranks are started
void require_plan_options(const RunAsked& options) {
  const ProgramOptions& p = options.program;
  const auto refuse = [&](bool given, const char* name) {
    if (given)
      throw Error(ErrorKind::user, fmt::format("{} is a plan, for which {} says nothing", p.file, name),
                  fmt::format("leave {} away", name));
  };
  refuse(!p.model.empty(), "--model");
  refuse(!p.shapes.empty(), "--shapes");
  refuse(!p.scalars.empty(), "--scalar");
  refuse(options.schedule_given, "--schedule");
  refuse(options.private_buffers, "--private");
}

Subject subject_of(const RunAsked& options) {
  Subject subject;
  const std::string& text = file_text(options.program.file);
  if (foreign::is_msccl(text)) {
    subject.schedule = foreign::read_msccl(text);
    subject.plan = subject.schedule->plan;
    subject.ranks = subject.schedule->ranks;
    if (options.ranks_given && options.program.ranks != subject.ranks)
      throw Error(ErrorKind::user, fmt::format("{} is for {}", options.program.file, counted(subject.ranks, "rank")),
                  fmt::format("leave --ranks away, or give {}", subject.ranks));
  } else {
    subject.plan = plan::parse(text);
    subject.ranks = options.program.ranks;
  }
  for (const std::string& param : options.params) {
    const auto [name, value] = key_value(param, "--param", "T=f32");
    subject.params[name] = value;
  }
  for (const plan::Space& space : subject.plan.spaces)
    if (space.kind == plan::Space::Kind::given)
      throw Error(ErrorKind::unsupported,
                  fmt::format("space {} of {} has counts that a launch gives", space.name, subject.plan.name),
                  "run the program that the plan is made of, or all_to_all_v through the communicator");
  plan::VerifyOptions verify;
  verify.ranks = {subject.ranks};
  verify.params = subject.params;
  plan::require_verified(subject.plan, verify);
  return subject;
}

// At most some thousand elements a part, in several chunks.
void scale_down(Subject& subject, const plan::Instance& instance) {
  constexpr int64_t most = 3001, chunk = 701;
  subject.few = subject.args;
  for (size_t s = 0; s < subject.few.spaces.size(); ++s) {
    const int64_t parts = std::max<int64_t>(1, instance.parts(static_cast<int>(s)));
    if (auto* cut = std::get_if<plan::Cut>(&subject.few.spaces[s].extent))
      cut->axis = std::min(cut->axis, most * parts);
    if (auto* table = subject.few.spaces[s].segments; table)
      subject.few.spaces[s].segments = one_segment(std::get<plan::Cut>(subject.few.spaces[s].extent).axis);
    subject.few_chunk.push_back(chunk);
  }
}

std::vector<std::vector<Bytes>> interpreted(const Subject& subject, const plan::Instance& instance, bool in_place) {
  const bool products = reduction_of(subject) == kernel::Reduction::prod;
  std::vector<std::unique_ptr<transport::Mapping>> keep;
  std::vector<std::unique_ptr<Memory>> ranks;
  std::vector<plan::LaunchArgs> args;
  for (int r = 0; r < subject.ranks; ++r) {
    ranks.push_back(std::make_unique<Memory>(instance, subject.few, subject.few_chunk, r, in_place, products,
                                             [&keep](int64_t bytes, const std::string& name) {
                                               keep.push_back(std::make_unique<transport::Mapping>(-1, bytes, name));
                                               return keep.back()->data();
                                             }));
    ranks.back()->fill();
    args.push_back(ranks.back()->args);
  }
  plan::InterpretOptions options;
  options.chunk_elements = subject.few_chunk;
  plan::interpret(instance, args, options);
  std::vector<std::vector<Bytes>> results;
  for (const auto& rank : ranks) results.push_back(rank->results());
  return results;
}

double bytes_of(const plan::Instance& instance, const plan::LaunchArgs& args) {
  const plan::Extents sizes(instance, args.spaces, {});
  double all = 0;
  for (size_t b = 0; b < instance.plan().buffers.size(); ++b)
    all += static_cast<double>(sizes.elements(instance.buffer_space(static_cast<int>(b)))) *
           size_bytes(instance.dtype(static_cast<int>(b)));
  return all;
}

// ---- the parent's side
class Ranks {
 public:
  Ranks(const Subject& subject, const std::string& transport)
      : job_(transport::start_ranks(transport, subject.ranks, [&subject](transport::Transport& t) {
          auto rank = std::make_shared<PlanRank>(t, subject);
          return [rank](transport::Transport&, std::string_view text) { return rank->answer(std::string(text)); };
        })) {}

  std::vector<std::string> ask(const std::string& command) {
    for (int r = 0; r < job_->ranks(); ++r) job_->send(r, command);
    std::vector<std::string> answers;
    for (int r = 0; r < job_->ranks(); ++r) answers.push_back(job_->receive(r, int64_t{600} * 1'000'000'000));
    return answers;
  }
  void require_right(const std::string& command, const std::string& plan) {
    for (const std::string& answer : ask(command))
      if (!answer.empty())
        throw Error(ErrorKind::internal, fmt::format("{}: {}", plan, answer),
                    "a fault of Weft: please report it with the file and the sizes");
  }
  double round_ns() {
    double slowest = 0;
    for (const std::string& answer : ask("time")) slowest = std::max(slowest, std::stod(answer));
    return slowest;
  }
  void finish() { job_->finish(); }

 private:
  std::unique_ptr<transport::Job> job_;
};

void report(const RunAsked& options, const Subject& subject, const plan::Instance& instance,
            std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  const size_t n = rounds.size();
  const double median = rounds[n / 2], spread = (rounds[n - 1 - n / 4] - rounds[n / 4]) / median;
  const int result = subject.schedule ? foreign::ends_of(*subject.schedule).result : -1;
  const std::string what = subject.schedule ? subject.schedule->collective : "plan";
  const bool stated = subject.schedule && subject.schedule->stated;
  const std::string checked = stated ? "every element, and the interpreter's bits" : "the interpreter's bits";
  double bytes = 0;
  if (result >= 0)
    bytes =
        static_cast<double>(plan::Extents(instance, subject.args.spaces, {}).elements(instance.buffer_space(result)) *
                            size_bytes(instance.dtype(result)));
  if (options.program.json) {
    nlohmann::json out = {
        {"plan", subject.plan.name}, {"what", what}, {"ranks", subject.ranks}, {"median_ns", median},
        {"spread", spread},          {"rounds", n},  {"check", checked},       {"results_stated", stated}};
    if (bytes > 0) out["result_bytes"] = bytes;
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  const std::string size = bytes > 0 ? fmt::format(", {} of result a rank", human_bytes(bytes)) : "";
  std::printf("%s, %s on %s%s: %s a launch (spread %.1f %%, %s); right: %s\n", subject.plan.name.c_str(), what.c_str(),
              counted(subject.ranks, "rank").c_str(), size.c_str(), human_ns(median).c_str(), 100 * spread,
              counted(static_cast<int64_t>(n), "round").c_str(), checked.c_str());
}

}  // namespace

void run_plan(const RunAsked& options) {
  require_plan_options(options);
  progress_line("verifying");
  Subject subject = subject_of(options);
  const plan::Instance instance(subject.plan, subject.ranks, subject.params);
  subject.args = plan_sizes(subject.plan, subject.ranks, options.program.sizes);
  scale_down(subject, instance);
  reduction_of(subject);
  api::require_memory(subject.ranks * bytes_of(instance, subject.args),
                      fmt::format("the buffers of {}", counted(subject.ranks, "rank")),
                      "give smaller sizes with --size SPACE=ELEMENTS, or free memory");
  progress_line("interpreting");
  subject.want = interpreted(subject, instance, false);
  if (has_alias(subject.plan)) subject.want_in_place = interpreted(subject, instance, true);
  progress_line("checking");
  Ranks ranks(subject, transport_of(options.program));
  ranks.require_right("few", subject.plan.name);
  if (has_alias(subject.plan)) ranks.require_right("few in place", subject.plan.name);
  if (subject.schedule && subject.schedule->stated) ranks.require_right("all", subject.plan.name);
  progress_line("running");
  std::vector<double> rounds;
  for (int k = 0; k < options.rounds; ++k) rounds.push_back(ranks.round_ns());
  ranks.finish();
  end_progress();
  report(options, subject, instance, std::move(rounds));
}

}  // namespace weft::tools
