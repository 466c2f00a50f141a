#include <cstdio>
#include <vector>

#include "weft/api/collectives.h"
#include "weft/api/weft.h"

int main() {
  try {
    weft::run(2, [](weft::Rank& rank) {
      weft::Collectives comm(rank.communicator());
      std::vector<float> x(3000, static_cast<float>(rank.rank() + 1));
      comm.all_reduce(x.data(), x.data(), 3000, weft::Dtype::f32, weft::Combine::max);
      for (const float v : x)
        if (v != 2) throw weft::Error(weft::ErrorKind::internal, "a maximum is wrong");
    });
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
