// A program on one rank: schedule chosen, lowered, loaded, memory laid out, launched.
#include <algorithm>
#include <cstring>

#include "weft/api/calibrate.h"
#include "weft/api/memory.h"
#include "weft/api/scalars.h"
#include "weft/api/tuning.h"
#include "weft/api/weft.h"
#include "weft/base/env.h"
#include "weft/base/log.h"
#include "weft/schedule/roots.h"
#include "weft/tune/file.h"

namespace weft {
namespace {

// All ranks measure together and come to the same schedule; rank 0 writes it down.
schedule::Schedule tune_now(runtime::Communicator& communicator, const ir::Program& program, const ir::Sizes& sizes,
                            const PrepareOptions& options) {
  transport::Transport& transport = communicator.transport();
  api::TuneRequest request;
  request.program = program;
  request.sizes = sizes;
  request.scalars = options.tune.scalars;
  request.check = options.tune.check;
  request.machine = api::machine_among(transport);
  request.search.mapped = !options.own_buffers;
  request.search.limit = options.tune.limit;
  request.search.any_order = options.tune.any_order;
  request.search.samples = 0;
  request.rounds.seconds = options.tune.seconds;
  const api::TuneReport report = api::tune_among(transport, request);
  if (const std::string wrong = api::wrong_trials(report); !wrong.empty()) {
    const std::string what = fmt::format("schedules of {} give wrong results:\n    {}", program.name, wrong);
    const char* remedy = "a fault of Weft: please report it with the program";
    if (!tune::any_right(report.space.trials)) throw Error(ErrorKind::internal, what, remedy);
    if (communicator.rank() == 0) WEFT_LOG(warn, "api", "{}\n    none of them is taken; {}", what, remedy);
  }
  if (options.tune.store && communicator.rank() == 0)
    api::store_best(report, program, sizes, tune::default_tuning_path());
  schedule::Schedule schedule = tune::best(report.space.trials).schedule;
  schedule.name = "tuned";
  return schedule;
}

// No rank sends or gets more rows than there is memory for. All ranks see all counts, so all of them refuse alike.
void check_rows(const std::string& ragged, const std::vector<std::vector<int64_t>>& counts, const ir::Sizes& sizes) {
  const auto check = [&](size_t rank, int64_t rows, const std::string& size, const char* does) {
    const int64_t most = ir::shape_of({{size, 1, false}}, sizes)[0];
    if (rows > most)
      throw Error(ErrorKind::user, fmt::format("rank {} {} {} rows, {} is {}", rank, does, rows, size, most),
                  fmt::format("prepare with a larger {}, or send fewer rows", size));
  };
  std::vector<int64_t> got(counts.size(), 0);
  for (size_t from = 0; from < counts.size(); ++from) {
    int64_t sent = 0;
    for (size_t to = 0; to < counts[from].size(); ++to) {
      const int64_t count = counts[from][to];
      if (count < 0 || count > (int64_t{1} << 48))
        throw Error(ErrorKind::user, fmt::format("{} rows of {} from rank {} to rank {}", count, ragged, from, to),
                    "counts are not negative, and no more rows than there are");
      sent += count, got[to] += count;
    }
    check(from, sent, ragged, "sends");
  }
  for (size_t to = 0; to < got.size(); ++to) check(to, got[to], ragged + ".t", "gets");
}

}  // namespace

struct Executable::Impl {
  runtime::Communicator& communicator;
  ir::Program program;
  ir::Sizes sizes;
  schedule::Schedule schedule;
  lower::Lowered lowered;
  runtime::Symmetric memory;
  plan::LaunchArgs args;
  api::Layout layout;
  std::shared_ptr<runtime::Loaded> loaded;
  std::unique_ptr<runtime::Bound> bound;
  bool own_buffers = false;
  std::map<ir::Name, plan::Binding> given = {};  // what the user bound, by the name that was said

