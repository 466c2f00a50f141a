// One C++ function per step shape.
//
// Ways to vectorise: intrinsics per instruction set (five texts for one meaning), vector types (functions would have to be
// written twice), or scalar text in a loop that the compiler vectorises. We take the last, because the text stays the
// program's, one assignment a line, and because expr's functions are branch-free for exactly this. Measured with GCC 12 on
// AVX-512 the loop equals intrinsics for fused Adam. What it cannot express are non-temporal stores: streamed targets
// are computed into a block of 128 elements (512 bytes, never out of the first-level cache) and pushed out from
// there, whole lines at a time; folds take their block to 32 lanes in a fixed order, so that no result depends on the
// vector width. A step without either is one plain loop.
//
// The element's text stands in a function of its own, apart from loads, stores and the loop: those belong to the step,
// and other back ends have their own.
#include "weft/codegen/emit.h"

#include <algorithm>

#include "weft/base/hash.h"

namespace weft::codegen {

namespace {

using kernel::Alignment;
using kernel::SourceShape;
using kernel::Store;
using kernel::TargetShape;

constexpr int block_elements = 128;

struct Source { SourceShape shape; std::string name; };                  // `name`: pointer, or what a single one holds
struct Target { TargetShape shape; std::string pointer, block, lanes, combine; size_t index = 0; };

class Emitter {
 public:
  explicit Emitter(const kernel::TypedStep& step) : step_(step), shape_(step.shape) {
    if (!step.is_copy()) body_ = with_c_names(step.typed.body);
    name_operands();
  }

  StepSource emit() {
    result_.function = fmt::format("weft_{}_{}", title(), hash_hex(shape_.key()).substr(0, 8));
    head();
    if (!step_.is_copy()) element();
    combines();
    run();
    PreludeParts parts;
    parts.pairs = step_.values[0] == Dtype::f64x2;
    parts.streams = any(Store::stream);
    parts.folds = any(Store::accumulate);
    result_.preamble = preamble_text(parts);
    return std::move(result_);
  }

 private:
  std::string title() const { return expr::c_name(step_.is_copy() ? (shape_.reduced.size() > 1 ? std::string(kernel::name(shape_.reduction)) : "copy") : shape_.kernel.name); }

  void line(const std::string& text = "") { result_.text += text + "\n"; }

  bool any(Store store) const {
    return std::any_of(targets_.begin(), targets_.end(), [&](const Target& t) { return t.shape.store == store; });
  }

  // ---- names

  std::string input_name(size_t input) const { return step_.is_copy() ? "x" : body_.inputs[input].name; }
  std::string output_name(size_t output) const { return step_.is_copy() ? "x" : body_.outputs[output]; }

  void name_operands() {
    size_t input = 0;
    for (size_t i = 0; i < shape_.reduced.size(); i++) {
      const std::string wish = "in_" + input_name(0) + (shape_.reduced.size() > 1 ? fmt::format("_{}", i) : "");
      sources_.push_back({shape_.reduced[i], names_.take(wish)});
    }
    input = shape_.reduced.empty() ? 0 : 1;
    for (const SourceShape& other : shape_.others) sources_.push_back({other, names_.take("in_" + input_name(input++))});
    for (const TargetShape& shape : shape_.targets) {
      const std::string output = output_name(shape.output);
      Target target{shape, names_.take("to_" + output), "", "", "", targets_.size()};
      if (shape.store != Store::normal) target.block = shared_block(shape, output);
      if (shape.store == Store::accumulate) target.lanes = names_.take("lanes_" + output), target.combine = names_.take("fold_" + output);
      targets_.push_back(target);
    }
  }

  // Targets that stream the same value in the same dtype share its block.
  std::string shared_block(const TargetShape& shape, const std::string& output) {
    for (const Target& t : targets_)
      if (t.shape.store == shape.store && output_name(t.shape.output) == output && (shape.store == Store::accumulate || t.shape.dtype == shape.dtype)) return t.block;
    return names_.take("block_" + output);
  }

  Dtype accumulator(const Target& t) const { return kernel::accumulator_dtype(step_.values[t.shape.output]); }
  Dtype block_dtype(const Target& t) const { return t.shape.store == Store::accumulate ? accumulator(t) : t.shape.dtype; }

