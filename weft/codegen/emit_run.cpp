// The loops of a generated step. See emit.cpp for the choice of their form.
#include "weft/codegen/emit_run.h"

#include <algorithm>
#include <cmath>

namespace weft::codegen {

using kernel::Alignment;
using kernel::SourceShape;
using kernel::Store;
using kernel::TargetShape;

namespace {

constexpr int block_elements = 128;

// `0` and the like for every accumulator, as it lies in memory.
std::string identity_text(kernel::Reduction reduction, Dtype dtype) {
  char identity[8] = {};
  kernel::store_identity(reduction, dtype, identity);
  if (dtype == Dtype::f64 || dtype == Dtype::f32) {
    const double number = load_f64(dtype, identity);
    const std::string size = std::isinf(number) ? "wm::infinity()" : shortest(std::abs(number));
    return fmt::format("{}{{{}{}}}", memory_type(dtype), number < 0 ? "-" : "", size);
  }
  const bool no_sign = is_float(dtype) || !is_signed(dtype);  // narrow floats: their bits
  const int64_t bits =
      is_float(dtype) ? load_i64(size_bytes(dtype) == 2 ? Dtype::u16 : Dtype::u8, identity) : load_i64(dtype, identity);
  if (no_sign) return fmt::format("{}{{{}u}}", memory_type(dtype), static_cast<uint64_t>(bits));
  return bits == INT64_MIN ? "INT64_MIN" : fmt::format("{}{{{}}}", memory_type(dtype), bits);
}

// Two partials a and b that lie in memory, combined.
std::string in_memory(Dtype dtype, kernel::Reduction reduction) {
  return store_text(dtype, dtype, combine_text(reduction, dtype, load_text(dtype, "a"), load_text(dtype, "b")));
}

}  // namespace

RunEmitter::RunEmitter(const kernel::TypedStep& step, const expr::Body& body, std::vector<Draw> draws)
    : step_(step), shape_(step.shape), body_(body), draws_(std::move(draws)) {
  name_sources();
  name_targets();
}

// ---- what there is

bool RunEmitter::any(Store store) const {
  return std::any_of(targets_.begin(), targets_.end(), [&](const Target& t) { return t.shape.store == store; });
}

bool RunEmitter::blocked() const {
  const bool wide = std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return !s.wide.empty(); });
  const bool block = std::any_of(targets_.begin(), targets_.end(), [](const Target& t) { return !t.block.empty(); });
  return wide || block || halves() || !draws_.empty();
}

bool RunEmitter::reduces() const {
  return shape_.reduced.size() > 1 || (shape_.reduced.size() == 1 && shape_.reduced[0].dtype != shape_.reduced_dtype);
}

bool RunEmitter::halves() const { return reduces() && shape_.reduced_dtype == Dtype::f16; }

bool RunEmitter::untouched(const Target& t) const {
  return step_.is_copy() && t.shape.store != Store::accumulate && value_dtype(t) == t.shape.dtype &&
         t.shape.through.value_or(t.shape.dtype) == t.shape.dtype;
}

PreludeParts RunEmitter::parts() const {
  PreludeParts parts;
  parts.pairs = step_.values[0] == Dtype::f64x2;
  parts.streams = any(Store::stream);
  parts.folds = any(Store::accumulate);
  parts.draws = !draws_.empty();
  parts.halves = halves();
  for (const Source& s : sources_) parts.halves |= !s.wide.empty();
  for (const Target& t : targets_) parts.halves |= t.shape.dtype == Dtype::f16 && !t.block.empty();
  return parts;
}

// ---- names

void RunEmitter::name_sources() {
  size_t input = shape_.reduced.empty() ? 0 : 1;
  for (size_t i = 0; i < shape_.reduced.size(); i++) {
    const std::string number = shape_.reduced.size() > 1 ? fmt::format("_{}", i) : "";
    sources_.push_back({shape_.reduced[i], names_.take("in_" + input_name(0) + number), ""});
  }
  for (const SourceShape& other : shape_.others)
    sources_.push_back({other, names_.take("in_" + input_name(input++)), ""});
  const bool values_needed = reduces() || !step_.is_copy() ||
                             std::any_of(shape_.targets.begin(), shape_.targets.end(), [](const TargetShape& t) {
                               return t.dtype != Dtype::f16 || t.store == Store::accumulate || t.through;
                             });
  for (Source& s : sources_)
    if (s.shape.dtype == Dtype::f16 && s.shape.alignment == Alignment::aligned && values_needed)
      s.wide = names_.take("wide_" + s.name.substr(3));
}

