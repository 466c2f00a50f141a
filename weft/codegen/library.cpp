// From shapes to functions: type, emit, find in memory, find in the cache, compile.
//
// One shared object per shape, not per set: the schedules of a program share most of their shapes, so a search over a
// hundred schedules compiles each shape once. Objects stay loaded and steps stay allocated until the process ends,
// because a worker may still hold a pointer when the library that gave it goes.
#include "weft/codegen/library.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>

#include "weft/base/env.h"
#include "weft/base/file.h"
#include "weft/base/log.h"
#include "weft/base/once.h"
#include "weft/codegen/cache.h"
#include "weft/codegen/emit.h"

namespace weft::codegen {

namespace {

using kernel::StepCode;
using kernel::StepShape;

struct GeneratedStep {
  std::shared_ptr<const kernel::TypedStep> typed;
  std::vector<HoistedField> hoisted;
  StepCode code;
};

// Where a narrow float is computed with as f32, its rounded value lies as f32.
void store_field(const HoistedField& field, const expr::ScalarValue& value, void* to) {
  char rounded[8] = {};
  if (value.is_integer)
    store_i64(field.dtype, rounded, value.integer);
  else
    store_f64(field.dtype, rounded, value.number);
  if (is_float(field.dtype) && size_bytes(field.dtype) < 4)
    store_f64(Dtype::f32, to, load_f64(field.dtype, rounded));
  else
    std::memcpy(to, rounded, static_cast<size_t>(size_bytes(field.dtype)));
}

void prepare(const expr::ScalarValue* scalars, int64_t ranks, void* hoisted, const void* self) {
  const auto& step = *static_cast<const GeneratedStep*>(self);
  const std::vector<std::string>& names = step.typed->shape.kernel.scalars;
  const auto scalar = [&](const std::string& name) -> expr::ScalarValue {
    for (size_t i = 0; i < names.size(); i++)
      if (names[i] == name) return scalars[i];
    WEFT_CHECK(name == "ranks", "kernel {} has no scalar {}", step.typed->shape.kernel.name, name);
    return {true, ranks, static_cast<double>(ranks)};
  };
  for (const HoistedField& field : step.hoisted)
    store_field(field, expr::evaluate_scalar(field.value, scalar), static_cast<char*>(hoisted) + field.offset_bytes);
}

// Everything generated in this process, by shape.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<GeneratedStep>> steps;
};
Registry& registry() {
  static auto* all = new Registry;  // never destroyed: code outlives libraries
  return *all;
}

void say_once(std::string_view why) {
  if (evaluating_said().first())
    WEFT_LOG(warn, "codegen", "kernels are evaluated, not compiled (several times slower, same bits): {}", why);
}

// Tiles, and steps for which code cannot be had. Never destroyed, like what is generated.
kernel::KernelLibrary& evaluated() {
  static auto* all = kernel::evaluator_library().release();
  return *all;
}

class GeneratedLibrary : public kernel::KernelLibrary {
 public:
  explicit GeneratedLibrary(const Compiler& compiler)
      : cache_(cache_directory() / "kernels", compiler), identity_(compiler.identity) {}

  std::vector<StepCode> find(const std::vector<StepShape>& shapes) override {
    std::vector<StepCode> codes(shapes.size());
    std::vector<std::string> keys;
    std::vector<size_t> missing;
    for (size_t i = 0; i < shapes.size(); i++) {
      keys.push_back(shapes[i].key() + "\n" + identity_);
      if (kernel::kind(shapes[i].kernel) == kernel::Kind::tile)
        codes[i] = evaluated().find({shapes[i]})[0];
      else if (!known(keys[i], codes[i]))
        missing.push_back(i);
    }
    if (!missing.empty()) build(shapes, keys, missing, codes);
    return codes;
  }
  std::string_view name() const override { return "generated"; }

 private:
  static bool known(const std::string& key, StepCode& code) {
    const std::lock_guard<std::mutex> hold(registry().mutex);
    const auto at = registry().steps.find(key);
    if (at != registry().steps.end()) code = at->second->code;
    return at != registry().steps.end();
  }

  void build(const std::vector<StepShape>& shapes, const std::vector<std::string>& keys,
             const std::vector<size_t>& missing, std::vector<StepCode>& codes) {
    std::vector<std::unique_ptr<GeneratedStep>> steps;
    std::vector<StepSource> sources;
    std::vector<Unit> units;
    for (const size_t i : missing) {
      steps.push_back(std::make_unique<GeneratedStep>());
      steps.back()->typed = kernel::type_step(shapes[i]);
      sources.push_back(emit(*steps.back()->typed));
      units.push_back({sources.back().preamble + sources.back().text, "step " + sources.back().function});
    }
    const int64_t begin = now_ns();
    CacheReport report;
    std::vector<void*> handles;
    try {
      handles = cache_.load(units, &report);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::io || report.refused) throw;
      return evaluate(error, shapes, missing, codes);
    }
    WEFT_LOG(info, "codegen", "{} kernels: {} found, {} compiled, {:.1f} ms", units.size(), report.found,
             report.compiled, static_cast<double>(now_ns() - begin) / 1e6);
    for (size_t j = 0; j < missing.size(); j++)
      codes[missing[j]] = enter(keys[missing[j]], std::move(steps[j]), std::move(sources[j]), handles[j]);
  }

  // The machine's fault and not the text's: a full disk, a cache that may only be read, a compiler that hangs.
  void evaluate(const Error& error, const std::vector<StepShape>& shapes, const std::vector<size_t>& missing,
                std::vector<StepCode>& codes) {
    say_once(error.what());
    for (const size_t i : missing) codes[i] = evaluated().find({shapes[i]})[0];
  }

  static StepCode enter(const std::string& key, std::unique_ptr<GeneratedStep> step, StepSource source, void* handle) {
    void* symbol = dlsym(handle, source.function.c_str());
    if (!symbol)
      throw Error(ErrorKind::io, fmt::format("a cached object lacks {}", source.function),
                  "remove the cache's folder `kernels` and run again");
    step->hoisted = std::move(source.hoisted);
    step->code = {reinterpret_cast<void (*)(const kernel::StepArgs*, const void*)>(symbol), prepare, step.get(),
                  source.hoisted_bytes};
    const std::lock_guard<std::mutex> hold(registry().mutex);
    return registry().steps.emplace(key, std::move(step)).first->second->code;  // another thread may have been first
  }

  Cache cache_;
  std::string identity_;
};

}  // namespace

std::unique_ptr<kernel::KernelLibrary> generated_library() {
  if (env_flag("WEFT_NO_COMPILER")) {
    say_once("WEFT_NO_COMPILER is set");
    return kernel::evaluator_library();
  }
  const std::optional<Compiler> compiler = find_compiler();
  if (!compiler) {
    say_once("no C++ compiler was found (install g++, or set WEFT_CXX)");
    return kernel::evaluator_library();
  }
  try {
    return std::make_unique<GeneratedLibrary>(*compiler);
  } catch (const Error& error) {  // no folder for the cache
    if (error.kind() != ErrorKind::io) throw;
    say_once(error.what());
    return kernel::evaluator_library();
  }
}

std::string source_of(const StepShape& shape) {
  const std::shared_ptr<const kernel::TypedStep> step = kernel::type_step(shape);
  if (step->kind != kernel::Kind::tile) return emit(*step).text;
  std::string text;
  for (const std::string& line : split(kernel::print(shape.kernel), '\n')) text += "// " + line + "\n";
  return text + "// A tile: run by the library for matrix products, nothing is generated.\n";
}

}  // namespace weft::codegen
