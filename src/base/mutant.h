// MS_MUTANT(name): a mutant that the tests must catch; false in every shipped build.
//
// Tests only prove something if they fail when the code is wrong. A build with MAINSPRING_MUTANTS
// (presets dev, asan, tsan) can switch one mutant on by name, by the environment variable MS_MUTANT
// or by set_mutant(). tests/simulation lists all mutants and requires that each is caught.
#pragma once

#include <string_view>

namespace mainspring {
#if defined(MAINSPRING_MUTANTS)
// Returns whether this mutant is switched on. Thread-safe.
bool mutant_active(std::string_view name);
// Switches on one mutant in addition to that of the environment, for tests that need a fault; ""
// switches it off. Call before threads start.
void set_mutant(std::string_view name);
#define MS_MUTANT(name) (::mainspring::mutant_active(#name))
#else
#define MS_MUTANT(name) (false)
#endif
}  // namespace mainspring
