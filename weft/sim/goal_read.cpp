// Reading and writing GOAL. The text is read in one pass without a token list: 300 MB/s and more, since traces of a
// hundred ranks are gigabytes. Labels are local to a rank and nearly always a prefix and a running number (`l17`), so
// they are looked up in an array by that number; others go to a hash table.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/sim/goal.h"

namespace weft::sim {
namespace {

constexpr uint64_t most_size = 1'000'000'000'000'000'000;  // bytes, or nanoseconds: 31 years

constexpr uint64_t cookie = 4223, spoilt_cookie = 2342;
constexpr size_t base = 8, head = 6, op_bytes = sizeof(GoalOp);

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Edge {
  uint32_t from, to;
};

// One rank's labels. A name is `prefix` and a number without leading zeros, or anything else.
class Labels {
 public:
  void clear() {
    numbers_.assign(numbers_.size(), 0);
    used_ = 0;
    others_.clear();
    prefix_ = {};
  }
  uint32_t* find(std::string_view label) {
    uint64_t number = 0;
    if (!split(label, number)) {
      const auto found = others_.find(label);
      return found == others_.end() ? nullptr : &found->second;
    }
    return number < used_ && numbers_[number] ? &numbers_[number] : nullptr;
  }
  void add(std::string_view label, uint32_t value) {  // value > 0
    uint64_t number = 0;
    if (!split(label, number) || number > 64 + 8 * uint64_t{value}) {
      others_[label] = value;
      return;
    }
    if (number >= numbers_.size()) numbers_.resize(std::max<size_t>(2 * numbers_.size(), number + 64));
    used_ = std::max<uint64_t>(used_, number + 1);
    numbers_[number] = value;
  }

 private:
  bool split(std::string_view label, uint64_t& number) {
    size_t digits = label.size();
    uint64_t scale = 1;
    number = 0;
    while (digits > 0 && label[digits - 1] >= '0' && label[digits - 1] <= '9' && label.size() - digits < 9) {
      number += scale * static_cast<uint64_t>(label[--digits] - '0');
      scale *= 10;
    }
    if (digits == label.size() || digits == 0 || (label[digits] == '0' && label.size() > digits + 1)) return false;
    const std::string_view prefix = label.substr(0, digits);
    if (prefix_.empty()) prefix_ = prefix;
    return prefix == prefix_ && (others_.empty() || !others_.count(label));
  }
  std::vector<uint32_t> numbers_;
  uint64_t used_ = 0;
  std::unordered_map<std::string_view, uint32_t> others_;
  std::string_view prefix_;
};

class TextReader {
 public:
  TextReader(std::string_view text, const std::string& name)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), name_(name) {}

  std::string image() {
    next_line();
    expect("num_ranks");
    const uint64_t ranks = number(0x7fffffff, "the number of ranks");
    if (ranks == 0) bad("num_ranks must be at least 1");
    if (ranks > static_cast<uint64_t>(end_ - begin_) / 8) bad("more ranks are announced than the file can hold");
    out_.reserve(static_cast<size_t>(end_ - begin_));  // pages that are not used cost nothing
    put(out_, cookie);
    out_.resize(base + head + 16 * ranks);
    const auto count = static_cast<uint32_t>(ranks);
    std::memcpy(&out_[base], &count, 4);
    for (uint32_t rank = 0; rank < count; ++rank) read_rank(rank, count);
    out_[base + 4] = static_cast<char>(max_cpu_);
    out_[base + 5] = static_cast<char>(max_nic_);
    return std::move(out_);
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    const auto line = 1 + std::count(begin_, at_, '\n');
    const char* stop = std::find(at_, end_, '\n');
    const std::string_view rest(at_, static_cast<size_t>(std::min<std::ptrdiff_t>(stop - at_, 40)));
    throw Error(ErrorKind::user, fmt::format("{}:{}: {} (at `{}`)", name_, line, what, rest),
                "a line is `LABEL: send 8b to 1 tag 0 cpu 0 nic 0`, `recv 8b from 0`, `calc 100` or `B requires A`");
  }
  bool blank() {  // skips spaces and comments of this line; true at its end
    for (;;) {
      while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
      if (at_ == end_ || *at_ == '\n') return true;
      if (*at_ != '/') return false;
      if (at_ + 1 < end_ && at_[1] == '/') {
        at_ = std::find(at_, end_, '\n');
        return true;
      }
      if (at_ + 1 >= end_ || at_[1] != '*') return false;
      const std::string_view rest(at_ + 2, static_cast<size_t>(end_ - at_ - 2));
      const size_t close = rest.find("*/");
      if (close == std::string_view::npos) bad("a comment is not closed");
      at_ += close + 4;
    }
  }
  bool next_line() {  // to the next line that says something; false at the end
    while (blank()) {
      if (at_ == end_) return false;
      ++at_;
    }
    return true;
  }
  void end_of_line() {
    if (!blank()) bad("nothing more was expected in this line");
  }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static bool is_label(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }
  std::string_view word() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    const char* first = at_;
    if (at_ < end_ && is_letter(*at_))
      while (at_ < end_ && is_label(*at_)) ++at_;
    return {first, static_cast<size_t>(at_ - first)};
  }
  void expect(std::string_view text) {
    if (word() != text) bad(fmt::format("expected `{}`", text));
  }
  bool accept(std::string_view text) {
    const char* before = at_;
    if (word() == text) return true;
    at_ = before;
    return false;
  }
  uint64_t number(uint64_t most, const char* what) {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    const char* first = at_;
    uint64_t value = 0;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9' && at_ - first < 19)
      value = 10 * value + static_cast<uint64_t>(*at_++ - '0');
    if (first == at_ || value > most || (at_ < end_ && *at_ >= '0' && *at_ <= '9')) {
      at_ = first;
      bad(fmt::format("{} must be a number from 0 to {}", what, most));
    }
    return value;
  }
  uint32_t number_or_any(const char* what) {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    if (at_ + 1 < end_ && at_[0] == '-' && at_[1] == '1') {
      at_ += 2;
      return goal_any;
    }
    return static_cast<uint32_t>(number(0xFFFFFFFE, what));
  }

