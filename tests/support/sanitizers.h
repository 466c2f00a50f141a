// What cannot be asked of a program that a sanitizer watches.
#pragma once

namespace weft {

// Its shadow memory is larger than any limit on the address space, and where no descriptor is left it takes every object
// for a damaged one.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

}  // namespace weft
