// The C functions: tensors become calls, exceptions become a status and a message (weft.h).
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/api/collectives.h"
#include "weft/api/process_arena.h"
#include "weft/api/weft.h"
#include "weft/capi/tensor.h"
#include "weft/transport/rendezvous.h"

struct weft_comm {
  weft::Collectives* collectives = nullptr;
  // Of a communicator that weft_comm_create made, in the order in which they depend on each other.
  std::unique_ptr<weft::transport::Transport> transport;
  std::unique_ptr<weft::Rank> rank;
  std::unique_ptr<weft::Collectives> owned;
};
struct weft_arena {
  std::shared_ptr<weft::api::ProcessArena> arena;
};
struct weft_work {
  weft::Pending pending;
  weft::capi::Contiguous send, recv;
  bool stored = false;
  weft::Arrival arrival;
  int *source = nullptr, *tag = nullptr;  // the caller's, of a receive

  void store() {
    if (std::exchange(stored, true)) return;
    recv.store();
    if (source) *source = arrival.source;
    if (tag) *tag = arrival.tag;
  }
};

namespace {

using namespace weft;
using capi::Contiguous;

thread_local std::string last_error;

// What was noted since weft_batch_begin, and the tensors that it uses.
struct NotedBatch {
  weft::Batch batch;
  std::vector<std::unique_ptr<weft_work>> works;
};
thread_local std::unique_ptr<NotedBatch> noted;

weft_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user: return WEFT_ERROR_USER;
    case ErrorKind::plan: return WEFT_ERROR_PLAN;
    case ErrorKind::agreement: return WEFT_ERROR_AGREEMENT;
    case ErrorKind::io: return WEFT_ERROR_IO;
    case ErrorKind::timeout: return WEFT_ERROR_TIMEOUT;
    case ErrorKind::peer: return WEFT_ERROR_PEER;
    case ErrorKind::unsupported: return WEFT_ERROR_UNSUPPORTED;
    case ErrorKind::internal: break;
  }
  return WEFT_ERROR_INTERNAL;
}

template <typename F>
weft_status guarded(F&& f) noexcept {
  try {
    f();
    return WEFT_OK;
  } catch (const Error& error) {
    last_error = fmt::format("{} error: {}", name(error.kind()), error.what());
    return status_of(error.kind());
  } catch (const std::exception& error) {
    last_error = fmt::format("internal error: {}", error.what());
    return WEFT_ERROR_INTERNAL;
  }
}

Collectives& engine(const weft_comm* comm) {
  if (!comm) throw Error(ErrorKind::user, "the communicator is NULL");
  return *comm->collectives;
}

Dtype dtype_of(weft_dtype dtype) {
  if (dtype < WEFT_F64 || dtype > WEFT_BOOL)
    throw Error(ErrorKind::user, fmt::format("dtype {} is none of weft_dtype", static_cast<int>(dtype)));
  return static_cast<Dtype>(dtype);
}
static_assert(static_cast<int>(Dtype::boolean) == WEFT_BOOL && static_cast<int>(Dtype::i64) == WEFT_I64);

Combine combine_of(weft_combine combine) {
  if (combine < WEFT_SUM || combine > WEFT_LOGICAL_OR || static_cast<Combine>(combine) == Combine::premul_sum)
    throw Error(ErrorKind::user, fmt::format("combination {} is none of weft_combine", static_cast<int>(combine)));
  return static_cast<Combine>(combine);
}
static_assert(static_cast<int>(Combine::logical_or) == WEFT_LOGICAL_OR && static_cast<int>(Combine::avg) == WEFT_AVG);

// What the two tensors of a call must have in common.
struct Operands {
  Contiguous send, recv;
  bool given_send = false;  // else in place; the memory of an empty tensor may be NULL
  Dtype dtype = Dtype::f32;
};

