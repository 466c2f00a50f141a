#include "tests/unit/runtime/harness.h"

#include <thread>

#include "weft/kernel/step_code.h"

namespace weft::runtime::test {
namespace {

bool is_scratch(const plan::Buffer& buffer) { return buffer.role == plan::Buffer::Role::scratch; }

int64_t buffer_elements(const plan::Instance& instance, const plan::Extents& extents, int buffer, int rank) {
  const int space = instance.buffer_space(buffer);
  const int64_t own = instance.own_part(buffer, rank);
  return own >= 0 ? extents.part_size(space, own) : extents.elements(space);
}

std::string name_of(const plan::Instance& instance, size_t buffer) { return instance.plan().buffers[buffer].name; }

}  // namespace

RankBuffers::RankBuffers(const plan::Instance& instance, const Sizes& sizes, int rank, const Allocate& mapped)
    : instance_(instance), sizes_(sizes), rank_(rank) {
  const auto& buffers = instance.plan().buffers;
  const plan::Extents extents(instance, sizes.of(rank), sizes.chunk_elements);
  memory_.resize(buffers.size());
  args_.spaces = sizes.of(rank);
  args_.scalars = sizes.scalars;
  args_.buffers.resize(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (is_scratch(buffers[b])) continue;
    const int root = instance.buffer_root(static_cast<int>(b));
    if (sizes.in_place && root != static_cast<int>(b)) {
      memory_[b] = memory_[static_cast<size_t>(root)];
      args_.buffers[b] = args_.buffers[static_cast<size_t>(root)];
      continue;
    }
    const auto style = sizes.styles.find(buffers[b].name);
    const int64_t spread = style == sizes.styles.end() ? 1 : 3;
    Memory& memory = memory_[b];
    memory.elements = buffer_elements(instance, extents, static_cast<int>(b), rank);
    memory.bytes = memory.elements * size_bytes(instance.dtype(static_cast<int>(b)));
    bool shared = false;  // an alias that is mapped needs the memory of its root to be
    for (size_t o = 0; o < buffers.size(); ++o)
      shared |= buffers[o].mapped &&
                (o == b || (sizes.in_place && instance.buffer_root(static_cast<int>(o)) == static_cast<int>(b)));
    int64_t room = spread * memory.bytes + canary_bytes * 32;  // symmetric memory is as large on all ranks
    for (int q = 0; shared && q < instance.ranks(); ++q)
      room = std::max(room, spread * buffer_elements(instance, extents, static_cast<int>(b), q) *
                                    size_bytes(instance.dtype(static_cast<int>(b))) +
                                canary_bytes * 32);
    std::byte* data = nullptr;
    if (shared)
      data = mapped(room, buffers[b].name);
    else
      own_.emplace_back(new std::byte[static_cast<size_t>(room)]), data = own_.back().get();
    std::memset(data, canary, static_cast<size_t>(room));
    bind(static_cast<int>(b), data, style == sizes.styles.end() ? "dense" : style->second);
  }
}

void RankBuffers::bind(int buffer, std::byte* data, const std::string& style) {
  Memory& memory = memory_[static_cast<size_t>(buffer)];
  const int64_t bytes = size_bytes(instance_.dtype(buffer));
  plan::Binding& binding = args_.buffers[static_cast<size_t>(buffer)];
  memory.data = data;
  if (style == "segments") {
    const plan::SegmentTable& table = *args_.spaces[static_cast<size_t>(instance_.buffer_space(buffer))].segments;
    plan::Segments segments;
    std::byte* at = data;
    for (int64_t length : table.lengths) {
      segments.data.push_back(at);
      memory.pieces.push_back({at, length});
      at += length * bytes;
      memory.canaries.push_back({at, 16});
      at += 16;
    }
    binding = segments;
  } else if (style == "strided") {
    for (int64_t i = 0; i < memory.elements; ++i) {
      memory.pieces.push_back({data + 3 * i * bytes, 1});
      memory.canaries.push_back({data + (3 * i + 1) * bytes, 2 * bytes});
    }
    binding = plan::Strided{data, {memory.elements}, {3}};
  } else {
    memory.pieces.push_back({data, memory.elements});
    memory.canaries.push_back({data + memory.bytes, canary_bytes});
    binding = plan::Dense{data};
  }
}

void RankBuffers::fill(int buffer, int launch) {
  const Memory& memory = memory_[static_cast<size_t>(buffer)];
  const Dtype dtype = instance_.dtype(buffer);
  const bool same_everywhere = instance_.plan().buffers[static_cast<size_t>(buffer)].repl;
  const auto values = sizes_.values.find(instance_.plan().buffers[static_cast<size_t>(buffer)].name);
  int64_t i = 0;
  for (const Piece& piece : memory.pieces)
    for (int64_t k = 0; k < piece.elements; ++k, ++i)
      store_f64(dtype, piece.data + k * size_bytes(dtype),
                values != sizes_.values.end() ? values->second(rank_, i)
                                              : coded(same_everywhere ? 0 : rank_, buffer, i, launch));
}

void RankBuffers::write_inputs(int launch) {
  const auto& buffers = instance_.plan().buffers;
  for (size_t b = 0; b < buffers.size(); ++b)  // results first: an input may share their memory
    for (const Piece& piece : memory_[b].pieces)
      if (buffers[b].role == plan::Buffer::Role::out && piece.elements)
        std::memset(piece.data, poison,
                    static_cast<size_t>(piece.elements * size_bytes(instance_.dtype(static_cast<int>(b)))));
  for (size_t b = 0; b < buffers.size(); ++b) {
    const auto role = buffers[b].role;
    if (role == plan::Buffer::Role::in || role == plan::Buffer::Role::inout ||
        (role == plan::Buffer::Role::state && launch == 0))
      fill(static_cast<int>(b), launch);
  }
}

void RankBuffers::check_canaries() const {
  for (size_t b = 0; b < memory_.size(); ++b)
    for (const Piece& piece : memory_[b].canaries)
      for (int64_t i = 0; i < piece.elements; ++i)
        need(static_cast<unsigned char>(piece.data[i]) == canary,
             fmt::format("rank {} wrote outside of {}", rank_, name_of(instance_, b)));
}

std::vector<std::vector<unsigned char>> RankBuffers::results() const {
  std::vector<std::vector<unsigned char>> list(memory_.size());
  for (size_t b = 0; b < memory_.size(); ++b) {
    const auto role = instance_.plan().buffers[b].role;
    if (role == plan::Buffer::Role::scratch || role == plan::Buffer::Role::in) continue;
    const int64_t bytes = size_bytes(instance_.dtype(static_cast<int>(b)));
    for (const Piece& piece : memory_[b].pieces) {
      const auto* data = reinterpret_cast<const unsigned char*>(piece.data);
      list[b].insert(list[b].end(), data, data + piece.elements * bytes);
    }
  }
  return list;
}

Expected interpret(const plan::Plan& plan, int ranks, const Sizes& sizes, int launches, uint64_t seed) {
  const plan::Instance instance(plan, ranks, sizes.params);
  std::vector<std::unique_ptr<std::byte[]>> keep;
  std::vector<std::unique_ptr<RankBuffers>> buffers;
  std::vector<plan::LaunchArgs> args;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.push_back(std::make_unique<RankBuffers>(instance, sizes, rank, [&](int64_t bytes, const std::string&) {
      keep.emplace_back(new std::byte[static_cast<size_t>(bytes)]);
      return keep.back().get();
    }));
    buffers.back()->write_inputs(0);
    args.push_back(buffers.back()->args());
  }
  Expected expected;
  for (int launch = 0; launch < launches; ++launch) {  // states go on in the buffers
    for (auto& b : buffers) b->write_inputs(launch);
    plan::InterpretOptions options;
    options.seed = seed + static_cast<uint64_t>(launch);
    options.chunk_elements = sizes.chunk_elements;
    plan::interpret(instance, args, options);
    auto& results = expected.emplace_back();
    for (auto& b : buffers) results.push_back(b->results());
  }
  return expected;
}

