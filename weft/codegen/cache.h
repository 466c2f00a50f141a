// Compiled kernels by content hash, shared by all processes of a user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "weft/codegen/compiler.h"

namespace weft::codegen {

struct Unit {
  std::string source;  // complete C++ text
  std::string what;    // for messages: the kernel and its shape
};

struct CacheReport {
  int found = 0, compiled = 0;
  bool refused = false;  // with an error of load(): the compiler would not have the text, or made what cannot be loaded
};

class Cache {
 public:
  // Layout of `directory`: HASH.cpp (the source, to read and debug), HASH.so (the object with its checksum appended),
  // HASH.lock while somebody compiles, HASH.PID.* while something is being written.
  Cache(std::filesystem::path directory, Compiler compiler);

  // One dlopen handle per unit, never closed. Compiles what is missing or damaged, several side by side; of concurrent
  // callers (threads or processes) one compiles and the others wait for it, for 3/4 of WEFT_TIMEOUT_S at most. Throws
  // Error(io) with the command and the compiler's first lines. Afterwards the folder is pruned to WEFT_CACHE_MB.
  std::vector<void*> load(const std::vector<Unit>& units, CacheReport* report = nullptr);

  std::string hash(const Unit& unit) const;  // 32 hex digits
  std::filesystem::path object_path(const std::string& hash) const;
  std::filesystem::path source_path(const std::string& hash) const;

 private:
  void compile_missing(const std::vector<Unit>& units, const std::vector<size_t>& missing, CacheReport& report);
  static void put(const std::filesystem::path& made, const std::filesystem::path& object);

  std::filesystem::path directory_;
  Compiler compiler_;
};

// The checksum line behind an object: appended by seal(), checked by intact(). A file without one, shorter or changed,
// is not intact.
void seal(const std::filesystem::path& object);
bool intact(const std::filesystem::path& object);

}  // namespace weft::codegen
