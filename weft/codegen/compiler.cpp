// Finding and running the compiler.
//
// Ways to get machine code: a JIT library (LLVM: 100 MB and an interface that changes twice a year), an assembler of
// our own, or the compiler that is there anyway. The last gives code that a person can read, profile and step through,
// at the price of about 0.3 s a kernel, once. The child is started by posix_spawn in a process group of its own, so
// that a hung compiler can be ended with all its children, and is waited for by its own id: the host program's children
// are none of our business.
#include "weft/codegen/compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/text.h"

extern char** environ;

namespace weft::codegen {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> find_program(const std::string& name) {
  const auto executable = [](const fs::path& path) {
    return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
  };
  if (name.find('/') != std::string::npos) return executable(name) ? std::optional(fs::absolute(name)) : std::nullopt;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "/usr/bin:/bin", ':'))
    if (!folder.empty() && executable(fs::path(folder) / name)) return fs::path(folder) / name;
  return std::nullopt;
}

// Fusing a * b + c would change bits, so contraction is off. Errno and floating-point traps are nobody's business in a
// kernel and would keep sqrt and select out of vector code; neither flag changes a result.
std::vector<std::string> flags_for() {
  std::vector<std::string> flags = {"-pipe",
                                    "-x",
                                    "c++",
                                    "-std=c++20",
                                    "-O3",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-stack-protector",
                                    "-fPIC",
                                    "-shared",
                                    "-nostdlib",
                                    "-w"};
#if defined(__x86_64__)
  flags.insert(flags.end(), {"-march=native", "-mprefer-vector-width=512"});
#elif defined(__aarch64__)
  flags.push_back("-mcpu=native");
#endif
  return flags;
}

// Path, size and time of change stand for the version: asking the compiler itself would cost 10 ms in every process.
std::string identity_of(const Compiler& compiler) {
  std::string identity = join(compiler.command, " ") + "\n" + join(compiler.flags, " ") + "\n" + cpu_identity();
  for (const std::string& word : compiler.command) {
    const std::optional<fs::path> program = find_program(word);
    struct stat status {};
    if (!program || stat(program->c_str(), &status) != 0) continue;
    identity += fmt::format("\n{} {} {}.{}", fs::canonical(*program).string(), status.st_size, status.st_mtim.tv_sec,
                            status.st_mtim.tv_nsec);
  }
  return identity;
}

std::optional<Compiler> compiler_from(const std::string& command) {
  Compiler compiler;
  compiler.command = words(command);
  if (compiler.command.empty()) return std::nullopt;
  const std::optional<fs::path> program = find_program(compiler.command[0]);
  if (!program) return std::nullopt;
  compiler.command[0] = program->string();
  compiler.flags = flags_for();
  compiler.identity = identity_of(compiler);
  return compiler;
}

struct Child {
  pid_t pid = 0;
  CompileJob* job = nullptr;
  int64_t deadline_ns = 0;
};

std::vector<std::string> arguments(const Compiler& compiler, const CompileJob& job) {
  std::vector<std::string> list = compiler.command;
  list.insert(list.end(), compiler.flags.begin(), compiler.flags.end());
  list.insert(list.end(), {"-o", job.object.string(), job.source.string()});
  return list;
}

// The environment with messages in English, so that what we print is what a search engine knows.
std::vector<char*> child_environment(std::string& locale) {
  std::vector<char*> list;
  for (char** entry = environ; *entry; entry++)
    if (std::strncmp(*entry, "LC_ALL=", 7) != 0) list.push_back(*entry);
  list.push_back(locale.data());
  list.push_back(nullptr);
  return list;
}

pid_t start(const Compiler& compiler, CompileJob& job) {
  std::vector<std::string> list = arguments(compiler, job);
  job.command_line = join(list, " ");
  std::vector<char*> argv;
  for (std::string& item : list) argv.push_back(item.data());
  argv.push_back(nullptr);
  std::string locale = "LC_ALL=C";
  std::vector<char*> env = child_environment(locale);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, job.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  pid_t pid = 0;
  const int status = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), env.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (status != 0) job.error = fmt::format("{} cannot be started: {}", argv[0], std::strerror(status));
  return status == 0 ? pid : 0;
}

// The first lines of what the compiler said.
std::string first_lines(const fs::path& log) {
  std::error_code ignored;
  if (!fs::exists(log, ignored)) return "";
  const std::vector<std::string> lines = split(read_file(log), '\n');
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 8); i++) text += (i ? "\n" : "") + lines[i];
  return text;
}

// True when the child is gone. A host that ignores SIGCHLD lets the kernel reap: then the object decides.
bool finished(const Child& child) {
  int status = 0;
  const pid_t got = waitpid(child.pid, &status, WNOHANG);
  if (got == 0 && now_ns() < child.deadline_ns) return false;
  if (got == 0) {
    kill(-child.pid, SIGKILL);
    waitpid(child.pid, &status, 0);
    child.job->error = "the compiler did not end in time";
  } else if (got == child.pid && WIFSIGNALED(status)) {
    child.job->error = fmt::format("the compiler was ended by signal {}", WTERMSIG(status));
  } else if (got == child.pid && WEXITSTATUS(status) != 0) {
    child.job->error = first_lines(child.job->log);
    if (child.job->error.empty())
      child.job->error = fmt::format("the compiler ended with status {}", WEXITSTATUS(status));
  } else if (access(child.job->object.c_str(), R_OK) != 0) {
    child.job->error = "the compiler made no object. " + first_lines(child.job->log);
  }
  return true;
}

}  // namespace

std::optional<Compiler> find_compiler() {
  const std::string wanted = env("WEFT_CXX");
  if (!wanted.empty()) {
    std::optional<Compiler> compiler = compiler_from(wanted);
    if (!compiler)
      throw Error(ErrorKind::user, fmt::format("WEFT_CXX={} names no program", wanted),
                  "set it to a C++ compiler, or unset it");
    return compiler;
  }
  for (const char* name : {WEFT_BUILD_CXX, "c++", "g++", "clang++"})
    if (std::optional<Compiler> compiler = compiler_from(name)) return compiler;
  return std::nullopt;
}

void compile(const Compiler& compiler, std::vector<CompileJob>& jobs, int side_by_side, double deadline_s) {
  const size_t limit = side_by_side > 0 ? side_by_side : std::max(1u, std::thread::hardware_concurrency());
  std::vector<Child> running;
  size_t next = 0;
  while (next < jobs.size() || !running.empty()) {
    while (next < jobs.size() && running.size() < limit) {
      CompileJob& job = jobs[next++];
      if (const pid_t pid = start(compiler, job))
        running.push_back({pid, &job, now_ns() + static_cast<int64_t>(deadline_s * 1e9)});
    }
    std::erase_if(running, finished);
    if (!running.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace weft::codegen