namespace {

void compare(const plan::Instance& instance, int rank, int launch, const std::vector<std::vector<unsigned char>>& got,
             const std::vector<std::vector<unsigned char>>& want) {
  for (size_t b = 0; b < got.size(); ++b) {
    need(got[b].size() == want[b].size(), "sizes of results");
    if (got[b] == want[b]) continue;
    const Dtype dtype = instance.dtype(static_cast<int>(b));
    const int64_t bytes = size_bytes(dtype);
    for (int64_t i = 0; i * bytes < static_cast<int64_t>(got[b].size()); ++i)
      if (std::memcmp(&got[b][static_cast<size_t>(i * bytes)], &want[b][static_cast<size_t>(i * bytes)],
                      static_cast<size_t>(bytes)) != 0)
        throw Error(
            ErrorKind::internal,
            fmt::format("plan {} rank {} of {} launch {}: {}[{}] of {} is {}, expected {}", instance.plan().name, rank,
                        instance.ranks(), launch, name_of(instance, b), i, static_cast<int64_t>(got[b].size()) / bytes,
                        load_f64(dtype, &got[b][static_cast<size_t>(i * bytes)]),
                        load_f64(dtype, &want[b][static_cast<size_t>(i * bytes)])));
  }
}

void add_delays(Communicator& communicator, int rank, unsigned pauses) {
  auto random = std::make_shared<std::minstd_rand>(static_cast<unsigned>(rank * 7919 + 1));
  communicator.internals().delay_hook = [random, pauses](const char*) {
    const unsigned draw = (*random)() % 256;
    if (draw < pauses)
      std::this_thread::sleep_for(std::chrono::microseconds(20 + (*random)() % 100));
    else if (draw < pauses + 7)
      std::this_thread::yield();
  };
}

}  // namespace

