// What a test that makes and ends many things counts.
#pragma once

#include <dirent.h>

namespace weft {

inline int open_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

}  // namespace weft
