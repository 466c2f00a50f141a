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

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/base/file.h"
#include "weft/ir/builder.h"
#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"
#include "weft/lower/lower.h"
#include "weft/runtime/communicator.h"
#include "weft/schedule/schedule.h"

namespace weft {

// How `schedule = "tune"` measures. Collective: all ranks say the same.
struct TuneNow {
  int limit = 8;  // schedules to measure at first, best predicted ones
  double seconds = 10;
  bool check = true;  // compare each with the plain schedule bit for bit, where its rewrites promise that
  bool any_order = false;
  bool store = true;                           // into the tuning file, where "tuned" finds it next time
  std::map<std::string, double> scalars = {};  // for the timed launches; others as `weft tune` takes them
};

struct PrepareOptions {
  ir::Sizes sizes;  // `ranks` is filled in
  // "plain", "fused", "tuned" (the tuning file's, else "fused"), "tune" (measure the candidates now, on these ranks, in
  // memory of the tuner's own), a candidate's name from the tuner's table, a schedule file, or a schedule's text.
  std::string schedule = "tuned";
  // Buffers that the caller owns and that peers cannot map: algorithms over links are taken. false: Weft allocates
  // memory that peers map, and data() gives it.
  bool own_buffers = false;
  TuneNow tune = {};
};

// The schedule a choice stands for, on `ranks` ranks. Error(user) names the choices there are. "tune" needs ranks: it is
// prepare()'s. "tuned" is what was tuned on this machine, over `transport` (transport/spec.h).
schedule::Schedule resolve_schedule(const ir::Program& program, const std::string& choice, const ir::Sizes& sizes,
                                    std::string_view transport = "processes");

// A program ready to run on one rank. Launches are collective: all ranks call them in the same order.
class Executable {
 public:
  Executable(runtime::Communicator& communicator, const ir::Program& program, const PrepareOptions& options);
  Executable(Executable&&) noexcept;
  ~Executable();

  // Memory of an input, output or state, whole values row-major (a state stored sliced: this rank's part). An output
  // that is the new value of a state kept whole lies in the state's memory: two names, one place. For a value
  // over `tensors P` ask tensors(), one address each. Error(user) for unknown names, and for a T that cannot be an
  // element: floats and doubles are their dtypes, integers any dtype of their size (uint16_t: also f16), std::byte all.
  void* data(const ir::Name& name);
  template <typename T>
  std::span<T> data(const ir::Name& name) {
    check_element(name, sizeof(T), std::is_floating_point_v<T>, std::is_same_v<T, std::byte>);
    return {static_cast<T*>(data(name)), static_cast<size_t>(bytes(name)) / sizeof(T)};
  }
  std::vector<void*> tensors(const ir::Name& name);
  int64_t bytes(const ir::Name& name) const;
  // The caller's own memory instead (own_buffers): contiguous, or one address per tensor. The caller keeps it alive.
  // Error(user) for null, for a span of another size or element, for a number of tensors that is not the list's; at the
  // launch, for a state and the output that lies in it bound to two places.
  void bind(const ir::Name& name, void* data);
  void bind(const ir::Name& name, std::vector<void*> tensors);
  template <typename T>
  void bind(const ir::Name& name, std::span<T> data) {
    check_element(name, sizeof(T), std::is_floating_point_v<T>, std::is_same_v<T, std::byte>);
    check_bytes(name, static_cast<int64_t>(data.size_bytes()));
    bind(name, static_cast<void*>(data.data()));
  }

  // Where rows are ragged (`ragged T by c`), c says how many of this launch's rows go to each rank: read from its memory
  // and exchanged first. Error(user) on all ranks where a rank sends more than T, or gets more than T.t (sizes.dims; else
  // T for each rank).
  void launch(const std::map<std::string, double>& scalars = {});

  // States as whole values whatever the schedule stores: collective; every rank gets (gives) all elements, in the
  // state's dtype. What was read with n ranks can be written with m.
  std::vector<std::byte> read_state(const ir::Name& name);
  void write_state(const ir::Name& name, std::span<const std::byte> whole);

  const lower::Lowered& lowered() const;
  const schedule::Schedule& schedule() const;

 private:
  void check_element(const ir::Name& name, size_t bytes, bool floating, bool any) const;
  void check_bytes(const ir::Name& name, int64_t given) const;

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
