// Element types and the conversions between them.
//
// Every conversion is exact where it can be and rounds to nearest even elsewhere; bf16, f16 and fp8 are converted
// by integer arithmetic so that vector code, scalar code and the evaluator give the same bits. f8e4m3 is the OCP type
// without infinities ("fn": overflow becomes NaN, as torch.float8_e4m3fn does), f8e5m2 has infinities.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft {

enum class Dtype : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f64x2
};

// All dtypes that programs may name, in the order above. f64x2 (a pair of f64) exists in plans only.
const std::vector<Dtype>& all_dtypes();
std::string_view name(Dtype dtype);  // "f32", "bool", ...
std::optional<Dtype> parse_dtype(std::string_view text);
int64_t size_bytes(Dtype dtype);
bool is_float(Dtype dtype);
bool is_integer(Dtype dtype);  // signed and unsigned, not bool
bool is_signed(Dtype dtype);
Dtype compute_dtype(Dtype dtype);     // D5: f32 for f16, bf16, fp8; else itself
Dtype accumulate_dtype(Dtype dtype);  // reductions over ranks: f32 for 16- and 8-bit floats; else itself
Dtype fold_dtype(Dtype dtype);        // D4: f32 for 16- and 8-bit floats, i64 / u64 for narrow integers; else itself

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
float f8e4m3_to_f32(uint8_t bits);
uint8_t f32_to_f8e4m3(float value);
float f8e5m2_to_f32(uint8_t bits);
uint8_t f32_to_f8e5m2(float value);

// One element at `at` as f64 (integers beyond 2^53 round) or as i64 (floats truncate toward zero; u64 wraps), and back.
// store_f64 rounds once from f64 to the dtype; integers wrap modulo 2^bits as C++ conversions of in-range values do.
double load_f64(Dtype dtype, const void* at);
int64_t load_i64(Dtype dtype, const void* at);
void store_f64(Dtype dtype, void* at, double value);
void store_i64(Dtype dtype, void* at, int64_t value);

}  // namespace weft
