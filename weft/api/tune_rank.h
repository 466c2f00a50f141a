// The rank's side of tuning: one block of memory, one trial loaded at a time, commands in, answers out.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "weft/api/memory.h"
#include "weft/runtime/communicator.h"
#include "weft/tune/search.h"

namespace weft::api {

// What the ranks of one tuning job share (inherited by fork, or by reference among threads).
struct TuneJob {
  ir::Program program;
  ir::Sizes sizes;
  std::map<std::string, double> scalars;
  std::vector<tune::Trial> trials;
  bool mapped = true;                                 // buffers can be mapped by peers
  int64_t block_bytes = 0;                            // the hungriest trial's
  int compare_with = -1;                              // whose bits the others must equal; -1: not compared
  const std::vector<ir::Values>* expected = nullptr;  // reference values after each of two launches, by name
};
// Block size over all trials; call before the job starts.
int64_t block_bytes(const TuneJob& job);
// A trial as a rank needs it: replayed and lowered, not priced.
tune::Trial lowered_trial(const TuneJob& job, int id, const schedule::Schedule& schedule);

class TuneRank {
 public:
  TuneRank(transport::Transport& transport, const TuneJob& job);
  ~TuneRank();
  // "trial ID SCHEDULE" -> "done"; a trial that joined after the job had started
  // "time ID REPEATS"  -> nanoseconds of each launch, separated by spaces (1 warm-up launch when the trial changes)
  // "bits ID [WITH]"   -> runs trial ID afresh, twice, and compares with what job.compare_with gives (which is run when
  //                       digests of what ID holds are not known yet), or WITH: "same", or the values that differ
  // "reference ID"     -> runs trial ID afresh, compares with the expected values: largest relative error, or what is wrong
  std::string command(std::string_view text);

 private:
  struct Loaded;
  const tune::Trial& trial(int id) const;
  std::string join(int id, std::string_view schedule);
  void load(int id);
  bool states_lie_as_in(const Loaded& other) const;
  void fresh();  // patterned inputs and states
  void rewrite_inputs();
  void launch_once();
  void fill_buffers(bool inputs, bool states);
  void fill_counts(const ir::RaggedDecl& counted, size_t buffer);
  std::string time(int id, int repeats);
  void remember_digests(int with, int id);
  std::string key_of(const tune::Trial& trial, const ir::Name& name) const;
  std::string compare_bits(int id, int with);
  std::string compare_reference(int id);
  std::vector<ir::Name> results() const;
  std::vector<Piece> held(const tune::Trial& trial, const ir::Name& name) const;
  uint64_t digest_over(const ir::Name& name, const std::vector<Piece>& wanted) const;
  void meet();  // a spinning barrier: ranks leave it within a cache line's hop
  double error_of(const ir::Name& name, const ir::Tensor& expected);

  transport::Transport& transport_;
  const TuneJob& job_;
  std::unique_ptr<kernel::KernelLibrary> kernels_;
  std::unique_ptr<runtime::Communicator> communicator_;
  runtime::Symmetric block_, words_;
  std::unique_ptr<Loaded> loaded_;
  std::map<int, tune::Trial> joined_;
  bool filled_ = false;  // states hold something of a trial whose states lie as the loaded one's
  int launches_ = 0;
  uint64_t meetings_ = 0;
  std::map<std::string, uint64_t> digests_;  // by key_of: the name and the positions that are held
};

// Values whose contents a launch decides: outputs, and states under their own names.
std::vector<ir::Name> results(const ir::Program& program);

}  // namespace weft::api
