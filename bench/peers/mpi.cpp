// MPI as a peer: all_reduce, then Adam on every rank (the strongest arrangement for MPI: sharding gains it nothing),
// and an 8-byte all_reduce. The same source is built against Open MPI and Intel MPI.
//
//   mpi FOLDER ELEMENTS     commands: adam STEP -> ns of the slowest rank; small CALLS -> ns a call
#include <mpi.h>

#include <vector>

#include "adam_loop.h"
#include "commands.h"

namespace {

double slowest(int64_t ns) {
  double mine = static_cast<double>(ns), all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  return all;
}

struct Adam {
  explicit Adam(int64_t count) : g(count, 1), m(count, 0.1f), v(count, 0.1f), w(count, 0.5f) {}
  double step(int64_t number, int rank, int ranks) {
    rewrite(g.data(), static_cast<int64_t>(g.size()), static_cast<uint32_t>(number * 7 + rank));
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t begin = clock_ns();
    MPI_Allreduce(MPI_IN_PLACE, g.data(), static_cast<int>(g.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    adam_update(adam_step(1e-3, number, 1.0 / ranks), static_cast<int64_t>(g.size()), g.data(), m.data(), v.data(),
                w.data());
    return slowest(clock_ns() - begin);
  }
  std::vector<float> g, m, v, w;
};

double small(int64_t calls, int rank) {
  float x[2], y[2], sink = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const int64_t begin = clock_ns();
  for (int64_t call = 0; call < calls; call++) {
    x[0] = static_cast<float>(rank + call);
    x[1] = static_cast<float>(call);
    MPI_Allreduce(x, y, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    sink += y[0];
  }
  const double ns = slowest(clock_ns() - begin) / static_cast<double>(calls);
  return sink == -1 ? 0 : ns;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Adam adam(std::atoll(argv[2]));
  Commands commands(argv[1], rank);
  std::string name;
  int64_t argument = 0;
  while (commands.next(name, argument))
    commands.answer(name == "adam" ? adam.step(argument, rank, ranks) : small(argument, rank));
  MPI_Finalize();
}
