// What one rank of `weft bench` does: time a cell, check it in full, say what runs.
//
// Repeating an in-place call on lines that are dirty in one's own cache measures the cache: with --touch the input is
// rewritten before every timed call and with --touch-read the whole result is read inside the timed span. Peers are
// timed by the same code (bench/peers/timing.h).
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/peers/timing.h"
#include "tools/bench.h"
#include "weft/api/collectives_plan.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/codegen/library.h"
#include "weft/transport/mapping.h"

namespace weft::tools {
namespace {

constexpr int64_t block = 4096;

// Values that tell rank and index apart and are exact in every dtype, also when a few ranks' are combined.
int small_value(int rank, int64_t index) {
  const auto h = (static_cast<uint32_t>(index) + static_cast<uint32_t>(index >> 32) * 77u) * 2654435761u +
                 static_cast<uint32_t>(rank) * 40503u;
  return static_cast<int>((h >> 16) % 15) - 7;
}

void store_pattern(Dtype dtype, void* to, int64_t first, int64_t count, int rank) {
  auto* at = static_cast<std::byte*>(to);
  if (dtype == Dtype::f32) {
    for (int64_t i = 0; i < count; ++i) {
      const auto v = static_cast<float>(small_value(rank, first + i));
      std::memcpy(at + 4 * i, &v, 4);
    }
    return;
  }
  const int64_t size = size_bytes(dtype);
  const bool no_sign = !is_float(dtype) && !is_signed(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int v = small_value(rank, first + i);
    if (is_float(dtype))
      store_f64(dtype, at + i * size, v);
    else
      store_i64(dtype, at + i * size, dtype == Dtype::boolean ? v > 0 : no_sign ? v + 8 : v);
  }
}

class BenchRank {
 public:
  BenchRank(transport::Transport& transport, const BenchSetup& setup)
      : kernels_(codegen::generated_library()),
        communicator_(transport, *kernels_),
        comm_(communicator_, setup.options),
        rank_(transport.rank()),
        ranks_(transport.size()) {
    const int64_t room = setup.room_bytes + 4096;
    switch (setup.memory) {
      case Memory::mapped: send_ = bytes(comm_.allocate(room)), recv_ = bytes(comm_.allocate(room)); break;
      case Memory::arena: send_ = bytes(comm_.arena_allocate(room)), recv_ = bytes(comm_.arena_allocate(room)); break;
      case Memory::private_: {
        const int64_t each = transport::rounded_block_bytes(room);
        own_ = std::make_unique<transport::Mapping>(-1, 2 * each, "bench buffers");
        send_ = own_->data(), recv_ = own_->data() + each;
      }
    }
    if (!send_ || !recv_)
      throw Error(ErrorKind::io, "the arena is smaller than the buffers", "set WEFT_ARENA, or use --memory mapped");
    transport::prefault(send_, room);
    transport::prefault(recv_, room);
  }

  std::string command(std::string_view text) {
    const size_t space = text.find(' ');
    const std::string verb(text.substr(0, space));
    const BenchCell cell = parse_cell(std::string(text.substr(space + 1)));
    if (verb == "time") return fmt::format("{:.2f}", time_ns(cell));
    if (verb == "check") return std::to_string(check(cell));
    return comm_.explain(call_of(cell), comm_.is_mapped(send_));
  }

 private:
  static std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

  Call call_of(const BenchCell& cell) const {
    Call call;
    call.operation = cell.operation;
    call.dtype = cell.dtype;
    call.combine = cell.combine;
    call.count = cell.count;
    call.root = cell.root;
    call.scale = 1;
    call.send = send_;
    call.recv = recv_;
    const int64_t part = cell.count * rank_ * size_bytes(cell.dtype);
    if (!cell.in_place) return call;
    switch (cell.operation) {
      case Operation::reduce_scatter: call.recv = send_ + part; break;
      case Operation::all_gather: call.send = recv_ + part; break;
      case Operation::scatter: call.recv = rank_ == cell.root ? send_ + part : recv_; break;
      case Operation::gather: call.send = rank_ == cell.root ? recv_ + part : send_; break;
      case Operation::all_to_all: break;
      default: call.recv = send_;
    }
    return call;
  }

  double time_ns(const BenchCell& cell) {
    const Call call = call_of(cell);
    const int64_t size = size_bytes(cell.dtype), sent = api::send_count(call, ranks_, rank_) * size,
                  got = api::recv_count(call, ranks_, rank_) * size;
    for (int64_t i = 0; i < cell.warmup; ++i) comm_.run(call);
    comm_.barrier();
    const auto run = [&] {
      for (int64_t g = 0; g < cell.grouped; ++g) comm_.run(call);
      if (cell.read) sink_ = sink_ + timing::read_all(call.recv, got);
    };
    const timing::Question question{
        const_cast<void*>(call.send), sent, whole_bytes(cell, ranks_), cell.iterations, cell.touch, cell.read};
    const double ns = timing::median_call_ns(question, run, [this] { comm_.barrier(); });
    comm_.barrier();
    return ns / static_cast<double>(cell.grouped);
  }

