// Layouts that no plan can have yet: values that meet element by element, in slices of two dimensions.
#pragma once

#include "weft/schedule/form.h"

namespace weft::schedule {

// Z7. Whether values that meet element by element, or that a communication turns into one another, are sliced along two
// different dimensions. A plan has one partition of such values (docs/lowering.md, pass 2): a loop over the parts of one
// cannot read the parts of the other.
bool has_two_cuts(const Form& form);

}  // namespace weft::schedule