void RunEmitter::name_targets() {
  for (const TargetShape& shape : shape_.targets) {
    const std::string output = output_name(shape.output);
    Target t{shape, targets_.size(), names_.take("to_" + output), "", "", "", ""};
    const bool half = shape.dtype == Dtype::f16 && !untouched(t);
    if (shape.store != Store::normal || half) {
      t.block = shared_block(t);
      if (t.block.empty()) t.block = names_.take("block_" + output);
    }
    if (shape.store == Store::stream && half) t.bits = names_.take("bits_" + output);
    if (shape.store == Store::accumulate) {
      t.lanes = names_.take("lanes_" + output);
      t.combine = names_.take("fold_" + output);
    }
    targets_.push_back(t);
  }
}

// Targets that take the same value in the same form share its block.
std::string RunEmitter::shared_block(const Target& like) const {
  for (const Target& t : targets_)
    if (!t.block.empty() && output_name(t.shape.output) == output_name(like.shape.output) &&
        block_type(t) == block_type(like) && untouched(t) == untouched(like) && t.shape.through == like.shape.through &&
        (t.shape.dtype == like.shape.dtype || like.shape.store == Store::accumulate) &&
        (t.shape.store == Store::accumulate) == (like.shape.store == Store::accumulate))
      return t.block;
  return "";
}

// f16 waits in its block as f32 for the processor's conversion, unless its bits only pass through.
std::string RunEmitter::block_type(const Target& t) const {
  if (t.shape.store == Store::accumulate) return memory_type(accumulator(t));
  return t.shape.dtype == Dtype::f16 && !untouched(t) ? "float" : memory_type(t.shape.dtype);
}

// ---- the function

std::string RunEmitter::emit(const std::string& function, bool has_hoisted) {
  combines();
  line(fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) void {}(const Args* args, const void*) {{",
                   function));
  if (!step_.is_copy())
    line(has_hoisted ? "  const Hoisted hoisted = *static_cast<const Hoisted*>(args->hoisted);"
                     : "  const Hoisted hoisted{};");
  line("  const int64_t count = args->count;");
  pointers();
  if (blocked()) {
    declare_blocks();
    block_loop();
    finish();
  } else {
    line("  WEFT_EACH_ALONE");
    line("  for (int64_t i = 0; i < count; i++) {");
    if (reduces()) reduced("    ");
    one_element("    ");
    line("  }");
  }
  line("}");
  return std::move(text_);
}

void RunEmitter::combines() {
  if (!any(Store::accumulate)) return;
  line("namespace {");
  for (const Target& t : targets_) {
    if (t.shape.store != Store::accumulate) continue;
    const std::string type = memory_type(accumulator(t)), text = in_memory(accumulator(t), step_.folds[t.index]);
    line(fmt::format("struct {} {{ WEFT_FN {} of({} a, {} b) {{ return {}; }} }};", t.combine, type, type, type,
                     without_parentheses(text)));
  }
  line("}  // namespace");
  line();
}

void RunEmitter::pointers() {
  for (size_t i = 0; i < sources_.size(); i++) {
    const Source& s = sources_[i];
    const std::string type = memory_type(s.shape.dtype),
                      pointer = fmt::format("static_cast<const {}*>(args->sources[{}])", type, i);
    if (s.shape.alignment == Alignment::single)
      line(fmt::format("  const {} {} = *{};", type, s.name, pointer));
    else
      line(fmt::format("  const {}* const {} = {};", type, s.name, pointer));
  }
  for (const Target& t : targets_)
    line(fmt::format("  {}* const {} = static_cast<{}*>(args->targets[{}]);", memory_type(t.shape.dtype), t.pointer,
                     memory_type(t.shape.dtype), t.index));
}

// ---- blocks

