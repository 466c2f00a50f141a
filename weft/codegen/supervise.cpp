// Between us and a compiler stands a supervisor: a small child that waits for two things, the end of the compiler and
// the death of its parent.
//
// A compiler driver starts further programs, so that ending it is not ending the work: what must be killed is a group.
// PR_SET_PDEATHSIG alone would kill the driver only, and posix_spawn cannot set it. A pipe that breaks when the parent
// dies would be held open by whatever else was forked in between. So the supervisor asks for a signal at its parent's
// death and answers it by killing the group it leads, itself included. It is forked from a process that may have
// threads: it calls nothing that takes a lock or allocates, and keeps no descriptor, so that neither sockets nor shared
// memory of a rank live on in it.
#include "weft/codegen/supervise.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

extern char** environ;

namespace weft::codegen {
namespace {

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;  // nobody is left to be told
}

void close_from(unsigned first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
#endif
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  for (unsigned fd = first; fd < limit.rlim_cur && fd < 65536; ++fd) close(static_cast<int>(fd));
}

void redirect(const char* log) {
  const int nothing = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (nothing < 0 || out < 0) _exit(cannot_start_status);
  dup2(nothing, 0), dup2(out, 1), dup2(out, 2);
  close_from(3);
}

pid_t spawn(char** argv, char** env) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  pid_t pid = 0;
  const int reason = posix_spawn(&pid, argv[0], nullptr, &attributes, argv, env);
  if (reason == 0) return pid;
  say(argv[0]), say(" cannot be started: "), say(strerrordesc_np(reason)), say("\n");
  _exit(cannot_start_status);
}

[[noreturn]] void supervise(pid_t parent, char** argv, char** env, const char* log) {
  setpgid(0, 0);
  if (getpgrp() != getpid()) _exit(cannot_start_status);
  signal(SIGCHLD, SIG_DFL), signal(SIGTERM, SIG_DFL);
  sigset_t watched;
  sigemptyset(&watched), sigaddset(&watched, SIGCHLD), sigaddset(&watched, SIGTERM);
  sigprocmask(SIG_SETMASK, &watched, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);
  redirect(log);
  const pid_t child = spawn(argv, env);
  for (;;) {
    timespec second{1, 0};
    const int got = sigtimedwait(&watched, nullptr, &second);
    if (got == SIGTERM || getppid() != parent) kill(-getpid(), SIGKILL);
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace

pid_t start_supervised(std::vector<std::string> command, const std::filesystem::path& log,
                       const std::filesystem::path& scratch, std::string& problem) {
  std::vector<char*> argv, env;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string locale = "LC_ALL=C";  // what we print should be what a search engine knows
  std::string folder = "TMPDIR=" + scratch.string();
  for (char** entry = environ; *entry; entry++)
    if (std::strncmp(*entry, "LC_ALL=", 7) != 0 && std::strncmp(*entry, "TMPDIR=", 7) != 0) env.push_back(*entry);
  env.push_back(locale.data());
  env.push_back(folder.data());
  env.push_back(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) supervise(parent, argv.data(), env.data(), log.c_str());
  if (pid < 0) {
    problem = command[0] + " cannot be started: " + std::strerror(errno);
    return 0;
  }
  setpgid(pid, pid);  // whoever of us two comes first
  return pid;
}

}  // namespace weft::codegen
