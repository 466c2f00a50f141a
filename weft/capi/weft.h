/* Weft from C: collectives on CPU ranks. Stable: functions and values are added, never changed; `weft_abi_version()`
 * grows with what is added.
 *
 *   static void body(weft_comm* comm, void* user) {
 *     float* x = weft_alloc(comm, 1024 * sizeof(float));               // memory that peers read in place
 *     if (weft_all_reduce_flat(comm, x, x, 1024, WEFT_F32, WEFT_SUM) != WEFT_OK) puts(weft_last_error());
 *   }
 *   weft_run(4, body, NULL);                                           // four processes
 *
 * Tensors are DLPack's: weft_tensor has the layout of DLTensor, so a DLTensor* may be passed as it is (include dlpack.h
 * first and no cast is needed). Any strides are honoured; contiguous tensors are used in place, others are copied.
 * Device is CPU. Nothing here throws or aborts: every call returns a status, and weft_last_error() says what, why and
 * what to do, per thread. A communicator is used by one thread at a time; weft_alloc by any.
 * All ranks make the same calls in the same order; ranks that differ all get WEFT_ERROR_AGREEMENT. */
#ifndef WEFT_H_
#define WEFT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#define WEFT_ABI_VERSION 4

/* Enumerations are as wide as in C; to C++ every number is a value of them, so that a wrong one can be looked at. */
#ifdef __cplusplus
#define WEFT_NUMBER : unsigned
#else
#define WEFT_NUMBER
#endif

typedef enum WEFT_NUMBER {
  WEFT_OK = 0,
  WEFT_ERROR_USER = 1,      /* the caller's arguments */
  WEFT_ERROR_PLAN = 2,      /* a plan that breaks a rule */
  WEFT_ERROR_AGREEMENT = 3, /* ranks called different things */
  WEFT_ERROR_IO = 4,        /* the operating system refused something */
  WEFT_ERROR_TIMEOUT = 5,   /* a wait passed its deadline */
  WEFT_ERROR_PEER = 6,      /* another rank failed or died */
  WEFT_ERROR_UNSUPPORTED = 7,
  WEFT_ERROR_INTERNAL = 8
} weft_status;

typedef enum WEFT_NUMBER {
  WEFT_F64 = 0,
  WEFT_F32 = 1,
  WEFT_F16 = 2,
  WEFT_BF16 = 3,
  WEFT_F8E4M3 = 4,
  WEFT_F8E5M2 = 5,
  WEFT_I64 = 6,
  WEFT_I32 = 7,
  WEFT_I16 = 8,
  WEFT_I8 = 9,
  WEFT_U64 = 10,
  WEFT_U32 = 11,
  WEFT_U16 = 12,
  WEFT_U8 = 13,
  WEFT_BOOL = 14
} weft_dtype;

typedef enum WEFT_NUMBER {
  WEFT_SUM = 0,
  WEFT_PROD = 1,
  WEFT_MIN = 2,
  WEFT_MAX = 3,
  WEFT_AVG = 4, /* integers: toward zero */
  WEFT_BIT_AND = 6,
  WEFT_BIT_OR = 7,
  WEFT_BIT_XOR = 8,
  WEFT_LOGICAL_AND = 9,
  WEFT_LOGICAL_OR = 10
} weft_combine;

#ifdef DLPACK_DLPACK_H_
typedef DLTensor weft_tensor;
#else
typedef struct {
  void* data;
  struct {
    int32_t device_type, device_id;
  } device; /* {1, 0}: CPU */
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous, row-major */
  uint64_t byte_offset;
} weft_tensor;
#endif

typedef struct weft_comm weft_comm;
typedef struct weft_work weft_work;
typedef struct weft_arena weft_arena;

WEFT_API int weft_abi_version(void);
WEFT_API const char* weft_version(void);
/* Of this thread's last call that failed; "" if none did. Valid until the next failure. */
WEFT_API const char* weft_last_error(void);

/* Forks `ranks` processes that run `body`, and waits for all. The caller must be single-threaded. The first failure of
 * any rank is returned; what body leaves unhandled is not a failure. weft_run_threads: threads of this process. */
typedef void (*weft_body)(weft_comm* comm, void* user);
WEFT_API weft_status weft_run(int ranks, weft_body body, void* user);
WEFT_API weft_status weft_run_threads(int ranks, weft_body body, void* user);

