// Fillings and digests: a hash of where an element lies, so that any misplaced, stale or lost element shows.
//
// A counter-based hash (as in Philox) rather than a running generator: every rank can fill any slice without its
// neighbours, and a checker can ask for one element. Quality is of no matter, speed is: a model is filled before each
// timed launch.
#include "weft/api/pattern.h"

#include <cstring>

#include "weft/base/hash.h"

// These loops touch every byte of a model several times in a tuning run: built for the widest vectors there are.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define WEFT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WEFT_CLONES
#endif

namespace weft::api {
namespace {

// 32-bit arithmetic only, so that the filling loops vectorise; positions beyond 2^32 fold in their high half.
inline uint32_t word_of(uint32_t salt, uint64_t position) {
  uint32_t h = static_cast<uint32_t>(position) * 2654435761u + salt + static_cast<uint32_t>(position >> 32) * 974711u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  return h;
}

inline float value_of(uint32_t word, bool positive) {
  const float unit = static_cast<float>(word >> 8) * 0x1p-24f;  // [0, 1)
  return positive ? 0x1p-10f + unit * (1 - 0x1p-10f) : 2 * unit - 1;
}

int64_t integer_of(uint32_t word, Dtype dtype, bool positive) {
  if (dtype == Dtype::boolean) return word >> 31;
  const int64_t small = word >> 29;  // 0 .. 7
  return positive || !is_signed(dtype) ? small + (positive ? 1 : 0) : small - 3;
}

WEFT_CLONES void fill_f32(const Pattern& pattern, float* __restrict at, int64_t position, int64_t count) {
  const uint32_t salt = pattern.salt;
  const bool positive = pattern.positive;
  for (int64_t i = 0; i < count; i++) at[i] = value_of(word_of(salt, static_cast<uint64_t>(position + i)), positive);
}

// 32-bit arithmetic, for the same reason as above. Sums of mixed words do not depend on the order of the elements.
inline uint32_t mix(uint32_t position, uint32_t bits) {
  uint32_t x = position * 2654435761u + bits * 2246822519u + 374761393u;
  x ^= x >> 15;
  x *= 3266489917u;
  return x ^ (x >> 13);
}

WEFT_CLONES uint64_t digest_words(const uint32_t* at, uint32_t position, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += mix(position + static_cast<uint32_t>(i), at[i]);
  return sum;
}

template <typename Bits>
uint64_t digest_of(const void* at, int64_t position, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; i++) {
    Bits bits;
    std::memcpy(&bits, static_cast<const char*>(at) + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    const uint64_t wide = static_cast<uint64_t>(bits);
    sum += mix(static_cast<uint32_t>(position + i),
               static_cast<uint32_t>(wide) ^ static_cast<uint32_t>(wide >> 32) * 668265263u);
  }
  return sum;
}

}  // namespace

Pattern pattern_of(const ir::Program& program, const ir::Name& name, int rank, int launch) {
  const ir::TensorDecl* tensor = ir::find_tensor(program, name);
  WEFT_CHECK(tensor, "{} is no input or state", name);
  const bool same_everywhere = std::holds_alternative<ir::Replicated>(tensor->type.layout) ||
                               std::holds_alternative<ir::Sliced>(tensor->type.layout);
  const std::string key = fmt::format("{}/{}/{}", name, same_everywhere ? -1 : rank, tensor->state ? 0 : launch);
  return {static_cast<uint32_t>(hash64(key)), tensor->state};
}

double pattern_value(const Pattern& pattern, int64_t position) {
  return value_of(word_of(pattern.salt, static_cast<uint64_t>(position)), pattern.positive);
}

void fill(const Pattern& pattern, Dtype dtype, const Piece& piece) {
  if (dtype == Dtype::f32) return fill_f32(pattern, static_cast<float*>(piece.at), piece.position, piece.count);
  const int64_t element = size_bytes(dtype);
  char* at = static_cast<char*>(piece.at);
  for (int64_t i = 0; i < piece.count; i++, at += element) {
    const uint32_t word = word_of(pattern.salt, static_cast<uint64_t>(piece.position + i));
    if (is_float(dtype))
      store_f64(dtype, at, value_of(word, pattern.positive));
    else
      store_i64(dtype, at, integer_of(word, dtype, pattern.positive));
  }
}

ir::Tensor pattern_tensor(const Pattern& pattern, Dtype dtype, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<std::byte> bytes(static_cast<size_t>(count * size_bytes(dtype)));
  fill(pattern, dtype, {bytes.data(), 0, count});
  ir::Tensor out;
  out.dtype = dtype;
  out.shape = std::move(shape);
  for (int64_t i = 0; i < count; i++) {
    const void* at = bytes.data() + i * size_bytes(dtype);
    if (is_float(dtype))
      out.f.push_back(load_f64(dtype, at));
    else
      out.i.push_back(load_i64(dtype, at));
  }
  return out;
}

uint64_t digest(int64_t element_bytes, const Piece& piece) {
  switch (element_bytes) {
    case 1: return digest_of<uint8_t>(piece.at, piece.position, piece.count);
    case 2: return digest_of<uint16_t>(piece.at, piece.position, piece.count);
    case 4:
      return digest_words(static_cast<const uint32_t*>(piece.at), static_cast<uint32_t>(piece.position), piece.count);
    case 8: return digest_of<uint64_t>(piece.at, piece.position, piece.count);
    default: internal_failure(__FILE__, __LINE__, "element size", fmt::format("{} bytes", element_bytes));
  }
}

std::map<std::string, expr::ScalarValue> default_scalars(const ir::Program& program,
                                                         const std::map<std::string, double>& given, int launch) {
  std::map<std::string, expr::ScalarValue> out;
  for (const ir::HeaderDecl& decl : program.header) {
    const auto* scalar = std::get_if<ir::ScalarDecl>(&decl);
    if (!scalar) continue;
    const auto found = given.find(scalar->name);
    if (is_float(scalar->dtype))
      out[scalar->name] = {false, 0, found == given.end() ? 0.001 : found->second};
    else
      out[scalar->name] = {true, found == given.end() ? launch : static_cast<int64_t>(found->second), 0};
  }
  return out;
}

}  // namespace weft::api
