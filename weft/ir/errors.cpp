// A rewritten or built statement has no line of the user's: its printed text stands in for it. The caret stands under
// the token's place in the operation meant, not under the first word that looks like it.
#include "weft/ir/errors.h"

#include <cctype>

#include "weft/ir/ops.h"

namespace weft::ir {
namespace {

bool joins(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// `token` standing alone in text at or behind `from`.
size_t find_token(std::string_view text, std::string_view token, size_t from) {
  if (token.empty()) return std::string_view::npos;
  for (size_t at = text.find(token, from); at != std::string_view::npos; at = text.find(token, at + 1)) {
    const size_t end = at + token.size();
    const bool left = at > 0 && joins(text[at - 1]) && joins(token.front());
    const bool right = end < text.size() && joins(text[end]) && joins(token.back());
    if (!left && !right) return at;
  }
  return std::string_view::npos;
}

// Where the operation's own text begins: behind `name =`, at the call of it if it stands inside an expression.
size_t begin_of(const Op& op, std::string_view text, std::string_view token) {
  if (token == op.name) return 0;
  const size_t equals = text.find('=');
  const size_t begin = equals == std::string_view::npos ? 0 : equals + 1;
  if (!op.def || op.def->op_class == OpClass::map) return begin;
  const size_t call = find_token(text, op.def->name, begin);
  return call == std::string_view::npos ? begin : call;
}

}  // namespace

SourceLine line_of(const Op& op) {
  if (!op.line.text.empty()) return op.line;
  SourceLine line;
  line.text = print(op);
  return line;
}

void fail_op(const Op& op, std::string_view token, std::string_view rule, std::string_view message,
             std::string_view remedy) {
  const SourceLine line = line_of(op);
  const size_t at = find_token(line.text, token, begin_of(op, line.text, token));
  if (at == std::string_view::npos) fail_at(ErrorKind::user, line, token, rule, message, remedy);
  fail_at_column(ErrorKind::user, line, static_cast<int>(at), static_cast<int>(token.size()), rule, message, remedy);
}

}  // namespace weft::ir
