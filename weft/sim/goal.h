// GOAL: schedules of sends, receives and computations, as LogGOPSim and ATLAHS write them (Hoefler, Siebert, Lumsdaine,
// ICPP 2009: "Group Operation Assembly Language"), and the LogGOPS model over them in both semantics in use.
//
// A schedule is kept as the binary image that txt2bin makes: a text is turned into that image while it is read, a
// binary file is memory-mapped, and everybody reads records out of it. So a text and its binary are one thing by
// construction, and a run needs 4 bytes an operation beside the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

enum class GoalType : int8_t { send = 1, recv = 2, calc = 3 };
constexpr uint32_t goal_any = 0xFFFFFFFF;  // -1 in the text: any source, any tag

#pragma pack(push, 1)
struct GoalOp {               // one record of the file, little endian
  uint32_t dependencies = 0;  // how many operations it follows
  GoalType type = GoalType::calc;
  uint32_t peer = 0;  // send, recv
  uint64_t size = 0;  // bytes; calc: ns
  uint32_t tag = 0;
  uint8_t cpu = 0, nic = 0;
  uint32_t followers = 0, first_follower = 0;              // start when this one ends (index into the rank's appendix)
  uint32_t start_followers = 0, first_start_follower = 0;  // start when this one starts
};
#pragma pack(pop)
static_assert(sizeof(GoalOp) == 39);

// A schedule: its image in memory or in a mapped file.
class Goal {
 public:
  // One rank's part. Arrays may be unaligned: read through the accessors.
  struct Rank {
    uint32_t ops = 0, roots = 0, appendix = 0;  // counts
    const char *root_data = nullptr, *op_data = nullptr, *appendix_data = nullptr;
    GoalOp op(uint32_t i) const;
    uint32_t root(uint32_t i) const;
    uint32_t follower(uint32_t i) const;
  };

  uint32_t ranks() const { return static_cast<uint32_t>(table_.size()); }
  int cpus() const { return cpus_; }  // per rank
  int nics() const { return nics_; }
  const Rank& rank(uint32_t r) const { return table_[r]; }
  uint64_t ops() const;
  std::string_view image() const { return image_; }

 private:
  friend Goal goal_from_image(std::shared_ptr<const void> owner, std::string_view image, const std::string& name);
  std::shared_ptr<const void> owner_;
  std::string_view image_;
  std::vector<Rank> table_;
  int cpus_ = 1, nics_ = 1;
};

// Error(user) with file, line, and what was expected. `name` stands for the file in messages.
Goal parse_goal(std::string_view text, const std::string& name = "GOAL text");
// Any GOAL file: binary by its first bytes, else text. Mapped, never copied. Error(io) or Error(user).
Goal read_goal(const std::filesystem::path& path);
// Checks every offset and index of an image. `owner` keeps it alive.
Goal goal_from_image(std::shared_ptr<const void> owner, std::string_view image, const std::string& name);
void write_goal_binary(const std::filesystem::path& path, const Goal& goal);
std::string print_goal(const Goal& goal);  // text that reads back as the same image

// LogGOPS: latency, overhead, gap, gap per byte, overhead per byte, and the size from which a send waits for its
// receive. Times in ns. The program's defaults.
struct GoalCosts {
  int64_t L = 2500, o = 1500, g = 1000;
  double G = 6, O = 0;
  uint64_t S = 65535;
  static GoalCosts ai() { return {3700, 200, 5, 0.04, 0, 0}; }         // Alps GH200 and Slingshot, as ATLAHS states
  static GoalCosts hpc() { return {3000, 8000, 0, 0.18, 0, 256000}; }  // likewise
};
// Two programs go by one name and answer differently (dissemination_16 with defaults: 22,000 and 26,000 ns).
// original: G is whole nanoseconds, the receiver's processor is busy o and the message's bytes (the larger of O and G),
// its port g and the bytes. fork (ATLAHS): the bytes are charged on the wire before arrival, and a receive takes g + o.
enum class GoalMode { original, fork };

struct GoalResult {
  std::vector<int64_t> end_ns;  // per rank: when its processors are done
  int64_t last_ns() const;
  uint64_t events = 0;
};
// Error(user) where operations remain that can never start: who waits for whom.
GoalResult simulate_goal(const Goal& goal, const GoalCosts& costs, GoalMode mode);

}  // namespace weft::sim
