// Which plan a collective call runs: a pure function of what all ranks have agreed on.
//
// Problem: the best algorithm depends on size, ranks, memory and machine, and ranks that choose apart hang. Ways: fixed
// thresholds (wrong on the next machine), a table measured in advance, a cost model. We take the model over the
// registry's own cost rows (algo::Algorithm::cost), so that a new algorithm is a candidate without a line here; a
// tuning file overrides it by ranges of size, and NCCL_ALGO / NCCL_PROTO restrict it. Inputs: the call as agreed in its
// header, whether all ranks' memory is mapped, and settings that rank 0 hands to all at creation.
#pragma once

#include <string>
#include <vector>

#include "weft/algo/algorithm.h"
#include "weft/api/collectives.h"

namespace weft::api {

std::string_view protocol_name(plan::Protocol protocol);
std::optional<plan::Protocol> parse_protocol(std::string_view text);

struct CallShape {
  Operation operation = Operation::all_reduce;
  Dtype dtype = Dtype::f32;
  int ranks = 1;
  int64_t bytes = 0;         // S: the whole array
  bool send_mapped = false;  // on all ranks
  bool recv_mapped = false;
  bool in_place = false;  // on any rank
  bool apart = false;     // in place on some ranks only
  bool given = false;     // one count per rank
};

struct Setting {
  const algo::Algorithm* algorithm = nullptr;
  plan::Protocol protocol = plan::Protocol::simple;
  int64_t chunk_bytes = 0;  // of one cell; 0: the runtime's default
  int slots = 4, slices = 1;
  bool stream = false;       // non-temporal stores where the plan allows them
  std::string text() const;  // "direct simple chunk 256K"
  bool operator==(const Setting&) const = default;
};

struct Candidate {
  Setting setting;
  double predicted_ns = 0;
  std::string refused;  // why it may not be taken; empty: it may
};

struct Rule {                                          // a line of the tuning file
  std::string operation, algorithm, protocol, memory;  // memory: mapped, private, any
  int ranks = 0;                                       // 0: any
  int64_t least_bytes = 0, most_bytes = INT64_MAX;
  int64_t chunk_bytes = 0;
  int stream = -1;  // -1: by size
};

// What rank 0 tells all ranks at creation. print and parse are inverses.
struct ChoiceSettings {
  std::string algorithms, protocols;  // NCCL's syntax
  bool any_order = false;
  bool oversubscribed = false;
  bool network = false;  // some ranks do not map each other's memory
  std::vector<Rule> rules;
};
std::string print(const ChoiceSettings& settings);
ChoiceSettings parse_settings(const std::string& text);
// CSV: operation,ranks,min_bytes,max_bytes,memory,algorithm,protocol,chunk[,stream]; '#' begins a comment. A range has
// one line: the first that fits counts. Error(user) with the line for unknown names.
std::vector<Rule> parse_rules(const std::string& text);

// "ring,direct;all_reduce:^ring": a default list, then one per function. Error(user) for unknown words.
bool admits(const std::string& filter, Operation operation, std::string_view name);
void check_filters(const ChoiceSettings& settings);

// All, cheapest first, refused ones behind.
std::vector<Candidate> candidates(const CallShape& shape, const ChoiceSettings& settings);
// Error(unsupported) where nothing is left, with every refusal.
Setting choose(const CallShape& shape, const ChoiceSettings& settings);

// Calls of at most so many bytes use links whatever their memory is, so their ranks need not meet first.
int64_t small_bytes(const ChoiceSettings& settings, Operation operation, int ranks);

}  // namespace weft::api
