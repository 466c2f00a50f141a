// How a peer's ranks are told what to do: each rank blocks in a read of its own pipe DIR/cmd.RANK, so that idle peers
// spin on nothing, and rank 0 answers into DIR/out. Commands are lines: NAME ARGUMENT.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

inline int64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

class Commands {
 public:
  Commands(const std::string& folder, int rank)
      : rank_(rank), in_(std::fopen((folder + "/cmd." + std::to_string(rank)).c_str(), "r")) {
    if (rank == 0) out_ = std::fopen((folder + "/out").c_str(), "w");
    if (!in_ || (rank == 0 && !out_)) {
      std::perror(folder.c_str());
      std::exit(2);
    }
  }
  bool next(std::string& name, int64_t& argument) {
    char word[64];
    long long number = 0;
    if (std::fscanf(in_, "%63s %lld", word, &number) != 2) return false;
    name = word;
    argument = number;
    return name != "quit";
  }
  void answer(double figure) {
    if (rank_ != 0) return;
    std::fprintf(out_, "%.1f\n", figure);
    std::fflush(out_);
  }

 private:
  int rank_;
  std::FILE *in_, *out_ = nullptr;
};
