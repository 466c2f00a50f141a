// The C border: strides honoured, counts checked, errors as a status and a message, works that are waited for.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "weft/capi/weft.h"

namespace {

struct Tensor {
  weft_tensor raw{};
  std::vector<int64_t> shape, strides;
  Tensor(void* data, std::vector<int64_t> shape_of, std::vector<int64_t> strides_of = {}, int code = 2, int bits = 32)
      : shape(std::move(shape_of)), strides(std::move(strides_of)) {
    raw.data = data;
    raw.device.device_type = 1;
    raw.ndim = static_cast<int32_t>(shape.size());
    raw.dtype.code = static_cast<uint8_t>(code), raw.dtype.bits = static_cast<uint8_t>(bits), raw.dtype.lanes = 1;
    raw.shape = shape.data();
    raw.strides = strides.empty() ? nullptr : strides.data();
  }
};

// What a rank found wrong. Ranks are threads here, so that it reaches the test.
struct Notes {
  std::string text[8];
};

#define WANT(condition)                                                                                               \
  do {                                                                                                                \
    if (!(condition) && notes.text[rank].empty())                                                                     \
      notes.text[rank] = std::string(#condition) + " in line " + std::to_string(__LINE__) + ": " + weft_last_error(); \
  } while (0)

template <void (*body)(weft_comm*, Notes&, int)>
void on(int ranks) {
  Notes notes;
  const weft_status status = weft_run_threads(
      ranks, [](weft_comm* comm, void* user) { body(comm, *static_cast<Notes*>(user), weft_comm_rank(comm)); }, &notes);
  EXPECT_EQ(status, WEFT_OK) << weft_last_error();
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(notes.text[rank], "") << "rank " << rank;
}

void flat(weft_comm* comm, Notes& notes, int rank) {
  const int n = weft_comm_size(comm);
  auto* x = static_cast<float*>(weft_alloc(comm, 5000 * sizeof(float)));
  WANT(x != nullptr);
  for (int i = 0; i < 5000; ++i) x[i] = static_cast<float>(i + rank);
  WANT(weft_all_reduce_flat(comm, x, x, 5000, WEFT_F32, WEFT_SUM) == WEFT_OK);
  for (int i = 0; i < 5000; ++i) WANT(x[i] == static_cast<float>(n * i + n * (n - 1) / 2));
  WANT(weft_free(comm, x) == WEFT_OK);
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (int r = 0; r < n; ++r) counts.push_back(r + 1), total += r + 1;
  std::vector<int32_t> mine(static_cast<size_t>(rank + 1), rank), all(static_cast<size_t>(total), -1);
  WANT(weft_all_gather_v_flat(comm, mine.data(), all.data(), counts.data(), WEFT_I32) == WEFT_OK);
  size_t at = 0;
  for (int r = 0; r < n; ++r)
    for (int i = 0; i <= r; ++i) WANT(all[at++] == r);
}
TEST(Capi, FlatCalls) { on<flat>(3); }

// broadcast of a column: x = arange(4).view(2, 2) + 10 rank, [:, 0] from rank 0
void column(weft_comm* comm, Notes& notes, int rank) {
  float x[4];
  for (int i = 0; i < 4; ++i) x[i] = static_cast<float>(i + 10 * rank);
  Tensor first(x, {2}, {2});
  WANT(weft_broadcast(comm, &first.raw, 0, nullptr) == WEFT_OK);
  WANT(x[0] == 0 && x[2] == 2);
  WANT(x[1] == static_cast<float>(1 + 10 * rank) && x[3] == static_cast<float>(3 + 10 * rank));
}
TEST(Capi, StridedTensorsAreHonouredAndWhatLiesBetweenStays) { on<column>(2); }

void strided_in_place(weft_comm* comm, Notes& notes, int rank) {
  double x[12];
  for (int i = 0; i < 12; ++i) x[i] = i + 100 * rank;
  Tensor transposed(x, {4, 3}, {1, 4}, 2, 64), every_second(x, {6}, {2}, 2, 64);
  WANT(weft_all_reduce(comm, nullptr, &transposed.raw, WEFT_SUM, nullptr) == WEFT_OK);
  for (int i = 0; i < 12; ++i) WANT(x[i] == 2 * i + 100);
  WANT(weft_all_reduce(comm, nullptr, &every_second.raw, WEFT_MAX, nullptr) == WEFT_OK);
  for (int i = 0; i < 12; ++i) WANT(x[i] == 2 * i + 100);
}
TEST(Capi, InPlaceUpdatesTheCallersStridedTensor) { on<strided_in_place>(2); }

void works(weft_comm* comm, Notes& notes, int rank) {
  std::vector<float> a(3000, static_cast<float>(rank + 1)), b(6000);
  Tensor x(a.data(), {3000}), y(b.data(), {2, 3000});
  weft_work *first = nullptr, *second = nullptr;
  WANT(weft_all_reduce(comm, nullptr, &x.raw, WEFT_SUM, &first) == WEFT_OK);
  WANT(weft_all_gather(comm, &x.raw, &y.raw, &second) == WEFT_OK);
  WANT(weft_work_wait(second) == WEFT_OK);
  int done = 0;
  WANT(weft_work_test(first, &done) == WEFT_OK && done == 1);
  for (const float v : b) WANT(v == 3);
  WANT(weft_work_free(first) == WEFT_OK && weft_work_free(second) == WEFT_OK);
}
TEST(Capi, WorksCompleteInOrder) { on<works>(2); }

void refusals(weft_comm* comm, Notes& notes, int rank) {
  std::vector<float> a(10), b(10);
  Tensor x(a.data(), {3}), y(b.data(), {4}), ints(b.data(), {3}, {}, 0, 32), odd(b.data(), {3}, {}, 5, 64),
      gpu(a.data(), {3});
  gpu.raw.device.device_type = static_cast<decltype(gpu.raw.device.device_type)>(2);
  const auto refused = [&](weft_status status, weft_status kind, const char* text) {
    WANT(status == kind);
    WANT(std::strstr(weft_last_error(), text) != nullptr);
  };
  refused(weft_all_reduce(comm, &x.raw, &y.raw, WEFT_SUM, nullptr), WEFT_ERROR_USER, "3 elements, not 4");
  refused(weft_all_reduce(comm, &x.raw, &ints.raw, WEFT_SUM, nullptr), WEFT_ERROR_USER, "i32");
  refused(weft_all_reduce(comm, nullptr, &odd.raw, WEFT_SUM, nullptr), WEFT_ERROR_UNSUPPORTED, "code 5");
  refused(weft_all_reduce(comm, nullptr, &gpu.raw, WEFT_SUM, nullptr), WEFT_ERROR_USER, "device type 2");
  refused(weft_all_gather(comm, &x.raw, &ints.raw, nullptr), WEFT_ERROR_USER, "");
  refused(weft_reduce_scatter(comm, &x.raw, &y.raw, WEFT_SUM, nullptr), WEFT_ERROR_USER, "not a multiple of 2 ranks");
  refused(weft_all_reduce_flat(comm, a.data(), b.data(), 3, static_cast<weft_dtype>(99), WEFT_SUM), WEFT_ERROR_USER,
          "dtype 99");
  refused(weft_all_reduce_flat(comm, a.data(), b.data(), 3, WEFT_F32, static_cast<weft_combine>(5)), WEFT_ERROR_USER,
          "combination 5");
  refused(weft_all_reduce_flat(nullptr, a.data(), b.data(), 3, WEFT_F32, WEFT_SUM), WEFT_ERROR_USER, "NULL");
  int stack = 0;
  refused(weft_free(comm, &stack), WEFT_ERROR_USER, "not allocated from this arena");
  WANT(weft_barrier(comm) == WEFT_OK);
}
TEST(Capi, MisuseIsAStatusAndAMessage) { on<refusals>(2); }

// Sizes that no memory has, beside memory that goes on working; an empty tensor is no call in place.
void beyond(weft_comm* comm, Notes& notes, int rank) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1}) WANT(weft_alloc(comm, bytes) == nullptr);
  void* memory = weft_alloc(comm, 100'000);
  WANT(memory && weft_is_mapped(comm, memory, 100'000) == 1);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2}) WANT(weft_is_mapped(comm, memory, bytes) == 0);
  WANT(weft_free(comm, memory) == WEFT_OK);
  WANT(weft_arena_alloc(nullptr, 8) == nullptr);
  WANT(weft_arena_free(nullptr, &memory) == WEFT_ERROR_USER);
  float x[8] = {};
  Tensor full(x, {8}), empty(nullptr, {0});
  WANT(weft_all_reduce(comm, &empty.raw, &full.raw, WEFT_SUM, nullptr) == WEFT_ERROR_USER);
}
TEST(Capi, WhatNoMemoryHasIsRefused) { on<beyond>(2); }

void uneven(weft_comm* comm, Notes& notes, int rank) {
  const int64_t counts[3] = {2, 0, 5}, mine = counts[rank];
  std::vector<int32_t> whole = {10, 11, 12, 13, 14, 15, 16}, part(5, -1), back(7, -1), got(9, -1), come(9, -1);
  WANT(weft_scatter_v_flat(comm, whole.data(), rank == 1 ? counts : nullptr, part.data(), mine, WEFT_I32, 1) ==
       WEFT_OK);
  for (int i = 0; i < mine; ++i) WANT(part[static_cast<size_t>(i)] == (rank == 0 ? 10 : 12) + i);
  WANT(weft_gather_v_flat(comm, part.data(), mine, back.data(), rank == 1 ? counts : nullptr, WEFT_I32, 1) == WEFT_OK);
  if (rank == 1) WANT(back == whole);
  // Rank r sends r elements to each.
  const int64_t to[3] = {rank, rank, rank}, from[3] = {0, 1, 2};
  int64_t told[3] = {-1, -1, -1};
  const std::vector<int32_t> data(6, rank);
  WANT(weft_all_to_all_v_flat(comm, data.data(), to, got.data(), from, WEFT_I32) == WEFT_OK);
  WANT(weft_all_to_all_v_exchange_flat(comm, data.data(), to, come.data(), 9, told, WEFT_I32) == WEFT_OK);
  WANT((got == std::vector<int32_t>{1, 2, 2, -1, -1, -1, -1, -1, -1}) && got == come);
  WANT(told[0] == 0 && told[1] == 1 && told[2] == 2);
}
TEST(Capi, CountsPerRank) { on<uneven>(3); }

void messages(weft_comm* comm, Notes& notes, int rank) {
  float matrix[6] = {}, column[3] = {1, 2, 3};
  Tensor strided(matrix, {3}, {2}), flat(column, {3});
  int source = -1, tag = -1;
  for (int i = 0; i < 3; ++i) column[i] += static_cast<float>(10 * rank);
  if (rank == 0) {
    WANT(weft_send(comm, &flat.raw, 1, 6, nullptr) == WEFT_OK);
  } else {
    WANT(weft_recv(comm, &strided.raw, WEFT_ANY_SOURCE, WEFT_ANY_TAG, &source, &tag, nullptr) == WEFT_OK);
    WANT(source == 0 && tag == 6 && matrix[0] == 1 && matrix[2] == 2 && matrix[4] == 3 && matrix[1] == 0);
  }
  // Both receive first, and a call of all between: in a batch, into a strided tensor, and by works.
  WANT(weft_batch_end() == WEFT_ERROR_USER);
  WANT(weft_batch_begin() == WEFT_OK && weft_batch_begin() == WEFT_ERROR_USER);
  float sum = 1;
  Tensor one(&sum, {1});
  WANT(weft_recv(comm, &strided.raw, 1 - rank, 0, nullptr, nullptr, nullptr) == WEFT_OK);
  WANT(weft_all_reduce(comm, nullptr, &one.raw, WEFT_SUM, nullptr) == WEFT_OK);
  WANT(weft_send(comm, &flat.raw, 1 - rank, 0, nullptr) == WEFT_OK);
  WANT(weft_batch_end() == WEFT_OK);
  WANT(sum == 2 && matrix[2] == static_cast<float>(10 * (1 - rank) + 2) && matrix[3] == 0);
  weft_work *send = nullptr, *receive = nullptr;
  WANT(weft_recv(comm, &strided.raw, 1 - rank, WEFT_ANY_TAG, &source, &tag, &receive) == WEFT_OK);
  WANT(weft_send(comm, &flat.raw, 1 - rank, 3 + rank, &send) == WEFT_OK);
  WANT(weft_work_wait(receive) == WEFT_OK && weft_work_wait(send) == WEFT_OK);
  WANT(source == 1 - rank && tag == 4 - rank && matrix[4] == static_cast<float>(10 * (1 - rank) + 3));
  WANT(weft_work_free(receive) == WEFT_OK && weft_work_free(send) == WEFT_OK);
  WANT(weft_send(comm, &flat.raw, 5, 0, nullptr) == WEFT_ERROR_USER);
  WANT(weft_recv(comm, nullptr, 0, 0, nullptr, nullptr, nullptr) == WEFT_ERROR_USER);
}
TEST(Capi, MessagesAndBatches) { on<messages>(2); }

void groups(weft_comm* comm, Notes& notes, int rank) {
  weft_comm *group = nullptr, *none = nullptr;
  WANT(weft_comm_split(comm, rank % 2, -rank, &group) == WEFT_OK);
  WANT(weft_comm_split(comm, rank == 0 ? 0 : -1, 0, &none) == WEFT_OK);
  WANT((none != nullptr) == (rank == 0) && weft_comm_size(group) == (rank % 2 ? 1 : 2));
  WANT(weft_comm_rank(group) == (rank == 0 ? 1 : 0));
  int64_t x = rank;
  WANT(weft_all_reduce_flat(group, &x, &x, 1, WEFT_I64, WEFT_SUM) == WEFT_OK);
  WANT(x == (rank % 2 ? 1 : 2));
  WANT(weft_comm_destroy(group) == WEFT_OK && weft_comm_destroy(none) == WEFT_OK);
  WANT(weft_barrier(comm) == WEFT_OK);
}
TEST(Capi, Groups) { on<groups>(3); }

TEST(Capi, DisagreementReachesTheCaller) {
  const weft_status status = weft_run_threads(
      2,
      [](weft_comm* comm, void*) {
        std::vector<float> x(5000);
        weft_all_reduce_flat(comm, x.data(), x.data(), 4000 + weft_comm_rank(comm), WEFT_F32, WEFT_SUM);
      },
      nullptr);
  EXPECT_EQ(status, WEFT_ERROR_AGREEMENT) << weft_last_error();
  EXPECT_NE(std::strstr(weft_last_error(), "4001 elements"), nullptr) << weft_last_error();
}

// Processes with nothing in common but a path.
TEST(Capi, RanksThatAreStartedSeparately) {
  const std::string file = "/tmp/weft-capi-" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    weft_comm* comm = nullptr;
    int64_t x = rank + 1;
    bool good = weft_comm_create(file.c_str(), rank, 3, &comm) == WEFT_OK && weft_comm_size(comm) == 3;
    good = good && weft_all_reduce_flat(comm, &x, &x, 1, WEFT_I64, WEFT_SUM) == WEFT_OK && x == 6;
    good = good && weft_barrier(comm) == WEFT_OK && weft_comm_destroy(comm) == WEFT_OK;
    if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, weft_last_error());
    _exit(good ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  weft_comm* nobody = nullptr;
  EXPECT_EQ(weft_comm_create(file.c_str(), 3, 3, &nobody), WEFT_ERROR_USER);
}

// Rank 1 never calls; rank 0 waits for it until another of its threads has enough.
bool aborted_rank(const std::string& file, int rank) {
  weft_comm_options options = {};
  options.struct_bytes = sizeof options;
  options.timeout_s = 30;
  options.arena_bytes = -1;
  weft_comm* comm = nullptr;
  if (weft_comm_create_with(file.c_str(), rank, 2, &options, &comm) != WEFT_OK) return false;
  if (weft_alloc(comm, 64)) return false;  // no arena was wanted
  if (weft_comm_check(comm) != WEFT_OK) return false;
  std::thread impatient;
  if (rank == 0)
    impatient = std::thread([comm] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      weft_comm_abort(comm, "enough");
    });
  else
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto begin = std::chrono::steady_clock::now();
  if (rank == 1) weft_barrier(comm);  // rank 0 has come to this one: it may be complete
  bool good = weft_barrier(comm) != WEFT_OK && std::strstr(weft_last_error(), "enough") != nullptr;
  good = good && weft_comm_check(comm) != WEFT_OK && std::strstr(weft_last_error(), "enough") != nullptr;
  if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, weft_last_error());
  good = good && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
  if (impatient.joinable()) impatient.join();
  return weft_comm_destroy(comm) == WEFT_OK && good;
}

TEST(Capi, AnAbortEndsWaitsOnAllRanks) {
  const std::string file = "/tmp/weft-abort-" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) _exit(aborted_rank(file, rank) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  weft_comm_options old = {};
  weft_comm* nobody = nullptr;
  EXPECT_EQ(weft_comm_create_with(file.c_str(), 0, 1, &old, &nobody), WEFT_ERROR_USER);
  EXPECT_EQ(weft_comm_abort(nullptr, "x"), WEFT_ERROR_USER);
}

TEST(Capi, ProcessesToo) {
  const weft_status status = weft_run(
      3,
      [](weft_comm* comm, void*) {
        int64_t x = weft_comm_rank(comm) + 1;
        if (weft_all_reduce_flat(comm, &x, &x, 1, WEFT_I64, WEFT_PROD) != WEFT_OK || x != 6) _exit(7);
      },
      nullptr);
  EXPECT_EQ(status, WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_abi_version(), WEFT_ABI_VERSION);
  EXPECT_EQ(weft_run(0, nullptr, nullptr), WEFT_ERROR_USER);
}

}  // namespace
