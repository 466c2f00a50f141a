// Words for transports (spec.h).
#include "weft/transport/spec.h"

#include <utility>

#include "weft/base/text.h"
#include "weft/transport/paced.h"
#include "weft/transport/tcp.h"

namespace weft::transport {
namespace {

struct Spec {
  bool threads = false;
  std::string kind, options;
};

Spec parse(std::string_view text) {
  Spec spec;
  constexpr std::string_view threads = "threads+";
  if (text.substr(0, threads.size()) == threads) spec.threads = true, text.remove_prefix(threads.size());
  const size_t colon = text.find(':');
  spec.kind = std::string(text.substr(0, colon));
  if (colon != std::string_view::npos) spec.options = std::string(text.substr(colon + 1));
  if (spec.kind.empty()) spec.kind = "processes";
  if (spec.kind == "threads") spec.threads = true;
  for (const char* known : {"threads", "processes", "paced", "tcp", "mixed"})
    if (spec.kind == known) return spec;
  throw Error(
      ErrorKind::user, fmt::format("transport {}: there is none of that name", text),
      "processes, threads, tcp, mixed:group=2, paced:alpha=5us,bw=1GB/s; threads+tcp for ranks that are threads");
}

TcpOptions tcp_options(const Spec& spec) {
  TcpOptions options;
  if (spec.kind == "tcp" && spec.options.empty()) return options;
  constexpr std::string_view group = "group=";
  if (spec.kind == "mixed" && spec.options.rfind(group, 0) == 0)
    options.group_ranks = static_cast<int>(parse_count(spec.options.substr(group.size())));
  if (options.group_ranks < 1)
    throw Error(ErrorKind::user, fmt::format("transport {}:{} is not understood", spec.kind, spec.options),
                "tcp, or mixed:group=RANKS for so many ranks a host");
  return options;
}

}  // namespace

void check_spec(std::string_view text) {
  const Spec spec = parse(text);
  if (spec.kind == "paced") parse_paced(spec.options);
  if (spec.kind == "tcp" || spec.kind == "mixed") tcp_options(spec);
}

bool wants_threads(std::string_view text) { return parse(text).threads; }
std::string layer_of(std::string_view text) {
  const Spec spec = parse(text);
  if (spec.kind == "threads" || spec.kind == "processes") return "";
  return spec.options.empty() ? spec.kind : spec.kind + ":" + spec.options;
}

std::unique_ptr<Transport> make_layer(Transport& inner, std::string_view text) {
  const Spec spec = parse(text);
  if (spec.kind == "paced") return make_paced(inner, parse_paced(spec.options));
  if (spec.kind == "tcp" || spec.kind == "mixed") return make_tcp(inner, tcp_options(spec));
  return nullptr;
}

void run_ranks(std::string_view spec, int ranks, const std::function<void(Transport&)>& body,
               const RankOptions& options) {
  check_spec(spec);
  const auto on_rank = [&](Transport& inner) {
    const auto layer = make_layer(inner, spec);
    if (!layer) return body(inner);
    try {
      body(*layer);
    } catch (const Error& error) {  // before the layer ends: peers may only hear of it over the layer
      layer->raise(failure_of(error, layer->rank()));
      throw;
    }
  };
  wants_threads(spec) ? run_threads(ranks, on_rank, options) : run_processes(ranks, on_rank, options);
}

std::unique_ptr<Job> start_ranks(std::string_view spec, int ranks, const std::function<CommandLoop(Transport&)>& make,
                                 const RankOptions& options) {
  check_spec(spec);
  const auto layered = [make, word = std::string(spec)](Transport& inner) -> CommandLoop {
    const std::shared_ptr<Transport> layer = make_layer(inner, word);
    Transport& outer = layer ? *layer : inner;
    CommandLoop loop = make(outer);
    // The loop goes first, then what it runs on.
    const auto both = std::make_shared<std::pair<std::shared_ptr<Transport>, CommandLoop>>(layer, std::move(loop));
    return [both](Transport& at, std::string_view command) {
      return both->second(both->first ? *both->first : at, command);
    };
  };
  return wants_threads(spec) ? start_threads(ranks, layered, options) : start_processes(ranks, layered, options);
}

}  // namespace weft::transport
