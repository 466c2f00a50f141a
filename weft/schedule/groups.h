// Groups of one layout: computations pre-fused, each collective with its computations fused or not.
#pragma once

#include <vector>

#include "weft/schedule/form.h"

namespace weft::schedule {

// The maximal legal group around each reduce_scatter or reduce: what is computed on its slice, the norms inside, the
// gathers of what leaves. In program order; groups of one statement are left out.
std::vector<std::vector<ir::Name>> collective_groups(const Form& form);
// Every subset of those groups that can stand together, computations outside pre-fused; most fused first.
std::vector<Form> grouped(const Form& form);
void prefuse(Form& form);
// Pairs of neighbours that could overlap (O1 to O4): each doubles the number of schedules.
int count_links(const Form& form);

}  // namespace weft::schedule
