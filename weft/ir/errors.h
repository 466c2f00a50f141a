// Errors of the room: the broken rule, at the user's line where there is one, else at the printed statement.
#pragma once

#include <string_view>

#include "weft/ir/program.h"

namespace weft::ir {

// Throws kind user: "LINE:COLUMN: RULE: MESSAGE", the line, a caret below `token`, the remedy.
[[noreturn]] void fail_op(const Op& op, std::string_view token, std::string_view rule, std::string_view message,
                          std::string_view remedy = "");
SourceLine line_of(const Op& op);  // the user's line, or line 0 with the statement as it would be printed

}  // namespace weft::ir