void RunEmitter::declare_blocks() {
  const auto block = [&](const std::string& type, const std::string& name) {
    line(fmt::format("  alignas(64) {} {}[{}];", type, name, block_elements));
  };
  for (const Source& s : sources_)
    if (!s.wide.empty()) block("float", s.wide);
  for (const Draw& draw : draws_) block("float", "block_" + draw.name);
  if (halves()) {
    block("float", "block_sum");
    block("uint16_t", "reduced_bits");
    block("float", "block_reduced");
  }
  std::vector<std::string> done;
  for (const Target& t : targets_) {
    if (!t.lanes.empty()) declare_lanes(t);
    if (!t.bits.empty()) block("uint16_t", t.bits);
    if (t.block.empty() || std::find(done.begin(), done.end(), t.block) != done.end()) continue;
    done.push_back(t.block);
    block(block_type(t), t.block);
  }
}

void RunEmitter::declare_lanes(const Target& t) {
  line(fmt::format("  Lanes<{}, {}> {};", memory_type(accumulator(t)), t.combine, t.lanes));
  line(fmt::format("  fold_begin({}, {});", t.lanes, identity_text(step_.folds[t.index], accumulator(t))));
}

// Blocks begin on a cache line of the first streamed target; folds need them to begin on a multiple of 32.
void RunEmitter::block_loop() {
  const auto streamed =
      std::find_if(targets_.begin(), targets_.end(), [](const Target& t) { return t.shape.store == Store::stream; });
  const bool head = streamed != targets_.end() && !any(Store::accumulate);
  if (head) line(fmt::format("  int64_t size = before_line({}, count);", streamed->pointer));
  line(fmt::format("  {}size = count < {} ? count : {};", head ? "if (size == 0) " : "int64_t ", block_elements,
                   block_elements));
  line("  for (int64_t begin = 0; begin < count;) {");
  one_block();
  line("    begin += size;");
  line(fmt::format("    size = count - begin < {} ? count - begin : {};", block_elements, block_elements));
  line("  }");
}

// The processor follows a few streams of reads by itself and keeps too little of each in flight; where there are many
// they fill the memory by themselves, and asking for more costs time. Measured on two cores that stream together: a loop
// of two reads and two writes gains 8 %, one of five reads and three writes loses 5 %.
void RunEmitter::read_ahead() {
  constexpr int64_t few = 2;
  const auto streams = [](const Source& s) { return s.shape.alignment == Alignment::aligned; };
  if (!any(Store::stream) || std::count_if(sources_.begin(), sources_.end(), streams) > few) return;
  for (const Source& s : sources_)
    if (streams(s)) line(fmt::format("    read_ahead<{}>({} + begin);", block_elements, s.name));
}

void RunEmitter::one_block() {
  read_ahead();
  for (const Draw& draw : draws_)
    line(fmt::format("    fill_{}(hoisted, args->position + begin, block_{}, size);", draw.name, draw.name));
  for (const Source& s : sources_)
    if (!s.wide.empty()) line(fmt::format("    widen_f16({}, {} + begin, size);", s.wide, s.name));
  if (halves()) {
    line("    WEFT_EACH_ALONE");
    line("    for (int64_t i = begin; i < begin + size; i++) {");
    sum("      ");
    line("      block_sum[i - begin] = sum;");
    line("    }");
    line("    narrow_f16(reduced_bits, block_sum, size);");
    line("    widen_f16(block_reduced, reduced_bits, size);");
  }
  line("    WEFT_EACH_ALONE");
  line("    for (int64_t i = begin; i < begin + size; i++) {");
  if (reduces() && !halves()) reduced("      ");
  one_element("      ");
  line("    }");
  for (const Target& t : targets_) {
    const bool half = t.shape.dtype == Dtype::f16 && block_type(t) == "float" && !t.block.empty();
    if (half)
      line(fmt::format("    narrow_f16({}, {}, size);", t.bits.empty() ? t.pointer + " + begin" : t.bits, t.block));
    if (t.shape.store == Store::stream)
      line(fmt::format("    stream<{}>({} + begin, {}, size);", block_elements, t.pointer, half ? t.bits : t.block));
    if (t.shape.store == Store::accumulate) line(fmt::format("    fold_add({}, {}, size);", t.lanes, t.block));
  }
}

