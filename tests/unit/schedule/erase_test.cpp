// Erasing gives the user's program back, and with inference it is a proof: what both accept computes the same.
#include <gtest/gtest.h>

#include <cctype>
#include <random>
#include <set>

#include "tests/unit/schedule/meaning.h"
#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/groups.h"
#include "weft/schedule/layouts.h"

namespace weft::schedule {
namespace {

std::vector<LayoutNode> layouts_of(const ir::Program& naive, size_t cap) {
  Form form = form_of(naive);
  canonicalize(form);
  return Layouts(form, {}, cap).nodes();
}

TEST(Erase, EveryFormIsTheProgramByteForByte) {
  for (const std::string& name : test::program_names()) {
    ir::Program naive = test::program(name);
    std::string text = ir::print(naive);
    for (const LayoutNode& node : layouts_of(naive, 1000)) {
      EXPECT_EQ(ir::print(erase(node.form.program)), text) << ir::print(node.form.program);
      EXPECT_EQ(ir::print(erase(grouped(node.form).front().program)), text);
    }
  }
}

TEST(Erase, ReadFromTextToo) {
  ir::Program naive = test::program("lamb");
  for (const Candidate& c : enumerate(naive).candidates)
    EXPECT_NO_THROW(check_scheduled(naive, ir::parse(ir::print(c.program))));
}

TEST(Erase, RootsAndScatters) {
  ir::Program naive = test::program("adam");
  EXPECT_EQ(ir::print(erase(test::after(naive, "split a root 0; reorder m1 v1 u w1; store m v w"))), ir::print(naive));
}

TEST(Canonical, FortyOrdersOfLambsRewritesEndInOneText) {
  std::mt19937 random(3);
  std::set<std::string> texts;
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::string> todo = {"split a",    "reorder m1", "reorder v1", "reorder u", "cut nw 0",
                                     "reorder nu", "reorder w1", "store m",    "store v",   "store w"};
    ir::Program p = test::program("lamb");
    while (!todo.empty()) {
      std::shuffle(todo.begin(), todo.end(), random);
      try {
        p = test::after(p, todo[0]);
        todo.erase(todo.begin());
      } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::user); }
    }
    texts.insert(ir::print(p));
  }
  EXPECT_EQ(texts.size(), 1u);
}

TEST(Canonical, N1DropsWhatNobodyReads) {
  ir::Program p = test::small("y = r * 2.0\nv = y + r\nu = r - b\nout u\n");
  ir::Program q = canonical(p);
  ASSERT_EQ(q.ops.size(), 1u);
  EXPECT_EQ(q.ops[0].name, "u");
}
TEST(Canonical, N2ReadsTheSliceAndKeepsAUsersCut) {
  ir::Program p = test::small(
      "a = all_reduce(sum, x)\nu = a cut 0\ny = all_gather(u)\nv = q + a\nt = all_gather(v)\nout y\nout t\n");
  ir::Program q = test::after(p, "split a");
  EXPECT_EQ(ir::print(*ir::find_op(q, "v")), "v = q + a.s");
  EXPECT_EQ(ir::print(*ir::find_op(q, "u")), "u = a cut 0") << "the user's own words stay";
  EXPECT_EQ(ir::print(erase(q)), ir::print(p));
}

