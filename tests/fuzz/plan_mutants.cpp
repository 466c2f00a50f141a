// Every line of every shipped plan, damaged as a slip of the hand (or a bug of an algorithm or of lowering) would damage it.
//
// Ways: mutate the data structure (only what has a name there), or the text, word by word. We take the text: it is what
// people write, and its smallest changes are the ones that look right. A mutant that is accepted must be no damage.
#include <algorithm>
#include <set>

#include "tests/fuzz/campaign.h"
#include "weft/base/text.h"

namespace weft::fuzz {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
size_t indent(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }
bool starts(const std::string& line, const char* word) {
  return line.compare(indent(line), std::string(word).size(), word) == 0;
}

class Mutator {
 public:
  Mutator(size_t plan, const std::string& text) : plan_(plan) {
    for (size_t at = 0; at < text.size();) {  // split() would trim, and indents mean something
      const size_t end = std::min(text.find('\n', at), text.size());
      if (end > at) lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    collect_names();
    for (size_t i = 1; i < lines_.size(); ++i) mutate(i);
  }
  std::vector<PlanMutant> list;

 private:
  // Names by what they name: one is put where another of its kind stands.
  void collect_names() {
    for (const std::string& line : lines_) {
      const std::vector<std::string> w = words(line);
      if (w.size() < 2) continue;
      if (w[0] == "buffer" || w[0] == "space" || w[0] == "link" || w[0] == "kernel") names_[w[0]].push_back(head(w[1]));
      if (w[0] == "lane") names_["lane"].push_back(head(w[1]));
      const size_t colon = line.find(": ");
      if (colon != std::string::npos && is_identifier(trim(line.substr(0, colon))))
        names_["label"].push_back(std::string(trim(line.substr(0, colon))));
    }
    names_["number"] = {"r", "n"};
  }
  static std::string head(const std::string& word) {
    size_t end = 0;
    while (end < word.size() && is_word(word[end])) ++end;
    return word.substr(0, end);
  }

  bool is_step(size_t i) const {
    bool lane = false;
    for (size_t k = 0; k <= i; ++k) lane |= lines_[k].rfind("lane ", 0) == 0;
    return lane && (lines_[i].find(" -> ") != std::string::npos || lines_[i].find(" after ") != std::string::npos) &&
           !starts(lines_[i], "for ") && !starts(lines_[i], "when ");
  }
  bool in_kernel(size_t i) const {
    while (i > 0 && indent(lines_[i]) > 0) --i;
    return starts(lines_[i], "kernel ");
  }
  // What the plan is for: to change it is to ask for something else.
  std::string goal_of(size_t i) const {
    if (in_kernel(i)) return "kernel ";
    if (starts(lines_[i], "post ")) return "post ";
    if (starts(lines_[i], "order ") || starts(lines_[i], "round ")) return "promise ";
    if (starts(lines_[i], "param ") || starts(lines_[i], "require ")) return "param ";
    if (starts(lines_[i], "buffer ") || starts(lines_[i], "space ")) return "declared ";
    return "";
  }

  void add(const std::string& kind, size_t i, const std::string& line, bool swap = false, bool gone = false) {
    if (!swap && !gone && line == lines_[i]) return;
    PlanMutant mutant{plan_, goal_of(i) + kind, lines_[i].substr(indent(lines_[i])), "", ""};
    for (size_t k = 0; k < lines_.size(); ++k) {
      if (swap && (k == i || k == i + 1))
        mutant.text += lines_[k == i ? i + 1 : i] + "\n";
      else if (k != i)
        mutant.text += lines_[k] + "\n";
      else if (!gone)
        mutant.text += line + "\n";
    }
    const std::string& now = swap ? lines_[i + 1] : line;
    mutant.to = gone ? "" : now.substr(indent(now));
    if (seen_.insert(mutant.text).second) list.push_back(std::move(mutant));
  }

  void mutate(size_t i) {
    add(starts(lines_[i], "channels ") ? "channels" : "line", i, "", false, true);
    add("twice", i, lines_[i] + "\n" + lines_[i]);
    if (i + 1 < lines_.size() && indent(lines_[i]) == indent(lines_[i + 1])) add("swap", i, "", true);
    if (is_step(i)) {
      drop_step(i);
      drop_awaits(i);
      shift(i);
      drop_operands(i);
    }
    change_numbers(i);
    change_names(i);
    change_signs(i);
    drop_words(i);
  }

  void drop_step(size_t i) {
    if (lines_[i].find(" -> ") == std::string::npos) return;
    const std::string line = lines_[i].substr(indent(lines_[i]));
    const size_t colon = line.find(": ");
    const std::string label =
        colon != std::string::npos && is_identifier(line.substr(0, colon)) ? line.substr(0, colon) : "dropped";
    add("step", i, std::string(indent(lines_[i]), ' ') + label + ":");
  }

  void drop_awaits(size_t i) {
    const size_t at = lines_[i].find(" after ");
    if (at == std::string::npos) return;
    const std::vector<std::string> awaits = split_top(lines_[i].substr(at + 7), ',');
    for (size_t k = 0; k < awaits.size(); ++k) {
      std::vector<std::string> rest = awaits;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
      add("await", i, lines_[i].substr(0, at) + (rest.empty() ? "" : " after " + join(rest, ", ")));
    }
  }

  // Another part, another peer.
  void shift(size_t i) {
    const std::string& line = lines_[i];
    const size_t end = std::min(line.find(" after "), line.size());
    for (size_t at = 0; at < end; ++at) {
      const bool link = (line[at] == '<' || line[at] == '>') && at > 0 && line[at - 1] != '-' && line[at + 1] != ' ' &&
                        line[at + 1] != '<' && line[at + 1] != '>' && line[at - 1] != '<' && line[at - 1] != '>';
      if (line[at] == '[' || line[at] == '@' || link)
        add(line[at] == '[' ? "part" : "peer", i, line.substr(0, at + 1) + "1+" + line.substr(at + 1));
    }
  }

  // One source or target less, or the first two changed over.
  void drop_operands(size_t i) {
    const std::string& line = lines_[i];
    const size_t begin = line.find(": ") == std::string::npos ? indent(line) : line.find(": ") + 2;
    const size_t end = std::min(line.find(" after "), line.size());
    std::vector<std::string> sides;
    for (size_t at = begin;;) {
      const size_t next = std::min(line.find(" -> ", at), end);
      sides.push_back(line.substr(at, next - at));
      if (next >= end) break;
      at = next + 4;
    }
    for (size_t s = 0; s < sides.size(); ++s) {
      const std::vector<std::string> operands = split_top(sides[s], ',');
      for (size_t k = 0; k < operands.size() && operands.size() > 1; ++k) {
        std::vector<std::string> rest = operands;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(k));
        std::vector<std::string> changed = sides;
        changed[s] = join(rest, ", ");
        add("operand", i, line.substr(0, begin) + join(changed, " -> ") + line.substr(end));
      }
      if (operands.size() < 2) continue;
      std::vector<std::string> turned = operands, changed = sides;
      std::swap(turned[0], turned[1]);
      changed[s] = join(turned, ", ");
      add("order", i, line.substr(0, begin) + join(changed, " -> ") + line.substr(end));
    }
  }