Operands operands(const weft_tensor* send, weft_tensor* recv, bool keep_recv) {
  if (!send && !recv) throw Error(ErrorKind::user, "both tensors are NULL");
  Operands out;
  out.given_send = send != nullptr;
  if (send) out.send = Contiguous(*send, true), out.dtype = out.send.dtype();
  if (recv) out.recv = Contiguous(*recv, keep_recv || !send), out.dtype = out.recv.dtype();
  if (send && recv && out.send.dtype() != out.recv.dtype())
    throw Error(ErrorKind::user, fmt::format("the send tensor has {} and the receive tensor {} elements",
                                             name(out.send.dtype()), name(out.recv.dtype())));
  return out;
}

int64_t part_of(int64_t whole, int ranks, const char* which) {
  if (whole % ranks != 0)
    throw Error(ErrorKind::user,
                fmt::format("{} elements of the {} tensor are not a multiple of {} ranks", whole, which, ranks),
                "use the form with one count per rank");
  return whole / ranks;
}

void expect_count(int64_t have, int64_t want, const char* which) {
  if (have != want)
    throw Error(ErrorKind::user, fmt::format("the {} tensor has {} elements, not {}", which, have, want));
}

// In place at the level of tensors: recv holds the contribution. Where that is a part of it, its place is this rank's.
void place(Call& call, const Operands& tensors, int rank) {
  auto* recv = static_cast<std::byte*>(tensors.recv.data());
  call.recv = recv;
  call.send = tensors.send.data();
  if (tensors.given_send || !recv) return;
  const bool part = call.operation == Operation::all_gather || call.operation == Operation::gather;
  call.send = recv + (part ? call.count * rank * size_bytes(call.dtype) : 0);
}

// Of a blocking call: its result goes to where the caller wants it, now or at the end of the batch.
void finish(Operands tensors) {
  if (!noted) return tensors.recv.store();
  auto work = std::make_unique<weft_work>();
  work->send = std::move(tensors.send), work->recv = std::move(tensors.recv);
  noted->works.push_back(std::move(work));
}

weft_status run(weft_comm* comm, Call call, const weft_tensor* send, weft_tensor* recv, weft_work** work,
                void (*count)(Call&, const Operands&, int ranks, int rank)) {
  return guarded([&] {
    Collectives& collectives = engine(comm);
    Operands tensors = operands(send, recv, call.operation == Operation::broadcast);
    call.dtype = tensors.dtype;
    count(call, tensors, collectives.size(), collectives.rank());
    place(call, tensors, collectives.rank());
    if (work) {
      auto out = std::make_unique<weft_work>();
      out->send = tensors.send, out->recv = tensors.recv;
      out->pending = collectives.start(call);
      *work = out.release();
      return;
    }
    collectives.run(call);
    finish(std::move(tensors));
  });
}

std::span<const int64_t> per_rank(const weft_comm* comm, const int64_t* counts) {
  return {counts, counts ? static_cast<size_t>(engine(comm).size()) : 0};
}

// To the caller, or to the batch.
void hand_out(std::unique_ptr<weft_work> out, weft_work** work) {
  if (work)
    *work = out.release();
  else
    noted->works.push_back(std::move(out));
}

weft_status run_ranks(int ranks, weft_body body, void* user, bool threads) {
  return guarded([&] {
    if (!body) throw Error(ErrorKind::user, "the body is NULL");
    if (ranks < 1 || ranks > 1024) throw Error(ErrorKind::user, fmt::format("{} ranks", ranks), "from 1 to 1024");
    RunOptions options;
    options.threads = threads;
    weft::run(
        ranks,
        [&](Rank& rank) {
          Collectives collectives(rank.communicator());
          weft_comm comm;
          comm.collectives = &collectives;
          body(&comm, user);
        },
        options);
  });
}

