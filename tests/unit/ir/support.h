// Helpers of the ir tests: errors by rule, tensors whose numbers say rank and index, launches.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"

namespace weft::ir {

// The rule that the text is refused with ("" for none), or "accepted".
inline std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::user ? error.rule() : "kind " + std::string(name(error.kind()));
  }
  return "accepted";
}

inline std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) { return error.what(); }
  return "accepted";
}

inline std::filesystem::path source_dir() { return checkout_dir(); }
inline std::string complete_program(const std::string& name) {
  return read_file(source_dir() / "tests/cases/program" / (name + ".weft"));
}
inline std::string example(const std::string& name) { return read_file(source_dir() / "examples" / (name + ".weft")); }

// The text without comments and blank lines: what print makes of it.
inline std::string without_comments(const std::string& text) {
  std::string out;
  for (const SourceLine& line : source_lines(text))
    out += std::string(static_cast<size_t>(line.indent), ' ') + line.text + "\n";
  return out;
}

inline int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

inline Tensor reals(std::vector<int64_t> shape, const std::function<double(int64_t)>& at, Dtype dtype = Dtype::f32) {
  Tensor t;
  t.dtype = dtype;
  for (int64_t i = 0; i < elements_of(shape); ++i) t.f.push_back(at(i));
  t.shape = std::move(shape);
  return t;
}

inline Tensor integers(std::vector<int64_t> shape, const std::function<int64_t(int64_t)>& at,
                       Dtype dtype = Dtype::i64) {
  Tensor t;
  t.dtype = dtype;
  for (int64_t i = 0; i < elements_of(shape); ++i) t.i.push_back(at(i));
  t.shape = std::move(shape);
  return t;
}

// A value that names its rank and index and is no round number.
inline double coded(int rank, int64_t index) {
  return 0.001 * static_cast<double>((index * 37 + 11) % 1009) + rank - 1.25;
}

// The rank's slice along dim, made anew from the whole (not by the evaluator's code).
inline Tensor cut(const Tensor& whole, int dim, int rank, int ranks) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < static_cast<int>(whole.shape.size()); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : whole.shape[static_cast<size_t>(d)];
  const int64_t n = whole.shape[static_cast<size_t>(dim)], begin = rank * n / ranks, end = (rank + 1) * n / ranks;
  Tensor part;
  part.dtype = whole.dtype;
  part.shape = whole.shape;
  part.shape[static_cast<size_t>(dim)] = end - begin;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = 0; k < inner; ++k) {
        const auto at = static_cast<size_t>((o * n + i) * inner + k);
        if (is_float(whole.dtype))
          part.f.push_back(whole.f[at]);
        else
          part.i.push_back(whole.i[at]);
      }
  return part;
}

inline std::vector<Tensor> everywhere(const Tensor& whole, int ranks) {
  return std::vector<Tensor>(static_cast<size_t>(ranks), whole);
}
inline std::vector<Tensor> slices(const Tensor& whole, int dim, int ranks) {
  std::vector<Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(cut(whole, dim, rank, ranks));
  return all;
}
inline std::vector<Tensor> per_rank(int ranks, const std::function<Tensor(int)>& make) {
  std::vector<Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(make(rank));
  return all;
}

inline Sizes launch(int ranks, std::map<std::string, int64_t> dims = {}) {
  Sizes sizes;
  sizes.ranks = ranks;
  sizes.dims = std::move(dims);
  return sizes;
}
inline expr::ScalarValue real(double value) { return {false, 0, value}; }
inline expr::ScalarValue whole(int64_t value) { return {true, value, 0}; }

}  // namespace weft::ir
