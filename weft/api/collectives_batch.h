// The batch that this thread notes calls in (Batch in collectives.h).
#pragma once

#include "weft/api/collectives_engine.h"

namespace weft::api {

class Batched {
 public:
  // Calls that follow each other: counts, then data.
  using Parts = std::vector<std::shared_ptr<StartedCall>>;
  void note(Collectives::Impl& engine, Parts parts) { calls_.push_back({&engine, engine.order, std::move(parts)}); }
  void forget(const Collectives::Impl& engine);  // it ends: its calls become errors
  void note(const Pending& message) { started_.push_back(message); }
  void wait();

 private:
  struct Noted {
    Collectives::Impl* engine;  // null: it is gone
    decltype(Collectives::Impl::order) order;
    Parts parts;
  };
  std::vector<Noted> calls_;
  std::vector<Pending> started_;  // messages: they may go at once
};

Batched* present_batch();  // null: calls are made as they come

}  // namespace weft::api
