// What a test that makes and ends many things counts.
#pragma once

#include <dirent.h>

#include <fstream>
#include <string>

namespace weft {

inline int open_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

// Pieces of shared memory that this process maps.
inline int shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:weft") != std::string::npos || line.find("/dev/zero") != std::string::npos;
  return count;
}

}  // namespace weft
