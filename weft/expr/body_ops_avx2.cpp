// The loops with AVX2 (room.cmake sets the option); empty on other processors.
#if defined(__AVX2__)
#define WEFT_LOOPS loops_avx2
#include "weft/expr/body_ops_impl.h"
#endif