  // ---- text

  std::string source_list() const {
    std::vector<std::string> reduced, all;
    const auto describe = [](const SourceShape& s) { return fmt::format("{}{}", name(s.dtype), s.alignment == Alignment::single ? " (one for all)" : ""); };
    for (const SourceShape& s : shape_.reduced) reduced.push_back(describe(s));
    if (reduced.size() > 1) all.push_back(fmt::format("{}({}) as {}", kernel::name(shape_.reduction), join(reduced, ", "), name(shape_.reduced_dtype)));
    else if (!reduced.empty()) all.push_back(fmt::format("{} as {}", reduced[0], name(shape_.reduced_dtype)));
    for (const SourceShape& s : shape_.others) all.push_back(describe(s));
    return join(all, ", ");
  }

  std::string target_list() const {
    std::vector<std::string> all;
    for (const Target& t : targets_)
      all.push_back(fmt::format("{} {}{}", output_name(t.shape.output), name(t.shape.dtype),
                                t.shape.store == Store::stream ? " (around the caches)" : t.shape.store == Store::accumulate ? " (into one cell)" : ""));
    return join(all, ", ");
  }

  void head() {
    line(fmt::format("// A step: {} -> {}{}", source_list(), step_.is_copy() ? "" : shape_.kernel.name + " -> ", target_list()));
    if (!step_.is_copy())
      for (const std::string& text : split(kernel::print(shape_.kernel), '\n')) line((text.starts_with("kernel") ? "//   " : "//     ") + text);
    line();
  }

  void element() {
    const expr::BodySource source = expr::source(body_);
    line("namespace {");
    line();
    hoisted(source);
    std::vector<std::string> outputs;
    for (const std::string& output : body_.outputs)
      if (std::find(outputs.begin(), outputs.end(), output) == outputs.end()) outputs.push_back(output);
    line("struct Values {");
    for (const std::string& output : outputs) line(fmt::format("  {} {};", value_type(dtype_of_output(output)), output));
    line("};");
    line();
    std::string parameters;
    for (const expr::Value& input : body_.inputs) parameters += fmt::format(", {} {}", value_type(input.dtype), input.name);
    line("// One element.");
    line(fmt::format("WEFT_FN Values element([[maybe_unused]] const Hoisted& hoisted, [[maybe_unused]] int64_t pos{}) {{", parameters));
    for (const HoistedField& field : result_.hoisted)
      line(fmt::format("  const {} {} = hoisted.{};", value_type(field.dtype), field.name, field.name));
    for (const std::string& text : source.lines) line("  " + text);
    line(fmt::format("  return {{{}}};", join(outputs, ", ")));
    line("}");
    line();
    line("}  // namespace");
    line();
  }

  Dtype dtype_of_output(const std::string& name) const {
    const size_t at = std::find(body_.outputs.begin(), body_.outputs.end(), name) - body_.outputs.begin();
    return expr::output_dtype(body_, at);
  }

  // Natural alignment, in order: the C++ layout of the struct.
  void hoisted(const expr::BodySource& source) {
    int64_t at = 0;
    line("// Computed once per launch.");
    line("struct Hoisted {");
    for (const auto& h : source.hoisted) {
      const int64_t bytes = h.dtype == Dtype::boolean ? 1 : size_bytes(compute_dtype(h.dtype));
      at = (at + bytes - 1) / bytes * bytes;
      result_.hoisted.push_back({h.name, h.value, h.dtype, at});
      line(fmt::format("  {} {};    // {}", value_type(h.dtype), h.name, expr::print(h.value, expr::Syntax::program)));
      at += bytes;
    }
    line("};");
    line();
    result_.hoisted_bytes = (at + 7) / 8 * 8;
  }

  void combines() {
    if (!any(Store::accumulate)) return;
    line("namespace {");
    for (const Target& t : targets_) {
      if (t.shape.store != Store::accumulate) continue;
      const std::string type = memory_type(accumulator(t));
      line(fmt::format("struct {} {{ WEFT_FN {} of({} a, {} b) {{ return {}; }} }};", t.combine, type, type, type,
                       without_parentheses(combine_text(step_.folds[t.index], accumulator(t), "a", "b"))));
    }
    line("}  // namespace");
    line();
  }