  int buffer(const ir::Name& name) const;
  std::byte* base() const { return static_cast<std::byte*>(memory.data); }
  plan::Binding& binding(const ir::Name& name) { return args.buffers[static_cast<size_t>(buffer(name))]; }
  void bind(const ir::Name& name, plan::Binding memory);
  // An output that lies in a state has two names. Error(user): they are bound to different memory.
  void check_shared_names() const;
  int64_t whole_bytes(int buffer) const;
  // Pieces of a state that this rank holds. Error(user): no state, or nobody bound it.
  std::vector<api::Piece> state_pieces(const ir::Name& name);
  // Ragged rows: the counts that are bound now, those of all ranks. Collective; Error(user) on all alike.
  void count_rows();
  std::string own_counts(const ir::RaggedDecl& ragged);
  // Of a value over `tensors P` that this rank holds whole: elements of each tensor. Null: it is one piece.
  const std::vector<int64_t>* lengths(const ir::Name& name) const;
};

std::vector<api::Piece> Executable::Impl::state_pieces(const ir::Name& name) {
  const int held = buffer(name);
  if (!lowered.buffers[static_cast<size_t>(held)].state)
    throw Error(ErrorKind::user, fmt::format("{} is no state of {}", name, program.name),
                "inputs and outputs are reached by data()");
  const plan::Binding& memory = args.buffers[static_cast<size_t>(held)];
  if (std::holds_alternative<std::monostate>(memory))
    throw Error(ErrorKind::user, fmt::format("{} has no memory yet", name), "bind() it first");
  return api::pieces(lowered, sizes, communicator.rank(), held, memory);
}

const std::vector<int64_t>* Executable::Impl::lengths(const ir::Name& name) const {
  const plan::Buffer& b = lowered.plan.buffers[static_cast<size_t>(buffer(name))];
  const size_t space = static_cast<size_t>(plan::find_space(lowered.plan, b.space));
  if (lowered.spaces[space].tensors.empty() || b.own) return nullptr;
  const plan::SegmentTable* table = args.spaces[space].segments;
  return table ? &table->lengths : nullptr;
}

void Executable::Impl::count_rows() {
  for (const ir::HeaderDecl& decl : program.header) {
    const auto* ragged = std::get_if<ir::RaggedDecl>(&decl);
    if (!ragged) continue;
    std::vector<std::vector<int64_t>> counts;
    for (const std::string& row : communicator.transport().exchange(own_counts(*ragged), "counts of rows")) {
      counts.emplace_back();
      for (const std::string& count : words(row)) counts.back().push_back(std::stoll(count));
    }
    check_rows(ragged->name, counts, sizes);
    if (const auto known = sizes.counts.find(ragged->name); known != sizes.counts.end() && known->second == counts)
      continue;
    sizes.counts[ragged->name] = std::move(counts);
    args.spaces = lower::launch_args(lowered, sizes, communicator.rank(), {}).spaces;
    bound.reset();
  }
}

// The counts that this rank's rows were sorted by, one for each rank.
std::string Executable::Impl::own_counts(const ir::RaggedDecl& ragged) {
  const auto* memory = std::get_if<plan::Dense>(&binding(ragged.counts));
  if (!memory || !memory->data)
    throw Error(ErrorKind::user, fmt::format("{} has no memory yet", ragged.counts), "bind() it first");
  const Dtype dtype = *parse_dtype(lowered.plan.buffers[static_cast<size_t>(buffer(ragged.counts))].dtype);
  std::string text;
  for (int64_t rank = 0; rank < sizes.ranks; ++rank)
    text += fmt::format("{} ", load_i64(dtype, static_cast<std::byte*>(memory->data) + rank * size_bytes(dtype)));
  return text;
}

void Executable::Impl::bind(const ir::Name& name, plan::Binding memory) {
  binding(name) = memory;
  given[name] = std::move(memory);
  bound.reset();
}

void Executable::Impl::check_shared_names() const {
  const auto addresses = [](const plan::Binding& memory) {
    const auto* list = std::get_if<plan::Segments>(&memory);
    return list ? list->data : std::vector<void*>{std::get<plan::Dense>(memory).data};
  };
  for (const lower::BufferRecipe& recipe : lowered.buffers) {
    const auto state = given.find(recipe.state_name), output = given.find(recipe.value);
    if (!recipe.output || state == given.end() || output == given.end()) continue;
    if (addresses(state->second) != addresses(output->second))
      throw Error(
          ErrorKind::user,
          fmt::format("the output {} is the new value of state {} and lies in its memory; they are bound to two "
                      "places",
                      recipe.value, recipe.state_name),
          fmt::format("bind one of the two, or put out a copy: y = {} * 1", recipe.value));
  }
}

int64_t Executable::Impl::whole_bytes(int buffer) const {
  const plan::Buffer& b = lowered.plan.buffers[static_cast<size_t>(buffer)];
  const lower::SpaceRecipe& space = lowered.spaces[static_cast<size_t>(plan::find_space(lowered.plan, b.space))];
  int64_t elements = 1;
  for (const int64_t size : ir::shape_of(space.shape, sizes)) elements *= size;
  return elements * size_bytes(*parse_dtype(b.dtype));
}

int Executable::Impl::buffer(const ir::Name& name) const {
  const int found = api::buffer_of(lowered, name);
  if (found >= 0) return found;
  std::vector<std::string> known;
  for (const lower::BufferRecipe& recipe : lowered.buffers)
    for (const ir::Name& one : {recipe.state_name, recipe.value})
      if (!one.empty() && (known.empty() || known.back() != one)) known.push_back(one);
  throw Error(ErrorKind::user, fmt::format("{} has no input, output or state named {}", program.name, name),
              "it has " + join(known, ", "));
}

Executable::Executable(runtime::Communicator& communicator, const ir::Program& program, const PrepareOptions& options)
    : impl_(new Impl{communicator, program, options.sizes, {}, {}, {}, {}, {}, {}, {}, options.own_buffers}) {
  Impl& my = *impl_;
  my.sizes.ranks = communicator.size();
  ir::check_requirements(program, my.sizes);
  my.schedule = options.schedule == "tune" ? tune_now(communicator, program, my.sizes, options)
                                           : resolve_schedule(program, options.schedule, my.sizes);
  schedule::check_roots(program, my.schedule, my.sizes);
  lower::LowerOptions lowering;
  lowering.ranks = my.sizes.ranks;
  lowering.mapped = !options.own_buffers;
  my.lowered = lower::lower(schedule::replay(program, my.schedule), my.schedule.launches, lowering);
  my.layout = api::lay_out(my.lowered, my.sizes, communicator.rank(), false);
  if (!my.own_buffers) my.memory = communicator.allocate(std::max<int64_t>(4096, my.layout.total_bytes), program.name);
  my.args = api::launch_args(my.lowered, my.sizes, communicator.rank(), my.layout, my.base());
  if (my.own_buffers) my.args.buffers = lower::launch_args(my.lowered, my.sizes, communicator.rank(), {}).buffers;
  runtime::LoadOptions load;
  load.identity = my.lowered.identity;
  load.stream = my.lowered.stream;
  if (std::any_of(my.lowered.chunk_elements.begin(), my.lowered.chunk_elements.end(), [](int64_t c) { return c > 0; }))
    load.chunk_elements = my.lowered.chunk_elements;
  my.loaded = communicator.load(my.lowered.plan, load);
}

Executable::Executable(Executable&&) noexcept = default;
Executable::~Executable() = default;

void* Executable::data(const ir::Name& name) {
  const plan::Binding& binding = impl_->binding(name);
  if (const auto* dense = std::get_if<plan::Dense>(&binding)) return dense->data;
  if (std::holds_alternative<plan::Segments>(binding))
    throw Error(ErrorKind::user, fmt::format("{} is a list of tensors, each with its own address", name),
                "ask tensors(\"" + name + "\")");
  throw Error(ErrorKind::user, fmt::format("{} has no memory yet", name), "bind() it first");
}

std::vector<void*> Executable::tensors(const ir::Name& name) {
  const plan::Binding& binding = impl_->binding(name);
  if (const auto* segments = std::get_if<plan::Segments>(&binding)) return segments->data;
  return {data(name)};
}

int64_t Executable::bytes(const ir::Name& name) const {
  return lower::buffer_bytes(impl_->lowered, impl_->sizes, impl_->communicator.rank(), impl_->buffer(name));
}

void Executable::check_element(const ir::Name& name, size_t bytes, bool floating, bool any) const {
  const std::string& text = impl_->lowered.plan.buffers[static_cast<size_t>(impl_->buffer(name))].dtype;
  const Dtype dtype = *parse_dtype(text);
  const bool size = static_cast<int64_t>(bytes) == size_bytes(dtype);
  if (any || (size && (!floating || is_float(dtype)))) return;
  throw Error(ErrorKind::user,
              fmt::format("{} has elements of dtype {}, not {} of {} bytes", name, text,
                          floating ? "floating-point numbers" : "integers", bytes),
              "ask for the C++ type of that dtype (uint16_t for f16 and bf16), or for std::byte");
}

void Executable::check_bytes(const ir::Name& name, int64_t given) const {
  if (given == bytes(name)) return;
  throw Error(
      ErrorKind::user,
      fmt::format("{} takes {} bytes on rank {}, {} were given", name, bytes(name), impl_->communicator.rank(), given),
      "a state stored sliced takes this rank's part: ask bytes()");
}

void Executable::bind(const ir::Name& name, void* data) {
  if (!data && bytes(name) > 0)
    throw Error(ErrorKind::user, fmt::format("{} is bound to null", name), "give memory, or let Weft allocate it");
  if (impl_->lengths(name))
    throw Error(ErrorKind::user, fmt::format("{} is a list of tensors, each with its own address", name),
                "bind a vector of addresses");
  impl_->bind(name, plan::Dense{data});
}

void Executable::bind(const ir::Name& name, std::vector<void*> tensors) {
  const std::vector<int64_t>* lengths = impl_->lengths(name);
  if (!lengths || lengths->size() != tensors.size())
    throw Error(ErrorKind::user,
                fmt::format("{} is {}, {} addresses were given", name,
                            lengths ? fmt::format("a list of {} tensors", lengths->size()) : "one piece of memory",
                            tensors.size()),
                "give as many as there are");
  for (size_t i = 0; i < tensors.size(); i++)
    if (!tensors[i] && (*lengths)[i] > 0)
      throw Error(ErrorKind::user, fmt::format("tensor {} of {} is bound to null", i, name), "give memory");
  impl_->bind(name, plan::Segments{std::move(tensors)});
}

void Executable::launch(const std::map<std::string, double>& scalars) {
  impl_->count_rows();
  const std::vector<expr::ScalarValue> values = api::launch_scalars(
      impl_->lowered, impl_->sizes, api::typed_scalars(impl_->program, scalars), impl_->communicator.rank());
  if (!impl_->bound) {
    impl_->check_shared_names();
    impl_->args.scalars = values;
    impl_->bound = std::make_unique<runtime::Bound>(impl_->communicator, impl_->loaded, impl_->args);
  }
  impl_->bound->launch(values);
}

std::vector<std::byte> Executable::read_state(const ir::Name& name) {
  Impl& my = *impl_;
  const std::vector<api::Piece> held = my.state_pieces(name);
  const int buffer = my.buffer(name);
  const int64_t element = size_bytes(*parse_dtype(my.lowered.plan.buffers[static_cast<size_t>(buffer)].dtype));
  const int64_t whole = my.whole_bytes(buffer);
  std::vector<std::byte> out(static_cast<size_t>(whole));
  const auto put = [&](std::byte* to) {
    for (const api::Piece& piece : held)
      std::memcpy(to + piece.position * element, piece.at, static_cast<size_t>(piece.count * element));
  };
  if (!my.lowered.plan.buffers[static_cast<size_t>(buffer)].own) {  // kept whole: nothing is missing here
    put(out.data());
    return out;
  }
  // Every rank writes its part into every peer's copy; the barrier makes it whole.
  const runtime::Symmetric copy = my.communicator.allocate(std::max<int64_t>(whole, 1), "state " + name);
  for (std::byte* window : copy.window->at) {
    if (!window)
      throw Error(ErrorKind::unsupported, fmt::format("state {} lies in slices on ranks that share no memory", name),
                  "save each rank's part (data), or take a schedule that stores the state whole");
    put(window + copy.offset);
  }
  my.communicator.transport().barrier("read_state " + name);
  if (whole > 0) std::memcpy(out.data(), copy.data, out.size());
  my.communicator.transport().barrier("read_state " + name);
  return out;
}

void Executable::write_state(const ir::Name& name, std::span<const std::byte> whole) {
  Impl& my = *impl_;
  const std::vector<api::Piece> held = my.state_pieces(name);
  const int buffer = my.buffer(name);
  const int64_t element = size_bytes(*parse_dtype(my.lowered.plan.buffers[static_cast<size_t>(buffer)].dtype));
  const int64_t need = my.whole_bytes(buffer);
  if (static_cast<int64_t>(whole.size()) != need)
    throw Error(ErrorKind::user, fmt::format("state {} has {} bytes, {} were given", name, need, whole.size()),
                "give the whole value, as read_state() returns it");
  for (const api::Piece& piece : held)
    std::memcpy(piece.at, whole.data() + piece.position * element, static_cast<size_t>(piece.count * element));
}

const lower::Lowered& Executable::lowered() const { return impl_->lowered; }
const schedule::Schedule& Executable::schedule() const { return impl_->schedule; }

}  // namespace weft
