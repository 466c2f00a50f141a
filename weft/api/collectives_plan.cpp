// Plans and launches of calls (collectives_plan.h).
#include "weft/api/collectives_plan.h"

#include <algorithm>
#include <cstring>

#include "weft/base/text.h"

namespace weft::api {
namespace {

// The largest number there is where a sum is beyond it: check_total() refuses such a call, after it was agreed upon.
int64_t total(std::span<const int64_t> counts) {
  int64_t sum = 0;
  for (const int64_t count : counts)
    if (__builtin_add_overflow(sum, count, &sum)) return INT64_MAX;
  return sum;
}

[[noreturn]] void refuse(const Call& call, const std::string& what, const std::string& remedy = "") {
  throw Error(ErrorKind::user, fmt::format("{}: {}", describe(call), what), remedy);
}

// The one overlap that is defined: in place, in the form that the operation has.
bool is_in_place_form(const Call& call, int ranks, int rank) {
  const auto *send = static_cast<const std::byte*>(call.send), *recv = static_cast<const std::byte*>(call.recv);
  const int64_t size = size_bytes(call.dtype);
  int64_t before = 0;
  for (int r = 0; r < rank && by_part(call.operation); ++r) before += part_count(call, r) * size;
  switch (call.operation) {
    case Operation::reduce_scatter: return recv == send + before;
    case Operation::all_gather: return send == recv + before;
    case Operation::scatter: return rank == call.root && recv == send + before;
    case Operation::gather: return rank == call.root && send == recv + before;
    case Operation::all_to_all: return ranks == 1 && send == recv;
    default: return send == recv;
  }
}

void check_overlap(const Call& call, int ranks, int rank) {
  const auto send = reinterpret_cast<uintptr_t>(call.send), recv = reinterpret_cast<uintptr_t>(call.recv);
  const auto sent = static_cast<uintptr_t>(send_count(call, ranks, rank) * size_bytes(call.dtype)),
             got = static_cast<uintptr_t>(recv_count(call, ranks, rank) * size_bytes(call.dtype));
  if (sent == 0 || got == 0 || send + sent <= recv || recv + got <= send) return;
  if (is_in_place_form(call, ranks, rank)) return;
  refuse(call, "send and receive buffers overlap and are not in place",
         "in place means send == recv (all_reduce, broadcast, reduce), recv == send + this rank's part "
         "(reduce_scatter, scatter at the root) or send == recv + this rank's part (all_gather, gather at the root)");
}

}  // namespace

bool is_uneven(const Call& call) { return call.uneven || !call.counts.empty() || !call.recv_counts.empty(); }

bool by_part(Operation operation) {
  return operation != Operation::all_reduce && operation != Operation::broadcast && operation != Operation::reduce &&
         operation != Operation::barrier;
}

int64_t part_count(const Call& call, int rank) {
  return call.counts.empty() ? call.count : call.counts[static_cast<size_t>(rank)];
}

int64_t whole_count(const Call& call, int ranks) {
  if (!call.counts.empty()) return total(call.counts);
  return by_part(call.operation) && !is_uneven(call) ? bounded_product(call.count, ranks) : call.count;
}

int64_t send_count(const Call& call, int ranks, int rank) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::gather: return part_count(call, rank);
    case Operation::scatter: return rank == call.root ? whole_count(call, ranks) : 0;
    case Operation::broadcast: return rank == call.root ? call.count : 0;
    case Operation::barrier: return 0;
    default: return whole_count(call, ranks);
  }
}

int64_t recv_count(const Call& call, int ranks, int rank) {
  switch (call.operation) {
    case Operation::reduce_scatter:
    case Operation::scatter: return part_count(call, rank);
    case Operation::reduce: return rank == call.root ? call.count : 0;
    case Operation::gather: return rank == call.root ? whole_count(call, ranks) : 0;
    case Operation::barrier: return 0;
    case Operation::all_to_all: return is_uneven(call) ? total(call.recv_counts) : whole_count(call, ranks);
    default: return whole_count(call, ranks);
  }
}

kernel::Reduction reduction_of(Combine combine) {
  if (combine == Combine::avg || combine == Combine::premul_sum) return kernel::Reduction::sum;
  return *kernel::parse_reduction(name(combine));
}

plan::Plan call_plan(const Call& call, const Setting& setting) {
  algo::PlanRequest request;
  request.collective = call.operation;
  if (reduces(call.operation)) request.reduction = reduction_of(call.combine);
  request.average = reduces(call.operation) && call.combine == Combine::avg;
  if (is_uneven(call)) request.counts = algo::Counts::given;
  request.dtype = name(call.dtype);
  request.protocol = setting.protocol;
  request.slots = setting.slots;
  request.slices = setting.slices;
  request.root = call.root;
  // Parts that belong to ranks are equal to the element; others end at cache lines, so that no two ranks write one.
  request.grain = by_part(call.operation) ? 1 : 64 / size_bytes(call.dtype);
  plan::Plan plan = algo::make_plan(*setting.algorithm, request);
  // The name stands in every message about the plan, also where ranks disagree.
  plan.name += fmt::format("_{}", name(call.dtype));
  if (reduces(call.operation)) plan.name += fmt::format("_{}", name(call.combine));
  if (has_root(call.operation)) plan.name += fmt::format("_root{}", call.root);
  return plan;
}

std::string plan_key(const Call& call, const Setting& setting) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", name(call.operation), name(call.dtype), name(call.combine),
                     call.root, is_uneven(call), setting.text(), setting.slots, setting.slices, setting.stream);
}

