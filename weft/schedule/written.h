// Programs whose text has blocks, slices or pending values of its own: what a schedule was applied to and printed, or
// what a user wrote so. They are taken as written; further rewrites come on top.
#pragma once

#include "weft/schedule/form.h"

namespace weft::schedule {

// Throws where the text could not be a program with a schedule applied: a fuse block that breaks a K rule, an x.s beside
// an x that is not its gather (E3), at the user's line; an overlap block, which is read but not applied yet (unsupported).
void check_written(const Form& naive);
// The user's program behind it has a block of this name.
bool is_written_block(const ir::Program& naive, const std::string& name);

}  // namespace weft::schedule
