// Runs every file of the corpus through its fuzz target: what crashed once does not crash again.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "targets.h"

namespace fs = std::filesystem;
using namespace mainspring::fuzz;

TEST_CASE("every target survives every file of its corpus") {
  for (const Target& target : kTargets) {
    const fs::path folder = fs::path(MAINSPRING_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
    REQUIRE_MESSAGE(fs::is_directory(folder), folder.string());
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    CHECK(files.size() >= 3);
    for (const fs::path& file : files) {
      CAPTURE(file.string());
      std::ifstream in(file, std::ios::binary);
      target.run(std::string(std::istreambuf_iterator<char>(in), {}));
    }
    target.run("");
  }
}

TEST_CASE("every folder of the corpus has its target") {
  for (const auto& entry : fs::directory_iterator(MAINSPRING_SOURCE_DIR "/tests/fuzz/corpus")) {
    const std::string name = entry.path().filename();
    CHECK_MESSAGE(std::any_of(std::begin(kTargets), std::end(kTargets),
                              [&](const Target& target) { return target.name == name; }),
                  name);
  }
}
