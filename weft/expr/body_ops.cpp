// The loops for the instruction set that the library is built for, and the choice among the instances.
#define WEFT_LOOPS loops_base
#include "weft/expr/body_ops_impl.h"

namespace weft::expr {

extern const Loops loops_avx2, loops_avx512;

const Loops& best_loops() {
#if defined(WEFT_X86_LOOPS)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return loops_avx512;
  if (__builtin_cpu_supports("avx2")) return loops_avx2;
#endif
  return loops_base;
}

}  // namespace weft::expr