weft_comm* joined(const transport::JoinOptions& options, const weft_comm_options& given = {}) {
  auto comm = std::make_unique<weft_comm>();
  comm->transport = transport::join_job(options);
  comm->rank = std::make_unique<Rank>(*comm->transport);
  CollectiveOptions settings;
  settings.arena_bytes = given.arena_bytes == 0 ? -1 : std::max<int64_t>(given.arena_bytes, 0);
  if (given.arena) settings.process_arena = given.arena->arena;
  comm->owned = std::make_unique<Collectives>(comm->rank->communicator(), settings);
  comm->collectives = comm->owned.get();
  return comm.release();
}

}  // namespace

extern "C" {

int weft_abi_version(void) { return WEFT_ABI_VERSION; }
const char* weft_version(void) { return "0.1.0"; }
const char* weft_last_error(void) { return last_error.c_str(); }

weft_status weft_run(int ranks, weft_body body, void* user) { return run_ranks(ranks, body, user, false); }
weft_status weft_run_threads(int ranks, weft_body body, void* user) { return run_ranks(ranks, body, user, true); }

weft_status weft_comm_create(const char* file, int rank, int size, weft_comm** comm) {
  return guarded([&] {
    transport::JoinOptions options;
    options.file = file ? file : "";
    options.rank = rank, options.ranks = size;
    *comm = joined(options);
  });
}
weft_status weft_comm_create_with(const char* file, int rank, int size, const weft_comm_options* options,
                                  weft_comm** comm) {
  return guarded([&] {
    weft_comm_options given = {};
    if (options) {
      if (options->struct_bytes < offsetof(weft_comm_options, arena))
        throw Error(ErrorKind::user, fmt::format("weft_comm_options of {} bytes", options->struct_bytes),
                    "set struct_bytes to sizeof(weft_comm_options)");
      std::memcpy(&given, options, std::min(options->struct_bytes, sizeof given));  // an older one is shorter
    }
    if (!(given.timeout_s >= 0 && given.timeout_s < 1e9))
      throw Error(ErrorKind::user, fmt::format("a timeout of {} s", given.timeout_s), "give 0 for the usual one");
    transport::JoinOptions join;
    join.file = file ? file : "";
    join.rank = rank, join.ranks = size;
    join.timeout_ns = static_cast<int64_t>(given.timeout_s * 1e9);
    *comm = joined(join, given);
  });
}
weft_status weft_arena_create(int64_t bytes, weft_arena** arena) {
  return guarded([&] {
    if (bytes == 0) bytes = api::process_arena_bytes();
    if (bytes <= 0)
      throw Error(ErrorKind::user, fmt::format("an arena of {} bytes", bytes), "WEFT_ARENA says how many");
    *arena = new weft_arena{std::make_shared<api::ProcessArena>(bytes)};
  });
}
static api::ProcessArena& held(weft_arena* arena) {
  if (!arena) throw Error(ErrorKind::user, "the arena is NULL", "make one with weft_arena_create");
  return *arena->arena;
}
// What no memory has is refused by whoever is asked for it.
static int64_t bytes_of(size_t bytes) { return static_cast<int64_t>(std::min(bytes, size_t{INT64_MAX})); }

weft_status weft_arena_destroy(weft_arena* arena) {
  return guarded([&] {
    if (arena && arena->arena->blocks().used_bytes() > 0)
      throw Error(ErrorKind::user,
                  fmt::format("{} bytes of this arena are in use", arena->arena->blocks().used_bytes()),
                  "free them first");
    delete arena;
  });
}
void* weft_arena_alloc(weft_arena* arena, size_t bytes) {
  void* memory = nullptr;
  guarded([&] { memory = held(arena).allocate(bytes_of(bytes)); });
  return memory;
}
weft_status weft_arena_free(weft_arena* arena, void* memory) {
  return guarded([&] { held(arena).blocks().release(memory); });
}
int weft_arena_holds(const weft_arena* arena, const void* memory) {
  return arena && arena->arena->blocks().holds(memory) ? 1 : 0;
}

weft_status weft_comm_abort(weft_comm* comm, const char* why) {
  return guarded([&] {
    if (!comm || !comm->transport)
      throw Error(ErrorKind::user, "only a communicator that was created can be aborted", "return from the body");
    comm->transport->raise({ErrorKind::peer, comm->transport->rank(), why && *why ? why : "aborted by its caller"});
  });
}
weft_status weft_comm_check(weft_comm* comm) {
  return guarded([&] { engine(comm).check(); });
}
weft_status weft_comm_create_from_environment(weft_comm** comm) {
  return guarded([&] {
    const auto options = transport::join_from_environment();
    if (!options)
      throw Error(ErrorKind::user, "no launcher has said which rank this process is",
                  "start it by mpirun, torchrun or srun, or set WEFT_RANK, WEFT_RANKS and WEFT_RENDEZVOUS (a path)");
    *comm = joined(*options);
  });
}
weft_status weft_comm_destroy(weft_comm* comm) {
  return guarded([&] {
    if (comm && !comm->owned)
      throw Error(ErrorKind::user, "this communicator belongs to weft_run", "return from the body");
    delete comm;
  });
}

weft_status weft_comm_split(weft_comm* comm, int color, int key, weft_comm** group) {
  return guarded([&] {
    auto out = std::make_unique<weft_comm>();
    out->owned = engine(comm).split(color, key);
    out->collectives = out->owned.get();
    *group = out->owned ? out.release() : nullptr;
  });
}

int weft_comm_rank(const weft_comm* comm) { return comm ? comm->collectives->rank() : -1; }
int weft_comm_size(const weft_comm* comm) { return comm ? comm->collectives->size() : -1; }

void* weft_alloc(weft_comm* comm, size_t bytes) {
  void* memory = nullptr;
  guarded([&] {
    memory = engine(comm).arena_allocate(bytes_of(bytes));
    if (!memory)
      throw Error(ErrorKind::io, fmt::format("the arena has no room for {} bytes", bytes),
                  "set WEFT_ARENA to a larger size");
  });
  return memory;
}
weft_status weft_free(weft_comm* comm, void* memory) {
  return guarded([&] { engine(comm).arena_release(memory); });
}
int weft_is_mapped(const weft_comm* comm, const void* memory, size_t bytes) {
  return comm && comm->collectives->is_mapped(memory, static_cast<int64_t>(bytes)) ? 1 : 0;
}
weft_status weft_symmetric_alloc(weft_comm* comm, size_t bytes, void** memory) {
  return guarded([&] { *memory = engine(comm).allocate(static_cast<int64_t>(bytes)); });
}
weft_status weft_symmetric_free(weft_comm* comm, void* memory) {
  return guarded([&] { engine(comm).release(memory); });
}

weft_status weft_all_reduce(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_combine combine,
                            weft_work** work) {
  Call call;
  call.operation = Operation::all_reduce;
  const weft_status legal = guarded([&] { call.combine = combine_of(combine); });
  if (legal != WEFT_OK) return legal;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int, int) {
    c.count = t.recv.count();
    if (t.given_send) expect_count(t.send.count(), c.count, "send");
  });
}
weft_status weft_reduce_scatter(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_combine combine,
                                weft_work** work) {
  Call call;
  call.operation = Operation::reduce_scatter;
  const weft_status legal = guarded([&] {
    call.combine = combine_of(combine);
    if (!send || !recv) throw Error(ErrorKind::user, "reduce_scatter wants both tensors");
  });
  if (legal != WEFT_OK) return legal;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int ranks, int) {
    c.count = part_of(t.send.count(), ranks, "send");
    expect_count(t.recv.count(), c.count, "receive");
  });
}
weft_status weft_all_gather(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_work** work) {
  Call call;
  call.operation = Operation::all_gather;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int ranks, int) {
    c.count = part_of(t.recv.count(), ranks, "receive");
    if (t.given_send) expect_count(t.send.count(), c.count, "send");
  });
}
weft_status weft_broadcast(weft_comm* comm, weft_tensor* tensor, int root, weft_work** work) {
  Call call;
  call.operation = Operation::broadcast;
  call.root = root;
  return run(comm, call, nullptr, tensor, work, [](Call& c, const Operands& t, int, int) { c.count = t.recv.count(); });
}
weft_status weft_reduce(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_combine combine, int root,
                        weft_work** work) {
  Call call;
  call.operation = Operation::reduce;
  call.root = root;
  const weft_status legal = guarded([&] { call.combine = combine_of(combine); });
  if (legal != WEFT_OK) return legal;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int, int rank) {
    c.count = t.given_send ? t.send.count() : t.recv.count();
    if (rank == c.root && t.given_send) expect_count(t.recv.count(), c.count, "receive");
  });
}
weft_status weft_scatter(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, int root, weft_work** work) {
  Call call;
  call.operation = Operation::scatter;
  call.root = root;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int ranks, int rank) {
    c.count = t.recv.data() || rank != c.root ? t.recv.count() : part_of(t.send.count(), ranks, "send");
    if (rank == c.root) expect_count(t.send.count(), c.count * ranks, "send");
  });
}
weft_status weft_gather(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, int root, weft_work** work) {
  Call call;
  call.operation = Operation::gather;
  call.root = root;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int ranks, int rank) {
    c.count = t.given_send ? t.send.count() : part_of(t.recv.count(), ranks, "receive");
    if (rank == c.root) expect_count(t.recv.count(), c.count * ranks, "receive");
  });
}
weft_status weft_all_to_all(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_work** work) {
  Call call;
  call.operation = Operation::all_to_all;
  return run(comm, call, send, recv, work, [](Call& c, const Operands& t, int ranks, int) {
    c.count = part_of(t.send.count(), ranks, "send");
    expect_count(t.recv.count(), t.send.count(), "receive");
  });
}
weft_status weft_barrier(weft_comm* comm) {
  return guarded([&] { engine(comm).barrier(); });
}

