// `weft`: program text in, the fastest schedule that gives the same answer out. One file per verb; errors become one
// message on stderr and an exit status (1 user, plan, unsupported; 2 agreement, io, timeout, peer; 3 internal).
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tools/verbs.h"
#include "weft/api/environment.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/printable.h"
#include "weft/base/text.h"

namespace {

constexpr const char* examples = R"(Examples:
  weft tune examples/adam.weft --model bert-base --ranks 2      every legal schedule: predicted, measured, checked
  weft tune examples/lamb.weft --ranks 4 --size P=4Mi           one tensor of 4 Mi elements, four ranks
  weft show examples/adam.weft --schedule fused --as plan       what will run, exactly
  weft show examples/adam.weft --schedule fused --as cpp        the code that is compiled for it
  weft run examples/adam.weft --schedule tuned --size P=16Mi    run it, checked against the reference
  weft explain examples/adam.weft --model bert-base             why one schedule beats another
  weft bench all_reduce -b 8 -e 128M -f 2 --vs openmpi         nccl-tests' table, with a peer beside it
  weft sim all_reduce --machine dgx_h100:4 -b 8 -e 8G -f 2      predicted on a machine that is not here
  weft verify my.plan                                           rules V1 to V16
)";

// A descriptor that is closed would be taken by the next file that is opened, and what is printed would go into it. One
// that cannot be written to stands in, so that lost output is noticed.
void hold_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);
}

// A full disk or a closed pipe is found when what was printed is written out: lost output is no success.
void flush_output() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  throw weft::Error(weft::ErrorKind::io, fmt::format("cannot write the output: {}", std::strerror(errno)),
                    "see where it goes: a full disk, a closed pipe?");
}

void say(std::string_view kind, std::string_view what) {
  weft::tools::end_progress();
  std::fprintf(stderr, "weft: %s error: %s\n", std::string(kind).c_str(),
               weft::clipped_lines(weft::printable(what, true), 1000).c_str());
}

std::string no_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  return fmt::format("there is no verb {}\n    {}; see weft --help", word, weft::join(verbs, ", "));
}

int guarded(const std::function<int()>& act) {
  try {
    const int code = act();
    flush_output();
    return code;
  } catch (const weft::Error& error) {
    say(weft::name(error.kind()), error.what());
    return weft::exit_code(error.kind());
  } catch (const std::bad_alloc&) {  // the system refused (a limit such as ulimit -v, or no memory left)
    say("io",
        fmt::format("memory ran out: the system has {:.1f} GB free\n    give smaller sizes or fewer ranks, or raise "
                    "the limit (ulimit -v, the container's)",
                    static_cast<double>(weft::free_memory_bytes()) * 1e-9));
    return 2;
  } catch (const std::exception& error) {
    say("internal", error.what());
    return 3;
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is an error to report, not a death
  CLI::App app{
      "Weft: distributed machine learning computations, scheduled across the line between computation and "
      "communication."};
  app.footer(examples);
  app.require_subcommand(1);
  app.set_version_flag("--version", "weft 0.1.0 (program 1, schedule 1, plan 1)");
  std::map<CLI::App*, weft::tools::Verb> verbs;
  for (const auto add :
       {weft::tools::add_tune, weft::tools::add_run, weft::tools::add_show, weft::tools::add_explain,
        weft::tools::add_verify, weft::tools::add_calibrate, weft::tools::add_env, weft::tools::add_ops,
        weft::tools::add_bench, weft::tools::add_sim, weft::tools::add_topo, weft::tools::add_trace}) {
    weft::tools::Verb verb = add(app);
    verbs[app.get_subcommands([](CLI::App*) { return true; }).back()] = std::move(verb);
  }
  return guarded([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const bool verb_missing = app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
      if (verb_missing) throw weft::Error(weft::ErrorKind::user, no_verb(app, argv[1]));
      return app.exit(error) == 0 ? 0 : 1;
    }
    CLI::App* verb = app.get_subcommands().front();
    const std::string& name = verb->get_name();
    // `weft env` shows also what is wrong; what NCCL_ALGO may say is not what Weft's own ranks know.
    if (name != "env" && name != "sim" && name != "topo" && name != "trace")
      weft::api::check_environment();  // `weft env` shows also what is wrong
    verbs.at(verb)();
    return 0;
  });
}