  void change_numbers(size_t i) {
    const std::string& line = lines_[i];
    for (size_t at = indent(line); at < line.size(); ++at) {
      if (!std::isdigit(static_cast<unsigned char>(line[at])) || is_word(line[at - (at > 0)]) ||
          line[at - (at > 0)] == '.')
        continue;
      size_t end = at;
      while (end < line.size() && std::isdigit(static_cast<unsigned char>(line[end]))) ++end;
      if (end < line.size() && line[end] == '.' && line[end + 1] != '.') continue;  // 0.5: of a kernel
      const int64_t value = std::stoll(line.substr(at, end - at));
      const std::string kind = starts(line, "channels ")        ? "channels"
                               : lag_before(line, at)           ? "lag"
                               : word_before(line, at, "slots") ? "slots"
                                                                : "number";
      for (const int64_t by : {1, -1})
        if (value + by >= 0) add(kind, i, line.substr(0, at) + std::to_string(value + by) + line.substr(end));
    }
  }
  static bool word_before(const std::string& line, size_t at, const std::string& word) {
    return at > word.size() && line.compare(at - word.size() - 1, word.size(), word) == 0;
  }
  static bool lag_before(const std::string& line, size_t at) { return word_before(line, at, "lag"); }

  void change_names(size_t i) {
    const std::string& line = lines_[i];
    for (size_t at = indent(line); at < line.size();) {
      if (!is_word(line[at]) || (at > 0 && is_word(line[at - 1]))) {
        ++at;
        continue;
      }
      const std::string word = head(line.substr(at));
      for (const auto& [kind, names] : names_) {
        const auto found = std::find(names.begin(), names.end(), word);
        if (found == names.end() || names.size() < 2) continue;
        const std::string& other = names[static_cast<size_t>(found - names.begin() + 1) % names.size()];
        add("name", i, line.substr(0, at) + other + line.substr(at + word.size()));
      }
      at += word.size();
    }
  }