  void run() {
    line(fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) void {}(const Args* args, const void*) {{", result_.function));
    if (!step_.is_copy()) {
      const bool constant = !result_.hoisted.empty();
      line(constant ? "  const Hoisted hoisted = *static_cast<const Hoisted*>(args->hoisted);" : "  const Hoisted hoisted{};");
    }
    line("  const int64_t count = args->count;");
    pointers();
    if (any(Store::stream) || any(Store::accumulate)) blocks();
    else whole();
    line("}");
  }

  void pointers() {
    for (size_t i = 0; i < sources_.size(); i++) {
      const Source& s = sources_[i];
      const std::string pointer = fmt::format("static_cast<const {}*>(args->sources[{}])", memory_type(s.shape.dtype), i);
      if (s.shape.alignment == Alignment::single) line(fmt::format("  const {} {} = *{};", memory_type(s.shape.dtype), s.name, pointer));
      else line(fmt::format("  const {}* const {} = {};", memory_type(s.shape.dtype), s.name, pointer));
    }
    for (const Target& t : targets_)
      line(fmt::format("  {}* const {} = static_cast<{}*>(args->targets[{}]);", memory_type(t.shape.dtype), t.pointer, memory_type(t.shape.dtype), t.index));
  }

  // What the first of the kernel's values is read as where nothing is reduced or converted: the source itself.
  bool reduces() const { return shape_.reduced.size() > 1 || (shape_.reduced.size() == 1 && shape_.reduced[0].dtype != shape_.reduced_dtype); }

  std::string memory(const Source& s) const { return s.shape.alignment == Alignment::single ? s.name : s.name + "[i]"; }
  std::string loaded(const Source& s) const { return load_text(s.shape.dtype, memory(s)); }

  // The sources folded from left to right and rounded once, as `reduced_bits` (in memory's form) and `reduced`.
  void reduce(const std::string& indent) {
    const Dtype sum = step_.accumulate, as = shape_.reduced_dtype;
    for (size_t i = 0; i < shape_.reduced.size(); i++) {
      const std::string next = convert_text(sources_[i].shape.dtype, sum, loaded(sources_[i]));
      if (i == 0) line(fmt::format("{}{} sum = {};", indent, value_type(sum), next));
      else line(fmt::format("{}sum = {};", indent, without_parentheses(combine_text(shape_.reduction, sum, "sum", next))));
    }
    if (value_type(as) == memory_type(as)) return line(fmt::format("{}const {} reduced = {};", indent, value_type(as), convert_text(sum, as, "sum")));
    line(fmt::format("{}const {} reduced_bits = {};", indent, memory_type(as), store_text(sum, as, "sum")));
    line(fmt::format("{}const {} reduced = {};", indent, value_type(as), without_parentheses(load_text(as, "reduced_bits"))));
  }

  // What a copy of the same dtype stores: memory's form, untouched.
  std::string untouched() const {
    if (!reduces()) return memory(sources_[0]);
    return value_type(shape_.reduced_dtype) == memory_type(shape_.reduced_dtype) ? "reduced" : "reduced_bits";
  }

  std::string stored(const Target& t, const std::vector<std::string>& values) const {
    const Dtype value = step_.values[t.shape.output];
    if (step_.is_copy() && value == block_dtype(t)) return untouched();
    return store_text(value, block_dtype(t), step_.is_copy() ? values[0] : "out." + output_name(t.shape.output));
  }

  // The loop's body: values of element i, and where they go.
  void one_element(const std::string& indent) {
    std::vector<std::string> values;
    if (reduces()) {
      reduce(indent);
      values.push_back("reduced");
    }
    for (size_t i = reduces() ? shape_.reduced.size() : 0; i < sources_.size(); i++) values.push_back(without_parentheses(loaded(sources_[i])));
    if (!step_.is_copy())
      line(fmt::format("{}const Values out = element(hoisted, args->position + i{}{});", indent, values.empty() ? "" : ", ", join(values, ", ")));
    std::vector<std::string> done;
    for (const Target& t : targets_) {
      const std::string to = t.block.empty() ? t.pointer + "[i]" : t.block + "[i - begin]";
      if (!t.block.empty() && std::find(done.begin(), done.end(), t.block) != done.end()) continue;
      done.push_back(t.block);
      line(fmt::format("{}{} = {};", indent, to, stored(t, values)));
    }
  }

  void whole() {
    line("  WEFT_EACH_ALONE");
    line("  for (int64_t i = 0; i < count; i++) {");
    one_element("    ");
    line("  }");
  }

  void declare_blocks() {
    std::vector<std::string> done;
    for (const Target& t : targets_) {
      if (!t.lanes.empty()) declare_lanes(t);
      if (t.block.empty() || std::find(done.begin(), done.end(), t.block) != done.end()) continue;
      done.push_back(t.block);
      line(fmt::format("  alignas(64) {} {}[{}];", memory_type(block_dtype(t)), t.block, block_elements));
    }
  }

  void declare_lanes(const Target& t) {
    const Dtype dtype = accumulator(t);
    char identity[8];
    kernel::store_identity(step_.folds[t.index], dtype, identity);
    const double number = load_f64(dtype, identity);
    std::string text = fmt::format("{}", load_i64(dtype, identity));
    if (is_float(dtype)) text = number > 1 ? "wm::infinity()" : number < 0 ? "-wm::infinity()" : shortest(number);
    else if (dtype == Dtype::u64) text = fmt::format("{}u", static_cast<uint64_t>(load_i64(dtype, identity)));
    else if (load_i64(dtype, identity) == INT64_MIN) text = "INT64_MIN";
    line(fmt::format("  Lanes<{}, {}> {};", memory_type(dtype), t.combine, t.lanes));
    line(fmt::format("  fold_begin({}, static_cast<{}>({}));", t.lanes, memory_type(dtype), text));
  }

  // Blocks begin on a cache line of the first streamed target; folds need them to begin on a multiple of 32.
  void blocks() {
    declare_blocks();
    const auto streamed = std::find_if(targets_.begin(), targets_.end(), [](const Target& t) { return t.shape.store == Store::stream; });
    const bool head = streamed != targets_.end() && !any(Store::accumulate);
    if (head) line(fmt::format("  int64_t size = before_line({}, count);", streamed->pointer));
    line(head ? "  if (size == 0) size = count < 128 ? count : 128;" : "  int64_t size = count < 128 ? count : 128;");
    line("  for (int64_t begin = 0; begin < count;) {");
    line("    WEFT_EACH_ALONE");
    line("    for (int64_t i = begin; i < begin + size; i++) {");
    one_element("      ");
    line("    }");
    for (const Target& t : targets_) {
      if (t.shape.store == Store::stream) line(fmt::format("    stream<{}>({} + begin, {}, size);", block_elements, t.pointer, t.block));
      if (t.shape.store == Store::accumulate) line(fmt::format("    fold_add({}, {}, size);", t.lanes, t.block));
    }
    line("    begin += size;");
    line("    size = count - begin < 128 ? count - begin : 128;");
    line("  }");
    for (const Target& t : targets_)
      if (t.shape.store == Store::accumulate) {
        const std::string cell = convert_text(t.shape.dtype, accumulator(t), load_text(t.shape.dtype, "*" + t.pointer));
        line(fmt::format("  *{} = {};", t.pointer, store_text(accumulator(t), t.shape.dtype, fmt::format("fold_end({}, {})", t.lanes, cell))));
      }
    if (any(Store::stream)) line("  stream_end();");
  }

  const kernel::TypedStep& step_;
  const kernel::StepShape& shape_;
  expr::Body body_;
  Names names_;
  std::vector<Source> sources_;
  std::vector<Target> targets_;
  StepSource result_;
};

}  // namespace

StepSource emit(const kernel::TypedStep& step) {
  WEFT_CHECK(step.kind != kernel::Kind::tile, "tiles are not generated");
  return Emitter(step).emit();
}

}  // namespace weft::codegen
