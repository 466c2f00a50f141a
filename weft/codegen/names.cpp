// Names in generated code. A program's names are any identifiers, dotted and shadowed (`a_s = a_s / ranks`); C++ has
// keywords, generated files have declarations of their own, and a second value needs a second name. Each assignment
// gets its own, as near to the program's as possible.
#include <map>

#include "weft/codegen/emit.h"

namespace weft::codegen {

namespace {

constexpr std::string_view words_of_cpp =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "co_await co_return "
    "co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double "
    "dynamic_cast "
    "else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "not not_eq "
    "nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof "
    "static "
    "static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union "
    "unsigned "
    "using virtual void volatile wchar_t while xor xor_eq";
// Types, macros and names that generated files or the headers they include declare.
constexpr std::string_view words_of_ours =
    "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t size_t NULL INT64_MAX INT64_MIN "
    "UINT64_MAX WEFT_FN "
    "WEFT_EACH_ALONE WEFT_PAIR wm std main unix linux Args Hoisted Values Line Lanes f64x2 stream stream_line "
    "stream_end before_line read_ahead "
    "on_line element hoisted pos args count size begin end i out sum reduced reduced_bits block_sum block_reduced Wide "
    "WideValue Narrow NarrowValue widen_f16 narrow_f16 widen_16 narrow_16 fold_begin fold_add fold_end drawn_quads "
    "uniform_block to";

bool is_numbered(const std::string& name, std::string_view stem) {
  return name.starts_with(stem) && name.size() > stem.size() &&
         name.find_first_not_of("0123456789", stem.size()) == std::string::npos;
}

}  // namespace

Names::Names() {
  for (const std::string_view list : {words_of_cpp, words_of_ours})
    for (std::string& word : words(list)) taken_.insert(std::move(word));
}

std::string Names::take(const std::string& wish) {
  std::string name = expr::c_name(wish);
  const bool reserved = is_numbered(name, "h") || is_numbered(name, "draw_") || name.starts_with("_") ||
                        name.starts_with("WEFT") || name.find("__") != std::string::npos;
  if (reserved) name = "x_" + name;
  while (name.find("__") != std::string::npos) name.replace(name.find("__"), 2, "_");
  const std::string base = name;
  for (int n = 2; !taken_.insert(name).second; n++) name = fmt::format("{}_{}", base, n);
  return name;
}

expr::Body with_c_names(const expr::Body& body) {
  Names names;
  for (const expr::Value& scalar : body.scalars) names.take(scalar.name);
  std::map<std::string, std::string> now;
  const auto renamed = [&](const std::string& name) { return now.count(name) ? now.at(name) : name; };
  expr::Body result = body;
  for (expr::Value& input : result.inputs) input.name = now[input.name] = names.take(input.name);
  for (expr::Assignment& line : result.assignments) {
    line.value = expr::rename(line.value, renamed);
    const std::string name = names.take(line.name);
    line.name = now[line.name] = name;
  }
  for (std::string& output : result.outputs) output = renamed(output);
  return result;
}

}  // namespace weft::codegen
