// The loops with AVX-512 (room.cmake sets the option); empty on other processors.
#if defined(__AVX512F__)
#define WEFT_LOOPS loops_avx512
#include "weft/expr/body_ops_impl.h"
#endif
