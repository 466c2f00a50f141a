// A message goes there and back, as plans send it: half of that is what it takes on its way, for a few bytes, and the
// difference between two large ones is what a byte takes. The first and the last rank are in different groups wherever a
// transport has groups, so it is the slow way that is priced.
#include "weft/api/calibrate_wire.h"

#include <algorithm>
#include <vector>

#include "weft/algo/algorithm.h"
#include "weft/api/commands.h"
#include "weft/base/file.h"
#include "weft/base/text.h"
#include "weft/codegen/library.h"
#include "weft/runtime/communicator.h"
#include "weft/transport/spec.h"

namespace weft::api {
namespace {

constexpr int64_t few_bytes = 64, most_bytes = 4 << 20;

class WireRank {
 public:
  explicit WireRank(transport::Transport& transport)
      : transport_(transport),
        kernels_(codegen::generated_library()),
        communicator_(transport, *kernels_),
        memory_(most_bytes / sizeof(float)) {
    there_ = load(0, transport.size() - 1);
    back_ = load(transport.size() - 1, 0);
  }

  std::string command(std::string_view text) { return fmt::format("{}", trip_ns(std::stoll(words(text).at(1)))); }

 private:
  std::shared_ptr<runtime::Loaded> load(int from, int to) {
    algo::PlanRequest request;
    request.collective = algo::Collective::send_recv;
    request.from = from, request.to = to;
    runtime::LoadOptions options;
    options.verify = false;  // the registry's tests verify it
    return communicator_.load(algo::make_plan(*algo::find_algorithm("pairwise"), request), options);
  }

  // Half of the way there and back, the median of a few; 0 on ranks that only look on.
  double trip_ns(int64_t bytes) {
    plan::LaunchArgs args;
    args.spaces = {{plan::Cut{1, bytes / static_cast<int64_t>(sizeof(float)), 1}, {}, nullptr}};
    args.buffers = {plan::Dense{memory_.data()}, plan::Dense{memory_.data()}};
    runtime::Bound there(communicator_, there_, args), back(communicator_, back_, args);
    std::vector<double> trips;
    for (int repeat = 0; repeat < 7; repeat++) {
      const int64_t begin = now_ns();
      there.launch();
      back.launch();
      trips.push_back(static_cast<double>(now_ns() - begin) / 2);
      transport_.barrier("calibration");
    }
    std::nth_element(trips.begin(), trips.begin() + 3, trips.end());
    return transport_.rank() == 0 ? trips[3] : 0;
  }

  transport::Transport& transport_;
  std::unique_ptr<kernel::KernelLibrary> kernels_;
  runtime::Communicator communicator_;
  std::vector<float> memory_;
  std::shared_ptr<runtime::Loaded> there_, back_;
};

double trip_ns(Commands& ranks, int64_t bytes) { return std::stod(ranks.ask(fmt::format("trip {}", bytes)).at(0)); }

}  // namespace

void measure_wire(topo::Machine& machine, int ranks, std::string_view transport,
                  const std::function<void(const std::string&)>& progress) {
  if (ranks < 2 || transport::layer_of(transport).empty()) return;
  if (progress) progress(fmt::format("calibrating: messages over {}", transport));
  const auto make = [](transport::Transport& on) -> transport::CommandLoop {
    auto rank = std::make_shared<WireRank>(on);
    return [rank](transport::Transport&, std::string_view text) { return rank->command(text); };
  };
  const auto job = commands_to(transport::start_ranks(transport, ranks, make));
  const double few = trip_ns(*job, few_bytes), half = trip_ns(*job, most_bytes / 2), most = trip_ns(*job, most_bytes);
  job->finish();
  machine.wire_ns = std::max(1.0, few);
  machine.wire_bytes_per_s = most_bytes / 2 / std::max(1.0, most - half) * 1e9;
}

}  // namespace weft::api
