// One symbolic run: three launches back to back, on terms, with a vector clock per lane and per user.
//
// A plan is a Kahn network, so one run shows every run: which messages meet, what each cell holds, whether it ends. The
// clocks of that run decide races in all runs, since what orders two events (lane order, message, slot given back,
// await, launch) does not depend on the schedule.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/plan/verify.h"
#include "weft/plan/verify_cells.h"
#include "weft/plan/verify_kernel.h"

namespace weft::plan {

// Collects findings, one for each kind of fault at each step of the text.
class Findings {
 public:
  explicit Findings(int most) : most_(most) {}
  void add(Finding finding, const std::string& kind);
  bool full() const { return static_cast<int>(list_.size()) >= most_; }
  bool empty() const { return list_.empty(); }
  std::vector<Finding>& list() { return list_; }

 private:
  int most_;
  std::vector<Finding> list_;
  std::set<std::string> known_;
};

struct Halt {};  // thrown where a run cannot go on; its finding is made

// Everything of a plan on n ranks that does not change from variant to variant.
struct Subject {
  const Instance& instance;
  const Assembly& assembly;
  Terms& terms;
  KernelTerms& kernels;
  std::vector<std::vector<const Step*>> text;  // per lane of the text, by source_step
  std::vector<int> given_class;                // (given space, rank, part) -> class of equal counts
  std::vector<int> given_base;                 // per space, -1: not given or `given by`
  Finding at(int lane, int block, int step, std::string rule, std::string message) const;
};
Subject make_subject(const Instance& instance, const Assembly& assembly, Terms& terms, KernelTerms& kernels);

constexpr int verified_launches = 3;

// Copies of vector clocks, counted and reused.
class ClockPool {
 public:
  explicit ClockPool(size_t width) : width_(width) {}
  int take(const uint32_t* clock, int holders);
  const uint32_t* operator[](int id) const { return data_.data() + static_cast<size_t>(id) * width_; }
  void release(int id);

 private:
  size_t width_;
  std::vector<uint32_t> data_;
  std::vector<int> holders_, free_;
};

class SymbolicRun : public Domain {
 public:
  SymbolicRun(const Subject& subject, const Variant& variant, Findings& findings);
  // False: it stopped early, with a finding.
  bool run();
  int64_t steps() const { return steps_; }
  const Spaces& spaces() const { return spaces_; }
  const Subject& subject() const { return *subject_; }
  const Variant& variant() const { return variant_; }
  Findings& findings() { return *findings_; }

  // What cells held: states when a launch began, everything with a post when it ended. no_term where nothing was.
  Term before(int rank, int launch, int buffer, const Coord& coord) const;
  Term after(int rank, int launch, int buffer, const Coord& coord) const;
  int chunks(int rank, int launch, int space, int part);
  int holder(int buffer, int rank) const;
  // Blocks that exchange messages: (lane, block) of both ends.
  const std::set<std::pair<std::pair<int, int>, std::pair<int, int>>>& joined() const { return joined_; }

  void begin_launch(int rank, int launch) override;
  void end_launch(int rank, int launch) override;
  int64_t iterations(int lane, int block, int launch) override;
  bool empty(const Event& event) override;
  void perform(const Event& event) override;
  void left(int lane, int block, int launch) override;

 private:
  struct Message {
    std::vector<Term> terms;
    std::vector<uint64_t> sizes;
    Dtype dtype = Dtype::f32;
    int lane = 0, block = 0, step = 0, launch = 0, clock = -1;
    int64_t chunk = 0;
  };
  struct LinkState {
    std::deque<Message> queue;
    std::vector<int> credit;
    int64_t sent = 0, received = 0;
  };
  struct Source {
    std::vector<Term> terms;
    bool whole = false, message = false;
    Dtype dtype = Dtype::f32;
  };
  struct Named {
    const FlatOperand* operand = nullptr;
    int rank = 0;
    std::vector<Coord> cells;
    bool aligned = false;
  };

