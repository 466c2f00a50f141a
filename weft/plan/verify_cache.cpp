// Verdicts by what they depend on: canonical text, ranks, parameters, version of the verifier. Only acceptances are kept:
// a refusal is read by a person, who wants its words afresh. A file that is damaged, or that cannot be written, is no
// verdict and no failure: verifying again is always right.
#include "weft/plan/verify_cache.h"

#include <sstream>

#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"

namespace weft::plan {

namespace {

constexpr int verifier_version = 2;  // raised when a rule changes: old verdicts are forgotten

std::filesystem::path path_of(const std::string& key) { return cache_directory() / "verdicts" / hash_hex(key); }

std::string body_of(const Verdict& verdict) {
  std::string text = fmt::format("weft verdict {}\nsteps {}\nranks", verifier_version, verdict.steps);
  for (int rank : verdict.ranks) text += fmt::format(" {}", rank);
  return text + "\n";
}

}  // namespace

std::string verdict_key(const Plan& plan, const VerifyOptions& options) {
  std::string key = fmt::format("verifier {}\n{}\nranks", verifier_version, print(plan));
  for (int n : options.ranks) key += fmt::format(" {}", n);
  for (const auto& [name, value] : options.params) key += fmt::format("\n{} = {}", name, value);
  int most = 9;
  for (int n : options.ranks) most = std::max(most, n);
  for (int a = 0; options.mappable && a < most; ++a) {
    key += "\nmaps ";
    for (int b = 0; b < most; ++b) key += options.mappable(a, b) ? '1' : '0';
  }
  return key;
}

std::optional<Verdict> read_verdict(const std::string& key) {
  std::string text;
  try {
    if (!std::filesystem::exists(path_of(key))) return std::nullopt;
    text = read_file(path_of(key));
  } catch (const std::exception&) { return std::nullopt; }
  const size_t check = text.rfind("check ");
  if (check == std::string::npos || text.substr(check) != "check " + hash_hex(text.substr(0, check) + key) + "\n")
    return std::nullopt;
  std::istringstream lines(text.substr(0, check));
  std::string form, verdict_word, steps_word, ranks_word;
  int version = 0, rank = 0;
  Verdict verdict;
  if (!(lines >> form >> verdict_word >> version >> steps_word >> verdict.steps >> ranks_word) ||
      version != verifier_version)
    return std::nullopt;
  while (lines >> rank) verdict.ranks.push_back(rank);
  return verdict;
}

void write_verdict(const std::string& key, const Verdict& verdict) {
  const std::string body = body_of(verdict);
  try {
    std::filesystem::create_directories(path_of(key).parent_path());
    write_file(path_of(key), body + "check " + hash_hex(body + key) + "\n");
  } catch (const std::exception& error) { WEFT_LOG(info, "plan", "verdict not kept: {}", error.what()); }
}

}  // namespace weft::plan