  void change_signs(size_t i) {
    const std::string& line = lines_[i];
    static const std::vector<std::pair<std::string, std::string>> pairs = {
        {"+", "-"},      {"-", "+"},        {"*", "+"},       {"%", "/"},          {"<", ">"},         {">", "<"},
        {"==", "!="},    {"!=", "=="},      {"sum(", "max("}, {"max(", "min("},    {"min(", "max("},   {"simple", "ll"},
        {"ll128", "ll"}, {" and ", " or "}, {"f32", "f16"},   {" even", " equal"}, {" equal", " even"}};
    for (const auto& [from, to] : pairs)
      for (size_t at = line.find(from, indent(line)); at != std::string::npos; at = line.find(from, at + 1)) {
        if (line.compare(at, 2, "->") == 0 || (at > 0 && line.compare(at - 1, 2, "->") == 0)) continue;
        add(starts(line, "link ") ? "protocol" : "sign", i, line.substr(0, at) + to + line.substr(at + from.size()));
      }
  }

  void drop_words(size_t i) {
    const std::vector<std::string> w = words(lines_[i]);
    const std::set<std::string> alone = {"mapped", "repl"},
                                pairs = {"own", "alias", "depth", "grain", "wire", "lag", "slices"};
    for (size_t k = 0; k < w.size(); ++k) {
      if (!alone.count(w[k]) && !pairs.count(w[k])) continue;
      std::vector<std::string> rest = w;
      const auto from = rest.begin() + static_cast<std::ptrdiff_t>(k);
      rest.erase(from, from + std::min<std::ptrdiff_t>(pairs.count(w[k]) ? 2 : 1, rest.end() - from));
      add(w[k] == "depth" || w[k] == "lag" ? w[k] : "word", i, std::string(indent(lines_[i]), ' ') + join(rest, " "));
    }
  }

  size_t plan_;
  std::vector<std::string> lines_;
  std::map<std::string, std::vector<std::string>> names_;
  std::set<std::string> seen_;
};

}  // namespace

std::string PlanMutant::name() const {
  return fmt::format("{} | {} | {} | {}", shipped_plans()[plan].name, kind, line, to);
}

std::vector<PlanMutant> mutants_of(size_t plan) { return Mutator(plan, shipped_plans()[plan].text).list; }

const std::vector<PlanMutant>& all_mutants() {
  static const std::vector<PlanMutant> all = [] {
    std::vector<PlanMutant> list;
    for (size_t plan = 0; plan < shipped_plans().size(); ++plan)
      for (PlanMutant& mutant : mutants_of(plan)) list.push_back(std::move(mutant));
    return list;
  }();
  return all;
}

}  // namespace weft::fuzz