void run_and_compare(const Start& run, const plan::Plan& plan, int ranks, const Sizes& sizes, const Expected& expected,
                     const RunOptions& options) {
  run(ranks,
      [&](transport::Transport& transport) {
        const auto kernels = kernel::evaluator_library();
        Communicator communicator(transport, *kernels);
        if (options.delays) add_delays(communicator, transport.rank(), options.pauses);
        LoadOptions load;
        load.params = sizes.params;
        load.chunk_elements = sizes.chunk_elements;
        load.verify = false;  // test_plan verifies all of them
        const auto loaded = communicator.load(plan, load);
        std::vector<Symmetric> symmetric;
        RankBuffers buffers(loaded->instance, sizes, transport.rank(), [&](int64_t bytes, const std::string& name) {
          symmetric.push_back(communicator.allocate(bytes, name));
          return static_cast<std::byte*>(symmetric.back().data);
        });
        for (int launch = 0; launch < options.launches; ++launch) {
          buffers.write_inputs(launch);
          if (options.asynchronous) {
            Work work = communicator.start(*loaded, buffers.args());
            while (!work.test()) {}
          } else {
            communicator.launch(*loaded, buffers.args());
          }
          compare(loaded->instance, transport.rank(), launch, buffers.results(),
                  expected[static_cast<size_t>(launch)][static_cast<size_t>(transport.rank())]);
          buffers.check_canaries();
        }
        transport.barrier("all have compared");
      },
      {.timeout_ns = options.timeout_ns});
}

void agree(const Start& run, const plan::Plan& plan, int ranks, const Sizes& sizes, const RunOptions& options) {
  const Expected expected = interpret(plan, ranks, sizes, options.launches, 1);
  run_and_compare(run, plan, ranks, sizes, expected, options);
}

}  // namespace weft::runtime::test
