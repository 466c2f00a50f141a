#include "weft/plan/verify_kernel.h"

#include <algorithm>

namespace weft::plan {

namespace {

const char* symbol(expr::Op op) {
  using expr::Op;
  switch (op) {
    case Op::neg: return "neg";
    case Op::not_: return "not";
    case Op::add: return "+";
    case Op::sub: return "-";
    case Op::mul: return "*";
    case Op::div: return "/";
    case Op::mod: return "%";
    case Op::pow: return "^";
    case Op::bit_and: return "&";
    case Op::bit_or: return "|";
    case Op::bit_xor: return "xor";
    case Op::shl: return "<<";
    case Op::shr: return ">>";
    case Op::lt: return "<";
    case Op::gt: return ">";
    case Op::le: return "<=";
    case Op::ge: return ">=";
    case Op::eq: return "==";
    case Op::ne: return "!=";
    case Op::and_: return "and";
    case Op::or_: return "or";
    default: return "?";
  }
}

Term find(const std::vector<std::pair<std::string, Term>>& names, const std::string& name) {
  for (size_t i = names.size(); i > 0; --i)  // later assignments shadow earlier ones
    if (names[i - 1].first == name) return names[i - 1].second;
  return no_term;
}

}  // namespace

size_t KernelTerms::Hash::operator()(const std::vector<uint64_t>& key) const {
  uint64_t hash = key.size();
  for (uint64_t value : key) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

const KernelTerms::Compiled& KernelTerms::compile(int index, std::span<const Dtype> dtypes) {
  auto& place = compiled_[{index, {dtypes.begin(), dtypes.end()}}];
  if (!place) {
    auto fresh = std::make_unique<Compiled>();
    fresh->kernel = instance_->plan().kernels[static_cast<size_t>(index)];
    fresh->typed = kernel::type(fresh->kernel, dtypes);
    place = std::move(fresh);
  }
  return *place;
}

Term KernelTerms::expand(const expr::Node& node, const Names& names, Term position) {
  switch (node.op) {
    case expr::Op::integer: return terms_->constant(static_cast<double>(node.integer));
    case expr::Op::number: return terms_->constant(node.number);
    case expr::Op::name: {
      const Term known = find(names, node.name);
      return known != no_term ? known : terms_->scalar(node.name);
    }
    default: break;
  }
  std::vector<Term> args;
  for (const expr::Expr& arg : node.args) args.push_back(expand(*arg, names, position));
  if (node.op != expr::Op::call) return terms_->apply(symbol(node.op), args);
  if (const auto dtype = parse_dtype(node.name); dtype && args.size() == 1) return terms_->cast(*dtype, args[0]);
  if (node.name == "rand" || node.name == "index") args.push_back(position);
  return terms_->apply(node.name, args);
}

// What the product is of follows from its operands, but for a product of whole operands: then the cell says which tile.
TermOutput KernelTerms::tile(const Compiled& compiled, const Names& names, Term position) {
  std::vector<Term> args;
  for (const std::string& arg : compiled.kernel.body[0].args) args.push_back(find(names, arg));
  if (position != no_term) args.push_back(position);
  return {terms_->cast(compiled.typed.outputs[0], terms_->apply(compiled.kernel.body[0].function, args)), false,
          kernel::Reduction::sum};
}

std::vector<TermOutput> KernelTerms::expand(const Compiled& compiled, const Names& given, Term position) {
  if (kernel::kind(compiled.kernel) == kernel::Kind::tile) return {tile(compiled, given, position)};
  Names names = given;
  for (const expr::Assignment& line : compiled.typed.body.assignments)
    names.emplace_back(line.name, terms_->cast(line.dtype, expand(*line.value, names, position)));
  std::vector<TermOutput> outputs;
  for (size_t k = 0; k < compiled.kernel.outputs.size(); ++k)
    outputs.push_back({find(names, compiled.kernel.outputs[k]), compiled.typed.fold_of_output[k] >= 0,
                       compiled.typed.fold_reduction[k], compiled.typed.outputs[k]});
  return outputs;
}

const std::vector<TermOutput>& KernelTerms::apply(int index, const std::vector<Id>& scalars,
                                                  std::span<const Dtype> dtypes, std::span<const Term> inputs,
                                                  Term position) {
  const Compiled& compiled = compile(index, dtypes);
  const bool positioned = compiled.typed.body.needs_positions || kernel::kind(compiled.kernel) == kernel::Kind::tile;
  key_.assign({reinterpret_cast<uint64_t>(&compiled), positioned ? position : no_term});
  for (const Id& scalar : scalars) key_.push_back(terms_->scalar(scalar));
  for (Term term : inputs) key_.push_back(term);
  const auto known = known_.find(key_);
  if (known != known_.end()) return known->second;
  Names names;
  for (size_t i = 0; i < compiled.kernel.scalars.size(); ++i)
    names.emplace_back(compiled.kernel.scalars[i],
                       terms_->scalar(i < scalars.size() ? scalars[i] : compiled.kernel.scalars[i]));
  for (size_t i = 0; i < compiled.kernel.inputs.size(); ++i) names.emplace_back(compiled.kernel.inputs[i], inputs[i]);
  return known_[key_] = expand(compiled, names, position);
}

}  // namespace weft::plan