weft_status weft_all_reduce_flat(weft_comm* comm, const void* send, void* recv, int64_t count, weft_dtype dtype,
                                 weft_combine combine) {
  return guarded([&] { engine(comm).all_reduce(send, recv, count, dtype_of(dtype), combine_of(combine)); });
}
weft_status weft_reduce_scatter_flat(weft_comm* comm, const void* send, void* recv, int64_t count, weft_dtype dtype,
                                     weft_combine combine) {
  return guarded([&] { engine(comm).reduce_scatter(send, recv, count, dtype_of(dtype), combine_of(combine)); });
}
weft_status weft_all_gather_flat(weft_comm* comm, const void* send, void* recv, int64_t count, weft_dtype dtype) {
  return guarded([&] { engine(comm).all_gather(send, recv, count, dtype_of(dtype)); });
}
weft_status weft_reduce_scatter_v_flat(weft_comm* comm, const void* send, void* recv, const int64_t* counts,
                                       weft_dtype dtype, weft_combine combine) {
  return guarded([&] {
    Collectives& collectives = engine(comm);
    collectives.reduce_scatter_v(send, recv, {counts, static_cast<size_t>(collectives.size())}, dtype_of(dtype),
                                 combine_of(combine));
  });
}
weft_status weft_all_gather_v_flat(weft_comm* comm, const void* send, void* recv, const int64_t* counts,
                                   weft_dtype dtype) {
  return guarded([&] {
    Collectives& collectives = engine(comm);
    collectives.all_gather_v(send, recv, {counts, static_cast<size_t>(collectives.size())}, dtype_of(dtype));
  });
}