  // ---- the check: what each block must hold, folded in the accumulator and rounded once
  void fold_block(const BenchCell& cell, int64_t first, int64_t count, std::byte* out) {
    const Dtype wide = accumulate_dtype(cell.dtype);
    const kernel::Reduction reduction = api::reduction_of(cell.combine);
    std::vector<std::byte> sum(static_cast<size_t>(count * 8)), next(sum.size()), raw(sum.size());
    for (int r = 0; r < ranks_; ++r) {
      store_pattern(cell.dtype, raw.data(), first, count, r);
      std::byte* to = r == 0 ? sum.data() : next.data();
      convert(cell.dtype, raw.data(), wide, to, count);
      if (r > 0) kernel::combine(reduction, wide, sum.data(), next.data(), count);
    }
    convert(wide, sum.data(), cell.dtype, out, count);
    if (cell.combine != Combine::avg) return;
    if (!is_float(cell.dtype)) return api::divide(cell.dtype, out, count, ranks_);
    const int64_t size = size_bytes(cell.dtype);
    for (int64_t i = 0; i < count; ++i) {
      if (cell.dtype == Dtype::f64) {
        store_f64(cell.dtype, out + i * size, load_f64(cell.dtype, out + i * size) / ranks_);
        continue;
      }
      const float mean = static_cast<float>(load_f64(cell.dtype, out + i * size)) / static_cast<float>(ranks_);
      store_f64(cell.dtype, out + i * size, static_cast<double>(mean));
    }
  }

  static void convert(Dtype from, const std::byte* at, Dtype to, std::byte* out, int64_t count) {
    if (from == to) return void(std::memcpy(out, at, static_cast<size_t>(count * size_bytes(from))));
    for (int64_t i = 0; i < count; ++i)
      store_f64(to, out + i * size_bytes(to), load_f64(from, at + i * size_bytes(from)));
  }

  // Elements [first, first + count) of what this rank must have received.
  void expect(const BenchCell& cell, int64_t first, int64_t count, std::byte* out) {
    const int64_t n = cell.count, size = size_bytes(cell.dtype);
    switch (cell.operation) {
      case Operation::all_reduce:
      case Operation::reduce: return fold_block(cell, first, count, out);
      case Operation::reduce_scatter: return fold_block(cell, n * rank_ + first, count, out);
      case Operation::broadcast: return store_pattern(cell.dtype, out, first, count, cell.root);
      case Operation::scatter: return store_pattern(cell.dtype, out, n * rank_ + first, count, cell.root);
      default: break;
    }
    for (int64_t done = 0; done < count;) {  // all_gather, gather, all_to_all: one part after the other
      const int64_t from = (first + done) / n, at = (first + done) % n, here = std::min(count - done, n - at);
      const int64_t position = (cell.operation == Operation::all_to_all ? n * rank_ : n * from) + at;
      store_pattern(cell.dtype, out + done * size, position, here, static_cast<int>(from));
      done += here;
    }
  }

  int64_t check(const BenchCell& cell) {
    const Call call = call_of(cell);
    const int64_t size = size_bytes(cell.dtype), sent = api::send_count(call, ranks_, rank_),
                  got = api::recv_count(call, ranks_, rank_);
    const bool part = cell.operation == Operation::all_gather || cell.operation == Operation::gather;
    std::memset(call.recv, 0xa5, static_cast<size_t>(got * size));
    store_pattern(cell.dtype, const_cast<void*>(call.send), part ? cell.count * rank_ : 0, sent, rank_);
    comm_.run(call);
    int64_t wrong = 0;
    std::vector<std::byte> want(static_cast<size_t>(block * size));
    for (int64_t at = 0; at < got; at += block) {
      const int64_t count = std::min(block, got - at);
      expect(cell, at, count, want.data());
      const std::byte* have = static_cast<const std::byte*>(call.recv) + at * size;
      if (std::memcmp(have, want.data(), static_cast<size_t>(count * size)) == 0) continue;
      for (int64_t i = 0; i < count; ++i)
        wrong += std::memcmp(have + i * size, want.data() + i * size, static_cast<size_t>(size)) != 0;
    }
    comm_.barrier();
    return wrong;
  }

  std::unique_ptr<kernel::KernelLibrary> kernels_;
  runtime::Communicator communicator_;
  Collectives comm_;
  int rank_, ranks_;
  std::unique_ptr<transport::Mapping> own_;
  std::byte *send_ = nullptr, *recv_ = nullptr;
  volatile uint64_t sink_ = 0;
};

}  // namespace

std::string print(const BenchCell& cell) {
  return nlohmann::json{{"operation", name(cell.operation)},
                        {"dtype", name(cell.dtype)},
                        {"combine", name(cell.combine)},
                        {"root", cell.root},
                        {"count", cell.count},
                        {"in_place", cell.in_place},
                        {"touch", cell.touch},
                        {"read", cell.read},
                        {"iterations", cell.iterations},
                        {"warmup", cell.warmup},
                        {"grouped", cell.grouped}}
      .dump();
}

BenchCell parse_cell(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  BenchCell cell;
  cell.operation = *parse_operation(json["operation"].get<std::string>());
  cell.dtype = *parse_dtype(json["dtype"].get<std::string>());
  cell.combine = *parse_combine(json["combine"].get<std::string>());
  cell.root = json["root"];
  cell.count = json["count"];
  cell.in_place = json["in_place"];
  cell.touch = json["touch"];
  cell.read = json["read"];
  cell.iterations = json["iterations"];
  cell.warmup = json["warmup"];
  cell.grouped = json["grouped"];
  return cell;
}

int64_t whole_bytes(const BenchCell& cell, int ranks) {
  Call call;
  call.operation = cell.operation;
  call.count = cell.count;
  return api::whole_count(call, ranks) * size_bytes(cell.dtype);
}

double bus_factor(Operation operation, int ranks) {
  switch (operation) {
    case Operation::all_reduce: return 2.0 * (ranks - 1) / ranks;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::barrier: return 1;
    default: return static_cast<double>(ranks - 1) / ranks;
  }
}

transport::CommandLoop bench_rank(transport::Transport& transport, const BenchSetup& setup) {
  auto rank = std::make_shared<BenchRank>(transport, setup);
  return [rank](transport::Transport&, std::string_view text) { return rank->command(text); };
}

}  // namespace weft::tools