  // verify_run.cpp: order
  uint32_t* clock(int actor) { return clocks_.data() + static_cast<size_t>(actor) * actors_; }
  void merge(int actor, const uint32_t* other);
  int user(int rank) const { return static_cast<int>(subject_->assembly.lanes.size()) + rank; }
  std::string actor_name(int actor) const;
  void receive(const Event& event, std::vector<Message>& messages);
  void check_message(const Event& event, const Message& message);
  void give_back(const Event& event, int snapshot);
  void complete(const Event& event);
  void report(const Event& event, std::string rule, std::string message, std::string cell, const std::string& kind);
  void user_access(int rank, int launch, bool end);
  void touch_user(int rank, int launch, int buffer, const Coord& coord, bool end);
  template <typename F>
  void each_cell(int rank, int launch, int buffer, F&& f);
  std::vector<Term> snapshot(int rank);
  void read_counts(int lane, int launch, int space, int rank);

  // verify_step.cpp: values
  Spot spot(const Event& event) const;
  void cells(int space, const FlatOperand& operand, int rank, const Spot& spot, int launch, std::vector<Coord>& out);
  void compute(const Event& event, std::vector<Message>& messages, int snapshot);
  void name_cells(const Event& event, std::vector<Named>& named, int& main);
  void check_sizes(const Event& event, const std::vector<Named>& named, int main);
  Term read(const Event& event, const Named& named, const Coord& coord);
  void check_meetings(const Event& event, const std::vector<Named>& named, int main);
  Source load(const Event& event, const Named& named, bool tile);
  std::vector<Source> sources(const Event& event, std::vector<Message>& messages, const std::vector<Named>& named,
                              int main);
  void values(const Event& event, const std::vector<Source>& sources, const std::vector<Named>& named, int main,
              std::vector<std::vector<TermOutput>>& out, Dtype& nominal);
  void store(const Event& event, const std::vector<Named>& named, const std::vector<std::vector<TermOutput>>& values,
             Dtype nominal, int snapshot);
  void write(const Event& event, const Named& named, const std::vector<std::vector<TermOutput>>& values, int output,
             const std::optional<Dtype>& narrow);
  void accumulate(const Event& event, const Named& named, const std::vector<std::vector<TermOutput>>& values,
                  int output);
  void send(const Event& event, const FlatOperand& operand, size_t& next,
            const std::vector<std::vector<TermOutput>>& values, int output, const std::optional<Dtype>& narrow,
            Dtype nominal, int snapshot);
  std::string cell_name(int rank, int buffer, const Coord& coord) const;

  const Subject* subject_;
  Variant variant_;
  Findings* findings_;
  Spaces spaces_;
  CellMemory memory_;
  size_t actors_;
  std::vector<uint32_t> clocks_;
  ClockPool pool_;
  std::vector<LinkState> links_;
  std::map<std::array<int, 3>, std::vector<int>> done_;  // awaited steps (and blocks, step -1) -> clocks
  std::map<std::array<int, 3>, int> counts_;             // (rank, launch, space) -> base in count_values_
  std::vector<int> count_values_;
  std::vector<std::vector<std::vector<Term>>> begun_, ended_;  // per rank, launch: cells
  std::vector<size_t> snapshot_base_;                          // per buffer, in a snapshot
  std::set<std::pair<std::pair<int, int>, std::pair<int, int>>> joined_;
  std::vector<uint64_t> sizes_;  // of the present step's cells
  int64_t steps_ = 0;
};

// V8b: loops joined by messages or awaits are stages; a lane has one block in a stage, stages have no cycle.
void check_stages(const SymbolicRun& run, Findings& findings);
// V11 and V12, after a run.
void check_posts(SymbolicRun& run);
// V1 to V6, V14, V16: what the text and the walks show without running.
void check_static(const Subject& subject, const VerifyOptions& options, Findings& findings);

}  // namespace weft::plan
