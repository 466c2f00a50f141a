// The border between plans and generated code: one function per *shape* of a step.
//
// A step "reduces sources from left to right, applies a kernel, writes targets". Which buffers those are changes from
// step to step; what the code looks like depends only on the shape below. The runtime asks a library for the function
// of each shape when it binds a plan, and calls it with runs: pointers, a count, the position of the first element.
// Two libraries exist: generated and compiled source (codegen/), and the vectorised evaluator (EvaluatorLibrary here),
// which needs no compiler. Runtime and CUDA take a library as a parameter, so back ends do not know one another.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/kernel/kernel.h"

namespace weft::kernel {

// How a target is written. `stream`: non-temporal stores, for data that nobody reads soon.
// `accumulate`: combined into coarser cells (one accumulator a run) with the fold's reduction.
enum class Store : uint8_t { normal, stream, accumulate };

struct SourceShape {
  Dtype dtype;
  Alignment alignment = Alignment::aligned;
};
struct TargetShape {
  Dtype dtype;
  int output = 0;  // of the kernel; 0 without one
  Store store = Store::normal;
  // Rounded to this first, then converted to `dtype`: the narrowest wire that takes the same output, so that all ranks
  // hold the same bits (V12). Not for accumulating targets.
  std::optional<Dtype> through = std::nullopt;
};

struct StepShape {
  Reduction reduction = Reduction::sum;
  std::vector<SourceShape>
      reduced;  // folded left to right in the widest accumulate_dtype, rounded once to `reduced_dtype`
  Dtype reduced_dtype = Dtype::f32;  // the dtype of the reduced value
  std::vector<SourceShape> others;
  Kernel kernel;                     // name empty: copy
  std::vector<TargetShape> targets;  // dtype conversions (wire f16 of an f32 value) happen on the store
  std::string key() const;           // canonical text: equal shapes, equal keys; the file name's hash comes from it
};

struct StepArgs {
  const void* const* sources;  // reduced, then others
  void* const* targets;
  int64_t count;        // elements of this run
  int64_t position;     // of its first element in the whole value
  const void* hoisted;  // what prepare() wrote for this launch
};

// A function of one shape. `prepare` computes launch-constant values once per launch (hoisted_bytes, 64-aligned).
struct StepCode {
  void (*run)(const StepArgs* args, const void* self) = nullptr;
  void (*prepare)(const expr::ScalarValue* scalars, int64_t ranks, void* hoisted, const void* self) = nullptr;
  const void* self = nullptr;  // kept alive by the library
  int64_t hoisted_bytes = 0;
};

class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  // Compiles or finds all shapes together (several compilers side by side). Throws Error(io / unsupported / plan).
  virtual std::vector<StepCode> find(const std::vector<StepShape>& shapes) = 0;
  virtual std::string_view name() const = 0;  // "generated" or "evaluator"
};

// The slow, always available library; every other one is compared with it.
std::unique_ptr<KernelLibrary> evaluator_library();

}  // namespace weft::kernel
