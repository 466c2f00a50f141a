// No schedule changes what a program means: by the reference evaluator, on 1 to 8 ranks, exactly on integers.
#include "tests/unit/schedule/meaning.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/groups.h"
#include "weft/schedule/layouts.h"

namespace weft::schedule {
namespace {

// The evaluator keeps floats in f64; sums over another order of 8 ranks and 30 elements differ by a few ulp, and Adam's
// division by a small sqrt(v) magnifies that.
constexpr double tolerance = 1e-9;

void expect_same(const ir::Program& naive, const ir::Program& scheduled, const test::World& world, double bound) {
  EXPECT_LE(test::difference(test::meaning(naive, world), test::meaning(scheduled, world)), bound)
      << world.sizes.ranks << " ranks\n"
      << ir::print(scheduled);
}

std::vector<LayoutNode> layouts_of(const ir::Program& naive, size_t cap) {
  Form form = form_of(naive);
  canonicalize(form);
  return Layouts(form, {}, cap).nodes();
}

TEST(Meaning, EveryLayoutOfTheExamples) {
  for (const std::string& name :
       std::vector<std::string>{"adam", "adamw_clip", "lamb", "adam_mixed", "attention_end", "mlp", "sgd_int"}) {
    ir::Program naive = test::program(name);
    std::vector<LayoutNode> nodes = layouts_of(naive, 1000);
    for (size_t i = 0; i < nodes.size(); ++i) {
      bool thin = nodes.size() > 150 && i % 5 != 1;  // the large spaces by sample
      if (!thin)
        expect_same(naive, nodes[i].form.program, test::world(static_cast<int>(1 + i % 8), 13),
                    name == "sgd_int" ? 0 : tolerance);
    }
  }
}

TEST(Meaning, CandidatesOnAllRanksAndSizes) {
  for (const std::string& name : test::example_names()) {
    ir::Program naive = test::example(name);
    std::vector<Candidate> candidates = enumerate(naive).candidates;
    int k = 0;
    for (const Candidate& c : candidates)
      for (int64_t n : {0, 1, 2, 7, 33}) expect_same(naive, c.program, test::world(1 + k++ % 8, n), tolerance);
  }
}

TEST(Meaning, OnTheRoot) {
  ir::Program naive = test::program("adam");
  for (int ranks : {1, 2, 3, 5}) {
    ir::Program q = test::after(naive, "split a root 0; reorder m1 v1 u w1; store m v w");
    expect_same(naive, q, test::world(ranks, 13), tolerance);
  }
}

TEST(Meaning, Commute) {
  ir::Program naive = test::small("a = all_reduce(sum, x)\ny = 2.0 * a\nv = y + r\nout v\n");
  for (int ranks : {1, 2, 3, 8}) expect_same(naive, test::after(naive, "commute y"), test::world(ranks, 6), tolerance);
  ir::Program average = test::small("a = all_reduce(avg, x)\ny = select(rand(k, 1) < 0.5, a, 0) / 4.0\nout y\n");
  for (int ranks : {1, 2, 3, 8})
    expect_same(average, test::after(average, "commute y"), test::world(ranks, 6), tolerance);
}

// What narrow makes is what the casts say, on every rank alike.
TEST(Meaning, Narrow) {
  ir::Program naive = test::small("a = all_reduce(sum, x)\nv = a * 2.0 + r\nout v\n");
  ir::Program cast = test::small("a = all_reduce(sum, x)\nu = a * 2.0 + r\nc = bf16(u)\nv = f32(c)\nout v\n");
  for (int ranks : {1, 2, 3, 8}) {
    const ir::Program narrow = test::after(naive, "split a; reorder v; narrow v bf16");
    expect_same(cast, narrow, test::world(ranks, 6), 0);
  }
}

TEST(Meaning, TheComparisonCanFail) {
  ir::Program naive = test::program("adam");
  std::string text = ir::print(test::after(naive, "split a; reorder m1 v1 u w1; store m v w"));
  auto with = [&text](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return ir::parse(changed);
  };
  test::World world = test::world(3, 13);
  test::Meaning right = test::meaning(naive, world);
  EXPECT_LE(test::difference(right, test::meaning(with("b1 = 0.9", "b1 = 0.9"), world)), tolerance);
  for (auto [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"b1 = 0.9", "b1 = 0.8"}, {"(avg, g", "(sum, g"}, {"update m = m1.s", "update m = v1.s"}})
    EXPECT_GT(test::difference(right, test::meaning(with(from, to), world)), 1e-6) << to;
}

// Random programs over [A, B] with broadcast operands, folds and products; `dtype` f32 or i64. Integers know no
// functions, and every result is exact.
class RandomProgram {
 public:
  RandomProgram(std::mt19937& random, bool integers) : random_(random), integers_(integers) {}

