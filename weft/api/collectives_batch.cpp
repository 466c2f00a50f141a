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
    return std::make_tuple(a.order, agreed(a.parts.back()->call), a.parts.size()) <
           std::make_tuple(b.order, agreed(b.parts.back()->call), b.parts.size());
  });
  std::vector<Pending> all = std::exchange(started_, {});
  std::exception_ptr first;
  for (const Noted& call : calls)
    if (!call.engine)
      first = std::make_exception_ptr(Error(ErrorKind::user,
                                            fmt::format("{} of a batch: its communicator was destroyed before the "
                                                        "batch ended",
                                                        name(call.parts.back()->call.operation)),
                                            "end the batch first"));
    else
      for (const auto& part : call.parts) all.push_back(call.engine->enqueue(part));
  for (Pending& one : all) try {
      one.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
}

void api::Batched::forget(const Collectives::Impl& engine) {
  for (Noted& call : calls_)
    if (call.engine == &engine) call.engine = nullptr;
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
