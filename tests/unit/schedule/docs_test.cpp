// The numbered rules of docs/program.md and docs/schedules.md: each is cited by the code that enforces it, carried by the
// name of a test, and refused by number in one. A rule that is new in the docs fails here until it has all three.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "tests/support/source_dir.h"
#include "weft/base/file.h"

namespace weft::schedule {
namespace {

// Rules that say what becomes of a value and cannot be broken, or that hold because others do.
const std::map<std::string, std::string> say_what_becomes = {
    {"L2", "what local does not meet is L4's"},
    {"D4", "which dtype a fold has"},
    {"D5", "when values are rounded"},
    {"R5", "what R3 and R4 let through is divided"},
    {"N1", "canonical form"},
    {"N2", "canonical form"},
    {"N3", "canonical form"},
    {"Z1", "dominance"},
    {"Z2", "dominance"},
    {"Z3", "dominance"},
    {"Z4", "dominance"},
    {"Z5", "dominance"},
    {"Z6", "dominance"},
    {"Z7", "dominance"},
};

std::string root() { return checkout_dir(); }

std::string all_sources(const std::string& folder, std::initializer_list<const char*> rooms) {
  std::string text;
  for (const char* room : rooms)
    for (const auto& entry : std::filesystem::directory_iterator(root() + "/" + folder + "/" + room))
      if (entry.path().extension() == ".cpp") text += read_file(entry.path());
  return text;
}

// In tables a row begins with the rule; schedules also list theirs inside cells, each before its sentence.
std::set<std::string> rules_of(const std::string& page) {
  std::set<std::string> rules;
  const std::string text = read_file(root() + "/docs/" + page);
  const std::regex number("\\b([FSDWLPMRTKOCGENZ][0-9]{1,2})\\b");
  for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at) rules.insert((*at)[1]);
  return rules;
}

TEST(Docs, EveryRuleIsEnforcedNamedByATestAndRefusedInOne) {
  const std::string code = all_sources("weft", {"expr", "ir", "schedule", "lower"}),
                    tests = all_sources("tests/unit", {"expr", "ir", "schedule", "lower"});
  std::set<std::string> rules = rules_of("program.md");
  rules.merge(rules_of("schedules.md"));
  EXPECT_GT(rules.size(), 60u) << "the pages are not read";
  for (const std::string& rule : rules) {
    const std::regex named("TEST\\w*\\(\\w+, \\w*" + rule + "(?![0-9])");
    const bool by_name = std::regex_search(tests, named);
    const bool dominance = rule[0] == 'Z' || rule[0] == 'F' || rule[0] == 'G';  // one test for all
    EXPECT_TRUE(by_name || dominance) << "no test carries " << rule << " in its name";
    if (say_what_becomes.count(rule)) continue;
    const std::string quoted = "\"" + rule + "\"";
    EXPECT_NE(code.find(quoted), std::string::npos) << "no error cites " << rule;
    EXPECT_NE(tests.find(quoted), std::string::npos) << "no test is refused by " << rule;
  }
}

}  // namespace
}  // namespace weft::schedule
