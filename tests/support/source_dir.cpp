#include "tests/support/source_dir.h"

namespace weft {
std::string checkout_dir() { return WEFT_SOURCE_DIR; }
}  // namespace weft
