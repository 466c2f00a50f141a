// Step shape -> C++ text.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "weft/expr/body.h"
#include "weft/kernel/step.h"

namespace weft::codegen {

// A launch constant: computed in f64 (i64) by the host, rounded to `dtype`, laid at `offset` of the hoisted block.
struct HoistedField {
  std::string name;
  expr::Expr value;
  Dtype dtype;
  int64_t offset_bytes = 0;
};

struct StepSource {
  std::string text;      // defines extern "C" void FUNCTION(const Args*, const void*); what a person reads
  std::string preamble;  // what stands before it in the compiled file: element functions, stores, folds
  std::string function;
  std::vector<HoistedField> hoisted;
  int64_t hoisted_bytes = 0;
};

// A body whose element names are distinct C++ names, safe beside everything a generated file declares: every assignment
// gets a name of its own (a second `a` is `a_2`), outputs follow. Scalars keep their names.
expr::Body with_c_names(const expr::Body& body);

// Hands out C++ identifiers: the wish, or the wish with a number.
class Names {
 public:
  Names();  // keywords and what generated files declare are taken
  std::string take(const std::string& wish);

 private:
  std::set<std::string> taken_;
};

// Random numbers that an element's lines ask for: lines call `wm::uniform(seed, stream, pos)`, which costs a whole
// Philox block (four numbers) for one. Each distinct (seed, stream) is taken out of the lines and becomes an input.
struct Draw {
  std::string name;          // what stands in the lines instead: draw_1
  std::string seed, stream;  // their texts, of hoisted names and numbers
};
std::vector<Draw> take_draws(std::vector<std::string>& lines);

// Not for tiles.
StepSource emit(const kernel::TypedStep& step);

// ---- pieces, shared with later back ends
std::string memory_type(Dtype dtype);                           // "uint16_t" for f16
std::string value_type(Dtype dtype);                            // "float" for f16: what arithmetic is done in
std::string load_text(Dtype dtype, const std::string& memory);  // the value of what lies in memory
std::string store_text(Dtype value, Dtype memory,
                       const std::string& x);                          // what lies in memory for a value; rounds once
std::string convert_text(Dtype from, Dtype to, const std::string& x);  // value to value, rounded to `to`
std::string nearly_f32_text(Dtype from, const std::string& x);  // the f32 that still says whether something was lost
std::string without_parentheses(const std::string& x);          // "(a + b)" -> "a + b", "(a) + (b)" stays
std::string combine_text(kernel::Reduction reduction, Dtype dtype, const std::string& a, const std::string& b);
struct PreludeParts {
  bool pairs = false, streams = false, halves = false, folds = false, draws = false;
};
std::string preamble_text(const PreludeParts& parts);  // expr's functions and codegen/prelude_impl.h

}  // namespace weft::codegen