void not_a_schedule(const ir::Program& naive, const std::string& scheduled, const std::string& rule) {
  try {
    check_scheduled(naive, ir::parse(scheduled));
    FAIL() << "accepted:\n" << scheduled;
  } catch (const Error& e) {
    EXPECT_EQ(e.rule(), rule) << e.what();
    EXPECT_EQ(e.kind(), ErrorKind::user);
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CheckScheduled, E1AnotherProgram) {
  ir::Program naive = test::program("adam");
  std::string text = ir::print(test::after(naive, "split a; reorder m1 v1 u w1; store m v w"));
  EXPECT_NO_THROW(check_scheduled(naive, ir::parse(text)));
  not_a_schedule(naive, replaced(text, "avg", "sum"), "E1");
  not_a_schedule(naive, replaced(text, "b1 * m", "b2 * m"), "E1");
  not_a_schedule(naive, replaced(text, "let b1 = 0.9", "let b1 = 0.8"), "E1");
  not_a_schedule(naive, replaced(text, "out w1", "out w1\nout w1.s"), "E1");
  not_a_schedule(naive, replaced(text, "out w1", "out w1.s"), "E1");
  not_a_schedule(naive, replaced(text, "update v = v1.s", "update v = m1.s"), "E1");
  not_a_schedule(naive, replaced(text, "out w1", "").append("z = w + w\nout z\n"), "E1");
}
TEST(CheckScheduled, E2AValueOfTheUsersElsewhere) {
  ir::Program naive = test::small("y = x * 2.0\nout y\n");
  std::string local = ir::print(naive);
  not_a_schedule(naive, replaced(local, "y = x * 2.0", "y.p = x * 2.0\ny = all_reduce(sum, y.p)"), "E2");
  EXPECT_NO_THROW(check_scheduled(naive, ir::parse(local)));
}
TEST(CheckScheduled, E3SuffixesMeanWhatTheySay) {
  ir::Program naive = test::small("a = all_reduce(sum, x)\ny = a + r\nout y\n");
  std::string text = ir::print(naive);
  EXPECT_NO_THROW(check_scheduled(naive, ir::parse(replaced(text, "a = all_reduce(sum, x)",
                                                            "a.s = reduce_scatter(sum, x, 1)\na = all_gather(a.s)"))));
  not_a_schedule(
      naive,
      replaced(text, "a = all_reduce(sum, x)", "a.p = all_reduce(sum, x)")
          .replace(replaced(text, "a = all_reduce(sum, x)", "a.p = all_reduce(sum, x)").find("a + r"), 1, "a.p"),
      "E3");
}

// ---- mutation: hand-like mistakes in scheduled texts
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Every name behind the first '=' with each other suffix.
void mutate_names(const std::string& line, std::vector<std::string>& mutants) {
  size_t begin = line.find('=');
  if (begin == std::string::npos) begin = line.rfind(' ');
  for (size_t i = begin + 1; i < line.size();) {
    if (!std::isalpha(static_cast<unsigned char>(line[i])) || is_word(line[i - 1])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && is_word(line[end])) ++end;
    std::string word = line.substr(i, end - i), base = origin(word);
    for (const std::string& suffix : std::vector<std::string>{"", ".s", ".p"})
      if (base + suffix != word && (end == line.size() || line[end] != '('))
        mutants.push_back(line.substr(0, i) + base + suffix + line.substr(end));
    i = end;
  }
}

void mutate_phrase(const std::string& line, const std::string& from, const std::string& to,
                   std::vector<std::string>& mutants) {
  size_t at = line.find(from);
  if (at != std::string::npos) mutants.push_back(std::string(line).replace(at, from.size(), to));
}

std::vector<std::string> mutants_of(const std::string& line) {
  std::vector<std::string> mutants;
  if (line.starts_with("let") || line.starts_with("program") || line.starts_with("scalar") || line.starts_with("dim"))
    return mutants;
  mutate_names(line, mutants);
  for (auto [from, to] : std::vector<std::pair<std::string, std::string>>{{" cut 0", ""},
                                                                          {" cut 0", " cut 1"},
                                                                          {" cut 1", " cut 0"},
                                                                          {"sliced(0)", "replicated"},
                                                                          {"replicated", "sliced(0)"},
                                                                          {"replicated", "local"},
                                                                          {"sliced(0)", "sliced(1)"},
                                                                          {"avg", "sum"},
                                                                          {"(sum", "(max"},
                                                                          {"(sum, ", "(avg, "},
                                                                          {"all_gather(", "("},
                                                                          {"all_reduce(sum, ", "("},
                                                                          {"broadcast(", "("},
                                                                          {"reduce_scatter", "all_reduce"},
                                                                          {", 0)", ", 1)"},
                                                                          {", 1)", ", 0)"},
                                                                          {"root(0)", "root(1)"},
                                                                          {".s =", ".p ="},
                                                                          {".p =", ".s ="},
                                                                          {".s =", " ="},
                                                                          {".p =", " ="},
                                                                          {" = ", ".s = "},
                                                                          {" = ", ".p = "}})
    mutate_phrase(line, from, to, mutants);
  mutants.push_back("");  // the line is forgotten
  return mutants;
}

struct Tally {
  int mutants = 0, refused = 0, other_program = 0, accepted = 0;
};

void try_mutant(const ir::Program& naive, const std::string& text, const test::World& world, const test::Meaning& right,
                Tally& tally) {
  ++tally.mutants;
  ir::Program mutant;
  try {
    mutant = ir::parse(text);
    ir::infer(mutant);
  } catch (const Error& e) {
    EXPECT_TRUE(e.kind() == ErrorKind::user || e.kind() == ErrorKind::unsupported) << e.what();
    ++tally.refused;
    return;
  }
  try {
    check_scheduled(naive, mutant);
  } catch (const Error& e) {
    EXPECT_EQ(e.rule().substr(0, 1), "E") << e.what();
    ++tally.other_program;
    return;
  }
  ++tally.accepted;
  EXPECT_LE(test::difference(right, test::meaning(mutant, world)), 1e-9) << "accepted, and wrong:\n" << text;
}

TEST(Mutation, NothingWrongIsAccepted) {
  std::mt19937 random(5);
  Tally tally;
  for (const std::string& name : std::vector<std::string>{"adam", "adamw_clip", "lamb", "attention_end", "sgd_int"}) {
    ir::Program naive = test::program(name);
    std::vector<std::string> texts;
    for (const LayoutNode& node : layouts_of(naive, 1000)) texts.push_back(ir::print(node.form.program));
    std::shuffle(texts.begin(), texts.end(), random);
    if (texts.size() > 12) texts.resize(12);
    if (name == "adam")
      texts.push_back(ir::print(test::after(naive, "split a root 0; reorder m1 v1 u w1; store m v w")));
    test::World world = test::world(3, 13);
    test::Meaning right = test::meaning(naive, world);
    for (const std::string& text : texts) {
      std::vector<std::string> lines = lines_of(text);
      for (size_t i = 0; i < lines.size(); ++i)
        for (const std::string& mutant : mutants_of(lines[i])) {
          std::vector<std::string> changed = lines;
          changed[i] = mutant;
          if (mutant != lines[i]) try_mutant(naive, join(changed, "\n") + "\n", world, right, tally);
        }
    }
  }
  RecordProperty("mutants", tally.mutants);
  RecordProperty("refused", tally.refused);
  RecordProperty("other_program", tally.other_program);
  RecordProperty("accepted", tally.accepted);
  EXPECT_GT(tally.refused, 100);
  EXPECT_GT(tally.other_program, 100);
  EXPECT_GT(tally.accepted, 20) << "reading a gather instead of its slice is right, and must be among them";
}

}  // namespace
}  // namespace weft::schedule
