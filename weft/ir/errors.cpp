// A rewritten or built statement has no line of the user's: its printed text stands in for it.
#include "weft/ir/errors.h"

namespace weft::ir {

SourceLine line_of(const Op& op) {
  if (!op.line.text.empty()) return op.line;
  SourceLine line;
  line.text = print(op);
  return line;
}

void fail_op(const Op& op, std::string_view token, std::string_view rule, std::string_view message, std::string_view remedy) {
  fail_at(ErrorKind::user, line_of(op), token, rule, message, remedy);
}

}  // namespace weft::ir
