// What a Pending points to.
#pragma once

#include <exception>
#include <string>

#include "weft/api/collectives.h"

namespace weft {

// One started thing: a call, a message, a batch.
struct Pending::State {
  virtual ~State() = default;
  virtual std::string text() const = 0;
  Collectives::Impl* owner = nullptr;  // null: it is gone
  bool complete = false;
  std::exception_ptr error;
  void finish(std::exception_ptr with = nullptr) { complete = true, error = std::move(with); }
};

}  // namespace weft
