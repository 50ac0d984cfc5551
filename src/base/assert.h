// MS_ASSERT: checks an invariant, also in release builds. With leases and at-least-once delivery, a
// crash is safer than a wrong row.
#pragma once

namespace mainspring {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line,
                                   const char* why);
}

#define MS_ASSERT(expression, why)                                          \
  do {                                                                      \
    if (!(expression)) [[unlikely]]                                         \
      ::mainspring::assertion_failed(#expression, __FILE__, __LINE__, why); \
  } while (false)
