// Forced algorithms, tuning files, and settings as text, for rank 0 to hand to all (collectives_choice.h).
#include <algorithm>

#include "weft/algo/algorithm.h"
#include "weft/api/collectives_choice.h"
#include "weft/base/text.h"

namespace weft::api {
namespace {

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '_' && c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// AllReduce, all_reduce and allreduce are one name.
bool same_name(std::string_view a, std::string_view b) { return lower(a) == lower(b); }

struct Filter {
  std::string function;  // "": all that have none of their own
  bool inverted = false;
  std::vector<std::string> names;
};

std::vector<Filter> parse_filter(const std::string& text) {
  std::vector<Filter> list;
  for (const std::string& piece : split(text, ';')) {
    if (lower(piece).empty()) continue;
    Filter filter;
    std::string names = piece;
    if (const size_t colon = piece.find(':'); colon != std::string::npos)
      filter.function = lower(piece.substr(0, colon)), names = piece.substr(colon + 1);
    else if (!list.empty())
      throw Error(ErrorKind::user, fmt::format("\"{}\": only the first entry may lack a function", text),
                  "for example \"ring;all_reduce:direct\"");
    names = lower(names);
    if (!names.empty() && names[0] == '^') filter.inverted = true, names.erase(0, 1);
    for (const std::string& name : split(names, ','))
      if (!name.empty()) filter.names.push_back(name);
    list.push_back(filter);
  }
  return list;
}

void check_words(const std::string& text, const std::vector<std::string>& known, const char* what) {
  for (const Filter& filter : parse_filter(text)) {
    const auto& operations = all_operations();
    if (!filter.function.empty() && std::none_of(operations.begin(), operations.end(), [&](Operation operation) {
          return same_name(name(operation), filter.function);
        }))
      throw Error(ErrorKind::user, fmt::format("\"{}\": no operation is called {}", text, filter.function));
    for (const std::string& word : filter.names)
      if (std::none_of(known.begin(), known.end(), [&](const std::string& k) { return same_name(k, word); }))
        throw Error(ErrorKind::user, fmt::format("\"{}\": no {} is called {}", text, what, word),
                    "there are " + join(known, ", "));
  }
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int64_t count_or(const std::string& text, int64_t fallback) {
  return text.empty() || text == "*" ? fallback : parse_count(text);
}

Rule parse_rule(const std::vector<std::string>& fields, const std::string& line) {
  const auto bad = [&](const std::string& what) {
    throw Error(ErrorKind::user, fmt::format("tuning line \"{}\": {}", line, what),
                "want operation,ranks,min_bytes,max_bytes,memory,algorithm,protocol,chunk[,stream]");
  };
  if (fields.size() < 8 || fields.size() > 9) bad(fmt::format("{} fields", fields.size()));
  Rule rule;
  rule.operation = fields[0];
  rule.ranks = static_cast<int>(count_or(fields[1], 0));
  rule.least_bytes = count_or(fields[2], 0);
  rule.most_bytes = count_or(fields[3], INT64_MAX);
  rule.memory = fields[4];
  rule.algorithm = fields[5];
  rule.protocol = fields[6];
  rule.chunk_bytes = count_or(fields[7], 0);
  if (fields.size() == 9) rule.stream = static_cast<int>(count_or(fields[8], -1));
  if (!parse_operation(rule.operation)) bad("no operation is called " + rule.operation);
  if (!algo::find_algorithm(rule.algorithm)) bad("no algorithm is called " + rule.algorithm);
  if (!parse_protocol(rule.protocol)) bad("no protocol is called " + rule.protocol);
  if (rule.memory != "mapped" && rule.memory != "private" && rule.memory != "any")
    bad("memory is mapped, private or any");
  return rule;
}

}  // namespace

bool admits(const std::string& filter, Operation operation, std::string_view wanted) {
  const Filter* found = nullptr;
  const std::vector<Filter> list = parse_filter(filter);
  for (const Filter& entry : list)
    if (entry.function.empty() || same_name(name(operation), entry.function)) found = &entry;
  if (!found || found->names.empty()) return true;
  const bool named = std::any_of(found->names.begin(), found->names.end(),
                                 [&](const std::string& word) { return same_name(word, wanted); });
  return named != found->inverted;
}

void check_filters(const ChoiceSettings& settings) {
  std::vector<std::string> algorithms;
  for (const algo::Algorithm* algorithm : algo::algorithms()) algorithms.emplace_back(algorithm->name());
  check_words(settings.algorithms, algorithms, "algorithm");
  check_words(settings.protocols, {"simple", "ll", "ll128"}, "protocol");
}

std::vector<Rule> parse_rules(const std::string& text) {
  std::vector<Rule> rules;
  for (std::string line : split(text, '\n')) {
    line = line.substr(0, line.find('#'));
    std::vector<std::string> fields;
    for (const std::string& field : split(line, ',')) {
      std::string trimmed;
      for (const char c : field)
        if (!std::isspace(static_cast<unsigned char>(c))) trimmed += c;
      fields.push_back(trimmed);
    }
    if (fields.empty() || (fields.size() == 1 && fields[0].empty()) || fields[0] == "operation") continue;
    rules.push_back(parse_rule(fields, line));
  }
  return rules;
}

std::string print(const ChoiceSettings& settings) {
  std::string text = fmt::format("{}\n{}\n{} {} {}\n", one_line(settings.algorithms), one_line(settings.protocols),
                                 settings.any_order ? 1 : 0, settings.oversubscribed ? 1 : 0, settings.network ? 1 : 0);
  for (const Rule& rule : settings.rules)
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", rule.operation, rule.ranks, rule.least_bytes, rule.most_bytes,
                        rule.memory, rule.algorithm, rule.protocol, rule.chunk_bytes,
                        rule.stream < 0 ? std::string("*") : std::to_string(rule.stream));
  return text;
}

ChoiceSettings parse_settings(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  WEFT_CHECK(lines.size() >= 3 && lines[2].size() >= 5, "settings of collectives: {}", text);
  ChoiceSettings settings;
  settings.algorithms = lines[0];
  settings.protocols = lines[1];
  settings.any_order = lines[2][0] == '1';
  settings.oversubscribed = lines[2][2] == '1';
  settings.network = lines[2][4] == '1';
  settings.rules = parse_rules(join(std::vector<std::string>(lines.begin() + 3, lines.end()), "\n"));
  return settings;
}

}  // namespace weft::api
