// The interpreter's domain: what the event machine's steps do to numbers. See interpret.h.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weft/plan/interpret.h"
#include "weft/plan/interpret_memory.h"
#include "weft/plan/machine_step.h"

namespace weft::plan {

struct Element {
  int64_t part = 0, offset = 0;
  Memory::Place place;
};

// One slice operand on one rank, spelt out.
struct Cells {
  const FlatOperand* operand = nullptr;
  int rank = 0, space = 0;
  bool derived = false, aligned = false;
  std::vector<Element> elements;
};

struct Message {
  Values values;
  int launch = 0;
  int64_t chunk = 0;
  std::string from;
};

class Interpreter : public Domain {
 public:
  Interpreter(const Assembly& assembly, const std::vector<LaunchArgs>& args, const std::vector<int64_t>& chunks);

  void begin_launch(int, int) override {}
  void end_launch(int, int) override {}
  void left(int, int, int) override {}
  int64_t iterations(int lane, int block, int launch) override;
  bool empty(const Event& event) override;
  void perform(const Event& event) override;
  void check_links() const;

 private:
  const AssembledLane& lane_of(const Event& event) const { return at(assembly_.lanes, event.lane); }
  const AssembledBlock& block_of(const Event& event) const { return at(lane_of(event).blocks, event.block); }
  const Id& name_of(const Cells& cells) const { return at(instance_.plan().buffers, cells.operand->name).name; }
  std::string who(const Event& event) const { return assembly_.describe(event.lane, event.block, event.step); }
  [[noreturn]] void refuse(const Event& event, const std::string& rule, const std::string& message,
                           const std::string& remedy) const {
    throw Error(ErrorKind::plan, who(event) + " " + message, remedy, rule);
  }

  Cells spell_out(const Event& event, const FlatOperand& operand, int rank, int main) const;
  std::vector<int64_t> positions(const Cells& cells) const;
  Element meet(const Event& event, const Cells& coarse, int64_t position) const;
  Values read(const Event& event, const Cells& cells, const std::vector<int64_t>& where);
  Values read_whole(const Event& event, const Cells& cells);
  Values read_elements(const Event& event, const Cells& cells, const std::vector<Element>& elements);
  void write(const Event& event, const Cells& cells, const Values& values);
  Values receive(const Event& event, int link, int64_t count);
  void order_by_position(Cells& cells) const;
  std::vector<Values> sources(const Event& event, int main, const Cells& leading, const std::vector<int64_t>& where);
  Values reduce(const Event& event, std::vector<Values>& list, size_t reduced, Dtype& nominal);
  std::vector<Values> compute(const Event& event, const std::vector<Values>& inputs, const std::vector<int64_t>& where,
                              std::vector<Cells>& folds);
  void run_kernel(const Event& event, const kernel::Typed& typed, const std::vector<Values>& inputs,
                  std::vector<Values>& outputs, const std::vector<int64_t>& where, std::vector<Cells>& folds);
  void fold_copy(const Event& event, const Values& value, const std::vector<int64_t>& where, std::vector<Cells>& folds);
  std::vector<Cells> fold_targets(const Event& event, int main, const std::vector<int64_t>& where);
  std::vector<std::pair<int64_t, int64_t>> runs(const std::vector<int64_t>& where,
                                                const std::vector<Cells>& folds) const;
  void deliver(const Event& event, int main, const std::vector<Values>& outputs, Dtype nominal);
  std::vector<expr::ScalarValue> scalars(const Event& event, const kernel::Kernel& kernel) const;
  const Step& text(const Event& event) const { return *at(text_, lane_of(event).lane)[event.what->flat.source_step]; }

  const Assembly& assembly_;
  const Instance& instance_;
  const std::vector<LaunchArgs>& args_;
  std::vector<Extents> extents_;  // per rank
  std::unique_ptr<Memory> memory_;
  std::vector<std::deque<Message>> links_;
  std::vector<std::vector<const Step*>> text_;
  std::vector<Id> scalar_names_;
};

}  // namespace weft::plan
