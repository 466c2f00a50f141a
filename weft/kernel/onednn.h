// The one door to oneDNN. Built without it, onednn_has() is false for every dtype.
#pragma once

#include "weft/kernel/tile.h"

namespace weft::kernel {

bool onednn_has(Dtype dtype);                // on this processor, at full precision (s8 without saturation)
void onednn_matmul(const MatmulArgs& args);  // strides given, sizes above 0, dtype as onednn_has says

}  // namespace weft::kernel
