// A sleep that ends early on request.
#pragma once

#include <stop_token>

#include "env/clock.h"

namespace mainspring {

// Waits for `length` by the clock, or until `stop` is requested.
void pause(const Clock& clock, Duration length, const std::stop_token& stop);

}  // namespace mainspring
