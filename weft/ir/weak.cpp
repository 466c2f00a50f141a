// One pass over the header, in order, so that a constant made of constants costs no more than itself.
#include "weft/ir/weak.h"

namespace weft::ir {
namespace {

using Dtypes = std::map<std::string, Dtype>;

Dtypes read_header(const Program& program) {
  Dtypes found;
  const expr::WeakDtype of = [&found](const std::string& name) {
    const auto at = found.find(name);
    return at == found.end() ? Dtype::i64 : at->second;  // sizes and ranks
  };
  for (const HeaderDecl& decl : program.header) {
    if (const auto* scalar = std::get_if<ScalarDecl>(&decl)) found[scalar->name] = scalar->dtype;
    if (const auto* let = std::get_if<LetDecl>(&decl)) found[let->name] = expr::weak_dtype(let->value, of);
  }
  return found;
}

}  // namespace

expr::WeakDtype weak_dtypes(const Program& program) {
  return [&program, known = std::make_shared<std::optional<Dtypes>>()](const std::string& name) {
    if (!*known) *known = read_header(program);
    const auto at = (*known)->find(name);
    return at == (*known)->end() ? Dtype::i64 : at->second;
  };
}

}  // namespace weft::ir
