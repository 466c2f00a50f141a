// One C++ function per step shape: the function's frame and the order of its parts. emit_run.cpp has the loops.
//
// Ways to vectorise: intrinsics per instruction set (five texts for one meaning), vector types (functions would have to
// be written twice), or scalar text in a loop that the compiler vectorises. We take the last, because the text stays
// the program's, one assignment a line, and because expr's functions are branch-free for exactly this. Measured with
// GCC 12 on AVX-512 the loop equals intrinsics for fused Adam. What it cannot express goes through blocks of 128
// elements, which never leave the first-level cache: streamed targets are pushed out of a block by whole lines with
// non-temporal stores, f16 passes through the processor's conversions (which GCC 12 does not vectorise), and folds take
// their block to 32 lanes in a fixed order, so that no result depends on the vector width. Random numbers are drawn for
// a block, four from each counter. A step without any of these is one plain loop.
//
// The element's text stands in a function of its own, apart from loads, stores and the loop: those belong to the step,
// and other back ends have their own.
#include "weft/codegen/emit.h"

#include <algorithm>

#include "weft/base/hash.h"
#include "weft/codegen/emit_run.h"

namespace weft::codegen {

namespace {

using kernel::SourceShape;
using kernel::Store;
using kernel::TargetShape;

std::string title(const kernel::TypedStep& step) {
  if (!step.is_copy()) return expr::c_name(step.shape.kernel.name);
  return step.shape.reduced.size() > 1 ? std::string(kernel::name(step.shape.reduction)) : "copy";
}

std::string describe(const SourceShape& s) {
  return fmt::format("{}{}", name(s.dtype), s.alignment == kernel::Alignment::single ? " (one for all)" : "");
}

std::string source_list(const kernel::StepShape& shape) {
  std::vector<std::string> reduced, all;
  for (const SourceShape& s : shape.reduced) reduced.push_back(describe(s));
  if (reduced.size() > 1)
    all.push_back(
        fmt::format("{}({}) as {}", kernel::name(shape.reduction), join(reduced, ", "), name(shape.reduced_dtype)));
  else if (!reduced.empty())
    all.push_back(fmt::format("{} as {}", reduced[0], name(shape.reduced_dtype)));
  for (const SourceShape& s : shape.others) all.push_back(describe(s));
  return join(all, ", ");
}

std::string target_list(const kernel::StepShape& shape) {
  std::vector<std::string> all;
  for (const TargetShape& t : shape.targets) {
    const std::string value = shape.kernel.name.empty() ? "x" : shape.kernel.outputs[t.output];
    const char* how = t.store == Store::stream       ? " (around the caches)"
                      : t.store == Store::accumulate ? " (into one cell)"
                                                     : "";
    all.push_back(
        fmt::format("{} {}{}{}", value, t.through ? fmt::format("{} as ", name(*t.through)) : "", name(t.dtype), how));
  }
  return join(all, ", ");
}

std::string head(const kernel::TypedStep& step) {
  const kernel::StepShape& shape = step.shape;
  std::string text = fmt::format("// A step: {} -> {}{}\n", source_list(shape),
                                 step.is_copy() ? "" : shape.kernel.name + " -> ", target_list(shape));
  if (step.is_copy()) return text + "\n";
  for (const std::string& line : split(kernel::print(shape.kernel), '\n'))
    text += (line.starts_with("kernel") ? "//   " : "//     ") + line + "\n";
  return text + "\n";
}

// Natural alignment, in order: the C++ layout of the struct.
std::string hoisted(const expr::BodySource& source, StepSource& result) {
  std::string text = "// Computed once per launch.\nstruct Hoisted {\n";
  int64_t at = 0;
  for (const auto& h : source.hoisted) {
    const int64_t bytes = size_bytes(compute_dtype(h.dtype));
    at = (at + bytes - 1) / bytes * bytes;
    result.hoisted.push_back({h.name, h.value, h.dtype, at});
    text +=
        fmt::format("  {} {};    // {}\n", value_type(h.dtype), h.name, expr::print(h.value, expr::Syntax::program));
    at += bytes;
  }
  result.hoisted_bytes = (at + 7) / 8 * 8;
  return text + "};\n\n";
}

std::string values(const expr::Body& body, const std::vector<std::string>& outputs) {
  std::string text = "struct Values {\n";
  for (const std::string& output : outputs) {
    const size_t at = std::find(body.outputs.begin(), body.outputs.end(), output) - body.outputs.begin();
    text += fmt::format("  {} {};\n", value_type(expr::output_dtype(body, at)), output);
  }
  return text + "};\n\n";
}

std::string hoisted_names(const StepSource& result) {
  std::string text;
  for (const HoistedField& field : result.hoisted)
    text +=
        fmt::format("  [[maybe_unused]] const {} {} = hoisted.{};\n", value_type(field.dtype), field.name, field.name);
  return text;
}

// Functions that draw the random numbers of a block.
std::string fills(const std::vector<Draw>& draws, const StepSource& result) {
  std::string text;
  for (const Draw& draw : draws)
    text += fmt::format(
        "// Four numbers from each block of the generator.\nWEFT_FN void fill_{}([[maybe_unused]] const Hoisted& "
        "hoisted, "
        "int64_t pos, float* to, int64_t count) {{\n{}  uniform_block(to, {}, {}, static_cast<uint64_t>(pos), "
        "count);\n}}\n\n",
        draw.name, hoisted_names(result), draw.seed, draw.stream);
  return text;
}

// The function of one element, and the types of what goes in and comes out.
std::string element(const expr::Body& body, StepSource& result, std::vector<Draw>& draws) {
  expr::BodySource source = expr::source(body);
  draws = take_draws(source.lines);
  std::vector<std::string> outputs;
  for (const std::string& output : body.outputs)
    if (std::find(outputs.begin(), outputs.end(), output) == outputs.end()) outputs.push_back(output);
  std::string text = "namespace {\n\n" + hoisted(source, result) + values(body, outputs), parameters;
  text += fills(draws, result);
  for (const Draw& draw : draws) parameters += fmt::format(", float {}", draw.name);
  for (const expr::Value& input : body.inputs)
    parameters += fmt::format(", {} {}", value_type(input.dtype), input.name);
  text += fmt::format(
      "// One element.\nWEFT_FN Values element([[maybe_unused]] const Hoisted& hoisted, [[maybe_unused]] int64_t "
      "pos{}) {{\n",
      parameters);
  text += hoisted_names(result);
  for (const std::string& line : source.lines) text += "  " + line + "\n";
  return text + fmt::format("  return {{{}}};\n}}\n\n}}  // namespace\n\n", join(outputs, ", "));
}

}  // namespace

StepSource emit(const kernel::TypedStep& step) {
  WEFT_CHECK(step.kind != kernel::Kind::tile, "tiles are not generated");
  StepSource result;
  result.function = fmt::format("weft_{}_{}", title(step), hash_hex(step.shape.key()).substr(0, 8));
  result.text = head(step);
  expr::Body body;
  std::vector<Draw> draws;
  if (!step.is_copy()) {
    body = with_c_names(step.typed.body);
    result.text += element(body, result, draws);
  }
  RunEmitter run(step, body, std::move(draws));
  result.text += run.emit(result.function, !result.hoisted.empty());
  result.preamble = preamble_text(run.parts());
  return result;
}

}  // namespace weft::codegen
