// Ways: ru_maxrss (a peak, but shared pages count once for each process, and peaks of different times are added), memory
// of a control group (needs one of our own), proportional set sizes (exact, at one moment; the kernel walks the page
// tables for it, some 10 ms a gigabyte). The last, sampled between rounds, when ranks wait anyway.
#include "weft/api/footprint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::api {
namespace {

int64_t proportional_bytes(const std::filesystem::path& process) {
  std::ifstream file(process / "smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("Pss:", 0) == 0) return std::stoll(line.substr(4)) * 1024;
  return 0;
}

void add_with_children(int64_t id, int64_t& sum) {
  const std::filesystem::path process = "/proc/" + std::to_string(id);
  sum += proportional_bytes(process);
  std::error_code gone;  // processes may end while we look
  for (std::filesystem::directory_iterator task(process / "task", gone), end; !gone && task != end;
       task.increment(gone)) {
    std::ifstream children(task->path() / "children");
    for (int64_t child = 0; children >> child;) add_with_children(child, sum);
  }
}

}  // namespace

int64_t footprint_bytes() {
  int64_t sum = 0;
  add_with_children(getpid(), sum);
  return sum;
}

}  // namespace weft::api
