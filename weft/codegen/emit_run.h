// Inside codegen/: the text of a step's function: pointers, loops, loads, stores.
#pragma once

#include <string>
#include <vector>

#include "weft/codegen/emit.h"

namespace weft::codegen {

class RunEmitter {
 public:
  // `body`: of the kernel, with C names; empty for a copy. `draws`: the random numbers that element() takes first.
  RunEmitter(const kernel::TypedStep& step, const expr::Body& body, std::vector<Draw> draws);
  std::string emit(const std::string& function, bool has_hoisted);
  PreludeParts parts() const;  // what the text uses

 private:
  struct Source {
    kernel::SourceShape shape;
    std::string name;  // pointer, or what a single one holds
    std::string wide;  // f16: the block that holds it as f32; else empty
  };
  struct Target {
    kernel::TargetShape shape;
    size_t index = 0;
    std::string pointer;
    std::string block;           // where the element loop leaves the value; empty: straight in the target
    std::string bits;            // f16 that is streamed: the block of its bits
    std::string lanes, combine;  // folds
  };

  void line(const std::string& text = "") { text_ += text + "\n"; }
  bool any(kernel::Store store) const;
  bool blocked() const;                   // through blocks of elements; else one plain loop
  bool reduces() const;                   // more than reading one source as it is
  bool halves() const;                    // the reduced value is f16: rounded block by block
  bool untouched(const Target& t) const;  // a copy of one dtype: memory's form goes through
  Dtype value_dtype(const Target& t) const { return step_.values[t.shape.output]; }
  Dtype accumulator(const Target& t) const { return kernel::accumulator_dtype(step_.folds[t.index], value_dtype(t)); }
  std::string block_type(const Target& t) const;
  std::string output_name(size_t output) const { return step_.is_copy() ? "x" : body_.outputs[output]; }
  std::string input_name(size_t input) const { return step_.is_copy() ? "x" : body_.inputs[input].name; }

  void name_sources();
  void name_targets();
  std::string shared_block(const Target& like) const;

  void combines();
  void pointers();
  void declare_blocks();
  void declare_lanes(const Target& t);
  void block_loop();
  void one_block();
  void read_ahead();
  void finish();

  std::string memory(const Source& s) const;
  std::string loaded(const Source& s) const;
  void sum(const std::string& indent);
  void reduced(const std::string& indent);
  void one_element(const std::string& indent);
  std::string stored(const Target& t, const std::vector<std::string>& values) const;

  const kernel::TypedStep& step_;
  const kernel::StepShape& shape_;
  const expr::Body& body_;
  Names names_;
  std::vector<Source> sources_;
  std::vector<Target> targets_;
  std::vector<Draw> draws_;
  std::string text_;
};

}  // namespace weft::codegen
