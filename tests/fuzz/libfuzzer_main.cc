// One fuzz target as a program of libFuzzer; the build says which (MS_FUZZ_TARGET).
#include <cstddef>
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mainspring::fuzz::MS_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
