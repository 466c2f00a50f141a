// Random programs. Ways: grow only what is known to be legal (narrow: it finds what its author thought of), or propose
// wildly and let inference choose. We take the second: a statement that is refused is dropped, and with it goes no more than
// a parse.
#include <algorithm>
#include <set>

#include "tests/fuzz/campaign.h"

namespace weft::fuzz {
namespace {

class Grower {
 public:
  Grower(Random& random, bool staged) : random_(random) {
    const bool groups = staged && random.chance(50);
    const std::string on = groups ? " on stage" : "";
    staged_ = groups;
    text_ = "program 1 random\ndim A B\n";
    if (groups) text_ += "group stage = world.split(2)\n";
    text_ += "scalar k i64\n";
    const auto declare = [&](const char* line) { text_ += line + on + "\n"; };
    for (const char* line :
         {"in g i32[A, B] local", "in h i32[A, B] local", "in r i32[A, B] replicated", "in b i32[B] replicated",
          "in c i32[A, 1] replicated", "in q i32[B, B] replicated", "in s0 i32[A, B] sliced(0)",
          "in s1 i32[A, B] sliced(1)", "state w i32[A, B] replicated", "state m i32[A, B] replicated"})
      declare(line);
    names_ = {"g", "h", "r", "b", "c", "q", "s0", "s1", "w", "m"};
    recent_ = {"g", "h", "r", "w", "s0"};
  }

  std::string text() {
    const int wanted = 4 + random_.pick(6);
    keep("all_reduce(" + random_.of(reductions_) + ", " + random_.of<std::string>({"g", "h"}) + ")");
    for (int tries = 0; made_ < wanted && tries < 80; ++tries) keep(proposal());
    const ir::Types types = ir::infer(ir::parse(text_ + body_));
    std::vector<std::string> outs;
    for (int k = made_ - 1; k >= 0 && outs.size() < 3; --k)
      if (can_leave(types, "x" + std::to_string(k)) && (outs.empty() || random_.chance(40)))
        outs.push_back("x" + std::to_string(k));
    std::string tail;
    for (const char* state : {"w", "m"})
      for (int k = made_ - 1; k >= 0; --k)
        if (!sent_.count("x" + std::to_string(k)) && random_.chance(60) &&
            equal_types(types.at("x" + std::to_string(k)), types.at(state))) {
          tail += fmt::format("update {} = x{}\n", state, k);
          break;
        }
    for (const std::string& out : outs) tail += "out " + out + "\n";
    return text_ + body_ + tail;
  }

 private:
  static bool can_leave(const ir::Types& types, const std::string& name) {
    return !std::holds_alternative<ir::Partial>(types.at(name).layout);
  }
  static bool equal_types(const ir::Type& a, const ir::Type& b) { return ir::print(a) == ir::print(b); }

  void keep(const std::string& value) {
    const std::string name = "x" + std::to_string(made_), line = name + " = " + value + "\n";
    try {
      ir::infer(ir::parse(text_ + body_ + line));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user && error.kind() != ErrorKind::unsupported) throw;
      return;
    }
    body_ += line;
    bool sent = value.rfind("send(", 0) == 0;
    const ir::Program so_far = ir::parse(text_ + body_);
    for (const std::string& arg : so_far.ops.back().args) sent |= sent_.count(arg) > 0;
    if (sent) sent_.insert(name);
    names_.push_back(name), recent_.push_back(name), recent_.push_back(name);
    ++made_;
  }

  std::string any() { return random_.chance(70) ? random_.of(recent_) : random_.of(names_); }

  std::string proposal() {
    const std::string x = any(), y = any(), reduction = random_.of(reductions_),
                      d = random_.of<std::string>({"0", "1"});
    switch (random_.pick(6)) {
      case 0:
      case 1: return map(x, y);
      case 2: return fold(x, y);
      case 3: return finish(x, reduction, d);
      case 4: return finish(x, reduction, d);
      default:
        return random_.chance(50) ? fmt::format("{} cut {}", x, d) : fmt::format("i32(sum({} * {}, {}))", x, y, d);
    }
  }

  std::string map(const std::string& x, const std::string& y) {
    const std::vector<std::string> forms = {"{0} + {1}",
                                            "{0} * 3 - {1}",
                                            "{0} * {1}",
                                            "max({0}, {1}) + b",
                                            "select({0} < {1}, {1}, {0} + b)",
                                            "{0} + k * index(0) - index(1)",
                                            "select(rand(k, 3) < 0.5, {0}, 2 * {1})",
                                            "i32(i16({0})) - {1} * c",
                                            "{0} / 3 + {1} % 5",
                                            "min(abs({0}), {1}) cut 0",
                                            "({0} + {1}) cut 1",
                                            "2 * {0}",
                                            "-{0} + {1}"};
    return fmt::format(fmt::runtime(random_.of(forms)), x, y);
  }

  std::string fold(const std::string& x, const std::string& y) {
    const std::vector<std::string> forms = {
        "{0} - i32(sum({1} * 2))", "{0} + amin({1})", "amax({0} - {1}, 0)", "{0} - i32(sum({1}, -1))",
        "i32(sum({0}, 0))",        "amin({0}, 1)",    "matmul({0}, q)",     "{0} + i32(prod({1}, 0))",
        "i32(sum({0}))",           "amax({0})"};
    return fmt::format(fmt::runtime(random_.of(forms)), x, y);
  }

  std::string finish(const std::string& x, const std::string& reduction, const std::string& d) {
    const std::vector<std::string> forms = {
        "all_reduce({1}, {0})",     "all_reduce({1}, {0})", "reduce_scatter({1}, {0}, {2})",
        "all_gather({0})",          "all_gather({0})",      "reduce({1}, {0}, 0)",
        "broadcast({0})",           "broadcast({0}, 0)",    "gather({0}, 0)",
        "scatter({0}, {2})",        "all_to_all({0}, {2})", "all_reduce({1}, {0} * 2 + h)",
        "all_reduce({1}, {0}) + r", "send({0}, 1)",         "send({0}, -1)"};
    const int most = static_cast<int>(forms.size()) - (staged_ ? 0 : 2);
    return fmt::format(fmt::runtime(forms[static_cast<size_t>(random_.pick(most))]), x, reduction, d);
  }

  Random& random_;
  bool staged_ = false;
  int made_ = 0;
  std::set<std::string> sent_;  // absent on the first stage or the last, and so no new content of a state
  std::string text_, body_;
  std::vector<std::string> names_, recent_, reductions_ = {"sum", "sum", "max", "min", "prod"};
};

}  // namespace

std::string random_program(Random& random, bool staged) {
  for (;;) {
    const std::string text = Grower(random, staged).text();
    if (text.find("\nout ") != std::string::npos) return text;
  }
}

}  // namespace weft::fuzz