/* Ranks that were started separately, on one host. file: a path that all of them are given and no other job uses; rank 0
 * makes it and it is gone when all are there. From the environment: what mpirun (Open MPI, MPICH, Intel MPI), srun or
 * torchrun left there, or WEFT_RANK, WEFT_RANKS and WEFT_RENDEZVOUS. Collective. Destroying is not. */
WEFT_API weft_status weft_comm_create(const char* file, int rank, int size, weft_comm** comm);
WEFT_API weft_status weft_comm_create_from_environment(weft_comm** comm);
WEFT_API weft_status weft_comm_destroy(weft_comm* comm);

/* The same with settings; what is 0 stays as it is without them. */
typedef struct {
  size_t struct_bytes; /* sizeof(weft_comm_options) */
  double timeout_s;    /* of every wait; 0: WEFT_TIMEOUT_S */
  int64_t arena_bytes; /* reserved for weft_alloc; 0: WEFT_ARENA, -1: none */
  weft_arena* arena;   /* of this process, instead; on all ranks or none (since 4) */
} weft_comm_options;
WEFT_API weft_status weft_comm_create_with(const char* file, int rank, int size, const weft_comm_options* options,
                                           weft_comm** comm);

/* Memory of this process, before, beside and after its communicators: what lies in an arena is read in place by the ranks of
 * every communicator that was created with it. bytes: reserved, not used; 0: WEFT_ARENA, else this machine's memory, 64 GiB
 * at most. In a forked child the memory is a private copy; there weft_arena_alloc returns NULL and weft_arena_free does
 * nothing. Any thread. Destroying: when all its memory is free; communicators that have it keep their mappings. */
WEFT_API weft_status weft_arena_create(int64_t bytes, weft_arena** arena);
WEFT_API weft_status weft_arena_destroy(weft_arena* arena);
WEFT_API void* weft_arena_alloc(weft_arena* arena, size_t bytes); /* 64-aligned; NULL: full, no failure is noted */
WEFT_API weft_status weft_arena_free(weft_arena* arena, void* memory);
WEFT_API int weft_arena_holds(const weft_arena* arena, const void* memory);
/* 1: peers of this communicator read these bytes in place. */
WEFT_API int weft_is_mapped(const weft_comm* comm, const void* memory, size_t bytes);

/* What is not complete fails from now on, on all ranks, also calls that wait at this moment. Returns at once; from any
 * thread. why: shown in their errors. */
WEFT_API weft_status weft_comm_abort(weft_comm* comm, const char* why);
/* WEFT_OK, or what has ended this communicator. Looks after peers that died, as every wait does: for callers that only
 * test their works. Cheap. */
WEFT_API weft_status weft_comm_check(weft_comm* comm);

/* Collective. *group: a communicator of the ranks that say this color, ordered by key, then by rank; NULL where color < 0.
 * It is destroyed by weft_comm_destroy, before the one that was split. Memory of weft_alloc and weft_symmetric_alloc of
 * that one is read in place in the group too. */
WEFT_API weft_status weft_comm_split(weft_comm* comm, int color, int key, weft_comm** group);

WEFT_API int weft_comm_rank(const weft_comm* comm);
WEFT_API int weft_comm_size(const weft_comm* comm);

/* Memory from this rank's arena: peers read it in place. Not collective. NULL: the arena is full (weft_last_error). */
WEFT_API void* weft_alloc(weft_comm* comm, size_t bytes);
WEFT_API weft_status weft_free(weft_comm* comm, void* memory);
/* The same offset on all ranks; both calls are collective. */
WEFT_API weft_status weft_symmetric_alloc(weft_comm* comm, size_t bytes, void** memory);
WEFT_API weft_status weft_symmetric_free(weft_comm* comm, void* memory);

/* Collectives on tensors. `work` NULL: blocks; else starts, and the tensors (not their structs) stay untouched until
 * weft_work_wait. send == NULL means in place: recv has this rank's contribution. Shapes need not match, counts must:
 * all_reduce, broadcast, reduce: as many elements on every rank; all_gather: recv has size times as many as send;
 * reduce_scatter, scatter: send has size times as many as recv; all_to_all: as many, a multiple of size. */
WEFT_API weft_status weft_all_reduce(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_combine combine,
                                     weft_work** work);
WEFT_API weft_status weft_reduce_scatter(weft_comm* comm, const weft_tensor* send, weft_tensor* recv,
                                         weft_combine combine, weft_work** work);