plan::LaunchArgs call_args(const plan::Plan& plan, const Call& call, int ranks) {
  plan::LaunchArgs args;
  args.spaces.resize(plan.spaces.size());
  const auto given = [](std::span<const int64_t> counts) { return plan::Given{{counts.begin(), counts.end()}}; };
  plan::SpaceExtent& extent = args.spaces.front();
  if (is_uneven(call))
    extent.extent = given(call.counts);
  else
    extent.extent = plan::Cut{1, whole_count(call, ranks), 1};
  if (call.operation == Operation::all_to_all && is_uneven(call)) args.spaces.at(1).extent = given(call.recv_counts);
  args.buffers.assign(plan.buffers.size(), std::monostate{});
  // What a rank has no use for (a root's buffer elsewhere) is bound to what it has: nobody reads or writes it.
  void* send = const_cast<void*>(call.send ? call.send : call.recv);
  void* recv = call.recv ? call.recv : send;
  args.buffers[static_cast<size_t>(plan::find_buffer(plan, "x"))] = plan::Dense{send};
  args.buffers[static_cast<size_t>(plan::find_buffer(plan, "y"))] = plan::Dense{recv};
  return args;
}

std::vector<int64_t> chunk_elements(const plan::Plan& plan, const Call& call, const Setting& setting) {
  if (setting.chunk_bytes <= 0) return {};
  const int64_t grain = plan.spaces.front().grain;
  const int64_t elements = std::max<int64_t>(1, setting.chunk_bytes / size_bytes(call.dtype));
  // All alike: in an uneven all_to_all what one space calls a chunk of a message, the other calls one too.
  return std::vector<int64_t>(plan.spaces.size(), std::max(grain, elements / grain * grain));
}

namespace {

// Sums and products of counts are 64 bits wide, and so is what they take in bytes.
void check_total(const Call& call, std::span<const int64_t> counts, int64_t times) {
  int64_t sum = 0, elements = 0, bytes = 0;
  bool over = false;
  for (const int64_t count : counts) {
    if (count < 0) refuse(call, fmt::format("a count of {}", count));
    over |= __builtin_add_overflow(sum, count, &sum);
  }
  over |= __builtin_mul_overflow(sum, times, &elements);
  over |= __builtin_mul_overflow(elements, int64_t{size_bytes(call.dtype)}, &bytes);
  if (over) refuse(call, "more bytes than 64 bits count");
}

void check_counts(const Call& call, int ranks, int rank) {
  const auto one_per_rank = [&](std::span<const int64_t> counts) {
    if (static_cast<int>(counts.size()) != ranks)
      refuse(call, fmt::format("{} counts for {} ranks", counts.size(), ranks), "give one count per rank");
    check_total(call, counts, 1);
  };
  check_total(call, {&call.count, 1}, by_part(call.operation) ? ranks : 1);
  if (!is_uneven(call)) return;
  switch (call.operation) {
    case Operation::reduce_scatter:
    case Operation::all_gather: return one_per_rank(call.counts);
    case Operation::scatter:
    case Operation::gather:
      if (rank != call.root && call.counts.empty()) return;
      one_per_rank(call.counts);
      if (rank == call.root && call.counts[static_cast<size_t>(rank)] != call.count && call.uneven)
        refuse(call, fmt::format("the root's own part has {} elements and its count says {}", call.count,
                                 call.counts[static_cast<size_t>(rank)]));
      return;
    case Operation::all_to_all: return one_per_rank(call.counts), one_per_rank(call.recv_counts);
    default:
      throw Error(ErrorKind::unsupported, fmt::format("{} with one count per rank", name(call.operation)),
                  "its count is the whole, the same on all ranks");
  }
}

}  // namespace

void check_call(const Call& call, int ranks, int rank) {
  if (call.dtype == Dtype::f64x2) refuse(call, "f64x2 exists inside plans only");
  if (call.operation == Operation::send_recv)
    refuse(call, "a call that all ranks make cannot be a message", "use send and recv");
  if (has_root(call.operation) && (call.root < 0 || call.root >= ranks))
    refuse(call, fmt::format("root {} is no rank of {}", call.root, ranks), "ranks of a communicator count from 0");
  if (reduces(call.operation))
    if (const std::string why = why_illegal(call.combine, call.dtype); !why.empty()) refuse(call, why);
  check_counts(call, ranks, rank);
  if (!call.send && send_count(call, ranks, rank) > 0) refuse(call, "the send buffer is null");
  if (!call.recv && recv_count(call, ranks, rank) > 0) refuse(call, "the receive buffer is null");
  check_overlap(call, ranks, rank);
}

void multiply(Dtype dtype, const void* from, void* to, int64_t count, double scale) {
  const int64_t size = size_bytes(dtype);
  const auto* a = static_cast<const std::byte*>(from);
  auto* b = static_cast<std::byte*>(to);
  if (dtype == Dtype::f32) {
    const auto factor = static_cast<float>(scale);
    for (int64_t i = 0; i < count; ++i) {  // by memcpy: pointers of users need no alignment
      float value;
      std::memcpy(&value, a + 4 * i, 4);
      value *= factor;
      std::memcpy(b + 4 * i, &value, 4);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(dtype))
      store_f64(dtype, b + i * size, load_f64(dtype, a + i * size) * scale);
    else
      store_i64(dtype, b + i * size, load_i64(dtype, a + i * size) * static_cast<int64_t>(scale));
  }
}

void divide(Dtype dtype, void* at, int64_t count, int64_t by) {
  const int64_t size = size_bytes(dtype);
  auto* a = static_cast<std::byte*>(at);
  for (int64_t i = 0; i < count; ++i, a += size) {
    if (dtype == Dtype::u64)
      store_i64(dtype, a, static_cast<int64_t>(static_cast<uint64_t>(load_i64(dtype, a)) / static_cast<uint64_t>(by)));
    else
      store_i64(dtype, a, load_i64(dtype, a) / by);
  }
}

}  // namespace weft::api
