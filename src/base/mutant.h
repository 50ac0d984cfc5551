// MS_MUTANT(name): a seeded defect that the tests must catch; false in every shipped build.
//
// Tests are only proof if they fail when the code is wrong. A build with MAINSPRING_MUTANTS
// (presets dev, asan, tsan) can switch one defect on by name, by the environment variable MS_MUTANT
// or by set_mutant(); tests/simulation lists them all and demands that each is caught.
#pragma once

#include <string_view>

namespace mainspring {
#if defined(MAINSPRING_MUTANTS)
// Is this defect switched on? Safe from every thread.
bool mutant_active(std::string_view name);
// One beside that of the environment, for tests that need a fault; "" switches it off. Before
// threads start.
void set_mutant(std::string_view name);
#define MS_MUTANT(name) (::mainspring::mutant_active(#name))
#else
#define MS_MUTANT(name) (false)
#endif
}  // namespace mainspring
