// The numbered rules of docs/program.md and docs/schedules.md: each is cited by the code that enforces it, carried by the
// name of a test that also accepts something, and refused by number in one. A rule that is new in the docs fails here
// until it has all of it.
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

// What the tests whose names carry the rule say, one after the other.
std::string bodies_named(const std::string& tests, const std::string& rule) {
  const std::regex test("\\nTEST\\w*\\(\\w+, (\\w+)\\)"), carried(rule + "(?![0-9])");
  std::string bodies;
  for (std::sregex_iterator at(tests.begin(), tests.end(), test), end; at != end; ++at) {
    const std::string name = (*at)[1];
    const auto begin = static_cast<size_t>(at->position());
    if (std::regex_search(name, carried)) bodies += tests.substr(begin, tests.find("\nTEST", begin + 1) - begin);
  }
  return bodies;
}

bool accepts_something(const std::string& bodies) {
  for (const char* call :
       {"accepts(", "accepted(", "\"accepted\"", "checked(", "check(", "type_of(", "EXPECT_NO_THROW("})
    if (bodies.find(call) != std::string::npos) return true;
  return false;
}

TEST(Docs, EveryRuleIsEnforcedAndHasATestThatAcceptsAndOneThatRefuses) {
  const std::string code = all_sources("weft", {"expr", "ir", "schedule", "lower"}),
                    tests = all_sources("tests/unit", {"expr", "ir", "schedule", "lower"});
  std::set<std::string> rules = rules_of("program.md");
  rules.merge(rules_of("schedules.md"));
  EXPECT_GT(rules.size(), 60u) << "the pages are not read";
  for (const std::string& rule : rules) {
    const bool by_name = !bodies_named(tests, rule).empty();
    const bool dominance = rule[0] == 'Z';  // one test for all
    EXPECT_TRUE(by_name || dominance) << "no test carries " << rule << " in its name";
    if (say_what_becomes.count(rule)) continue;
    EXPECT_TRUE(accepts_something(bodies_named(tests, rule))) << "no test that carries " << rule << " accepts anything";
    const std::string quoted = "\"" + rule + "\"";
    EXPECT_NE(code.find(quoted), std::string::npos) << "no error cites " << rule;
    EXPECT_NE(tests.find(quoted), std::string::npos) << "no test is refused by " << rule;
  }
}

}  // namespace
}  // namespace weft::schedule
