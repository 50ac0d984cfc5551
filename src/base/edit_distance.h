// The distance of two words, to propose a name for a misspelt one.
#pragma once

#include <cstddef>
#include <string_view>

namespace mainspring {

// How many bytes must be inserted, removed, replaced or swapped with the next one to turn `a` into
// `b`. Takes time and memory proportional to the product and the length of the words: bound them
// first.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace mainspring
