// Faults that are planted, one for each thing that fuzzing is to find: the proof that a campaign without findings says
// something. Each looks for its fault with the same trials as the suite does, for at most so many seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::fuzz {

struct PlantedFault {
  std::string name;
  // Whether it is found.
  std::function<bool(uint64_t seed, double seconds)> find;
};
std::vector<PlantedFault> planted_faults();

// Random edits of seeds (words from dictionaries, numbers, lines of others): what coverage guidance does without guidance.
// Returns the text of a fault, or "" if `seconds` passed without one.
std::string edit_texts(const std::string& form, bool planted, uint64_t seed, double seconds, int64_t* attempts);
// The texts that editing begins with: tests/fuzz/corpus, and what examples and tests/cases have.
std::vector<std::string> seeds_of(const std::string& form);

}  // namespace weft::fuzz
