// A transport over another one: the inner one's control plane, memory and deaths, some things of its own.
#pragma once

#include "weft/transport/transport.h"

namespace weft::transport {

class LayeredTransport : public Transport {
 public:
  explicit LayeredTransport(Transport& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool mappable(int peer) const override { return inner_.mappable(peer); }
  std::shared_ptr<Window> allocate(int64_t bytes, std::string_view what) override {
    return inner_.allocate(bytes, what);
  }
  std::vector<std::string> exchange(std::string_view mine, std::string_view what) override {
    return inner_.exchange(mine, what);
  }
  void barrier(std::string_view what) override { inner_.barrier(what); }
  const std::atomic<uint64_t>& abort_word() const override { return inner_.abort_word(); }
  void raise(const Failure& failure) override { inner_.raise(failure); }
  Failure failure() const override { return inner_.failure(); }
  void note(std::string_view doing) override { inner_.note(doing); }
  std::atomic<uint32_t>& parked(int rank) override { return inner_.parked(rank); }
  void park(int64_t at_most_ns) override { inner_.park(at_most_ns); }
  void wake(int rank) override { inner_.wake(rank); }
  int64_t timeout_ns() const override { return inner_.timeout_ns(); }
  bool oversubscribed() const override { return inner_.oversubscribed(); }
  void check_peers() override { inner_.check_peers(); }

 protected:
  Transport& inner_;
};

// Keeps the inner window, shows only the blocks that may be mapped.
struct LayeredWindow : Window {
  std::shared_ptr<Window> inner;
};

}  // namespace weft::transport
