// weft calibrate: a few seconds of measuring; the machine file that predictions stand on.
#include "weft/api/calibrate.h"

#include <cstdio>

#include "tools/verbs.h"
#include "weft/base/file.h"
#include "weft/transport/spec.h"

namespace weft::tools {
namespace {

struct Options {
  int ranks = 2;
  bool threads = false;
  std::string transport = "processes";
  std::string out;
};

}  // namespace

Verb add_calibrate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("calibrate", "measure this machine for the cost model (seconds)");
  verb->footer(
      "  weft calibrate --ranks 4\n\nThe file is kept per machine and number of ranks in the cache directory; `weft "
      "tune` calibrates by itself when\nthere is none. WEFT_MACHINE names another file to use.");
  verb->add_option("-r,--ranks", options->ranks, "ranks at work at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  auto* threads = verb->add_flag("--threads", options->threads, "threads instead of processes");
  verb->add_option("--transport", options->transport, "what lies between ranks, as for `weft run`; with --output")
      ->excludes(threads);
  verb->add_option("-o,--output", options->out, "write here instead of the cache directory");
  return [options] {
    if (options->threads) options->transport = "threads";
    if (!transport::layer_of(options->transport).empty() && options->out.empty())
      throw Error(ErrorKind::user, fmt::format("--transport {}: where should its figures go?", options->transport),
                  "the cache holds those of shared memory, to which a run on another transport adds by itself; "
                  "-o FILE writes a file for WEFT_MACHINE");
    const std::filesystem::path path =
        options->out.empty() ? topo::calibration_path(options->ranks) : std::filesystem::path(options->out);
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    if (!std::filesystem::is_directory(folder))  // before seconds are spent
      throw Error(ErrorKind::io, fmt::format("cannot write {}: there is no folder {}", path.string(), folder.string()),
                  "make the folder first, or name another place");
    const topo::Machine machine = api::calibrate(options->ranks, options->transport, progress_line);
    end_progress();
    topo::write_machine(std::filesystem::absolute(path), machine);
    std::printf("%s# written to %s\n", read_file(path).c_str(), path.c_str());
  };
}

}  // namespace weft::tools
