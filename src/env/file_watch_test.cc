// A watch reports changes at any depth of a tree, and nothing else.
#include "env/file_watch.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr Duration kLong = 30s;

class Tree {
 public:
  Tree() {
    std::string name = (fs::temp_directory_path() / "watch-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Tree() { fs::remove_all(path_); }
  std::string path(const std::string& below = "") const {
    return below.empty() ? path_ + "/root" : path_ + "/root/" + below;
  }
  std::string outside(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& below, const std::string& text = "x") const {
    fs::create_directories(fs::path(path(below)).parent_path());
    std::ofstream(path(below)) << text;
  }
  std::unique_ptr<FileWatch> watch() const {
    fs::create_directories(path());
    auto opened = FileWatch::open(path());
    REQUIRE_MESSAGE(opened, opened.error().message);
    return std::move(*opened);
  }

 private:
  std::string path_;
};

FileWatch::Changes changes(FileWatch& watch, int depth = 2, Duration limit = kLong) {
  auto told = watch.wait(depth, limit);
  REQUIRE_MESSAGE(told, told.error().message);
  return *told;
}

// All pending changes. The kernel queues events before a call returns.
Names now(FileWatch& watch, int depth = 2) {
  return changes(watch, depth, 0s).entries;
}

}  // namespace

TEST_CASE("a change at any depth is reported by the first parts of its path") {
  Tree tree;
  tree.write("triggered/report/lib/deep/a.py");
  const auto watch = tree.watch();
  CHECK(now(*watch).empty());
  tree.write("triggered/report/lib/deep/a.py", "other");
  CHECK(changes(*watch).entries == Names{"triggered/report"});
  tree.write("triggered/report/lib/deep/a.py", "other");
  CHECK(changes(*watch, 1).entries == Names{"triggered"});
  tree.write("triggered/report/lib/deep/a.py", "other");
  CHECK(changes(*watch, 9).entries == Names{"triggered/report/lib/deep/a.py"});
  tree.write("host.json");
  CHECK(changes(*watch).entries == Names{"host.json"});
}

TEST_CASE("reading is not a change; a new mode, a new time or a removal is") {
  Tree tree;
  tree.write("t/a/run.sh");
  const auto watch = tree.watch();
  {
    std::ifstream in(tree.path("t/a/run.sh"));
    std::string text;
    in >> text;
    CHECK(text == "x");
    for (const auto& entry : fs::recursive_directory_iterator(tree.path())) (void)entry;
  }
  CHECK(now(*watch).empty());
  fs::permissions(tree.path("t/a/run.sh"), static_cast<fs::perms>(0755));
  CHECK(now(*watch) == Names{"t/a"});
  REQUIRE(::utimensat(AT_FDCWD, tree.path("t/a/run.sh").c_str(), nullptr, 0) == 0);
  CHECK(now(*watch) == Names{"t/a"});
  fs::remove(tree.path("t/a/run.sh"));
  CHECK(now(*watch) == Names{"t/a"});
  CHECK(now(*watch).empty());
}

TEST_CASE("directories created later are watched, including their earlier contents") {
  Tree tree;
  const auto watch = tree.watch();
  tree.write("t/new/lib/a.py");
  CHECK(now(*watch).count("t/new") == 1);
  tree.write("t/new/lib/a.py", "other");
  CHECK(now(*watch) == Names{"t/new"});
  tree.write("t/new/lib/more/b.py");
  tree.write("t/other/c.py");
  CHECK(now(*watch) == Names{"t/new", "t/other"});
  tree.write("t/new/lib/more/b.py", "other");
  CHECK(now(*watch) == Names{"t/new"});
}

TEST_CASE("a directory that is moved in, out or within is watched at its new place") {
  Tree tree;
  tree.write("t/a/lib/x.py");
  fs::create_directories(tree.outside("b/lib"));
  std::ofstream(tree.outside("b/lib/y.py")) << "y";
  const auto watch = tree.watch();
  fs::rename(tree.outside("b"), tree.path("t/b"));
  CHECK(now(*watch) == Names{"t/b"});
  tree.write("t/b/lib/y.py", "other");
  CHECK(now(*watch) == Names{"t/b"});
  fs::rename(tree.path("t/a"), tree.path("t/c"));
  CHECK(now(*watch) == Names{"t/a", "t/c"});
  tree.write("t/c/lib/x.py", "other");
  CHECK(now(*watch) == Names{"t/c"});
  fs::rename(tree.path("t/c"), tree.outside("away"));
  CHECK(now(*watch) == Names{"t/c"});
  std::ofstream(tree.outside("away/lib/x.py")) << "unseen";
  CHECK(now(*watch).empty());
}

TEST_CASE("two directories that swap places are both watched at the new places") {
  Tree tree;
  tree.write("t/a/lib/old.py");
  tree.write("t/.deploy-1/lib/new.py");
  const auto watch = tree.watch();
  for (int i = 0; i < 4; ++i) {
    REQUIRE(::renameat2(AT_FDCWD, tree.path("t/.deploy-1").c_str(), AT_FDCWD,
                        tree.path("t/a").c_str(), RENAME_EXCHANGE) == 0);
    CHECK(now(*watch) == Names{"t/a"});
    const std::string seen = i % 2 == 0 ? "new.py" : "old.py";
    const std::string hidden = i % 2 == 0 ? "old.py" : "new.py";
    tree.write("t/.deploy-1/lib/" + hidden, "other");
    CHECK(now(*watch).empty());
    tree.write("t/a/lib/" + seen, "other");
    CHECK(now(*watch) == Names{"t/a"});
  }
  tree.write("t/b/lib/b.py");
  now(*watch);
  REQUIRE(::renameat2(AT_FDCWD, tree.path("t/b").c_str(), AT_FDCWD, tree.path("t/a").c_str(),
                      RENAME_EXCHANGE) == 0);
  CHECK(now(*watch) == Names{"t/a", "t/b"});
  tree.write("t/a/lib/b.py", "other");
  CHECK(now(*watch) == Names{"t/a"});
}

TEST_CASE("names that start with '.' are ignored, with everything below them") {
  Tree tree;
  tree.write(".git/index");
  const auto watch = tree.watch();
  tree.write(".git/index", "other");
  tree.write("t/a/.run.sh.swp");
  now(*watch);
  tree.write("t/a/.run.sh.swp", "other");
  tree.write("t/a/.venv/lib/x.py");
  CHECK(now(*watch).empty());
  fs::rename(tree.path("t/a/.run.sh.swp"), tree.path("t/a/run.sh"));
  CHECK(now(*watch) == Names{"t/a"});
}

TEST_CASE("a removed parent removes the entries below it") {
  Tree tree;
  tree.write("t/a/run.sh");
  tree.write("t/b/run.sh");
  const auto watch = tree.watch();
  fs::rename(tree.path("t"), tree.outside("t"));
  CHECK(now(*watch) == Names{"t", "t/a", "t/b"});
  fs::rename(tree.outside("t"), tree.path("t"));
  CHECK(now(*watch) == Names{"t", "t/a", "t/b"});
  tree.write("t/b/run.sh", "other");
  CHECK(now(*watch) == Names{"t/b"});
  fs::remove_all(tree.path("t"));
  CHECK(now(*watch) == Names{"t", "t/a", "t/b"});
}

TEST_CASE("a removed or moved root is reported each time") {
  for (const bool removed : {true, false}) {
    Tree tree;
    tree.write("t/a/run.sh");
    const auto watch = tree.watch();
    if (removed) {
      fs::remove_all(tree.path());
    } else {
      fs::rename(tree.path(), tree.outside("elsewhere"));
    }
    CHECK(changes(*watch).gone);
    CHECK(changes(*watch).gone);
  }
}

TEST_CASE("a missing root cannot be watched") {
  Tree tree;
  CHECK(FileWatch::open(tree.path("none")).error().code == ErrorCode::not_found);
  tree.write("file");
  CHECK(FileWatch::open(tree.path("file")).error().code == ErrorCode::not_found);
}

TEST_CASE("wake() ends the current wait or the next one") {
  Tree tree;
  const auto watch = tree.watch();
  watch->wake();
  watch->wake();
  CHECK(changes(*watch, 2, kForever).entries.empty());
  std::thread other([&] { watch->wake(); });
  CHECK(changes(*watch, 2, kForever).entries.empty());
  other.join();
}

TEST_CASE("a wait ends at the first change, or at its limit") {
  Tree tree;
  tree.write("t/a/run.sh");
  const auto watch = tree.watch();
  CHECK(changes(*watch, 2, 1ms).entries.empty());
  std::thread other([&] { tree.write("t/a/run.sh", "other"); });
  CHECK(changes(*watch, 2, kForever).entries == Names{"t/a"});
  other.join();
}

TEST_CASE("when the system drops events, the watch reports a change of everything and continues") {
  std::ifstream in("/proc/sys/fs/inotify/max_queued_events");
  int queued = 0;
  in >> queued;
  REQUIRE(queued > 0);
  if (queued > 100'000) {
    MESSAGE("the queue is too long to be filled here: ", queued);
    return;
  }
  Tree tree;
  tree.write("t/a/one");
  tree.write("t/b/two");
  const auto watch = tree.watch();
  // Two files alternately: the system merges consecutive equal events.
  for (int i = 0; i < queued / 2 + 10; ++i) {
    for (const char* file : {"t/a/one", "t/b/two"}) {
      REQUIRE(::chmod(tree.path(file).c_str(), 0600) == 0);
    }
  }
  tree.write("t/made/while/x.py");
  bool all = false;
  for (int i = 0; i < 1000 && !all; ++i) all = changes(*watch, 2, 0s).all;
  CHECK(all);
  while (!now(*watch).empty()) {
  }
  tree.write("t/made/while/x.py", "other");
  CHECK(now(*watch) == Names{"t/made"});
}

TEST_CASE("a directory that cannot be read does not stop the others") {
  Tree tree;
  tree.write("t/closed/x");
  tree.write("t/open/x");
  fs::permissions(tree.path("t/closed"), fs::perms::none);
  const auto watch = tree.watch();
  tree.write("t/open/x", "other");
  CHECK(now(*watch) == Names{"t/open"});
  fs::permissions(tree.path("t/closed"), fs::perms::owner_all);
  CHECK(now(*watch).count("t/closed") == 1);
  tree.write("t/closed/x", "other");
  CHECK(now(*watch) == Names{"t/closed"});
}