  std::string text() {
    std::string t = integers_ ? "i64" : "f32";
    std::string head = "program 1 fuzz\ndim A B\nscalar k i64\n";
    for (auto [name, shape, layout] : std::vector<std::array<const char*, 3>>{{"in g", "A, B", "local"},
                                                                              {"in w", "A, B", "replicated"},
                                                                              {"in c", "A, 1", "replicated"},
                                                                              {"in b", "B", "replicated"},
                                                                              {"in h", "B, B", "replicated"},
                                                                              {"state m", "A, B", "replicated"}})
      head += fmt::format("{} {}[{}] {}\n", name, t, shape, layout);
    body_ = "a = all_reduce(sum, g)\n";
    int statements = 2 + pick(4);
    for (int i = 0; i < statements; ++i) add("x" + std::to_string(i));
    std::string last = full_.back() == "m" ? "a" : full_.back();
    body_ += "update m = " + last + "\nout " +
             full_[static_cast<size_t>(pick(static_cast<int>(full_.size()) - 3)) + (full_.size() > 3 ? 3 : 0)] + "\n";
    if (!scalars_.empty()) body_ += "out " + scalars_.back() + "\n";
    return head + body_;
  }

 private:
  int pick(int n) { return n < 1 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  const std::string& any(const std::vector<std::string>& of) {
    return of[static_cast<size_t>(pick(static_cast<int>(of.size())))];
  }
  std::string operand() {
    std::vector<std::string> all = full_;
    all.insert(all.end(), columns_.begin(), columns_.end());
    all.insert(all.end(), rows_.begin(), rows_.end());
    all.insert(all.end(), scalars_.begin(), scalars_.end());
    return any(all);
  }
  void add(const std::string& n) {
    std::string x = any(full_), y = operand();
    switch (pick(9)) {
      case 0:
      case 1:
      case 2: map(n, x, y); return;
      case 3: line(n, fmt::format("sum({} * {}, -1)", x, any(full_)), columns_); return;
      case 4: line(n, fmt::format("amax({}, 0)", x), rows_); return;
      case 5: line(n, fmt::format("sum({})", x), scalars_); return;
      case 6: line(n, fmt::format("matmul({}, h)", x), full_); return;
      case 7: line(n, fmt::format("amin({} + {})", x, y), scalars_); return;
      default:
        line(n, integers_ ? fmt::format("{} - 3 * {}", x, y) : fmt::format("{} * rsqrt(1.0 + abs({}))", x, y), full_);
    }
  }
  void map(const std::string& n, const std::string& x, const std::string& y) {
    std::vector<std::string> forms = {"{0} + {1}", "{0} * {1}", "max({0}, {1})", "select({0} < {1}, {0}, 2 * {1})",
                                      "{0} + k * index(0) * {1}"};
    if (!integers_) forms.insert(forms.end(), {"tanh({0}) - {1}", "select(rand(7, 3) < 0.5, {0}, 2.0 * {1})"});
    line(n, fmt::format(fmt::runtime(any(forms)), x, y), full_);
  }
  void line(const std::string& n, const std::string& value, std::vector<std::string>& kind) {
    body_ += n + " = " + value + "\n";
    kind.push_back(n);
  }

  std::mt19937& random_;
  bool integers_;
  std::string body_;
  std::vector<std::string> full_ = {"a", "w", "m"}, columns_ = {"c"}, rows_ = {"b"}, scalars_;
};

void fuzz(bool integers, uint32_t seed, double seconds, int* programs, int* forms) {
  std::mt19937 random(seed);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::string text = RandomProgram(random, integers).text();
    ir::Program naive = canonical(ir::parse(text));
    int ranks = 1 + static_cast<int>(random() % 8);
    test::World world = test::world(ranks, 5, random(), true);
    test::Meaning right = test::meaning(naive, world);
    std::vector<LayoutNode> nodes = layouts_of(naive, 120);
    ++*programs;
    for (int i = 0; i < 12; ++i) {
      const Form& form = nodes[random() % nodes.size()].form;
      ir::Program scheduled = i % 3 == 0 ? grouped(form).front().program : form.program;
      check_scheduled(naive, scheduled);
      ASSERT_LE(test::difference(right, test::meaning(scheduled, world)), integers ? 0 : 1e-6)
          << ranks << " ranks\n"
          << ir::print(naive) << "\n"
          << ir::print(scheduled);
      ++*forms;
    }
  }
}

TEST(Fuzz, IntegersExactly) {
  int programs = 0, forms = 0;
  fuzz(true, 1, 2, &programs, &forms);
  RecordProperty("programs", programs);
  EXPECT_GE(programs, 5);
}
TEST(Fuzz, FloatsToTolerance) {
  int programs = 0, forms = 0;
  fuzz(false, 2, 2, &programs, &forms);
  RecordProperty("programs", programs);
  EXPECT_GE(programs, 5);
}

}  // namespace
}  // namespace weft::schedule
