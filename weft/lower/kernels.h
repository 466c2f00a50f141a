// Putting a kernel together, line by line. Internal to the room.
#pragma once

#include "weft/lower/work.h"

namespace weft::lower {

class KernelMaker {
 public:
  KernelMaker(Work& work, const std::string& base);           // its name is k_BASE
  void input(const plan::Id& name);                           // once, however often it is named
  void average(const plan::Id& name, const GroupMap& group);  // name = name / ranks of the group
  void map(const ir::Op& op);
  void same(const plan::Id& name, const plan::Id& as);  // name = as
  void cast(const plan::Id& name, Dtype dtype);         // name = DTYPE(name)
  void fold(const ir::Op& op);
  void matmul(const plan::Id& result, const plan::Id& x, const plan::Id& w);
  // A scalar under the name that the kernel kind wants, and the launch scalar that it is.
  void scalar(const std::string& formal, const std::string& launch, const expr::Expr& value);
  // Adds the kernel to the plan. Outputs: one per target; equal ones at the end are one.
  plan::KernelCall finish(std::vector<plan::Id> outputs);
  // The same, but takes a kernel of the plan with the same text where there is one.
  plan::KernelCall finish_shared(std::vector<plan::Id> outputs);
  void drop();  // it was not needed after all

 private:
  expr::Expr body(const ir::Op& op);
  Work& work_;
  kernel::Kernel kernel_;
  std::vector<std::string> used_;
  std::vector<plan::Id> call_;
};

}  // namespace weft::lower
