// launch TARGET [ALGORITHM] [simple|ll|ll128] [channels N] [chunk_bytes N] [order rank|fixed|any] [round once|hops]
//               [stream on|off]
//
// What is left away the chooser decides. Words may come in any order and are printed in this one. Which algorithms there
// are is the registry's business in algo/, which this room does not know: any name is taken here.
#include "weft/schedule/launch.h"

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/limits.h"
#include "weft/ir/names.h"

namespace weft::schedule {
namespace {

using Words = std::vector<std::string>;

bool among(const std::string& word, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), word) != choices.end();
}

// A name, or a name with a number: hierarchical:16. Which there are is known further up.
bool is_algorithm(const std::string& word) {
  const size_t colon = word.find(':');
  const std::string_view number = std::string_view(word).substr(colon == std::string::npos ? word.size() : colon + 1);
  return is_identifier(word.substr(0, colon)) && (colon == std::string::npos || !number.empty()) &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

class LaunchLine {
 public:
  explicit LaunchLine(const SourceLine& line) : line_(line), words_(words(line.text)) {}

  LaunchConfig read() {
    if (words_.size() < 2)
      fail_at(ErrorKind::user, line_, "launch", "F1", "launch what?", "launch f ..., or launch * ...");
    config_.target = words_[1];
    if (config_.target != "*" && !is_identifier(config_.target))
      fail_at(ErrorKind::user, line_, config_.target, "F1", fmt::format("`{}` is no name", config_.target),
              "a collective, a group, or *");
    for (at_ = 2; at_ < words_.size();) read_word(words_[at_++]);
    return config_;
  }

 private:
  void read_word(const std::string& word) {
    if (among(word, {"simple", "ll", "ll128"}))
      set(config_.protocol, word, "protocol");
    else if (word == "channels")
      set(config_.channels, static_cast<int>(count("channels", most_channels)), word);
    else if (word == "chunk_bytes")
      set(config_.chunk_bytes, count("chunk_bytes", int64_t{1} << 40), word);
    else if (word == "order")
      set(config_.order, choice("order", {"rank", "fixed", "any"}), word);
    else if (word == "round")
      set(config_.round, choice("round", {"once", "hops"}), word);
    else if (word == "stream")
      set(config_.stream, choice("stream", {"on", "off"}) == "on", word);
    else if (is_algorithm(word))
      set(config_.algorithm, word, "algorithm");
    else
      fail_at(ErrorKind::user, line_, word, "F1", fmt::format("cannot read `{}` in a launch line", word), usage);
  }

  template <typename T>
  void set(std::optional<T>& field, T value, std::string_view what) {
    if (field)
      fail_at(ErrorKind::user, line_, words_[at_ - 1], "F2", fmt::format("the {} is given twice", what), usage);
    field = std::move(value);
  }

  const std::string& value(std::string_view key, std::string_view wanted) {
    if (at_ >= words_.size())
      fail_at(ErrorKind::user, line_, key, "F5", fmt::format("{} takes {}", key, wanted), usage);
    return words_[at_++];
  }

  int64_t count(std::string_view key, int64_t largest) {
    const std::string word = value(key, "a number");
    int64_t number = 0;
    try {
      number = parse_count(word);
    } catch (const Error&) { number = 0; }
    if (number < 1 || number > largest)
      fail_at(ErrorKind::user, line_, word, "F1", fmt::format("{} {}: a number from 1 to {}", key, word, largest),
              usage);
    return number;
  }

  std::string choice(std::string_view key, std::initializer_list<std::string_view> choices) {
    std::string wanted = join({choices.begin(), choices.end()}, "|");
    const std::string word = value(key, wanted);
    if (!among(word, choices))
      fail_at(ErrorKind::user, line_, word, "F4", fmt::format("{} {}: it takes {}", key, word, wanted), usage);
    return word;
  }

  static constexpr std::string_view usage =
      "launch TARGET [ALGORITHM] [simple|ll|ll128] [channels N] [chunk_bytes N] [order rank|fixed|any] [round "
      "once|hops] [stream on|off]";
  const SourceLine& line_;
  Words words_;
  size_t at_ = 0;
  LaunchConfig config_;
};

}  // namespace

LaunchConfig parse_launch(const SourceLine& line) { return LaunchLine(line).read(); }

std::string print_launch(const LaunchConfig& launch) {
  std::string text = "launch " + launch.target;
  if (launch.algorithm) text += " " + *launch.algorithm;
  if (launch.protocol) text += " " + *launch.protocol;
  if (launch.channels) text += fmt::format(" channels {}", *launch.channels);
  if (launch.chunk_bytes) text += fmt::format(" chunk_bytes {}", *launch.chunk_bytes);
  if (launch.order) text += " order " + *launch.order;
  if (launch.round) text += " round " + *launch.round;
  if (launch.stream) text += *launch.stream ? " stream on" : " stream off";
  return text;
}

void check_launches(const std::vector<LaunchConfig>& launches) {
  std::set<std::string> seen;
  for (const LaunchConfig& launch : launches)
    if (!seen.insert(launch.target).second)
      throw Error(ErrorKind::user, launch.target + ": ", "", fmt::format("launch {} is said twice", launch.target),
                  "one line a target", "F2");
}

void check_targets(const std::vector<LaunchConfig>& launches, const ir::Program& scheduled) {
  for (const LaunchConfig& launch : launches) {
    std::vector<std::string> names;
    for (const ir::Op& op : scheduled.ops) names.push_back(op.name);
    for (const ir::Block& block : scheduled.blocks) names.push_back(block.name);
    bool known = launch.target == "*" || ir::find_op(scheduled, launch.target) != nullptr;
    for (const ir::Block& block : scheduled.blocks) known |= block.name == launch.target;
    if (!known)
      throw Error(ErrorKind::user, launch.target + ": ", "",
                  fmt::format("launch {}: there is no such collective or group", launch.target),
                  ir::did_you_mean(launch.target, names) + "name a statement or a block of the scheduled program, or *",
                  "F3");
  }
}

}  // namespace weft::schedule
