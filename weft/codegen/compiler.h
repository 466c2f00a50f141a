// The system's C++ compiler: which one, with which flags, and running several side by side.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft::codegen {

struct Compiler {
  std::vector<std::string> command;  // program (absolute path) and leading arguments ("ccache g++")
  std::vector<std::string> flags;
  std::string identity;  // changes when compiler, flags or processor change; part of every content hash
};

// WEFT_CXX, else the compiler Weft was built with, else c++, g++, clang++ in PATH. Nothing: none of them is there.
// WEFT_CXX that names no program is an Error(user): silence would run something else than what was asked for.
std::optional<Compiler> find_compiler();

// What the compiler may assume of this processor (-march=native depends on it).
std::string cpu_identity();

struct CompileJob {
  std::filesystem::path source, object, log;  // log: what the compiler says
  std::string error;                          // out: empty where the object was made
  std::string command_line;                   // out
  // out: the compiler read the text and said no. False with an error: it did not start, did not end, was killed, or
  // the disk refused its output, so another day may do.
  bool refused = false;
};
// Runs at most `side_by_side` compilers at a time (0: one per core). Each has `deadline_s` seconds, and half of
// WEFT_TIMEOUT_S at most: the ranks that wait for the one that compiles must not give up before it does. A compiler
// that is late is killed with all that it started, and so is one whose caller dies. What a compiler writes on its way
// (cc*.s, cc*.o) lies in OBJECT.tmp, a folder beside the object that goes with it. After `patience_s` the log says
// once that something is being compiled.
void compile(const Compiler& compiler, std::vector<CompileJob>& jobs, int side_by_side = 0, double deadline_s = 120,
             double patience_s = 2);

}  // namespace weft::codegen