  void read_rank(uint32_t rank, uint32_t ranks) {
    if (!next_line()) bad(fmt::format("the file ends before rank {} of {}", rank, ranks));
    expect("rank");
    if (number(0xFFFFFFFF, "a rank") != rank) bad(fmt::format("ranks come in order: rank {} was expected", rank));
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
    if (at_ == end_ || *at_ != '{') bad("expected `{`");
    ++at_;
    ops_.clear();
    ends_.clear();
    starts_.clear();
    labels_.clear();
    for (;;) {
      if (!next_line()) bad(fmt::format("the file ends inside rank {}", rank));
      if (*at_ == '}') break;
      read_statement(ranks);
      end_of_line();
    }
    ++at_;
    write_rank(rank);
  }

  void read_statement(uint32_t ranks) {
    std::string_view first = word();
    if (first.empty()) bad("expected an operation or a dependency");
    if (at_ < end_ && *at_ == ':') {
      ++at_;
      if (labels_.find(first)) bad(fmt::format("label {} is defined twice", first));
      read_op(word(), ranks);
      labels_.add(first, static_cast<uint32_t>(ops_.size()));
      return;
    }
    const std::string_view relation = word();
    if (relation == "requires" || relation == "irequires") {
      const uint32_t to = labelled(first), from = labelled(word());
      if (ops_[to].dependencies == 0xFFFFFFFF) bad("too many dependencies");
      ++ops_[to].dependencies;
      (relation[0] == 'r' ? ends_ : starts_).push_back({from, to});
      return;
    }
    at_ = first.data() + first.size();
    read_op(first, ranks);
  }
  uint32_t labelled(std::string_view label) {
    const uint32_t* found = labels_.find(label);
    if (!found) bad(fmt::format("label `{}` is not defined above this line", label));
    return *found - 1;
  }

  void read_op(std::string_view kind, uint32_t ranks) {
    GoalOp op;
    if (kind == "calc") {
      op.size = number(most_size, "the time of a calc");
    } else if (kind == "send" || kind == "recv") {
      op.type = kind == "send" ? GoalType::send : GoalType::recv;
      op.size = number(most_size, "a size");
      if (at_ == end_ || *at_ != 'b') bad("a size ends in b, as in 8b");
      ++at_;
      expect(kind == "send" ? "to" : "from");
      op.peer = number_or_any("a peer");
      if (op.peer != goal_any ? op.peer >= ranks : op.type == GoalType::send) bad("there is no such rank");
      if (accept("tag")) op.tag = number_or_any("a tag");
    } else {
      bad(fmt::format("`{}` is no operation (send, recv, calc)", kind));
    }
    if (accept("cpu")) op.cpu = static_cast<uint8_t>(number(255, "a cpu"));
    if (op.type != GoalType::calc && accept("nic")) op.nic = static_cast<uint8_t>(number(255, "a nic"));
    max_cpu_ = std::max(max_cpu_, op.cpu);
    max_nic_ = std::max(max_nic_, op.nic);
    if (ops_.size() > 0xFFFFFFF0) bad("more than 4 billion operations of one rank");
    ops_.push_back(op);
  }

