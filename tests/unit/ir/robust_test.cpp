// Hostile and random text: an error of kind user (or unsupported), never a crash, a hang or an internal error; and what
// is accepted prints and reads back.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/unit/ir/support.h"

namespace weft::ir {
namespace {

const char* const all_programs[] = {"adam",          "adam_mixed", "adamw_clip", "lamb",   "mlp", "sequence_parallel",
                                    "attention_end", "pipeline",   "moe",        "sgd_int"};

// Whether the text is taken or refused as it should be; the canonical text of what is taken is a fixed point.
testing::AssertionResult behaves(const std::string& text) {
  try {
    const std::string once = print(parse(text));
    const std::string twice = print(parse(once));
    if (once != twice) return testing::AssertionFailure() << "not canonical:\n" << once << "\nthen\n" << twice;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user && error.kind() != ErrorKind::unsupported)
      return testing::AssertionFailure() << error.what() << "\nin\n" << text;
  }
  return testing::AssertionSuccess();
}

TEST(Robust, MutatedPrograms) {
  std::mt19937 random(1);
  const std::string letters = "abgmvwxP0123456789 .,()[]{}#=+-*/^<>%_\n\t:@\xff";
  for (const char* name : all_programs) {
    const std::string text = complete_program(name);
    for (int round = 0; round < 300; ++round) {
      std::string mutated = text;
      for (int edits = static_cast<int>(random() % 3); edits >= 0; --edits) {
        const size_t at = random() % mutated.size();
        switch (random() % 4) {
          case 0: mutated.erase(at, 1 + random() % 5); break;
          case 1: mutated.insert(at, 1, letters[random() % letters.size()]); break;
          case 2: mutated[at] = letters[random() % letters.size()]; break;
          default: mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 20));
        }
        if (mutated.empty()) mutated = "x";
      }
      ASSERT_TRUE(behaves(mutated)) << name << " round " << round;
    }
  }
}

// Lines swapped, dropped and doubled: order and definitions.
TEST(Robust, ConstantsThatDoubleAreRefused) {
  std::string text = "program 1 t\nlet a0 = 0.5\n";
  for (int i = 1; i < 12; ++i) text += fmt::format("let a{0} = a{1} * a{1}\n", i, i - 1);
  EXPECT_EQ(refusal(text + "in g f32[3] local\ny = g * a11\nout y\n"), "accepted");
  for (int i = 12; i < 60; ++i) text += fmt::format("let a{0} = a{1} * a{1}\n", i, i - 1);
  EXPECT_EQ(refusal(text), "F1");
}

TEST(Robust, ShuffledLines) {
  std::mt19937 random(2);
  for (const char* name : all_programs) {
    const std::vector<SourceLine> lines = source_lines(complete_program(name));
    for (int round = 0; round < 200; ++round) {
      std::vector<std::string> order;
      for (const SourceLine& line : lines) order.push_back(line.text);
      for (int edits = 0; edits < 2; ++edits) {
        const size_t a = 1 + random() % (order.size() - 1), b = 1 + random() % (order.size() - 1);
        if (random() % 2)
          std::swap(order[a], order[b]);
        else
          order[a] = order[b];
      }
      ASSERT_TRUE(behaves(join(order, "\n") + "\n"));
    }
  }
}

TEST(Robust, ExtremeTexts) {
  EXPECT_TRUE(behaves(""));
  EXPECT_TRUE(behaves("\n\n# nothing\n"));
  EXPECT_TRUE(behaves("program 1 t"));
  EXPECT_TRUE(behaves(std::string("program 1 t\0in", 14)));
  const std::string head = "program 1 t\ndim N\nin g f32[N] local\n";
  EXPECT_TRUE(behaves(head + "y = " + std::string(100000, '(') + "\n"));
  EXPECT_TRUE(behaves(head + "y = " + std::string(100000, '-') + "g\n"));
  EXPECT_TRUE(behaves(head + std::string(3000, ' ') + "y = g\n"));
  EXPECT_TRUE(behaves(head + "y = g cut 99999999999999999999\n"));
  EXPECT_TRUE(behaves(head + "y = sum(g, 99999999999999)\n"));
  EXPECT_TRUE(behaves(head + "y = reduce(sum, g, 99999999999)\n"));
  EXPECT_TRUE(behaves(head + "in z f32[99999999999999999999] local\n"));
  std::string deep = "g";
  for (int i = 0; i < 150; ++i) deep = "sum(" + deep + " * g)";
  EXPECT_TRUE(behaves(head + "y = " + deep + "\n"));
}

// The tuner parses and infers thousands of times: a generous bound, an order above what it takes.
TEST(Robust, ReadingAndInferringAreCheap) {
  const std::string text = complete_program("lamb");
  const auto begin = std::chrono::steady_clock::now();
  constexpr int rounds = 200;
  size_t values = 0;
  for (int i = 0; i < rounds; ++i) values += infer(parse(text)).size();
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / rounds;
  EXPECT_EQ(values, 200u * 12);
  EXPECT_LT(us, 5000) << "microseconds for reading and inferring LAMB";
  RecordProperty("microseconds", static_cast<int>(us));
}

}  // namespace
}  // namespace weft::ir
