// Ranks that answer the same command at the same time, whoever gives it.
//
// Two ways in: a parent that started the ranks for this (`weft tune`, `weft calibrate`), or the ranks of a running program
// themselves (a library user who tunes now): then every rank gives the same commands in the same order, and all see all
// answers, so that all decide alike.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/transport.h"

namespace weft::api {

class Commands {
 public:
  virtual ~Commands() = default;
  virtual int ranks() const = 0;
  virtual std::vector<std::string> ask(const std::string& command) = 0;  // the answers, by rank
  virtual int64_t clock_ns() = 0;  // a monotonic clock that reads the same for all who decide
  virtual void finish() {}         // throws the ranks' first failure
};

std::unique_ptr<Commands> commands_to(std::unique_ptr<transport::Job> job);
// Collective. `answer` is this rank's own side; it must outlive the commands.
std::unique_ptr<Commands> commands_among(transport::Transport& transport,
                                         std::function<std::string(std::string_view)> answer);

}  // namespace weft::api
