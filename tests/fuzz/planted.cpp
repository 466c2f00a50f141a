#include "tests/fuzz/planted.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/texts.h"
#include "tests/support/source_dir.h"
#include "tests/unit/runtime/harness.h"
#include "weft/base/file.h"
#include "weft/base/text.h"

namespace weft::fuzz {
namespace {

using Trial = void (*)(uint64_t, Tally&, const Planted&);

PlantedFault found_by(const std::string& name, Trial trial, const Planted& planted) {
  return {name, [trial, planted](uint64_t seed, double seconds) {
            Tally tally;
            for_seconds(seconds, seed, tally, [&](uint64_t s) { trial(s, tally, planted); });
            return !tally.faults.empty();
          }};
}

// A rewrite (any, or the one named) that also puts one word for another where it stands in the program it made.
Planted wrong_rewrite(const std::string& directive, const std::string& from, const std::string& to) {
  Planted planted;
  planted.rewrite = [=](const ir::Program& after, const std::string& name) {
    std::string text = ir::print(after);
    const size_t at = text.find(from);
    if (at == std::string::npos || (!name.empty() && name != directive)) return after;
    try {
      ir::Program wrong = ir::parse(text.replace(at, from.size(), to));
      ir::infer(wrong);
      return wrong;
    } catch (const Error&) { return after; }  // inference would have seen it
  };
  return planted;
}

Planted wrong_plan(const std::string& from, const std::string& to) {
  Planted planted;
  planted.lowering = [=](plan::Plan& plan) {
    std::string text = plan::print(plan);
    const size_t lanes = text.find("\nlane "), at = text.find(from, lanes == std::string::npos ? 0 : lanes);
    if (at != std::string::npos) plan = plan::parse(text.replace(at, from.size(), to));
  };
  return planted;
}

// A verifier that does not see one rule, on the mutants that it should see it in.
PlantedFault deaf_verifier(const std::string& rule) {
  return {"a verifier that misses " + rule, [rule](uint64_t seed, double seconds) {
            Planted planted;
            planted.verifier_misses = [rule](const plan::Finding& finding) { return finding.rule == rule; };
            Tally tally;
            Random random(seed);
            for_seconds(seconds, 0, tally,
                        [&](uint64_t) { try_plan_mutant(random.of(all_mutants()), tally, planted); });
            return !tally.faults.empty();
          }};
}

// A step that does not wait for its peer: in the interpreter's random orders, and on ranks that pause at random.
std::string hasty_plan() {
  std::string text = read_file(checkout_dir() + "/tests/cases/plan/one_shot_private.plan");
  const std::string await = " after stage@0..n";
  const size_t at = text.find(await);
  return at == std::string::npos ? "" : text.erase(at, await.size());
}

bool orders_find_the_race(uint64_t seed, double seconds) {
  const plan::Plan hasty = plan::parse(hasty_plan());
  Tally tally;
  for_seconds(seconds, seed, tally, [&](uint64_t s) {
    runtime::test::Sizes sizes;
    sizes.spaces.assign(hasty.spaces.size(), runtime::test::flat(40));
    sizes.chunk_elements.assign(hasty.spaces.size(), 8);
    const std::string wrong = failures_in([&] { runtime::test::interpret(hasty, 3, sizes, 1, s); });
    if (!wrong.empty()) tally.faults.push_back(wrong);
  });
  return !tally.faults.empty();
}

bool pauses_find_the_race(uint64_t, double seconds) {
  const plan::Plan right = runtime::test::case_plan("one_shot_private"), hasty = plan::parse(hasty_plan());
  runtime::test::Sizes sizes;
  sizes.spaces.assign(right.spaces.size(), runtime::test::flat(400));
  sizes.chunk_elements.assign(right.spaces.size(), 8);
  const auto expected = runtime::test::interpret(right, 3, sizes, 3, 1);
  Tally tally;
  for_seconds(seconds, 0, tally, [&](uint64_t) {
    runtime::test::RunOptions options;
    options.delays = true;
    options.pauses = 64;
    const std::string wrong = failures_in(
        [&] { runtime::test::run_and_compare(&transport::run_threads, hasty, 3, sizes, expected, options); });
    if (!wrong.empty()) tally.faults.push_back(wrong);
  });
  return !tally.faults.empty();
}

// ---- texts
class Editor {
 public:
  Editor(const std::string& form, uint64_t seed) : random_(seed), seeds_(seeds_of(form)) {
    const std::string dictionary = checkout_dir() + "/tests/fuzz/corpus/" + form + ".dict";
    for (const std::string& line : split(read_file(dictionary), '\n')) {
      if (line.size() < 3 || line[0] != '"') continue;
      std::string word = line.substr(1, line.size() - 2);
      if (word.rfind("\\x0a", 0) == 0) word = "\n" + word.substr(4);
      words_.push_back(word);
    }
  }