  // Followers in the order of their lines, behind one another by operation; ends before starts.
  void write_rank(uint32_t rank) {
    for (const Edge& e : ends_) ++ops_[e.from].followers;
    for (const Edge& e : starts_) ++ops_[e.from].start_followers;
    uint32_t at = 0, roots = 0;
    for (GoalOp& op : ops_) {
      op.first_follower = at;
      op.first_start_follower = at + op.followers;
      at += op.followers + op.start_followers;
      roots += op.dependencies == 0;
    }
    appendix_.resize(at);
    place_.resize(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) place_[i] = ops_[i].first_follower;
    for (const Edge& e : ends_) appendix_[place_[e.from]++] = e.to;
    for (const Edge& e : starts_) appendix_[place_[e.from]++] = e.to;
    const uint64_t start = out_.size() - base;
    put(out_, static_cast<uint32_t>(ops_.size()));
    put(out_, roots);
    for (uint32_t i = 0; i < ops_.size(); ++i)
      if (ops_[i].dependencies == 0) put(out_, i);
    out_.append(reinterpret_cast<const char*>(ops_.data()), ops_.size() * op_bytes);
    out_.append(reinterpret_cast<const char*>(appendix_.data()), appendix_.size() * sizeof(uint32_t));
    const uint64_t bounds[2] = {start, out_.size() - base};
    std::memcpy(&out_[base + head + 16 * size_t{rank}], bounds, 16);
  }

  const char *begin_, *at_, *end_;
  std::string name_, out_;
  uint8_t max_cpu_ = 0, max_nic_ = 0;
  std::vector<GoalOp> ops_;
  std::vector<Edge> ends_, starts_;
  std::vector<uint32_t> appendix_, place_;
  Labels labels_;
};

struct Mapping {
  void* data = nullptr;
  size_t size = 0;
  ~Mapping() {
    if (data) munmap(data, size);
  }
};

std::shared_ptr<Mapping> map_file(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const int code = errno;
    if (fd >= 0) close(fd);
    fail(ErrorKind::io, "cannot read {}: {}", path.string(), std::strerror(code));
  }
  auto mapping = std::make_shared<Mapping>();
  mapping->size = static_cast<size_t>(status.st_size);
  if (mapping->size > 0) {
    mapping->data = mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (mapping->data == MAP_FAILED) mapping->data = nullptr;
  }
  close(fd);
  if (!mapping->data) fail(ErrorKind::user, "{}: the file is empty or cannot be mapped", path.string());
  madvise(mapping->data, mapping->size, MADV_SEQUENTIAL);
  return mapping;
}

[[noreturn]] void bad_image(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::user, fmt::format("{}: damaged GOAL binary: {}", name, what),
              "write it again from its text (txt2bin, or `weft trace` on the .goal file)");
}

Goal::Rank check_rank(std::string_view image, uint64_t start, uint64_t end, uint32_t rank, uint32_t ranks,
                      const std::string& name) {
  const auto where = [&](const char* what) { return fmt::format("rank {}: {}", rank, what); };
  if (start > end || end > image.size() - base || end - start < 8)
    bad_image(name, where("its place is outside the file"));
  Goal::Rank r;
  const char* at = image.data() + base + start;
  r.ops = load<uint32_t>(at);
  r.roots = load<uint32_t>(at + 4);
  const uint64_t fixed = 8 + uint64_t{r.roots} * 4 + uint64_t{r.ops} * op_bytes;
  if (r.roots > r.ops || fixed > end - start) bad_image(name, where("more operations than its place can hold"));
  r.root_data = at + 8;
  r.op_data = r.root_data + size_t{r.roots} * 4;
  r.appendix_data = r.op_data + size_t{r.ops} * op_bytes;
  r.appendix = static_cast<uint32_t>(std::min<uint64_t>((end - start - fixed) / 4, 0xFFFFFFFF));
  std::vector<bool> root(r.ops);
  for (uint32_t i = 0; i < r.roots; ++i) {
    if (r.root(i) >= r.ops) bad_image(name, where("a root that does not exist"));
    if (root[r.root(i)] || r.op(r.root(i)).dependencies > 0)
      bad_image(name, where("a root that is named twice, or waits for others"));
    root[r.root(i)] = true;
  }
  for (uint32_t i = 0; i < r.ops; ++i) {
    const GoalOp op = r.op(i);
    if (op.type < GoalType::send || op.type > GoalType::calc) bad_image(name, where("an operation of unknown type"));
    if (op.size > most_size) bad_image(name, where("an operation of more than 1e18 bytes or nanoseconds"));
    if (op.dependencies == 0 && !root[i]) bad_image(name, where("an operation that waits for nothing and is no root"));
    if (op.type != GoalType::calc && op.peer >= ranks && !(op.type == GoalType::recv && op.peer == goal_any))
      bad_image(name, where("a peer that does not exist"));
    if (uint64_t{op.first_follower} + op.followers > r.appendix ||
        uint64_t{op.first_start_follower} + op.start_followers > r.appendix)
      bad_image(name, where("followers outside the appendix"));
  }
  for (uint32_t i = 0; i < r.appendix; ++i)
    if (r.follower(i) >= r.ops) bad_image(name, where("a follower that does not exist"));
  return r;
}

