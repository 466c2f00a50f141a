#pragma once
// Where the checkout lies: tests read programs, plans and goldens from it. The path is compiled into one file alone, so
// that checkouts in other folders share every other object through the compiler cache.
#include <string>

namespace weft {
/// The absolute path of the checkout that these tests were built from, without a trailing slash.
std::string checkout_dir();
}  // namespace weft
