// Batches: everything is started before anything is waited for, calls of one communicator in an order that all ranks find
// by themselves (Batch in collectives.h).
#include "weft/api/collectives_batch.h"

#include <algorithm>
#include <tuple>

namespace weft {

struct Batch::Impl : api::Batched {};

namespace {

thread_local Batch::Impl* present = nullptr;

// Of what all ranks agree about in a call, and nothing else.
auto agreed(const Call& call) {
  const bool own_count = api::is_uneven(call) && (has_root(call.operation) || call.operation == Operation::all_to_all);
  return std::make_tuple(call.operation, call.dtype, call.combine, call.root, api::is_uneven(call),
                         own_count ? 0 : call.count, own_count ? 0 : api::hash_counts(call.counts));
}

}  // namespace

api::Batched* api::present_batch() { return present; }

void api::Batched::wait() {
  const auto noted = std::exchange(calls_, {});
  std::vector<Noted> calls = noted;
  std::stable_sort(calls.begin(), calls.end(), [](const Noted& a, const Noted& b) {
    return std::make_tuple(a.engine->order, agreed(a.parts.front()->call)) <
           std::make_tuple(b.engine->order, agreed(b.parts.front()->call));
  });
  std::vector<Pending> all = std::exchange(started_, {});
  for (const Noted& call : calls)
    for (const auto& part : call.parts) all.push_back(call.engine->enqueue(part));
  std::exception_ptr first;
  for (Pending& one : all) try {
      one.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

Batch::Batch() : impl_(std::make_unique<Impl>()), before_(present) {
  if (!before_) present = impl_.get();
}
Batch::~Batch() { present = before_; }

void Batch::wait() {
  if (before_) return;  // with the outer one
  present = nullptr;
  try {
    impl_->wait();
  } catch (...) {
    present = impl_.get();
    throw;
  }
  present = impl_.get();
}

}  // namespace weft
