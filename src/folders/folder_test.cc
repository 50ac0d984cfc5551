// Which files are ready, and when.
#include "folders/folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct TempFolder {
  TempFolder() {
    char name[] = "/tmp/mainspring-folder-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path + "/" + name, std::ios::app) << text;
  }
  std::string path;
};

std::string names(const std::vector<Folder::Ready>& files) {
  std::string out;
  for (const auto& file : files) out += (out.empty() ? "" : " ") + file.name;
  return out;
}

}  // namespace

TEST_CASE("patterns have * and ?") {
  CHECK(matches_pattern("*", "a"));
  CHECK(matches_pattern("*.pdf", "a.b.pdf"));
  CHECK_FALSE(matches_pattern("*.pdf", "a.pdf.part"));
  CHECK(matches_pattern("a?c*", "abcde"));
  CHECK_FALSE(matches_pattern("a?c", "ac"));
  CHECK(matches_pattern("**", ""));
  CHECK_FALSE(matches_pattern("", "a"));
}

TEST_CASE("a file is ready when it has not changed for long enough") {
  TempFolder in;
  Folder folder({.path = in.path, .pattern = "*", .stable = 2s, .node = {}});
  Instant now = Instant::from_us(1'000'000);
  in.write("a", "1");
  folder.arrived("a", now);
  CHECK(folder.next() == now + 2s);
  CHECK(folder.take_ready(now + 1s).empty());
  in.write("a", "2");
  CHECK(folder.take_ready(now + 2s).empty());
  CHECK(names(folder.take_ready(now + 3s)).empty());
  CHECK(names(folder.take_ready(now + 4s)) == "a");
  CHECK(folder.next() == Instant::never());
}

TEST_CASE("a file that is open for writing is not ready, however long nothing changes") {
  TempFolder in;
  Folder folder({.path = in.path, .pattern = "*", .stable = 0s, .node = {}});
  Instant now = Instant::from_us(1'000'000);
  std::ofstream writer(in.path + "/a");
  writer << "half" << std::flush;
  REQUIRE(folder.scan(now));  // as at a start: there is no event for the file
  CHECK(folder.take_ready(now).empty());
  now = now + 1h;
  CHECK(folder.take_ready(now).empty());
  CHECK(folder.next() == now + 1s);
  writer.close();
  CHECK(names(folder.take_ready(now + 1s)) == "a");
}

TEST_CASE("a file that is open for reading is ready") {
  TempFolder in;
  Folder folder({.path = in.path, .pattern = "*", .stable = 0s, .node = {}});
  in.write("a", "1");
  const std::ifstream reader(in.path + "/a");
  REQUIRE(folder.scan(Instant()));
  CHECK(names(folder.take_ready(Instant())) == "a");
}

TEST_CASE("a file that fired is ready again only in a new version") {
  TempFolder in;
  Folder folder({.path = in.path, .pattern = "*.txt", .stable = 0s, .node = {}});
  const Instant now = Instant::from_us(1'000'000);
  in.write("a.txt", "1");
  in.write("b.part", "1");
  std::filesystem::create_directory(in.path + "/d.txt");
  std::filesystem::create_symlink("a.txt", in.path + "/link.txt");
  REQUIRE(folder.scan(now));
  const auto ready = folder.take_ready(now);
  REQUIRE(names(ready) == "a.txt");
  folder.fired(ready[0]);
  REQUIRE(folder.scan(now));
  CHECK(folder.take_ready(now).empty());
  in.write("a.txt", "2");
  REQUIRE(folder.scan(now));
  const auto again = folder.take_ready(now);
  REQUIRE(names(again) == "a.txt");
  const std::string path = folder.path_of("a.txt");
  CHECK(event_of_file(path, ready[0].version) != event_of_file(path, again[0].version));
  CHECK(json_of_file(path, "a.txt", again[0].version).find(R"("size":2)") != std::string::npos);
}

TEST_CASE("a missing file is not ready, and a missing folder is reported") {
  TempFolder in;
  Folder folder({.path = in.path, .pattern = "*", .stable = 0s, .node = {}});
  const Instant now = Instant::from_us(1'000'000);
  in.write("a", "1");
  folder.arrived("a", now);
  std::filesystem::remove(in.path + "/a");
  CHECK(folder.take_ready(now).empty());
  std::filesystem::remove(in.path);
  CHECK(folder.scan(now).error().code == ErrorCode::not_found);
}
