// The runtime: runs plans on CPU ranks.
//
// A plan is bound once: steps flat in an array per lane and channel, links and addresses resolved, the function of each
// step's shape taken from a KernelLibrary. A lane is a resumable cursor {block, chunk, step, slice}; a blocking launch
// is advanced by the caller's own thread (no hand-off: that is what makes 8 bytes cheap). Launches follow each other
// without a barrier; every flag a peer waits for carries the tag of the launch, so a stranger's message is seen and
// becomes an agreement error that shows both values (docs/runtime.md; plan.md, 9).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/kernel/step_code.h"
#include "weft/plan/launch.h"
#include "weft/transport/transport.h"

namespace weft::runtime {

// Memory that every rank has at the same offset and that peers may read and write. Freed when the last copy goes.
struct Symmetric {
  void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<transport::Window> window;
  int64_t offset = 0;
};

struct LoadOptions {
  std::map<plan::Id, std::string> params;
  std::string identity;  // program, schedule, machine, tuning table: agreed between ranks with the plan's text
  std::vector<int64_t> chunk_elements;  // per space; empty: default_chunk
  bool stream = false;                  // non-temporal stores to the targets that nobody reads again in the plan
  bool verify = true;                   // require_verified first (cached verdicts)
};

// What happened, step by step: begin and end of a step's work, and how long its lane waited before (view/ draws it).
struct Span {
  int rank, lane, channel, step, chunk;  // lane as in the plan, step as in the lane's text
  int64_t begin_ns, end_ns, wait_ns;
};

// Memory of all ranks that binding may find besides what allocate() gave: where each rank's block is mapped here.
using Windows = std::vector<std::shared_ptr<transport::Window>>;

class Loaded;  // a plan bound to a communicator
class Work {   // of one launch
 public:
  bool test();  // advances; true when complete; throws its error
  void wait();  // bounded by the communicator's timeout
  // For whom it waits, as a timeout's error says it; "" before it has begun and when it is complete.
  std::string waiting() const;
  uint64_t moves() const;  // grows with every step that it does
  struct State;            // internal
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  friend class Communicator;
  std::shared_ptr<State> state_;
};

class Communicator {
 public:
  Communicator(transport::Transport& transport, kernel::KernelLibrary& kernels);
  ~Communicator();
  int rank() const;
  int size() const;
  transport::Transport& transport();

  // Collective, in the same order on all ranks.
  Symmetric allocate(int64_t bytes, std::string_view what);
  // Collective: compares hash(plan text, params, identity) of all ranks; a difference is Error(agreement) with both.
  std::shared_ptr<Loaded> load(const plan::Plan& plan, const LoadOptions& options);
  // Mapped buffers must lie in Symmetric memory at the same offset on all ranks (else Error(user)).
  // Extents and bindings that equal those of the last launch are not resolved again.
  Work start(Loaded& plan, const plan::LaunchArgs& args);
  void launch(Loaded& plan, const plan::LaunchArgs& args);  // start and wait

  // Told with the error of a wait that was too long: what the caller knows of its ranks, in lines. Called once, at the end.
  void explain_timeouts(std::function<std::string()> context);
  kernel::KernelLibrary& kernels();

  // Records every step from now on (a clock read before and after each); take_spans() hands out what there is.
  void record(bool on);
  std::vector<Span> take_spans();

  struct Impl;
  Impl& internals();  // of this room and its tests

 private:
  std::unique_ptr<Impl> impl_;
};

// For callers that launch the same thing again and again: everything resolved, only scalars change.
class Bound {
 public:
  // Buffers that peers access are looked for in `windows` first.
  Bound(Communicator& communicator, std::shared_ptr<Loaded> plan, const plan::LaunchArgs& args,
        const Windows& windows = {});
  ~Bound();
  void launch(std::span<const expr::ScalarValue> scalars = {});  // empty: those of args
  Work start();                                                  // as Communicator::start, with those of args
  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::runtime