  std::string next() {
    std::string text = random_.of(seeds_);
    for (int edits = 1 + random_.pick(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  void edit(std::string& text) {
    if (text.empty()) text = " ";
    const size_t at = random_.bits() % text.size(), size = std::min<size_t>(1 + random_.bits() % 12, text.size() - at);
    switch (random_.pick(8)) {
      case 0: text.erase(at, size); return;
      case 1: text.insert(at, text.substr(random_.bits() % text.size(), random_.bits() % 30)); return;
      case 2: text[at] = static_cast<char>(random_.pick(256)); return;
      case 3: text.insert(at, random_.of(words_)); return;
      case 4: return number(text, at);
      case 5: return number(text, at);
      case 6: return line(text, at);
      default: text.replace(at, size, random_.of(words_));
    }
  }
  // The next number becomes another one.
  void number(std::string& text, size_t at) {
    at = text.find_first_of("0123456789", at);
    if (at == std::string::npos) return;
    size_t end = at;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    static const std::vector<std::string> numbers = {"0", "1",  "2",  "3",    "4",          "7",
                                                     "8", "64", "65", "4096", "99999999999"};
    text.replace(at, end - at, random_.of(numbers));
  }
  // A line doubled, or one of another seed.
  void line(std::string& text, size_t at) {
    at = text.find('\n', at);
    if (at == std::string::npos) return;
    const std::string& other = random_.chance(50) ? text : random_.of(seeds_);
    const std::vector<std::string> lines = split(other, '\n');
    text.insert(at + 1, lines[static_cast<size_t>(random_.pick(static_cast<int>(lines.size())))] + "\n");
  }

  Random random_;
  std::vector<std::string> seeds_, words_;
};

}  // namespace

std::vector<std::string> seeds_of(const std::string& form) {
  const std::string root = checkout_dir();
  static const std::map<std::string, std::vector<std::pair<std::string, std::string>>> more = {
      {"program", {{"/examples", ".weft"}, {"/tests/cases/program", ".weft"}}},
      {"plan", {{"/tests/cases/plan", ".plan"}}},
      {"msccl", {{"/tests/cases/msccl", ".xml"}}}};
  std::vector<std::pair<std::string, std::string>> places = {{"/tests/fuzz/corpus/" + form, ""}};
  if (more.count(form)) places.insert(places.end(), more.at(form).begin(), more.at(form).end());
  std::vector<std::string> files, texts;
  for (const auto& [folder, ending] : places)
    if (std::filesystem::is_directory(root + folder))
      for (const auto& entry : std::filesystem::directory_iterator(root + folder))
        if (ending.empty() || entry.path().extension() == ending) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) texts.push_back(read_file(file));
  return texts;
}

std::string edit_texts(const std::string& form, bool planted, uint64_t seed, double seconds, int64_t* attempts) {
  Try attempt = nullptr;
  for (const TextForm& each : text_forms())
    if (form == each.name) attempt = each.attempt;
  Editor editor(form, seed);
  Tally tally;
  const int64_t made = for_seconds(seconds, seed, tally, [&](uint64_t) {
    const std::string text = editor.next();
    const std::string wrong = failures_in([&] { attempt(text, planted); });
    if (!wrong.empty()) tally.faults.push_back(wrong + "\nby the text\n" + text);
  });
  if (attempts) *attempts += made;
  return tally.faults.empty() ? "" : tally.faults[0];
}

std::vector<PlantedFault> planted_faults() {
  std::vector<PlantedFault> list = {
      found_by("split scatters by another reduction", &try_rewrites,
               wrong_rewrite("split", "reduce_scatter(sum", "reduce_scatter(max")),
      found_by("reorder takes the wrong slice", &try_rewrites, wrong_rewrite("reorder", "cut 0", "cut 1")),
      found_by("cut subtracts", &try_rewrites, wrong_rewrite("cut", " + ", " - ")),
      found_by("store forgets the old state", &try_rewrites, wrong_rewrite("store", " + w", " + r")),
      found_by("commute folds by another reduction", &try_rewrites,
               wrong_rewrite("commute", "all_reduce(sum", "all_reduce(max")),
      found_by("lowering folds by another reduction", &try_lowering, wrong_plan("sum(", "max(")),
      found_by("lowering takes a neighbour's part", &try_lowering, wrong_plan("[r]", "[r+1]")),
      found_by("lowering does not wait", &try_lowering, wrong_plan(" after ready@0..n", "")),
      found_by("a schedule is taken for another", &try_schedule_mutants, wrong_rewrite("", " * ", " + ")),
      {"a race, by the interpreter's orders", &orders_find_the_race},
      {"a race, by pauses of ranks", &pauses_find_the_race}};
  for (const char* rule : {"V7", "V8", "V9", "V10", "V11"}) list.push_back(deaf_verifier(rule));
  for (const TextForm& form : text_forms())
    list.push_back(
        {std::string(form.name) + ": " + form.planted, [name = std::string(form.name)](uint64_t seed, double seconds) {
           return !edit_texts(name, true, seed, seconds, nullptr).empty();
         }});
  return list;
}

}  // namespace weft::fuzz
