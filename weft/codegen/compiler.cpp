// Finding and running the compiler.
//
// Ways to get machine code: a JIT library (LLVM: 100 MB and an interface that changes twice a year), an assembler of
// our own, or the compiler that is there anyway. The last gives code that a person can read, profile and step through,
// at the price of about 0.3 s a kernel, once. Each runs under a supervisor (supervise.h), so that a hung compiler is
// ended with all its children and none outlives us, and is waited for by its own id: the host program's children are
// none of our business.
#include "weft/codegen/compiler.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/once.h"
#include "weft/base/text.h"
#include "weft/codegen/supervise.h"

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

// The first lines of what the compiler said.
std::string first_lines(const fs::path& log) {
  std::error_code ignored;
  if (!fs::exists(log, ignored)) return "";
  const std::vector<std::string> lines = split(read_file(log), '\n');
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 8); i++) text += (i ? "\n" : "") + lines[i];
  return text;
}

// What the compiler's end means. A host that ignores SIGCHLD lets the kernel reap: then the object decides.
void judge(CompileJob& job, bool reaped, int status) {
  const int code = reaped && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (reaped && WIFSIGNALED(status))
    job.error = fmt::format("the compiler was ended by signal {}", WTERMSIG(status));
  else if (code > 128)
    job.error = fmt::format("the compiler was ended by signal {}", code - 128);
  else if (code != 0 || access(job.object.c_str(), R_OK) != 0) {
    const std::string said = first_lines(job.log);
    job.error = code == 0      ? "the compiler made no object. " + said
                : said.empty() ? fmt::format("the compiler ended with status {}", code)
                               : said;
    job.refused = code != cannot_start_status && said.find(std::strerror(ENOSPC)) == std::string::npos;
  }
}

// The compilers under way. What an exception leaves running is killed.
class Running {
 public:
  Running(const Compiler& compiler, double deadline_s)
      : compiler_(compiler), deadline_ns_(static_cast<int64_t>(deadline_s * 1e9)) {}
  ~Running() {
    for (const Child& child : children_) end(child);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  size_t count() const { return children_.size(); }

  void start(CompileJob& job) {
    std::vector<std::string> command = arguments(compiler_, job);
    job.command_line = join(command, " ");
    std::error_code failed;  // where it cannot be made the compiler says so
    fs::create_directory(scratch_of(job), failed);
    if (const pid_t pid = start_supervised(std::move(command), job.log, scratch_of(job), job.error))
      children_.push_back({pid, &job, now_ns() + deadline_ns_});
    else
      fs::remove_all(scratch_of(job), failed);
  }
  void look() {
    std::erase_if(children_, [this](const Child& child) { return finished(child); });
  }

 private:
  static fs::path scratch_of(const CompileJob& job) { return job.object.string() + ".tmp"; }
  static void forget_scratch(const Child& child) {
    std::error_code ignored;
    fs::remove_all(scratch_of(*child.job), ignored);
  }
  static void end(const Child& child) {
    kill(-child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    forget_scratch(child);
  }
  bool finished(const Child& child) const {
    int status = 0;
    const pid_t got = waitpid(child.pid, &status, WNOHANG);
    if (got != 0) return judge(*child.job, got == child.pid, status), forget_scratch(child), true;
    if (now_ns() < child.deadline_ns) return false;
    end(child);
    child.job->error = fmt::format("the compiler did not end in time ({}); it was killed",
                                   human_ns(static_cast<double>(deadline_ns_)));
    return true;
  }

  const Compiler& compiler_;
  int64_t deadline_ns_;
  std::vector<Child> children_;
};

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

void compile(const Compiler& compiler, std::vector<CompileJob>& jobs, int side_by_side, double deadline_s,
             double patience_s) {
  const size_t limit = side_by_side > 0 ? side_by_side : std::max(1u, std::thread::hardware_concurrency());
  const double half_timeout_s = static_cast<double>(env_int("WEFT_TIMEOUT_S")) / 2;
  const int64_t impatient_ns = now_ns() + static_cast<int64_t>(patience_s * 1e9);
  Running running(compiler, std::min(deadline_s, half_timeout_s));
  size_t next = 0;
  bool said = false;
  while (next < jobs.size() || running.count() > 0) {
    while (next < jobs.size() && running.count() < limit) running.start(jobs[next++]);
    running.look();
    if (running.count() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (said || now_ns() < impatient_ns) continue;
    said = true;
    if (compiling_said().first())
      WEFT_LOG(warn, "codegen", "compiling {} kernels ({} done), once: the next run finds them in the cache",
               jobs.size(), next - running.count());
  }
}

}  // namespace weft::codegen