WEFT_API weft_status weft_all_gather(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_work** work);
/* tensor: the root's is sent, the others' is overwritten. */
WEFT_API weft_status weft_broadcast(weft_comm* comm, weft_tensor* tensor, int root, weft_work** work);
/* recv may be NULL on ranks other than root; so may scatter's send and gather's recv. */
WEFT_API weft_status weft_reduce(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_combine combine,
                                 int root, weft_work** work);
WEFT_API weft_status weft_scatter(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, int root,
                                  weft_work** work);
WEFT_API weft_status weft_gather(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, int root,
                                 weft_work** work);
WEFT_API weft_status weft_all_to_all(weft_comm* comm, const weft_tensor* send, weft_tensor* recv, weft_work** work);
WEFT_API weft_status weft_barrier(weft_comm* comm);

/* The shortest way for contiguous memory. counts as NCCL's: the whole for all_reduce, one rank's part for the others. */
WEFT_API weft_status weft_all_reduce_flat(weft_comm* comm, const void* send, void* recv, int64_t count,
                                          weft_dtype dtype, weft_combine combine);
WEFT_API weft_status weft_reduce_scatter_flat(weft_comm* comm, const void* send, void* recv, int64_t count,
                                              weft_dtype dtype, weft_combine combine);
WEFT_API weft_status weft_all_gather_flat(weft_comm* comm, const void* send, void* recv, int64_t count,
                                          weft_dtype dtype);
/* One count per rank (size of the communicator many). */
WEFT_API weft_status weft_reduce_scatter_v_flat(weft_comm* comm, const void* send, void* recv, const int64_t* counts,
                                                weft_dtype dtype, weft_combine combine);
WEFT_API weft_status weft_all_gather_v_flat(weft_comm* comm, const void* send, void* recv, const int64_t* counts,
                                            weft_dtype dtype);

/* scatter and gather with a count per rank: counts (size many) at the root, NULL elsewhere; count: this rank's own. */
WEFT_API weft_status weft_scatter_v_flat(weft_comm* comm, const void* send, const int64_t* counts, void* recv,
                                         int64_t count, weft_dtype dtype, int root);
WEFT_API weft_status weft_gather_v_flat(weft_comm* comm, const void* send, int64_t count, void* recv,
                                        const int64_t* counts, weft_dtype dtype, int root);
/* What goes to each rank and what comes from each, one part behind the other. Where no rank knows what comes: the second
 * form exchanges counts first and fills got (size many); recv has room for `room` elements. */
WEFT_API weft_status weft_all_to_all_v_flat(weft_comm* comm, const void* send, const int64_t* counts, void* recv,
                                            const int64_t* recv_counts, weft_dtype dtype);
WEFT_API weft_status weft_all_to_all_v_exchange_flat(weft_comm* comm, const void* send, const int64_t* counts,
                                                     void* recv, int64_t room, int64_t* got, weft_dtype dtype);

/* Messages between two ranks; tags from 0 on. Counts and dtypes of both sides must be equal. A send of up to 960 bytes
 * does not wait for its receiver, for up to 16 that the receiver has not looked at. work NULL: blocks. */
#define WEFT_ANY_SOURCE (-1)
#define WEFT_ANY_TAG (-1)
WEFT_API weft_status weft_send(weft_comm* comm, const weft_tensor* tensor, int to, int tag, weft_work** work);
/* source, got_tag: what came, when it is complete; may be NULL. */
WEFT_API weft_status weft_recv(weft_comm* comm, weft_tensor* tensor, int from, int tag, int* source, int* got_tag,
                               weft_work** work);
/* Between the two, blocking calls of this thread on any communicators are only noted; weft_batch_end makes them all at
 * once, so that none waits for one behind it: messages in any order, calls in any order as long as all ranks note the same.
 * Buffers stay untouched until then; source and got_tag of a noted weft_recv are not filled. Batches do not nest. */
WEFT_API weft_status weft_batch_begin(void);
WEFT_API weft_status weft_batch_end(void);

/* done: 1 when complete. A work is freed by weft_work_free, after it is complete. */
WEFT_API weft_status weft_work_test(weft_work* work, int* done);
WEFT_API weft_status weft_work_wait(weft_work* work);
WEFT_API weft_status weft_work_free(weft_work* work);

#ifdef __cplusplus
}
#endif

#endif
