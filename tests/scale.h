// The amount of work of a test, from MAINSPRING_TEST_SCALE: `./test fast`, `./test` and
// `./test full` set it to fast, default and full. Unset is default. Scripts read the variable
// themselves; by_scale.sh picks arguments by it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mainspring {

enum class TestScale { fast, standard, full };

inline TestScale test_scale() {
  const char* value = std::getenv("MAINSPRING_TEST_SCALE");
  const std::string_view name = value == nullptr ? "default" : value;
  if (name == "fast") return TestScale::fast;
  if (name == "default") return TestScale::standard;
  if (name == "full") return TestScale::full;
  std::fprintf(stderr, "MAINSPRING_TEST_SCALE is not fast, default or full\n");
  std::exit(64);
}

template <class T>
T by_scale(T fast, T standard, T full) {
  switch (test_scale()) {
    case TestScale::fast:
      return fast;
    case TestScale::full:
      return full;
    case TestScale::standard:
      break;
  }
  return standard;
}

}  // namespace mainspring
