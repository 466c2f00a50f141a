// The text form of jobs.
#include "weft/trace/job.h"

#include <algorithm>
#include <charconv>

#include "weft/algo/algorithm.h"
#include "weft/base/text.h"
#include "weft/sim/collective.h"

namespace weft::trace {
namespace {

constexpr int64_t most_ranks = 1 << 20;

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", i ? "," : "", ranks[i]);
    if (last > i) text += fmt::format("..{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string operation_text(const Operation& o) {
  if (!o.collective) return fmt::format("other {}", o.kernel.empty() ? "unnamed" : o.kernel);
  return fmt::format("{} {} {} group {}", algo::name(sim::collective_of(*o.collective)), name(o.dtype), o.elements,
                     o.group);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : lines_(source_lines(text)) {}
  Job read() {
    if (lines_.empty() || words(lines_[0].text).size() != 3 || !lines_[0].text.starts_with("job 1 "))
      throw Error(ErrorKind::user, "this is no job", "its first line is: job 1 NAME");
    job_.name = words(lines_[0].text)[2];
    for (at_ = 1; at_ < lines_.size(); ++at_) read_line();
    if (!said_ranks_) throw Error(ErrorKind::user, "the job does not say `ranks N`", "as its second line");
    return std::move(job_);
  }

 private:
  [[noreturn]] void fail(const std::string& token, const std::string& what, const std::string& remedy = "") const {
    fail_at(ErrorKind::user, lines_[at_], token, "", what, remedy);
  }
  int64_t number(const std::string& text, int64_t least, int64_t most) const {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || value < least || value > most)
      fail(text, fmt::format("{} is not a whole number from {} to {}", text, least, most));
    return value;
  }
  void expect(const std::vector<std::string>& w, size_t count, const char* form) const {
    if (w.size() != count) fail("", fmt::format("this line has {} words, not {}", w.size(), count), form);
  }
  void read_line() {
    const std::vector<std::string> w = words(lines_[at_].text);
    const bool inner = lines_[at_].indent > 0;
    if (inner) {
      if (job_.lines.empty()) fail(w[0], "an item of no rank", "it stands below: rank R begin NS");
      return read_item(w, job_.lines.back());
    }
    if (w[0] == "ranks") {
      expect(w, 2, "ranks N");
      job_.ranks = static_cast<int>(number(w[1], 1, most_ranks));
      said_ranks_ = true;
    } else if (w[0] == "group") {
      read_group(w);
    } else if (w[0] == "rank") {
      expect(w, 4, "rank R begin NS");
      const auto rank = static_cast<int>(number(w[1], 0, job_.ranks - 1));
      if (!job_.lines.empty() && job_.lines.back().rank >= rank) fail(w[1], "ranks stand once, in order");
      job_.lines.push_back({rank, number(w[3], 0, most_ns), {}, {}});
    } else {
      fail(w[0], fmt::format("no line begins with {}", w[0]), "there are ranks, group, rank");
    }
  }
  void read_group(const std::vector<std::string>& w) {
    expect(w, 4, "group NUMBER NAME RANKS, such as: group 0 dp 0..3,8");
    if (number(w[1], 0, most_ranks) != static_cast<int64_t>(job_.groups.size()))
      fail(w[1], fmt::format("the next group is number {}", job_.groups.size()));
    Group group{w[2], {}};
    for (const std::string& piece : split(w[3], ',')) {
      const size_t dots = piece.find("..");
      const int64_t first = number(piece.substr(0, dots), 0, job_.ranks - 1);
      const int64_t last = dots == std::string::npos ? first : number(piece.substr(dots + 2), first, job_.ranks - 1);
      if (!group.ranks.empty() && group.ranks.back() >= first) fail(w[3], "ranks of a group stand once, in order");
      for (int64_t r = first; r <= last; ++r) group.ranks.push_back(static_cast<int>(r));
    }
    job_.groups.push_back(std::move(group));
  }
  void read_item(const std::vector<std::string>& w, RankLine& line) {
    if (w[0] == "work") {
      expect(w, 2, "work NS");
      line.items.push_back({Item::Kind::work, number(w[1], 0, most_ns)});
    } else if (w[0] == "wait") {
      expect(w, 2, "wait NUMBER");
      line.items.push_back({Item::Kind::wait, number(w[1], 0, static_cast<int64_t>(line.operations.size()) - 1)});
    } else if (w[0] == "start") {
      read_start(w, line);
    } else {
      fail(w[0], fmt::format("no item is called {}", w[0]), "there are work, start, wait");
    }
  }
  // start NUMBER all_reduce f32 ELEMENTS group G lane L measured NS | start NUMBER other KERNEL lane L measured NS
  void read_start(const std::vector<std::string>& w, RankLine& line) {
    const bool other = w.size() > 2 && w[2] == "other";
    expect(w, other ? 8 : 11, "start NUMBER OPERATION DTYPE ELEMENTS group G lane L measured NS");
    const auto next = static_cast<int64_t>(line.operations.size());
    if (number(w[1], 0, most_ns) != next) fail(w[1], fmt::format("the rank's next operation is number {}", next));
    Operation o;
    if (other) {
      o.kernel = w[3];
    } else {
      try {
        o.collective = sim::nccl_collective(w[2]);
      } catch (const Error& error) { fail(w[2], error.message(), error.remedy()); }
      const auto dtype = parse_dtype(w[3]);
      if (!dtype) fail(w[3], fmt::format("no dtype is called {}", w[3]));
      o.dtype = *dtype;
      o.elements = number(w[4], 0, int64_t{1} << 50);
      o.group = static_cast<int>(number(w[6], 0, static_cast<int64_t>(job_.groups.size()) - 1));
      const std::vector<int>& members = job_.groups[static_cast<size_t>(o.group)].ranks;
      if (!std::binary_search(members.begin(), members.end(), line.rank))
        fail(w[6], fmt::format("rank {} is not in group {}", line.rank, o.group));
    }
    o.lane = static_cast<int>(number(w[w.size() - 3], 0, 1 << 30));
    o.measured_ns = number(w[w.size() - 1], 0, most_ns);
    line.operations.push_back(o);
    line.items.push_back({Item::Kind::start, next});
  }

  std::vector<SourceLine> lines_;
  size_t at_ = 0;
  bool said_ranks_ = false;
  Job job_;
};

}  // namespace

std::string print(const Job& job) {
  fmt::memory_buffer out;
  const auto line = [&out](const std::string& text) { out.append(text + "\n"); };
  line(fmt::format("job 1 {}", job.name));
  line(fmt::format("ranks {}", job.ranks));
  for (size_t g = 0; g < job.groups.size(); ++g)
    line(fmt::format("group {} {} {}", g, job.groups[g].name, ranks_text(job.groups[g].ranks)));
  for (const RankLine& rank : job.lines) {
    line(fmt::format("rank {} begin {}", rank.rank, rank.begin_ns));
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::work) line(fmt::format("  work {}", item.value));
      if (item.kind == Item::Kind::wait) line(fmt::format("  wait {}", item.value));
      if (item.kind != Item::Kind::start) continue;
      const Operation& o = rank.operations[static_cast<size_t>(item.value)];
      line(fmt::format("  start {} {} lane {} measured {}", item.value, operation_text(o), o.lane, o.measured_ns));
    }
  }
  return {out.data(), out.size()};
}

bool is_job(std::string_view text) { return text.starts_with("job 1 "); }

Job parse_job(std::string_view text) { return Reader(text).read(); }

}  // namespace weft::trace
