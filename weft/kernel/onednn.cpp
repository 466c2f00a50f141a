// Matrix products by oneDNN, whose interface changed between 2.x (an operation descriptor inside a primitive
// descriptor) and 3.x (the primitive descriptor alone); this file is the only one that knows. What a processor supports
// is found by asking for a primitive, not by a table. s8 is used only with VNNI: without it oneDNN's 16-bit partial
// sums saturate. Primitives are kept per thread (building one costs 20 to 50 us), for the sizes used last. oneDNN
// parallelises with OpenMP, whose thread count is a setting of the calling thread: set around each call.
#include "weft/kernel/onednn.h"

#ifdef WEFT_ONEDNN
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

#include "weft/kernel/convert.h"

extern "C" {  // of the OpenMP library that oneDNN was built for (room.cmake)
void omp_set_num_threads(int);
int omp_get_max_threads();
}
#endif

namespace weft::kernel {

#ifndef WEFT_ONEDNN

bool onednn_has(Dtype) { return false; }
void onednn_matmul(const MatmulArgs&) {
  throw Error(ErrorKind::unsupported, "built without oneDNN", "use matmul_plain");
}

#else

namespace {

using Memory = dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

Memory::data_type type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return Memory::data_type::f32;
    case Dtype::bf16: return Memory::data_type::bf16;
    case Dtype::f16: return Memory::data_type::f16;
    case Dtype::i8: return Memory::data_type::s8;
    default: return Memory::data_type::undef;
  }
}

struct OmpThreads {  // for the calling thread, restored at the end
  explicit OmpThreads(int threads) : before(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~OmpThreads() { omp_set_num_threads(before); }
  int before;
};

// Batched as three dimensions only where w is batched: else tile.cpp has folded the batches into the rows.
Memory::desc operand(Dtype dtype, const MatmulArgs& a, int64_t rows, int64_t cols, int64_t stride) {
  if (a.batch == 1) return {{rows, cols}, type_of(dtype), {stride, 1}};
  return {{a.batch, rows, cols}, type_of(dtype), {rows * stride, stride, 1}};
}

struct Product {
  std::array<int64_t, 9> key{};
  Memory::desc x, w, y;
  dnnl::matmul primitive;
};

std::array<int64_t, 9> key_of(const MatmulArgs& a) {
  return {static_cast<int64_t>(a.dtype),
          a.batch,
          a.rows,
          a.inner,
          a.cols,
          a.x_row_stride,
          a.w_row_stride,
          a.y_row_stride,
          a.threads};
}

// i8: y is the 32-bit sum, dense; the caller narrows it.
Product build(const MatmulArgs& a) {
  Product p;
  p.key = key_of(a);
  p.x = operand(a.dtype, a, a.rows, a.inner, a.x_row_stride);
  p.w = operand(a.dtype, a, a.inner, a.cols, a.w_row_stride);
  if (a.dtype == Dtype::i8) {
    const Memory::dims dims = a.batch == 1 ? Memory::dims{a.rows, a.cols} : Memory::dims{a.batch, a.rows, a.cols};
    p.y = {dims, Memory::data_type::s32, a.batch == 1 ? Memory::format_tag::ab : Memory::format_tag::abc};
  } else {
    p.y = operand(a.dtype, a, a.rows, a.cols, a.y_row_stride);
  }
#if DNNL_VERSION_MAJOR >= 3
  p.primitive = dnnl::matmul(dnnl::matmul::primitive_desc(engine(), p.x, p.w, p.y));
#else
  p.primitive = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(p.x, p.w, p.y), engine()));
#endif
  return p;
}

const Product& product(const MatmulArgs& a) {
  constexpr size_t capacity = 32;
  thread_local std::array<std::unique_ptr<Product>, capacity> kept;
  thread_local size_t next = 0;
  const auto key = key_of(a);
  for (const auto& one : kept)
    if (one && one->key == key) return *one;
  std::unique_ptr<Product>& place = kept[next++ % capacity];
  place = std::make_unique<Product>(build(a));
  return *place;
}

void execute(const Product& p, const MatmulArgs& a, void* y) {
  const auto memory = [](const Memory::desc& desc, const void* data) {
    return Memory(desc, engine(), const_cast<void*>(data));
  };
  dnnl::stream stream(engine());
  p.primitive.execute(
      stream, {{DNNL_ARG_SRC, memory(p.x, a.x)}, {DNNL_ARG_WEIGHTS, memory(p.w, a.w)}, {DNNL_ARG_DST, memory(p.y, y)}});
  stream.wait();
}

bool has_vnni() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx2_vnni ||
         (static_cast<int>(isa) & static_cast<int>(dnnl::cpu_isa::avx512_core_vnni)) ==
             static_cast<int>(dnnl::cpu_isa::avx512_core_vnni);
}

bool probe(Dtype dtype) {
  if (type_of(dtype) == Memory::data_type::undef) return false;
  if (dtype == Dtype::i8 && !has_vnni()) return false;
  try {
    build({dtype, 1, 16, 16, 16, nullptr, 16, nullptr, 16, false, nullptr, 16, 1});
    return true;
  } catch (const dnnl::error&) {
    return false;  // not on this processor, or not in this version
  }
}

}  // namespace

bool onednn_has(Dtype dtype) {
  static const std::array<bool, 16> known = [] {
    std::array<bool, 16> list{};
    for (const Dtype d : all_dtypes()) list[static_cast<size_t>(d)] = probe(d);
    return list;
  }();
  return known[static_cast<size_t>(dtype)];
}

void onednn_matmul(const MatmulArgs& a) {
  const OmpThreads threads(a.threads);
  try {
    const Product& p = product(a);
    if (a.dtype != Dtype::i8) return execute(p, a, a.y);
    const std::unique_ptr<int32_t[]> sums(new int32_t[static_cast<size_t>(a.batch * a.rows * a.cols)]);
    execute(p, a, sums.get());
    for (int64_t i = 0; i < a.batch * a.rows; i++)
      convert(Dtype::i32, sums.get() + i * a.cols, Dtype::i8, static_cast<int8_t*>(a.y) + i * a.y_row_stride, a.cols);
  } catch (const dnnl::error& error) {
    throw Error(
        ErrorKind::internal,
        fmt::format("oneDNN refused a matmul {}x{}x{} of {}: {}", a.rows, a.inner, a.cols, name(a.dtype), error.what()),
        "report it; matmul_plain computes the same, slower");
  }
}

#endif

}  // namespace weft::kernel
