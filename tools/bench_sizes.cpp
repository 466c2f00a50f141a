// What `weft bench` and `weft sim` share of nccl-tests' command line: types, reductions, sizes.
#include <algorithm>
#include <cmath>
#include <map>

#include "tools/bench.h"
#include "tools/verbs.h"

namespace weft::tools {
namespace {

// The next size; by the factor where one is given.
int64_t after(int64_t size, const SizeSweep& options, int64_t step) {
  if (!options.factor) return size + std::min(step, int64_t{1} << 60);
  constexpr double beyond = 0x1p60;  // of all sizes, and of no overflow
  return std::max(size + 1, static_cast<int64_t>(std::min(beyond, static_cast<double>(size) * *options.factor)));
}

}  // namespace

Dtype bench_dtype(const std::string& text) {
  static const std::map<std::string, Dtype> names = {
      {"int8", Dtype::i8},    {"uint8", Dtype::u8},      {"int32", Dtype::i32},     {"uint32", Dtype::u32},
      {"int64", Dtype::i64},  {"uint64", Dtype::u64},    {"half", Dtype::f16},      {"float", Dtype::f32},
      {"double", Dtype::f64}, {"bfloat16", Dtype::bf16}, {"f8e4m3", Dtype::f8e4m3}, {"f8e5m2", Dtype::f8e5m2}};
  if (const auto found = names.find(text); found != names.end()) return found->second;
  if (const auto dtype = parse_dtype(text); dtype && *dtype != Dtype::f64x2) return *dtype;
  throw Error(ErrorKind::user, fmt::format("-d {}: no such type", text),
              "float, double, half, bfloat16, int32 ... or f32, i8 ...");
}

Combine bench_combine(const std::string& text) {
  if (text == "mulsum") return Combine::premul_sum;
  if (const auto combine = parse_combine(text)) return *combine;
  throw Error(ErrorKind::user, fmt::format("-o {}: no such reduction", text),
              "sum, prod, min, max, avg, mulsum, bit_and ...");
}

std::vector<int64_t> sizes_of(const SizeSweep& options) {
  constexpr size_t most_rows = 10'000;
  const int64_t least = count_option("-b", options.least), most = count_option("-e", options.most);
  if (most < least)
    throw Error(ErrorKind::user,
                fmt::format("-b {} -e {}: sizes begin above where they end", options.least, options.most),
                "give -e at least as much as -b");
  if (most > int64_t{1} << 50)
    throw Error(ErrorKind::user, fmt::format("-e {}: more than any memory", options.most), "1024T at most");
  const int64_t step = options.step.empty() ? 1 << 20 : count_option("-i", options.step);
  if (step <= 0)
    throw Error(ErrorKind::user, fmt::format("-i {}: a step is more than 0", options.step), "for example -i 1M");
  if (options.factor && !(std::isfinite(*options.factor) && *options.factor > 1))
    throw Error(ErrorKind::user, fmt::format("-f {}: sizes grow by a factor above 1", *options.factor),
                "for example -f 2; for a step between sizes give -i");
  std::vector<int64_t> sizes;
  for (int64_t size = least; size <= most; size = after(size, options, step)) {
    if (sizes.size() == most_rows)
      throw Error(ErrorKind::user,
                  fmt::format("-b {} -e {}: more than {} sizes", options.least, options.most, most_rows),
                  "give a larger step with -i, or a factor with -f");
    sizes.push_back(size);
  }
  return sizes;
}

void add_sweep_options(CLI::App& verb, SizeSweep& sweep) {
  verb.add_option("-b,--minbytes", sweep.least, "smallest size")->capture_default_str();
  verb.add_option("-e,--maxbytes", sweep.most, "largest size")->capture_default_str();
  verb.add_option("-i,--stepbytes", sweep.step, "step between sizes (1M)");
  verb.add_option("-f,--stepfactor", sweep.factor, "factor between sizes, instead of a step");
}

}  // namespace weft::tools