weft_status weft_scatter_v_flat(weft_comm* comm, const void* send, const int64_t* counts, void* recv, int64_t count,
                                weft_dtype dtype, int root) {
  return guarded([&] { engine(comm).scatter_v(send, per_rank(comm, counts), recv, count, dtype_of(dtype), root); });
}
weft_status weft_gather_v_flat(weft_comm* comm, const void* send, int64_t count, void* recv, const int64_t* counts,
                               weft_dtype dtype, int root) {
  return guarded([&] { engine(comm).gather_v(send, count, recv, per_rank(comm, counts), dtype_of(dtype), root); });
}
weft_status weft_all_to_all_v_flat(weft_comm* comm, const void* send, const int64_t* counts, void* recv,
                                   const int64_t* recv_counts, weft_dtype dtype) {
  return guarded([&] {
    engine(comm).all_to_all_v(send, per_rank(comm, counts), recv, per_rank(comm, recv_counts), dtype_of(dtype));
  });
}
weft_status weft_all_to_all_v_exchange_flat(weft_comm* comm, const void* send, const int64_t* counts, void* recv,
                                            int64_t room, int64_t* got, weft_dtype dtype) {
  return guarded([&] {
    const auto ranks = static_cast<size_t>(engine(comm).size());
    engine(comm).all_to_all_v(send, per_rank(comm, counts), recv, room, std::span(got, got ? ranks : 0),
                              dtype_of(dtype));
  });
}

