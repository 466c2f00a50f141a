// Which transport ranks of one machine run on, as a word that users write: "processes", "threads", "paced:alpha=5us,bw=1GB/s",
// "tcp", "mixed:group=2". What stands behind "threads+" has ranks that are threads.
#pragma once

#include "weft/transport/transport.h"

namespace weft::transport {

// Wraps what ranks already are (threads, processes). Error(user) for a word that is none, with those that are.
// "processes" and "threads" need no wrapping: null.
std::unique_ptr<Transport> make_layer(Transport& inner, std::string_view spec);
void check_spec(std::string_view spec);  // before ranks are started
bool wants_threads(std::string_view spec);
// What lies between ranks, as written: "tcp", "paced:..."; "" where all map each other's memory.
std::string layer_of(std::string_view spec);

// As run_processes and start_processes, over the transport of `spec`.
void run_ranks(std::string_view spec, int ranks, const std::function<void(Transport&)>& body,
               const RankOptions& options = {});
std::unique_ptr<Job> start_ranks(std::string_view spec, int ranks, const std::function<CommandLoop(Transport&)>& make,
                                 const RankOptions& options = {});

}  // namespace weft::transport
