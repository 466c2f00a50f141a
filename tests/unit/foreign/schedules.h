// MSCCL schedules for tests: the files under tests/cases/msccl, generated ones for any number of ranks, damaged ones, and
// what each collective must give.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/foreign/msccl.h"

namespace weft::foreign::cases {

inline std::filesystem::path folder() { return std::filesystem::path(checkout_dir()) / "tests/cases/msccl"; }
inline std::string text(const std::string& name) { return read_file(folder() / (name + ".xml")); }
inline std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".xml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Text with `old` replaced by `by`, which must be there; occurrence 0 is the first.
inline std::string with(std::string text, const std::string& old, const std::string& by, int occurrence = 0) {
  size_t at = text.find(old);
  for (; occurrence > 0 && at != std::string::npos; --occurrence) at = text.find(old, at + 1);
  if (at == std::string::npos) throw Error(ErrorKind::internal, "no such text: " + old);
  return text.replace(at, old.size(), by);
}

inline std::string step(int s, const char* type, const std::string& source, const std::string& target, int count = 1,
                        int after_block = -1, int after_step = -1, int awaited = 0) {
  return fmt::format(
      "<step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" depid=\"{}\" "
      "deps=\"{}\" hasdep=\"{}\"/>\n",
      s, type, source.substr(0, 1), source.substr(1), target.substr(0, 1), target.substr(1), count, after_block,
      after_step, awaited);
}
inline std::string at(const char* buffer, int64_t chunk) { return fmt::format("{}{}", buffer, chunk); }

// A ring that leaves its input alone unless it runs in place; `out`: where the result is.
inline std::string ring(int n, const std::string& how, const char* out) {
  std::string xml = fmt::format(
      "<algo name=\"ring\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"allreduce\" "
      "{}>\n",
      n, n, how);
  for (int r = 0; r < n; ++r) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"0\">\n", r, n, n);
    xml += fmt::format("<tb id=\"0\" send=\"{}\" recv=\"{}\" chan=\"0\">\n", n > 1 ? (r + 1) % n : -1,
                       n > 1 ? (r + n - 1) % n : -1);
    int s = 0;
    const auto chunk = [&](const char* buffer, int k) { return at(buffer, ((r + k) % n + n) % n); };
    if (n == 1) {
      xml += step(s++, "cpy", "i0", at(out, 0));
    } else {
      xml += step(s++, "s", chunk("i", -1), chunk("i", -1));
      for (int k = 2; k < n; ++k) xml += step(s++, "rrs", chunk("i", -k), chunk("i", -k));
      xml += step(s++, "rrcs", chunk("i", 0), chunk(out, 0));
      for (int k = 1; k < n - 1; ++k) xml += step(s++, "rcs", chunk(out, -k), chunk(out, -k));
      xml += step(s++, "r", chunk(out, 1), chunk(out, 1));
    }
    xml += "</tb></gpu>\n";
  }
  return xml + "</algo>\n";
}

// An all-to-all of `k` chunks for each rank, all in one message, over one connection to each peer.
inline std::string all_to_all(int n, int k) {
  std::string xml = fmt::format(
      "<algo name=\"a2a\" proto=\"LL\" nchannels=\"2\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"alltoall\">\n", n * k,
      n);
  for (int r = 0; r < n; ++r) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"0\">\n", r, n * k, n * k);
    for (int q = 0; q < n; ++q) {
      const bool self = q == r;
      xml += fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"1\">\n", q, self ? -1 : q, self ? -1 : q);
      if (self) xml += step(0, "cpy", at("i", r * k), at("o", r * k), k);
      if (!self)
        xml += step(0, "s", at("i", q * k), at("o", r * k), k) + step(1, "r", at("i", r * k), at("o", q * k), k);
      xml += "</tb>\n";
    }
    xml += "</gpu>\n";
  }
  return xml + "</algo>\n";
}

// A collective from a root (or to it) along a chain 0, 1, ..., n-1, which may begin at any rank.
inline std::string chain(const std::string& collective, int n, int root) {
  const bool down = collective == "broadcast";
  std::string xml = fmt::format(
      "<algo name=\"chain\" proto=\"LL128\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"{}\" coll=\"{}\" "
      "root=\"{}\">\n",
      n, collective, root);
  for (int r = 0; r < n; ++r) {
    const int place = down ? (r - root + n) % n : (root - r + n) % n;  // of the chain, from the root
    const int to_root = place == 0 ? -1 : down ? (r + n - 1) % n : (r + 1) % n;
    const int from_root = place == n - 1 ? -1 : down ? (r + 1) % n : (r + n - 1) % n;
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">\n", r);
    xml += fmt::format("<tb id=\"0\" send=\"{}\" recv=\"{}\" chan=\"0\">\n", down ? from_root : to_root,
                       down ? to_root : from_root);
    const bool first = place == (down ? 0 : n - 1), last = place == (down ? n - 1 : 0);
    if (n == 1 || (down && first)) xml += step(0, "cpy", "i0", "o0", 2);
    if (n > 1 && down) xml += first ? step(1, "s", "i0", "o0", 2) : step(0, last ? "r" : "rcs", "o0", "o0", 2);
    if (n > 1 && !down) xml += step(0, first ? "s" : last ? "rrc" : "rrs", "i0", "o0", 2);
    xml += "</tb></gpu>\n";
  }
  return xml + "</algo>\n";
}

// What element e of chunk k of rank r's result must be, for inputs input(rank, chunk, element) with `block` chunks for
// each rank; false: nothing is asked of it.
template <typename Input>
bool expected(const std::string& collective, int n, int root, int64_t block, int r, int64_t k, const Input& input,
              int64_t& value) {
  const auto sum = [&](int64_t chunk) {
    value = 0;
    for (int q = 0; q < n; ++q) value += input(q, chunk);
    return true;
  };
  const auto copy = [&](int64_t q, int64_t chunk) {
    value = input(static_cast<int>(q), chunk);
    return true;
  };
  if (collective == "allreduce") return sum(k);
  if (collective == "reduce") return r == root && sum(k);
  if (collective == "reduce_scatter") return sum(r * block + k);
  if (collective == "allgather") return copy(k / block, k % block);
  if (collective == "alltoall") return copy(k / block, r * block + k % block);
  if (collective == "broadcast") return copy(root, k);
  if (collective == "gather") return r == root && copy(k / block, k % block);
  if (collective == "scatter") return copy(root, r * block + k);
  return false;
}

}  // namespace weft::foreign::cases
