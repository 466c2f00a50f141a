// Weft for C++ programs: build or parse a program, take a schedule, bind buffers, launch again and again.
//
//   const auto program = weft::ir::parse(weft::read_file("adam.weft"));
//   weft::run(2, [&](weft::Rank& rank) {
//     auto step = rank.prepare(program, {.sizes = {.dims = {{"N", 1 << 20}}}, .schedule = "fused"});
//     fill(step.data<float>("g"));
//     step.launch({{"lr", 1e-3}, {"step", 1}});
//   });
//
// This is the room where all others meet: rooms below take what they need as parameters and do not know one another.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/file.h"
#include "weft/ir/builder.h"
#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"
#include "weft/lower/lower.h"
#include "weft/runtime/communicator.h"
#include "weft/schedule/schedule.h"

namespace weft {

struct PrepareOptions {
  ir::Sizes sizes;  // `ranks` is filled in
  // "plain", "fused", "tuned" (the tuning file's, else "fused"), a candidate's name from the tuner's table, the path of
  // a schedule file, or a schedule's text.
  std::string schedule = "tuned";
  // Buffers that the caller owns and that peers cannot map: algorithms over links are taken. false: Weft allocates
  // memory that peers map, and data() gives it.
  bool own_buffers = false;
};

// The schedule a choice stands for, on `ranks` ranks. Error(user) names the choices there are.
schedule::Schedule resolve_schedule(const ir::Program& program, const std::string& choice, const ir::Sizes& sizes);

// A program ready to run on one rank. Launches are collective: all ranks call them in the same order.
class Executable {
 public:
  Executable(runtime::Communicator& communicator, const ir::Program& program, const PrepareOptions& options);
  Executable(Executable&&) noexcept;
  ~Executable();

  // Memory of an input, output or state, whole values row-major (a state stored sliced: this rank's part). For a value
  // over `tensors P` ask tensors(), one address each. Error(user) for unknown names.
  void* data(const ir::Name& name);
  template <typename T>
  std::span<T> data(const ir::Name& name) {
    return {static_cast<T*>(data(name)), static_cast<size_t>(bytes(name)) / sizeof(T)};
  }
  std::vector<void*> tensors(const ir::Name& name);
  int64_t bytes(const ir::Name& name) const;
  // The caller's own memory instead (own_buffers): contiguous, or one address per tensor. Before the first launch.
  void bind(const ir::Name& name, void* data);
  void bind(const ir::Name& name, std::vector<void*> tensors);

  void launch(const std::map<std::string, double>& scalars = {});

  // States as whole values whatever the schedule stores: collective; every rank gets (gives) all elements, in the
  // state's dtype. What was read with n ranks can be written with m.
  std::vector<std::byte> read_state(const ir::Name& name);
  void write_state(const ir::Name& name, std::span<const std::byte> whole);

  const lower::Lowered& lowered() const;
  const schedule::Schedule& schedule() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class Rank {
 public:
  explicit Rank(transport::Transport& transport);
  ~Rank();
  int rank() const;
  int size() const;
  Executable prepare(const ir::Program& program, const PrepareOptions& options);
  runtime::Communicator& communicator();

 private:
  std::unique_ptr<kernel::KernelLibrary> kernels_;
  std::unique_ptr<runtime::Communicator> communicator_;
};

struct RunOptions {
  bool threads = false;  // ranks are processes otherwise
  bool pin = true;
  double timeout_s = 0;  // 0: WEFT_TIMEOUT_S
};
// Runs body on `ranks` ranks and returns when all are done; throws the first failure of any.
void run(int ranks, const std::function<void(Rank&)>& body, const RunOptions& options = {});

}  // namespace weft
