// The group: how it meets, ends, and waits with names (backend.h). Collectives are in collectives.cpp.
#include "backend.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

namespace weft_torch {
namespace {

// The same on all ranks that can share memory by sockets of this host.
std::string host() {
  std::string name(256, '\0');
  const ssize_t length = readlink("/proc/self/ns/net", name.data(), name.size());
  name.resize(length > 0 ? static_cast<size_t>(length) : 0);
  char text[256] = {};
  gethostname(text, sizeof text - 1);
  return std::string(text) + " " + name;
}

std::string fresh_path() {
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "weft-torch-%08x%08x", random(), random());
  return (std::filesystem::temp_directory_path() / name).string();
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Where this group's keys stand in the store. A store may have those of an earlier group of the same name (one that was
// destroyed and is made again): every rank counts how often it has come.
std::string fresh_keys(c10d::Store& store, int rank) {
  return c10::str("weft/", store.add(c10::str("weft/made/", rank), 1), "/");
}

// Rank 0 names the path where the group meets, or says why it cannot.
std::string meeting_path(c10d::Store& store, const std::string& keys, int rank, int size) {
  store.set(c10::str(keys, "host/", rank), bytes_of(host()));
  if (rank == 0) {
    std::string told = fresh_path();
    for (int other = 1; other < size; ++other) {
      const std::string theirs = text_of(store.get(c10::str(keys, "host/", other)));
      if (theirs != host()) told = c10::str("!rank ", other, " is on ", theirs, ", rank 0 on ", host());
    }
    store.set(keys + "meeting", bytes_of(told));
  }
  const std::string told = text_of(store.get(keys + "meeting"));
  if (told[0] == '!')
    C10_THROW_ERROR(NotImplementedError, "unsupported: weft: ranks on several hosts (" + told.substr(1) +
                                             "); take gloo for groups that cross hosts");
  return told;
}

weft_comm* join(const std::string& path, int rank, int size, std::chrono::milliseconds timeout) {
  weft_comm_options options = {};
  options.struct_bytes = sizeof options;
  options.timeout_s = std::chrono::duration<double>(timeout).count();
  options.arena_bytes = -1;
  options.arena = arena();
  weft_comm* comm = nullptr;
  check(weft_comm_create_with(path.c_str(), rank, size, &options, &comm));
  return comm;
}

}  // namespace

Backend::Backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout)
    : c10d::Backend(rank, size),
      store_(std::move(store)),
      options_(c10::make_intrusive<Options>("weft", timeout)),
      timeout_(timeout),
      keys_(fresh_keys(*store_, rank)),
      meeting_(meeting_path(*store_, keys_, rank, size)),
      engine_(std::make_shared<Engine>([this] { return join(meeting_, rank_, size_, timeout_); })) {
  engine_->open();
  post_ = std::make_shared<Post>(join(meeting_ + ".post", rank_, size_, timeout_), rank_, timeout_);
  init();
}

Backend::~Backend() { shutdown(); }

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  TORCH_WARN_ONCE("weft: the timeout of a group is set when it is made; work.wait(timeout) takes another one");
}

void Backend::abort() {
  engine_->abort("the process group was aborted");
  post_->abort("the process group was aborted");
}

void Backend::shutdown() {
  engine_->close();
  post_->close();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto here = std::find(ranks.begin(), ranks.end(), rank_);
  TORCH_CHECK_VALUE(here != ranks.end(), "weft: split: rank ", rank_, " is not among the ranks of the new group");
  return c10::make_intrusive<Backend>(store, static_cast<int>(here - ranks.begin()), static_cast<int>(ranks.size()),
                                      options ? options->timeout : timeout_);
}

WorkPtr Backend::start(c10d::OpType type, const char* title, const Tensors& inputs, Tensors outputs, bool asynchronous,
                       Call call) {
  auto work =
      c10::make_intrusive<Work>(engine_, type, title, inputs, std::move(outputs), sequence_++, -1, std::move(call));
  engine_->submit(work, asynchronous || together_);
  if (together_) together_->push_back(work);
  return work;
}

WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  return start(c10d::OpType::BARRIER, "weft:barrier", {}, {}, options.asyncOp,
               [](weft_comm* comm) { check(weft_barrier(comm)); });
}

// ---- monitored barrier, over the store: who is missing can be said even when a rank does not come at all.
std::vector<int> Backend::missing(const std::string& key, std::chrono::milliseconds timeout, bool all) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<int> absent;
  for (int other = 1; other < size_; ++other) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      store_->wait({key + std::to_string(other)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      absent.push_back(other);
      if (!all) break;
    }
  }
  return absent;
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  const std::string key = c10::str(keys_, "monitored/", monitored_++, "/");
  if (rank_ != 0) {
    store_->set(key + std::to_string(rank_), bytes_of("here"));
    std::string told;
    try {  // rank 0 may need all of the time before it answers
      store_->wait({key + "all"}, timeout + std::chrono::seconds(5));
      told = text_of(store_->get(key + "all"));
    } catch (const std::exception&) { told = c10::str("rank 0 did not come within ", timeout.count(), " ms"); }
    if (!told.empty() && told != "ok") TORCH_CHECK(false, "[Rank ", rank_, "]: weft: monitored barrier: ", told);
    return;
  }
  const std::vector<int> absent = missing(key, timeout, wait_for_all);
  std::string told = "ok";
  if (!absent.empty())
    told = c10::str("Ranks ", c10::Join(", ", absent), " failed to pass monitoredBarrier in ", timeout.count(), " ms");
  store_->set(key + "all", bytes_of(told));
  TORCH_CHECK(absent.empty(), "[Rank 0]: weft: ", told);
}

}  // namespace weft_torch
