// What other lanes may wait for: when labelled steps were completed and blocks left. Only lanes that somebody awaits
// keep it. Internal to the room.
#pragma once

#include <map>
#include <vector>

#include "weft/sim/agenda.h"
#include "weft/sim/cells.h"
#include "weft/sim/trace.h"

namespace weft::sim {

// Times of the 0th, 1st ... completion. Those that everybody can have seen are forgotten.
class History {
 public:
  int64_t count() const { return forgotten_ + static_cast<int64_t>(times_.size()); }
  // record: in a trace, of the step that did it; kept only where there is one.
  void add(Time time, Time all_seen, uint32_t record) {
    if (times_.size() >= 16 && times_[7] <= all_seen) {
      times_.erase(times_.begin(), times_.begin() + 8);
      if (!records_.empty()) records_.erase(records_.begin(), records_.begin() + 8);
      forgotten_ += 8;
    }
    times_.push_back(time);
    if (record != no_record || !records_.empty()) {
      records_.resize(times_.size() - 1, no_record);
      records_.push_back(record);
    }
  }
  // never: not yet. 0: long ago.
  Time at(int64_t i) const {
    if (i < forgotten_) return 0;
    return i < count() ? times_[static_cast<size_t>(i - forgotten_)] : never;
  }
  uint32_t record(int64_t i) const {
    const auto at = static_cast<size_t>(i - forgotten_);
    return i < forgotten_ || at >= records_.size() ? no_record : records_[at];
  }

 private:
  int64_t forgotten_ = 0;
  std::vector<Time> times_;
  std::vector<uint32_t> records_;
};

class Progress {
 public:
  Progress(const plan::Instance& instance, const Cells& cells) : instance_(instance), cells_(cells) {}
  bool scanned() const { return scanned_; }
  void scan(int rank, int lane, int channel);  // what the lane will do, walked once
  // A step is complete; returns whether it has a label.
  bool completed(const plan::FlatStep& step, Time time, Time all_seen, uint32_t record);
  void left(int block, Time time, Time all_seen, uint32_t record);
  // Since when what is awaited holds; never: not yet. chunk -1: the waiting step is in no loop.
  Time since(const plan::FlatAwait& await, int64_t chunk, int launch) const {
    const Place place = find(await, chunk, launch);
    return place.history ? place.history->at(place.need) : 0;
  }
  // The step that made it hold; none: it always did.
  uint32_t record(const plan::FlatAwait& await, int64_t chunk, int launch) const {
    const Place place = find(await, chunk, launch);
    return place.history ? place.history->record(place.need) : no_record;
  }

 private:
  struct Label {
    int block = 0;
    bool loop = false;
    int64_t iterations = 1, instances = 0, completions = 0;
    History whole;                               // every instance of a chunk
    std::map<std::vector<int64_t>, History> of;  // by index
  };
  struct Place {  // the completion that an await needs; no history: none
    const History* history = nullptr;
    int64_t need = 0;
  };
  Place find(const plan::FlatAwait& await, int64_t chunk, int launch) const;
  const plan::Instance& instance_;
  const Cells& cells_;
  bool scanned_ = false;
  std::map<uint16_t, Label> labels_;
  std::vector<History> left_;
};

}  // namespace weft::sim
