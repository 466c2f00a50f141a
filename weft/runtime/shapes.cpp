// The step shapes of a plan without running it, so that code for many schedules can be compiled side by side before the
// first is loaded. They come from the same typing as loading does: a shape more or less would be compiled in vain or late.
#include "weft/runtime/shapes.h"

#include <set>

#include "weft/runtime/typing.h"

namespace weft::runtime {

std::vector<kernel::StepShape> step_shapes(const plan::Instance& instance, bool stream) {
  const plan::Assembly assembly = plan::assemble(instance);
  const Typing typing(assembly);
  std::vector<kernel::StepShape> shapes;
  std::set<std::string> known;
  for (const plan::AssembledLane& lane : assembly.lanes)
    for (const plan::AssembledBlock& block : lane.blocks)
      for (const plan::AssembledStep& step : block.steps) {
        StepTyping typed = typing.step(lane, block, step, stream);
        if (!typed.idle && known.insert(typed.shape.key()).second) shapes.push_back(std::move(typed.shape));
      }
  return shapes;
}

}  // namespace weft::runtime
