// Runs tests/cases/**.test: public text forms in, text out. One gtest per file, so that ctest names what fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/support/source_dir.h"
#include "weft/api/weft.h"
#include "weft/plan/verify.h"

namespace weft {
namespace {

const std::filesystem::path root = checkout_dir();

struct Case {
  std::string verb, input, expected;
};

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::vector<Case> cases;
  Case current;
  enum { verb, input, expected } at = verb;
  std::string text = read_file(path);
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line == "====") {
      cases.push_back(current);
      current = {};
      at = verb;
    } else if (at == verb && !line.empty() && line[0] != '#') {
      current.verb = line;
      at = input;
    } else if (at == input && line == "----") {
      at = expected;
    } else if (at != verb) {
      (at == input ? current.input : current.expected) += line + "\n";
    }
  }
  if (!current.verb.empty()) cases.push_back(current);
  return cases;
}

std::string print_types(const ir::Program& program) {
  std::string out;
  const ir::Types types = ir::infer(program);
  for (const ir::Op& op : program.ops) out += op.name + ": " + ir::print(types.at(op.name)) + "\n";
  return out;
}

ir::Program example(const std::string& name) { return ir::parse(read_file(root / "examples" / (name + ".weft"))); }

std::string lowered(const std::vector<std::string>& word) {
  const ir::Program program = example(word.at(1));
  const schedule::Schedule schedule = resolve_schedule(program, word.at(2), {});
  lower::LowerOptions options;
  options.mapped = word.size() < 4 || word[3] != "private";
  return plan::print(lower::lower(schedule::replay(program, schedule), schedule.launches, options).plan);
}

std::string verified(const std::vector<std::string>& word, const std::string& input) {
  plan::VerifyOptions options;
  for (size_t i = 1; i < word.size(); i++) options.ranks.push_back(std::stoi(word[i]));
  const plan::Verdict verdict = plan::verify(plan::parse(input), options);
  std::string out;
  for (const plan::Finding& finding : verdict.findings) out += plan::print(finding) + "\n";
  return out.empty() ? "ok\n" : out;
}

// The command's own texts, colours and all; temporary names and the checkout's place do not appear in them.
std::string command(const std::string& arguments) {
  const std::string line = fmt::format("cd '{}' && '{}' {} 2>&1; echo exit $?", root.string(), WEFT_COMMAND, arguments);
  FILE* pipe = popen(line.c_str(), "r");
  std::string out;
  char piece[4096];
  for (size_t got; pipe && (got = fread(piece, 1, sizeof piece, pipe)) > 0;) out.append(piece, got);
  if (pipe) pclose(pipe);
  return out;
}

std::string outcome(const Case& c) {
  const std::vector<std::string> word = words(c.verb);
  try {
    if (word[0] == "program") return ir::print(ir::parse(c.input));
    if (word[0] == "types") return print_types(ir::parse(c.input));
    if (word[0] == "replay") return ir::print(schedule::replay(example(word.at(1)), schedule::parse_schedule(c.input)));
    if (word[0] == "plan") return lowered(word);
    if (word[0] == "roundtrip") return plan::print(plan::parse(c.input));
    if (word[0] == "verify") return verified(word, c.input);
    if (word[0] == "weft") return command(c.verb.substr(5));
  } catch (const Error& error) { return fmt::format("error {}: {}\n", name(error.kind()), error.what()); }
  return "unknown verb " + word[0] + "\n";
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, AreAsWritten) {
  const std::filesystem::path path = root / "tests/cases" / GetParam();
  std::vector<Case> cases = read_cases(path);
  ASSERT_FALSE(cases.empty()) << "no case in " << path;
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  std::string text;
  for (Case& c : cases) {
    const std::string got = outcome(c);
    if (!update) { EXPECT_EQ(got, c.expected) << GetParam() << ": " << c.verb << "\n" << c.input; }
    text += (text.empty() ? "" : "====\n") + c.verb + "\n" + c.input + "----\n" + got;
  }
  if (update) write_file(path, text);
}

std::vector<std::string> case_files() {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "tests/cases"))
    if (entry.path().extension() == ".test")
      files.insert(std::filesystem::relative(entry.path(), root / "tests/cases").string());
  return {files.begin(), files.end()};
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 5);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Text, Cases, testing::ValuesIn(case_files()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Cases);

}  // namespace
}  // namespace weft
