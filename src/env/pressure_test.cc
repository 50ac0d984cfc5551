// The pressure of a machine, from files as the kernel writes them.
#include "env/pressure.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mainspring {

TEST_CASE("a machine's pressure is that of its most stalled resource, and its free memory") {
  char name[] = "/tmp/mainspring_test_XXXXXX";
  const std::filesystem::path proc = mkdtemp(name);
  CHECK(read_pressure(proc.string()).stalled == 0);
  CHECK_FALSE(read_pressure(proc.string()).free_memory_bytes);
  std::filesystem::create_directory(proc / "pressure");
  const char* rest = " avg60=0.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0 avg300=0 total=1\n";
  std::ofstream(proc / "pressure/cpu") << "some avg10=3.50" << rest;
  std::ofstream(proc / "pressure/io") << "some avg10=21.25" << rest;
  std::ofstream(proc / "meminfo")
      << "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:  2048 kB\n";
  CHECK(read_pressure(proc.string()).stalled == 21.25);
  CHECK(read_pressure(proc.string()).free_memory_bytes == 2048 * 1024);
  std::filesystem::remove_all(proc);
}

TEST_CASE("a stalled machine does not grow, and one with little memory only as far as jobs fit") {
  const MachinePressure stalled{.stalled = 20}, easy{.stalled = 19},
      small{.free_memory_bytes = 300};
  CHECK(grown(2, 8, stalled, 0) == 2);
  CHECK(grown(8, 2, stalled, 0) == 2);
  CHECK(grown(2, 8, easy, 100) == 8);
  CHECK(grown(2, 8, small, 100) == 5);
  CHECK(grown(2, 8, small, 301) == 2);
  CHECK(grown(2, 8, small, 0) == 8);
}

}  // namespace mainspring
