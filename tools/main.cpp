// `weft`: program text in, the fastest schedule that gives the same answer out. One file per verb; errors become one
// message on stderr and an exit status (1 user, plan, unsupported; 2 agreement, io, timeout, peer; 3 internal).
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/verbs.h"
#include "weft/base/error.h"

namespace {

constexpr const char* examples = R"(Examples:
  weft tune examples/adam.weft --model bert-base --ranks 2      every legal schedule: predicted, measured, checked
  weft tune examples/lamb.weft --ranks 4 --size P=4Mi           one tensor of 4 Mi elements, four ranks
  weft show examples/adam.weft --schedule fused --as plan       what will run, exactly
  weft show examples/adam.weft --schedule fused --as cpp        the code that is compiled for it
  weft run examples/adam.weft --schedule tuned --size P=16Mi    run it, checked against the reference
  weft explain examples/adam.weft --model bert-base             why one schedule beats another
  weft bench all_reduce -b 8 -e 128M -f 2 --vs openmpi         nccl-tests' table, with a peer beside it
  weft verify my.plan                                           rules V1 to V16
)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Weft: distributed machine learning computations, scheduled across the line between computation and "
      "communication."};
  app.footer(examples);
  app.require_subcommand(1);
  app.set_version_flag("--version", "weft 0.1.0 (program 1, schedule 1, plan 1)");
  std::map<CLI::App*, weft::tools::Verb> verbs;
  for (const auto add : {weft::tools::add_tune, weft::tools::add_run, weft::tools::add_show, weft::tools::add_explain,
                         weft::tools::add_verify, weft::tools::add_calibrate, weft::tools::add_env,
                         weft::tools::add_ops, weft::tools::add_bench}) {
    weft::tools::Verb verb = add(app);
    verbs[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(verb);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 1; }
  try {
    verbs.at(app.get_subcommands().front())();
    // A full disk or a closed pipe is found when what was printed is written out: lost output is no success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      weft::fail(weft::ErrorKind::io, "cannot write the output: {}", std::strerror(errno));
    return 0;
  } catch (const weft::Error& error) {
    weft::tools::end_progress();
    std::fprintf(stderr, "weft: %.*s error: %s\n", static_cast<int>(weft::name(error.kind()).size()),
                 weft::name(error.kind()).data(), error.what());
    return weft::exit_code(error.kind());
  } catch (const std::exception& error) {
    weft::tools::end_progress();
    std::fprintf(stderr, "weft: internal error: %s\n", error.what());
    return 3;
  }
}