void print_op(std::string& out, uint32_t i, const GoalOp& op) {
  const auto signed_number = [](uint32_t v) { return v == goal_any ? std::string("-1") : fmt::format("{}", v); };
  if (op.type == GoalType::calc)
    out += fmt::format("l{}: calc {}", i + 1, uint64_t{op.size});
  else
    out +=
        fmt::format("l{}: {} {}b {} {} tag {}", i + 1, op.type == GoalType::send ? "send" : "recv", uint64_t{op.size},
                    op.type == GoalType::send ? "to" : "from", signed_number(op.peer), signed_number(op.tag));
  if (op.cpu) out += fmt::format(" cpu {}", unsigned{op.cpu});
  if (op.nic && op.type != GoalType::calc) out += fmt::format(" nic {}", unsigned{op.nic});
  out += '\n';
}

}  // namespace

GoalOp Goal::Rank::op(uint32_t i) const { return load<GoalOp>(op_data + size_t{i} * op_bytes); }
uint32_t Goal::Rank::root(uint32_t i) const { return load<uint32_t>(root_data + size_t{i} * 4); }
uint32_t Goal::Rank::follower(uint32_t i) const { return load<uint32_t>(appendix_data + size_t{i} * 4); }

uint64_t Goal::ops() const {
  uint64_t sum = 0;
  for (const Rank& r : table_) sum += r.ops;
  return sum;
}

Goal goal_from_image(std::shared_ptr<const void> owner, std::string_view image, const std::string& name) {
  if (image.size() < base + head) bad_image(name, "it is shorter than its head");
  const auto first = load<uint64_t>(image.data());
  if (first == spoilt_cookie) bad_image(name, "a simulator run with --save-mem has overwritten it");
  if (first != cookie) bad_image(name, fmt::format("it begins with {} instead of {}", first, cookie));
  const auto ranks = load<uint32_t>(image.data() + base);
  if (uint64_t{ranks} * 16 > image.size() - base - head) bad_image(name, "its table of ranks is cut off");
  Goal goal;
  goal.owner_ = std::move(owner);
  goal.image_ = image;
  goal.cpus_ = 1 + static_cast<uint8_t>(image[base + 4]);
  goal.nics_ = 1 + static_cast<uint8_t>(image[base + 5]);
  goal.table_.reserve(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    const char* at = image.data() + base + head + 16 * size_t{r};
    goal.table_.push_back(check_rank(image, load<uint64_t>(at), load<uint64_t>(at + 8), r, ranks, name));
    for (uint32_t i = 0; i < goal.table_.back().ops; ++i) {
      const GoalOp op = goal.table_.back().op(i);
      if (op.cpu >= goal.cpus_ || op.nic >= goal.nics_)
        bad_image(name, fmt::format("rank {}: a cpu or nic beyond those of its head", r));
    }
  }
  return goal;
}

Goal parse_goal(std::string_view text, const std::string& name) {
  auto image = std::make_shared<std::string>(TextReader(text, name).image());
  const std::string_view view = *image;
  return goal_from_image(std::move(image), view, name);
}

Goal read_goal(const std::filesystem::path& path) {
  auto mapping = map_file(path);
  const std::string_view bytes(static_cast<const char*>(mapping->data), mapping->size);
  const uint64_t first = bytes.size() >= 8 ? load<uint64_t>(bytes.data()) : 0;
  if (first == cookie || first == spoilt_cookie) return goal_from_image(mapping, bytes, path.string());
  return parse_goal(bytes, path.string());
}

void write_goal_binary(const std::filesystem::path& path, const Goal& goal) { write_file(path, goal.image()); }

// A follower is printed behind both labels exist, in the order that gives the same appendix: by operation followed.
std::string print_goal(const Goal& goal) {
  std::string out = fmt::format("num_ranks {}\n", goal.ranks());
  for (uint32_t r = 0; r < goal.ranks(); ++r) {
    const Goal::Rank& rank = goal.rank(r);
    out += fmt::format("\nrank {} {{\n", r);
    for (uint32_t i = 0; i < rank.ops; ++i) print_op(out, i, rank.op(i));
    for (uint32_t i = 0; i < rank.ops; ++i) {
      const GoalOp op = rank.op(i);
      for (uint32_t k = 0; k < op.followers; ++k)
        out += fmt::format("l{} requires l{}\n", rank.follower(op.first_follower + k) + 1, i + 1);
      for (uint32_t k = 0; k < op.start_followers; ++k)
        out += fmt::format("l{} irequires l{}\n", rank.follower(op.first_start_follower + k) + 1, i + 1);
    }
    out += "}\n";
  }
  return out;
}

}  // namespace weft::sim
