// The sentences that hold between passes, as checks (WEFT_VERIFY). A failure is our own mistake: Error(internal).
#pragma once

#include "weft/base/env.h"
#include "weft/lower/work.h"

namespace weft::lower {

void check_spaces(const Work& work);
void check_phases(const Work& work);
void check_places(const Work& work);
void check_plan(const Work& work);
// A launch line as text, for the identity of what runs.
std::string identity(const schedule::LaunchConfig& line);

}  // namespace weft::lower
