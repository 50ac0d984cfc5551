// The distance of two words, to propose a name for a misspelt one.
#pragma once

#include <cstddef>
#include <string_view>

namespace mainspring {

// Levenshtein's: how many bytes must be inserted, removed or replaced to turn `a` into `b`. Takes
// time and memory proportional to the product and the length of the words: bound them first.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace mainspring
