// MPI as a peer of `weft bench`: the same cells, timed by the same code (timing.h).
//
//   collectives_mpi FOLDER BYTES     commands: OP,DTYPE,COMBINE,ROOT,INPLACE,TOUCH,READ,ITERATIONS COUNT -> ns a call
#include <mpi.h>

#include <map>
#include <sstream>
#include <vector>

#include "commands.h"
#include "timing.h"

namespace {

struct Cell {
  std::string operation, dtype, combine;
  int root = 0;
  bool in_place = false, touch = false, read = false;
  int64_t iterations = 1, count = 0;
};

Cell parse(const std::string& text, int64_t count) {
  std::vector<std::string> fields;
  std::stringstream stream(text);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  Cell cell;
  cell.operation = fields.at(0), cell.dtype = fields.at(1), cell.combine = fields.at(2);
  cell.root = std::stoi(fields.at(3));
  cell.in_place = fields.at(4) == "1", cell.touch = fields.at(5) == "1", cell.read = fields.at(6) == "1";
  cell.iterations = std::stoll(fields.at(7));
  cell.count = count;
  return cell;
}

const std::map<std::string, MPI_Datatype>& types() {
  static const std::map<std::string, MPI_Datatype> map = {
      {"f32", MPI_FLOAT},   {"f64", MPI_DOUBLE}, {"i8", MPI_INT8_T},    {"i16", MPI_INT16_T},  {"i32", MPI_INT32_T},
      {"i64", MPI_INT64_T}, {"u8", MPI_UINT8_T}, {"u16", MPI_UINT16_T}, {"u32", MPI_UINT32_T}, {"u64", MPI_UINT64_T}};
  return map;
}
const std::map<std::string, MPI_Op>& combines() {
  static const std::map<std::string, MPI_Op> map = {
      {"sum", MPI_SUM}, {"prod", MPI_PROD}, {"min", MPI_MIN}, {"max", MPI_MAX}};
  return map;
}

class Bench {
 public:
  explicit Bench(int64_t room) : send_(room / 8 + 512, 1), recv_(room / 8 + 512, 1) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const { return rank_; }

  double time(const Cell& cell) {
    if (!types().count(cell.dtype) || !combines().count(cell.combine)) return -1;
    prepare(cell);
    for (int i = 0; i < 3; ++i) run(cell);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto call = [&] {
      run(cell);
      if (cell.read) sink_ = sink_ + timing::read_all(to_, got_);
    };
    double all = 0, mine = timing::median_call_ns({from_, sent_, whole_, cell.iterations, cell.touch, cell.read}, call,
                                                  [] { MPI_Barrier(MPI_COMM_WORLD); });
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
  }

 private:
  void prepare(const Cell& cell) {
    int size = 0;
    type_ = types().at(cell.dtype);
    op_ = combines().at(cell.combine);
    MPI_Type_size(type_, &size);
    const int64_t part = cell.count * size, whole = part * ranks_;
    char *send = reinterpret_cast<char*>(send_.data()), *recv = reinterpret_cast<char*>(recv_.data());
    from_ = send, to_ = recv;
    const std::string& op = cell.operation;
    sent_ = got_ = whole_ = part;
    if (op == "reduce_scatter") sent_ = whole_ = whole;
    if (op == "all_gather") got_ = whole_ = whole;
    if (op == "all_to_all") sent_ = got_ = whole_ = whole;
    if (op == "gather") got_ = rank_ == cell.root ? whole : 0, whole_ = whole;
    if (op == "scatter") sent_ = rank_ == cell.root ? whole : 0, whole_ = whole;
    if (op == "reduce" && rank_ != cell.root) got_ = 0;
    if (op == "broadcast") {  // one buffer
      to_ = send;
      if (rank_ != cell.root) sent_ = 0;
    }
    if (cell.in_place && op == "all_reduce") to_ = send;
    if (cell.in_place && op == "all_gather") from_ = recv + part * rank_;
    if (cell.in_place && op == "reduce_scatter") to_ = send;
  }

  void run(const Cell& cell) {
    const std::string& op = cell.operation;
    const int n = static_cast<int>(cell.count);
    void* in_place = cell.in_place ? MPI_IN_PLACE : from_;
    if (op == "all_reduce") MPI_Allreduce(in_place, to_, n, type_, op_, MPI_COMM_WORLD);
    if (op == "reduce_scatter") MPI_Reduce_scatter_block(in_place, to_, n, type_, op_, MPI_COMM_WORLD);
    if (op == "all_gather") MPI_Allgather(in_place, n, type_, to_, n, type_, MPI_COMM_WORLD);
    if (op == "broadcast") MPI_Bcast(to_, n, type_, cell.root, MPI_COMM_WORLD);
    if (op == "all_to_all") MPI_Alltoall(from_, n, type_, to_, n, type_, MPI_COMM_WORLD);
    if (op == "reduce") MPI_Reduce(from_, to_, n, type_, op_, cell.root, MPI_COMM_WORLD);
    if (op == "gather") MPI_Gather(from_, n, type_, to_, n, type_, cell.root, MPI_COMM_WORLD);
    if (op == "scatter") MPI_Scatter(from_, n, type_, to_, n, type_, cell.root, MPI_COMM_WORLD);
  }

  int rank_ = 0, ranks_ = 1;
  std::vector<uint64_t> send_, recv_;
  void *from_ = nullptr, *to_ = nullptr;
  int64_t sent_ = 0, got_ = 0, whole_ = 0;
  MPI_Datatype type_ = MPI_FLOAT;
  MPI_Op op_ = MPI_SUM;
  volatile uint64_t sink_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    Bench bench(std::atoll(argv[2]));
    Commands commands(argv[1], bench.rank());
    std::string name;
    int64_t count = 0;
    while (commands.next(name, count)) commands.answer(bench.time(parse(name, count)));
  }
  MPI_Finalize();
}
