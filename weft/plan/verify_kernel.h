// Kernels on terms: a kernel's body, expanded expression by expression. See verify_terms.h.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "weft/plan/verify_terms.h"

namespace weft::plan {

struct TermOutput {
  Term term = no_term;
  bool folds = false;  // a contribution to a coarser cell, by `reduction`
  kernel::Reduction reduction = kernel::Reduction::sum;
  Dtype dtype = Dtype::f64;  // of the kernel's output, where the term does not say
};

class KernelTerms {
 public:
  KernelTerms(const Instance& instance, Terms& terms) : instance_(&instance), terms_(&terms) {}
  // One cell through kernel `index`, called with launch scalars of these names. `position` stands for the cell where
  // the kernel asks for positions, or where a tile's cell does not follow from its operands. Throws Error (V1, D1 ...)
  // where the dtypes do not fit.
  const std::vector<TermOutput>& apply(int index, const std::vector<Id>& scalars, std::span<const Dtype> dtypes,
                                       std::span<const Term> inputs, Term position);

 private:
  struct Compiled {
    kernel::Kernel kernel;
    kernel::Typed typed;
  };
  using Names = std::vector<std::pair<std::string, Term>>;
  const Compiled& compile(int index, std::span<const Dtype> dtypes);
  std::vector<TermOutput> expand(const Compiled& compiled, const Names& names, Term position);
  TermOutput tile(const Compiled& compiled, const Names& names, Term position);
  Term expand(const expr::Node& node, const Names& names, Term position);

  struct Hash {
    size_t operator()(const std::vector<uint64_t>& key) const;
  };
  const Instance* instance_;
  Terms* terms_;
  std::map<std::pair<int, std::vector<Dtype>>, std::unique_ptr<Compiled>> compiled_;
  std::unordered_map<std::vector<uint64_t>, std::vector<TermOutput>, Hash> known_;
  std::vector<uint64_t> key_;
};

}  // namespace weft::plan