void RunEmitter::finish() {
  for (const Target& t : targets_)
    if (t.shape.store == Store::accumulate) {
      const Dtype wide = accumulator(t);
      const std::string cell = store_text(t.shape.dtype, wide, load_text(t.shape.dtype, "*" + t.pointer)),
                        whole = fmt::format("fold_end({}, {})", t.lanes, cell);
      line(fmt::format("  *{} = {};", t.pointer, store_text(wide, t.shape.dtype, load_text(wide, whole))));
    }
  if (any(Store::stream)) line("  stream_end();");
}

// ---- one element

std::string RunEmitter::memory(const Source& s) const {
  return s.shape.alignment == Alignment::single ? s.name : s.name + "[i]";
}
std::string RunEmitter::loaded(const Source& s) const {
  return s.wide.empty() ? load_text(s.shape.dtype, memory(s)) : s.wide + "[i - begin]";
}

// The sources folded from left to right, as `sum`.
void RunEmitter::sum(const std::string& indent) {
  const Dtype dtype = step_.accumulate;
  for (size_t i = 0; i < shape_.reduced.size(); i++) {
    const std::string next = convert_text(sources_[i].shape.dtype, dtype, loaded(sources_[i]));
    if (i == 0)
      line(fmt::format("{}{} sum = {};", indent, value_type(dtype), next));
    else
      line(fmt::format("{}sum = {};", indent, without_parentheses(combine_text(shape_.reduction, dtype, "sum", next))));
  }
}

// And rounded once, as `reduced_bits` (in memory's form) and `reduced`.
void RunEmitter::reduced(const std::string& indent) {
  const Dtype from = step_.accumulate, as = shape_.reduced_dtype;
  sum(indent);
  if (value_type(as) == memory_type(as))
    return line(fmt::format("{}const {} reduced = {};", indent, value_type(as), convert_text(from, as, "sum")));
  line(fmt::format("{}const {} reduced_bits = {};", indent, memory_type(as), store_text(from, as, "sum")));
  line(fmt::format("{}const {} reduced = {};", indent, value_type(as),
                   without_parentheses(load_text(as, "reduced_bits"))));
}

std::string RunEmitter::stored(const Target& t, const std::vector<std::string>& values) const {
  Dtype value = value_dtype(t);
  if (untouched(t)) {
    if (!reduces()) return memory(sources_[0]);
    if (halves()) return "reduced_bits[i - begin]";
    return value_type(shape_.reduced_dtype) == memory_type(shape_.reduced_dtype) ? "reduced" : "reduced_bits";
  }
  std::string x = step_.is_copy() ? values[0] : "out." + output_name(t.shape.output);
  if (t.shape.through) {
    x = convert_text(value, *t.shape.through, x);
    value = *t.shape.through;
  }
  if (t.shape.store == Store::accumulate) return store_text(value, accumulator(t), x);
  return t.shape.dtype == Dtype::f16 ? nearly_f32_text(value, x) : store_text(value, t.shape.dtype, x);
}

// Values of element i, and where they go.
void RunEmitter::one_element(const std::string& indent) {
  std::vector<std::string> values;
  for (const Draw& draw : draws_) values.push_back(fmt::format("block_{}[i - begin]", draw.name));
  if (reduces()) values.push_back(halves() ? "block_reduced[i - begin]" : "reduced");
  for (size_t i = reduces() ? shape_.reduced.size() : 0; i < sources_.size(); i++)
    values.push_back(without_parentheses(loaded(sources_[i])));
  if (!step_.is_copy())
    line(fmt::format("{}const Values out = element(hoisted, args->position + i{}{});", indent,
                     values.empty() ? "" : ", ", join(values, ", ")));
  std::vector<std::string> done;
  for (const Target& t : targets_) {
    if (!t.block.empty() && std::find(done.begin(), done.end(), t.block) != done.end()) continue;
    done.push_back(t.block);
    line(fmt::format("{}{} = {};", indent, t.block.empty() ? t.pointer + "[i]" : t.block + "[i - begin]",
                     stored(t, values)));
  }
}

}  // namespace weft::codegen
