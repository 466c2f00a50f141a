// How elements lie in memory and how they are computed with, as C++ text. Narrow floats lie as their bits and are
// computed with as f32; bool lies as a byte and is computed with as bool; a pair is a struct. The functions named here
// are those of expr/functions_impl.h, which the evaluator calls too.
#include "weft/codegen/emit.h"

namespace weft::codegen {

namespace {

using kernel::Reduction;

bool is_narrow(Dtype dtype) { return is_float(dtype) && size_bytes(dtype) < 4; }

std::string integer_type(Dtype dtype) {
  return fmt::format("{}int{}_t", is_signed(dtype) ? "" : "u", 8 * size_bytes(dtype));
}

}  // namespace

std::string memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return "double";
    case Dtype::f32: return "float";
    case Dtype::f16:
    case Dtype::bf16: return "uint16_t";
    case Dtype::f8e4m3:
    case Dtype::f8e5m2:
    case Dtype::boolean: return "uint8_t";
    case Dtype::f64x2: return "f64x2";
    default: return integer_type(dtype);
  }
}

std::string value_type(Dtype dtype) {
  if (is_narrow(dtype)) return "float";
  return dtype == Dtype::boolean ? "bool" : memory_type(dtype);
}

std::string load_text(Dtype dtype, const std::string& memory) {
  if (is_narrow(dtype)) return fmt::format("wm::from_{}({})", name(dtype), memory);
  return dtype == Dtype::boolean ? fmt::format("({} != 0)", memory) : memory;
}

std::string nearly_f32_text(Dtype from, const std::string& x) {
  if (from == Dtype::f32 || is_narrow(from)) return x;
  if (from == Dtype::f64 || from == Dtype::u64) return fmt::format("wm::sticky({})", x);
  return fmt::format("wm::sticky(static_cast<int64_t>({}))", x);
}

std::string store_text(Dtype value, Dtype memory, const std::string& x) {
  if (value == memory && value_type(value) == memory_type(memory)) return x;
  if (is_narrow(value) && memory == Dtype::f32) return x;  // it is one already
  if (is_narrow(memory)) return fmt::format("wm::to_{}({})", name(memory), nearly_f32_text(value, x));
  if (memory == Dtype::boolean) return fmt::format("static_cast<uint8_t>({} != 0)", x);
  if (is_float(value) && memory == Dtype::u64) return fmt::format("wm::to_u64({})", x);
  if (is_float(value) && is_integer(memory))
    return fmt::format("static_cast<{}>(wm::to_i64({}))", memory_type(memory), x);
  return fmt::format("static_cast<{}>({})", memory_type(memory), x);
}

std::string without_parentheses(const std::string& x) {
  if (!x.starts_with('(') || !x.ends_with(')')) return x;
  int depth = 0;
  for (size_t i = 0; i + 1 < x.size(); i++) {
    depth += (x[i] == '(') - (x[i] == ')');
    if (depth == 0) return x;  // the first one closes before the end
  }
  return x.substr(1, x.size() - 2);
}

std::string convert_text(Dtype from, Dtype to, const std::string& x) {
  return from == to ? x : load_text(to, store_text(from, to, x));
}

std::string combine_text(Reduction reduction, Dtype dtype, const std::string& a, const std::string& b) {
  const bool number = is_float(dtype), boolean = dtype == Dtype::boolean;
  const auto call = [&](const char* function) { return fmt::format("{}({}, {})", function, a, b); };
  const auto infix = [&](const char* op) { return fmt::format("({} {} {})", a, op, b); };
  const auto integer = [&](const char* op) {
    return fmt::format("static_cast<{}>({} {} {})", value_type(dtype), a, op, b);
  };
  if (dtype == Dtype::f64x2) return call(fmt::format("pair_{}", kernel::name(reduction)).c_str());
  switch (reduction) {
    case Reduction::sum: return boolean ? infix("||") : number ? infix("+") : call("wm::add");
    case Reduction::prod: return boolean ? infix("&&") : number ? infix("*") : call("wm::mul");
    case Reduction::min: return boolean ? infix("&&") : call("wm::min");
    case Reduction::max: return boolean ? infix("||") : call("wm::max");
    case Reduction::bit_and: return integer("&");
    case Reduction::bit_or: return integer("|");
    case Reduction::bit_xor: return integer("^");
    case Reduction::logical_and: return fmt::format("static_cast<{}>({} != 0 && {} != 0)", value_type(dtype), a, b);
    case Reduction::logical_or: return fmt::format("static_cast<{}>({} != 0 || {} != 0)", value_type(dtype), a, b);
  }
  return b;
}

}  // namespace weft::codegen
