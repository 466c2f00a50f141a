// A loaded plan: what follows from the text, the number of ranks and the parameters, before any size is known.
//
// Steps are laid out flat per lane and channel, the code of each shape is there, links and await words are resolved to
// memory, and the counters that go on across launches live here. bound.h adds what a launch's extents decide.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "weft/runtime/agreement.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/layout.h"
#include "weft/runtime/link.h"
#include "weft/runtime/timeline.h"
#include "weft/runtime/typing.h"

namespace weft::runtime {

// Counters of one block of one lane (here, or the shadow of a peer's): iterations of launches that are over, times
// left.
struct BlockCounter {
  int64_t base = 0, left = 0;
};

// Awaits: who must have done what. Here: a counter. At a peer: words that it pushes.
struct LoadedAwait {
  bool remote = false, together = false, same_loop = false;
  int lag = 0, channel = 0, rank = 0;
  plan::Awaited awaited;            // in the assembly
  BlockCounter* block = nullptr;    // of the awaited block, or its shadow
  const int64_t* done = nullptr;    // here: completed instances
  const Word* done_word = nullptr;  // [tag | instances], pushed
  const Word* left_word = nullptr;  // [tag | times the block was left], pushed
};

// A word of a peer that waits for this step or block.
struct Push {
  Word* word = nullptr;
  std::atomic<uint32_t>* parked = nullptr;
  int peer = 0;
  Mirror mirror;
};

struct LoadedStep {
  const plan::AssembledStep* text = nullptr;
  StepTyping typing;
  kernel::StepCode code;
  int code_use = -1;  // index into Loaded::code_uses: shape with its scalars
  std::vector<LoadedAwait> awaits;
  std::vector<Push> pushes;
  int64_t* done = nullptr;
};
struct LoadedBlock {
  const plan::AssembledBlock* text = nullptr;
  BlockCounter* counter = nullptr;
  std::vector<LoadedStep> steps;
  std::vector<Push> pushes;  // when the block is left
};
struct LoadedLane {
  int assembled = 0;  // index into the assembly
  int lane = 0, channel = 0;
  std::vector<LoadedBlock> blocks;
};

// One shape with the launch scalars it takes: prepared once per launch.
struct CodeUse {
  kernel::StepCode code;
  std::vector<int> scalars;
  int64_t offset = 0;
};

struct Scratch {  // a buffer that the runtime owns
  int64_t bytes = 0;
  std::shared_ptr<void> keep;
  std::byte* data = nullptr;
  std::shared_ptr<transport::Window> window;  // mapped
};

struct BoundState;
class AwaitWords;

class Loaded {
 public:
  Loaded(Communicator::Impl& owner, const plan::Plan& plan, const LoadOptions& options);
  ~Loaded();

  Communicator::Impl& owner;
  LoadOptions options;
  plan::Instance instance;
  plan::Assembly assembly;
  std::unique_ptr<Typing> typing;
  std::vector<int64_t> chunk_elements;  // per space
  uint64_t identity = 0;                // hash of all that was agreed at load
  std::vector<LoadedLane> lanes;        // of this rank
  std::vector<CodeUse> code_uses;
  int64_t hoisted_bytes = 0;
  std::vector<std::string> scalar_names;
  std::vector<RingSet*> rings;         // per family
  std::vector<int64_t> message_bytes;  // per family: the largest message of any rank, -1: nobody sends
  std::vector<BlockCounter*> shadows;  // peers' blocks that are awaited, and which those are
  std::vector<plan::Awaited> shadows_of;
  int64_t launches = 0;            // that are over
  std::map<int, Scratch> scratch;  // per root buffer
  int64_t scratch_version = 0;
  std::shared_ptr<BoundState> last;  // of the last launch by start()

  // Rings that hold the messages of these extents (null: what is known at load). Collective where they must grow.
  void open_links(const plan::Extents* extents);  // rings.cpp
  std::string name() const { return instance.plan().name; }
  int rank() const;
  // "rank 1 lane main channel 0 step red(2) `red: sum(<r-1, x[r-j]) -> >r+1`"
  std::string describe(const LoadedLane& lane, int block, int step) const;
  std::string text_of(int lane, int source_step) const;  // of a step, as the plan has it

 private:
  void lay_out();
  void find_code();
  void measure_messages(const plan::Extents* extents);
  void connect_awaits();  // await.cpp
  void connect_here(LoadedAwait& await, LoadedLane& lane);
  void connect_remote(LoadedAwait& await, const AwaitWords& words);
  Word* word(int of_rank, int64_t number) const;

  std::map<std::pair<int, int>, BlockCounter*> shadows_;  // of peers' (lane, block)
  std::vector<std::unique_ptr<BlockCounter>> counters_;
  std::vector<std::unique_ptr<int64_t[]>> done_;
  std::shared_ptr<transport::Window> words_;
};

struct Communicator::Impl {
  Impl(transport::Transport& transport, kernel::KernelLibrary& kernels);
  transport::Transport& transport;
  kernel::KernelLibrary& kernels;
  Agreement agreement;
  std::vector<std::unique_ptr<RingSet>> ring_sets;
  std::vector<std::weak_ptr<transport::Window>> symmetric;
  std::vector<std::shared_ptr<Work::State>> queue;    // started and not complete, in issue order
  uint64_t launches = 0;                              // begun, of all plans
  std::function<void(const char* where)> delay_hook;  // tests: called between steps
  std::function<std::string()> timeout_context;       // what a timeout's error tells besides

  const bool mirrors = transport.mirrors();  // some peer's memory is not mapped: waiting moves what is on the way

  uint32_t born = transport::forks_above();  // a copy in a forked child has another

  bool recording = false;
  std::vector<Span> spans;
  std::unique_ptr<Timeline> timeline;  // WEFT_TIMELINE

  RingSet& rings(const RingKey& wanted);  // collective
  void check_alive() const;               // throws the failure of a poisoned communicator
  // The window that holds [data, data + bytes), and the offset in it; null: not symmetric memory.
  std::shared_ptr<transport::Window> find_symmetric(const void* data, int64_t& offset) const;
  void advance_queue();
};
// What this thread has started on other communicators goes on while it waits for one.
void advance_others(const Communicator::Impl& but);

}  // namespace weft::runtime