weft_status weft_send(weft_comm* comm, const weft_tensor* tensor, int to, int tag, weft_work** work) {
  return guarded([&] {
    if (!tensor) throw Error(ErrorKind::user, "the tensor is NULL");
    auto out = std::make_unique<weft_work>();
    out->send = Contiguous(*tensor, true);
    const Contiguous& data = out->send;
    if (!work && !noted) return engine(comm).send(data.data(), data.count(), data.dtype(), to, tag);
    out->pending = engine(comm).start_send(data.data(), data.count(), data.dtype(), to, tag);
    hand_out(std::move(out), work);
  });
}
weft_status weft_recv(weft_comm* comm, weft_tensor* tensor, int from, int tag, int* source, int* got_tag,
                      weft_work** work) {
  return guarded([&] {
    if (!tensor) throw Error(ErrorKind::user, "the tensor is NULL");
    auto out = std::make_unique<weft_work>();
    out->recv = Contiguous(*tensor, false);
    Contiguous& data = out->recv;
    out->pending = engine(comm).start_receive(data.data(), data.count(), data.dtype(), from, tag, &out->arrival);
    if (work || !noted) out->source = source, out->tag = got_tag;
    if (work || noted) return hand_out(std::move(out), work);
    out->pending.wait();
    out->store();
  });
}
weft_status weft_batch_begin(void) {
  return guarded([&] {
    if (noted) throw Error(ErrorKind::user, "a batch has begun already", "end it first: batches do not nest");
    noted = std::make_unique<NotedBatch>();
  });
}
weft_status weft_batch_end(void) {
  return guarded([&] {
    if (!noted) throw Error(ErrorKind::user, "no batch has begun", "weft_batch_begin");
    const auto batch = std::exchange(noted, nullptr);
    std::exception_ptr first;
    const auto keep = [&](auto&& f) {
      try {
        f();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    };
    keep([&] { batch->batch.wait(); });
    for (const auto& work : batch->works) keep([&] { work->pending.wait(), work->store(); });
    if (first) std::rethrow_exception(first);
  });
}

weft_status weft_work_test(weft_work* work, int* done) {
  return guarded([&] {
    if (!work || !done) throw Error(ErrorKind::user, "the work is NULL");
    *done = work->pending.test() ? 1 : 0;
    if (*done) work->store();
  });
}
weft_status weft_work_wait(weft_work* work) {
  return guarded([&] {
    if (!work) throw Error(ErrorKind::user, "the work is NULL");
    work->pending.wait();
    work->store();
  });
}
weft_status weft_work_free(weft_work* work) {
  return guarded([&] {
    const std::unique_ptr<weft_work> owned(work);
    if (work && !work->stored) work->pending.wait(), work->store();
  });
}

}  // extern "C"
