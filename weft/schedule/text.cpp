// The text form of schedules.
//
//   schedule 1 fused of lamb
//   split a
//   reorder m1 v1 u
//   cut nw 0
//   store m v w
//   fuse f: a.s m1.s v1.s u.s nw.p nw w1.s w1
//   launch f ring simple channels 8 chunk_bytes 2097152 order any round hops
//
// Printing is canonical: split, reorder and cut, store, fuse, overlap, launch; neighbouring reorders in one line, stores
// in one line, dimension 0 of a split not written. The sentences commute (a later one never makes an earlier one
// illegal), so sorting them changes nothing; only where merge, commute or narrow occur they stay as they were written.
#include "weft/base/text.h"

#include <algorithm>
#include <array>

#include "weft/base/error.h"
#include "weft/ir/names.h"
#include "weft/schedule/launch.h"
#include "weft/schedule/schedule.h"

namespace weft::schedule {
namespace {

constexpr std::array<std::string_view, 6> ordered = {"split", "reorder", "cut", "store", "fuse", "overlap"};

int rank_of(const std::string& directive) {
  if (directive == "split") return 0;
  if (directive == "reorder" || directive == "cut") return 1;
  if (directive == "store") return 2;
  return directive == "fuse" ? 3 : 4;
}

bool sortable(const Schedule& schedule) {
  return std::all_of(schedule.directives.begin(), schedule.directives.end(), [](const Directive& d) {
    return std::find(ordered.begin(), ordered.end(), d.name) != ordered.end();
  });
}

bool joins(const Directive& a, const Directive& b) {
  return a.name == b.name && (a.name == "reorder" || a.name == "store");
}

std::vector<Directive> sorted_directives(const Schedule& schedule) {
  std::vector<Directive> directives = schedule.directives;
  if (sortable(schedule))
    std::stable_sort(directives.begin(), directives.end(),
                     [](const Directive& a, const Directive& b) { return rank_of(a.name) < rank_of(b.name); });
  std::vector<Directive> joined;
  for (Directive& d : directives) {
    if (d.name == "split" && d.words.size() == 2 && d.words[1] == "0") d.words.pop_back();
    if (!joined.empty() && joins(joined.back(), d))
      joined.back().words.insert(joined.back().words.end(), d.words.begin(), d.words.end());
    else
      joined.push_back(std::move(d));
  }
  return joined;
}

std::string print(const Directive& directive) {
  bool block = directive.name == "fuse" || directive.name == "overlap";
  std::string text = directive.name;
  for (size_t i = 0; i < directive.words.size(); ++i) text += (i == 1 && block ? ": " : " ") + directive.words[i];
  return text;
}

std::string nearest_sentence(const std::string& word) {
  std::vector<std::string> known = {"launch"};
  for (const Rewrite* rewrite : rewrites()) known.emplace_back(rewrite->name());
  return ir::did_you_mean(word, known);
}

void parse_header(const SourceLine& line, Schedule& schedule) {
  std::vector<std::string> w = words(line.text);
  if (w.size() != 5 || w[0] != "schedule" || w[3] != "of" || line.indent != 0)
    fail_at(ErrorKind::user, line, w.empty() ? "" : w[0], "F1",
            "a schedule begins with its version, its name and its program's",
            fmt::format("schedule {} NAME of PROGRAM", schedule_version));
  if (w[1] != std::to_string(schedule_version))
    fail_at(ErrorKind::user, line, w[1], "F0",
            fmt::format("schedule form {}, this build reads {}", w[1], schedule_version),
            "use the build that wrote it, or write it in this form");
  for (size_t i : {size_t{2}, size_t{4}})
    if (!is_identifier(w[i]))
      fail_at(ErrorKind::user, line, w[i], "F1", fmt::format("`{}` is no name", w[i]), "letters, digits and _");
  schedule.name = w[2];
  schedule.program = w[4];
}

std::string usage_of(std::string_view directive) {
  if (directive == "split") return "split x, split x 1, or split x root 0";
  if (directive == "cut") return "cut y 0";
  if (directive == "narrow") return "narrow y f16";
  if (directive == "fuse" || directive == "overlap") return fmt::format("{} f: a b ...", directive);
  return fmt::format("{} x, with the name of a statement{}", directive, directive == "store" ? " (a state)" : "");
}

// `fuse f: a b` -> {fuse, {f, a, b}}; the colon belongs behind a block's name and nowhere else.
Directive parse_directive(const SourceLine& line) {
  std::vector<std::string> w = words(line.text);
  Directive directive{w[0], {w.begin() + 1, w.end()}};
  bool block = w[0] == "fuse" || w[0] == "overlap";
  if (block && !directive.words.empty() && directive.words[0].ends_with(":"))
    directive.words[0].pop_back();
  else if (block)
    fail_at(ErrorKind::user, line, w[0], "F1", "a group has a name and a colon", fmt::format("{} f: a b ...", w[0]));
  if (directive.words.size() < (block ? 2u : 1u))
    fail_at(ErrorKind::user, line, w[0], "F5", fmt::format("{} what?", w[0]), usage_of(w[0]));
  for (const std::string& word : directive.words)
    if (!is_identifier(word) && word.find_first_not_of("0123456789") != std::string::npos)
      fail_at(ErrorKind::user, line, word, "F1", fmt::format("`{}` is no name and no dimension", word), usage_of(w[0]));
  return directive;
}

}  // namespace

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  bool headed = false;
  for (const SourceLine& line : source_lines(text)) {
    if (!headed) {
      parse_header(line, schedule);
      headed = true;
      continue;
    }
    if (line.indent != 0)
      fail_at(ErrorKind::user, line, "", "F1", "a schedule has no blocks: one sentence a line", "fuse f: a b ...");
    std::string first = words(line.text)[0];
    if (first == "launch") {
      schedule.launches.push_back(parse_launch(line));
      continue;
    }
    if (find_rewrite(first) == nullptr)
      fail_at(ErrorKind::user, line, first, "F4", fmt::format("{} is no rewrite", first),
              nearest_sentence(first) + "split merge reorder cut store fuse overlap commute narrow, or launch");
    if (!schedule.launches.empty())
      fail_at(ErrorKind::user, line, first, "F1", fmt::format("{} behind launch", first), "launch lines come last");
    schedule.directives.push_back(parse_directive(line));
  }
  if (!headed)
    throw Error(ErrorKind::user, "1:1: ", "", "an empty schedule",
                fmt::format("schedule {} NAME of PROGRAM", schedule_version), "F1");
  check_launches(schedule.launches);
  return schedule;
}

std::string print(const Schedule& schedule) {
  std::string text = fmt::format("schedule {} {} of {}\n", schedule_version, schedule.name, schedule.program);
  for (const Directive& directive : sorted_directives(schedule)) text += print(directive) + "\n";
  for (const LaunchConfig& launch : schedule.launches) text += print_launch(launch) + "\n";
  return text;
}

std::string one_line(const Schedule& schedule) {
  std::vector<std::string> parts;
  for (const Directive& directive : sorted_directives(schedule)) parts.push_back(print(directive));
  return parts.empty() ? "as written" : join(parts, "; ");
}

}  // namespace weft::schedule
