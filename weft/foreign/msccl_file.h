// What an MSCCL file says, before it means anything: attributes as numbers, each with its place. Internal to the room.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace weft::foreign {

// The nine types are one form: which operands are there. `re` reads its destination too.
struct StepType {
  std::string_view name;
  bool receives, reads, writes, sends, folds;
};
const StepType& step_type(std::string_view name);  // null name: there is none

enum class Place : uint8_t { input, output, scratch };

struct Chunks {
  Place place = Place::input;
  int64_t first = 0;
};

struct FileStep {
  const StepType* type = nullptr;
  Chunks source, target;
  int64_t count = 0;
  int64_t after_block = -1, after_step = -1;  // -1: waits for nothing
  bool awaited = false;                       // hasdep: it tells when it is done
  size_t at = 0;                              // where its element begins in the file
};

struct FileBlock {
  int64_t id = 0, send = -1, receive = -1, channel = 0;
  std::vector<FileStep> steps;
  size_t at = 0;
};

struct FileGpu {
  std::array<int64_t, 3> chunks{};  // by Place, as declared
  std::map<int64_t, FileBlock> blocks;
  size_t at = 0;
};

struct File {
  std::string name, collective, protocol, reduction;
  int64_t chunks_per_loop = 0, root = 0;
  bool in_place = false, out_of_place = true;
  std::vector<FileGpu> gpus;  // by id, none missing
  size_t at = 0;
  std::string_view text;
};

// Well-formed, everything there, every number in its range. Nothing about how elements fit together.
File read_file_text(std::string_view text);

// Throws with the line and column of the element that begins at `at`.
[[noreturn]] void refuse(const File& file, size_t at, std::string_view rule, const std::string& message,
                         const std::string& remedy, ErrorKind kind = ErrorKind::plan);

}  // namespace weft::foreign
