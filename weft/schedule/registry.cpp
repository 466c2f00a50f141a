// The rewrites, and the one way to apply one.
//
// A rewrite is never trusted: what it made is inferred from scratch. It works on a copy, so a refusal, or an error of
// inference, leaves the program as it was.
#include "weft/base/error.h"
#include "weft/ir/names.h"
#include "weft/schedule/form.h"

namespace weft::schedule {

void refuse(const Refusal& refusal) {
  throw Error(ErrorKind::user, refusal.op + ": ", "", refusal.message, refusal.remedy, refusal.rule);
}

const std::vector<const Rewrite*>& rewrites() {
  static const std::vector<const Rewrite*> all = {
      &split_rewrite(), &merge_rewrite(),   &reorder_rewrite(), &cut_rewrite(),    &store_rewrite(),
      &fuse_rewrite(),  &overlap_rewrite(), &commute_rewrite(), &narrow_rewrite(),
  };
  return all;
}

const Rewrite* find_rewrite(std::string_view name) {
  for (const Rewrite* rewrite : rewrites())
    if (rewrite->name() == name) return rewrite;
  return nullptr;
}

namespace {

std::string nearest_rewrite(std::string_view name) {
  std::vector<std::string> known;
  for (const Rewrite* rewrite : rewrites()) known.emplace_back(rewrite->name());
  return ir::did_you_mean(name, known);
}

}  // namespace

ir::Program apply(const ir::Program& program, std::string_view directive, const Args& args) {
  const Rewrite* rewrite = find_rewrite(directive);
  if (rewrite == nullptr)
    throw Error(ErrorKind::user, "", "", fmt::format("{} is no rewrite", directive),
                nearest_rewrite(directive) + "split merge reorder cut store fuse overlap commute narrow", "F4");
  if (std::optional<Refusal> refusal = rewrite->check(program, args)) refuse(*refusal);
  Form form = form_of(rewrite->apply(program, args));
  canonicalize(form);
  ir::infer(form.program);
  return form.program;
}

}  // namespace weft::schedule
