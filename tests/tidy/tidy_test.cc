// Checks floors, sizes, clocks and words, and proves with bad snippets that each check can fail.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tidy.h"

namespace fs = std::filesystem;
using namespace mainspring::tidy;

namespace {

// Every entry says why. One that excuses nothing any more fails the test.
constexpr std::array kExcuses = {
    Excuse{"src/base/mutex.h", "clock", "a wait with a limit needs the end on the steady clock"},
    Excuse{"src/base/mutex.h", "mutex", "this is the annotated wrapper itself"},
    Excuse{"src/telemetry/log.cc", "clock", "a log line carries the time of its writing"},
    Excuse{"src/cli/settings.cc", "function", "a table of settings, a row each"},
    Excuse{"src/sql_store/statements.cc", "function", "a list of statements, one each"},
    Excuse{"include/mainspring/errors.def", "columns", "a table: one row per code"},
};

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool is_cpp(const fs::path& path) {
  const fs::path end = path.extension();
  return end == ".cc" || end == ".h" || end == ".def";
}

bool is_text(const fs::path& path) {
  const fs::path end = path.extension();
  return end == ".md" || end == ".sql" || end == ".txt" || end == ".cmake" || end == ".sh" ||
         end == ".test" || end == ".json" || end == ".1" || end == ".toml" || end.empty();
}

std::vector<Finding> check_tree(const fs::path& root, int& files) {
  std::vector<Finding> findings;
  const auto visit = [&](const fs::path& path) {
    const SourceFile file{fs::relative(path, root).string(), read_text(path)};
    const bool cpp = is_cpp(path);
    if (!cpp && !is_text(path)) return;
    ++files;
    for (Finding& finding : cpp ? check_file(file) : check_words(file)) {
      findings.push_back(std::move(finding));
    }
  };
  for (const char* folder :
       {"src", "include", "tests", "examples", "benchmarks", "docs", "sql", "packaging", "cmake"}) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) visit(entry.path());
    }
  }
  for (const char* file : {"README.md", "CMakeLists.txt", "run", "test", ".ci/run"}) {
    if (fs::exists(root / file)) visit(root / file);
  }
  return findings;
}

bool breaks(std::string_view rule, const std::string& path, const std::string& text) {
  const std::vector<Finding> found = check_file({path, text});
  return std::any_of(found.begin(), found.end(),
                     [&](const Finding& finding) { return finding.rule == rule; });
}

std::string long_function(int lines) {
  std::string text = "// A file.\nnamespace a {\nint grow(int x) {\n";
  for (int i = 0; i < lines - 2; ++i) text += "  ++x;\n";
  return text + "}\n}  // namespace a\n";
}

}  // namespace

TEST_CASE("the source tree follows the project's rules") {
  int files = 0;
  std::vector<Finding> findings = check_tree(MAINSPRING_SOURCE_DIR, files);
  CHECK(files > 30);
  std::set<const Excuse*> used;
  for (const Finding& finding : findings) {
    const auto excuse = std::find_if(kExcuses.begin(), kExcuses.end(), [&](const Excuse& e) {
      return e.path == finding.path && e.rule == finding.rule;
    });
    if (excuse != kExcuses.end()) {
      used.insert(&*excuse);
      continue;
    }
    const std::string text =
        fmt::format("{}:{}: {}: {}", finding.path, finding.line, finding.rule, finding.message);
    FAIL_CHECK(text);
  }
  for (const Excuse& excuse : kExcuses) {
    CHECK_MESSAGE(used.count(&excuse) == 1, "excuse that excuses nothing: ", excuse.path, " ",
                  excuse.rule);
  }
}

TEST_CASE("canary: an include that points up or sideways is seen") {
  const std::string up = "// A file.\n#include \"broker/broker.h\"\n";
  CHECK(breaks("floors", "src/model/job.cc", up));
  CHECK(breaks("floors", "src/broker/../model/x.cc", "// A.\n#include \"cli/cli.h\"\n"));
  CHECK(breaks("floors", "src/store/store.h", "// A.\n#include \"api/json.h\"\n"));
  CHECK(breaks("floors", "src/base/x.h", "// A.\n#include \"mainspring/job.h\"\n"));
  CHECK(breaks("floors", "src/worker/x.h", "// A.\n#include \"mainspring/engine.h\"\n"));
  CHECK(breaks("floors", "src/unknown/x.h", "// A.\n#include \"base/assert.h\"\n"));
  CHECK(breaks("floors", "src/http/x.h", "// A.\n#include \"nowhere/x.h\"\n"));
  CHECK(breaks("floors", "include/mainspring/job.h", "// A.\n#include \"base/assert.h\"\n"));
  CHECK(breaks("floors", "examples/a.cc", "// A.\n#include \"broker/broker.h\"\n"));
  CHECK_FALSE(breaks("floors", "examples/a/a.cc", "// A.\n#include \"b.h\"\n"));
  CHECK_FALSE(breaks("floors", "src/scheduler/x.cc", up));
  CHECK_FALSE(breaks("floors", "src/broker/x.cc", up));
  CHECK_FALSE(breaks("floors", "tests/simulation/x.cc", up));
  CHECK_FALSE(breaks("floors", "src/model/job.cc", "// A.\n#include \"mainspring/job.h\"\n"));
}

TEST_CASE("canary: sizes and the first comment") {
  CHECK(breaks("comment", "src/base/x.cc", "int x;\n"));
  CHECK(breaks("comment", "src/base/x.h", "#pragma once\n"));
  CHECK_FALSE(breaks("comment", "src/base/x.h", "// A file.\n#pragma once\n"));
  std::string long_file = "// A file.\n";
  for (int i = 1; i < kMaxFileLines - 1; ++i) long_file += "\n";
  CHECK_FALSE(breaks("lines", "src/base/x.cc", long_file));
  CHECK(breaks("lines", "src/base/x.cc", long_file + "\n"));
  CHECK_FALSE(breaks("columns", "src/base/x.cc", "// " + std::string(97, 'x') + "\n"));
  CHECK(breaks("columns", "src/base/x.cc", "// " + std::string(98, 'x') + "\n"));
  std::string drawn = "// ";
  for (int i = 0; i < 97; ++i) drawn += "─";
  CHECK_FALSE(breaks("columns", "src/base/x.cc", drawn + "\n"));
}

TEST_CASE("canary: long functions") {
  CHECK_FALSE(breaks("function", "src/base/x.cc", long_function(kMaxFunctionLines)));
  CHECK(breaks("function", "src/base/x.cc", long_function(kMaxFunctionLines + 1)));
  std::string in_class = "// A file.\nclass A : public B {\n public:\n  void f(int x) const {\n";
  for (int i = 0; i < kMaxFunctionLines; ++i) in_class += "    g(\"}\", '}');  // }\n";
  CHECK(breaks("function", "src/base/x.h", in_class + "  }\n};\n"));
  std::string table = "// A file.\nconst std::array kTable = {\n";
  for (int i = 0; i < 100; ++i) table += "    Row{1, f(2)},\n";
  CHECK_FALSE(breaks("function", "src/base/x.cc", table + "};\n"));
  std::string record = "// A file.\nstruct Options {\n";
  for (int i = 0; i < 100; ++i) record += "  int x = 0;\n";
  CHECK_FALSE(breaks("function", "src/base/x.h", record + "};\n"));
  std::string suite = "// A file.\nTEST_SUITE(\"a\") {\n";
  for (int i = 0; i < 100; ++i) suite += "TEST_CASE(\"b\") {\n  f();\n}\n";
  CHECK_FALSE(breaks("function", "tests/a/x_test.cc", suite + "}\n"));
}

TEST_CASE("canary: coroutines, sleeps, clocks, chance, mutexes") {
  const auto line = [](const std::string& code) { return "// A file.\n" + code + "\n"; };
  CHECK(breaks("coroutine", "src/http/x.cc", line("  co_await f();")));
  CHECK(breaks("sleep", "tests/a/x_test.cc", line("  std::this_thread::sleep_for(10ms);")));
  CHECK(breaks("sleep", "src/http/http_test.cc", line("  usleep(10);")));
  CHECK(breaks("clock", "src/http/x.cc", line("  auto t = std::chrono::steady_clock::now();")));
  CHECK(breaks("clock", "src/http/x.cc", line("  clock_gettime(CLOCK_REALTIME, &t);")));
  CHECK(breaks("clock", "src/http/x.cc", line("  auto t = time(nullptr);")));
  CHECK(breaks("chance", "src/worker/x.cc", line("  std::random_device d;")));
  CHECK(breaks("mutex", "src/worker/x.cc", line("  std::mutex m_;")));
  CHECK_FALSE(breaks("clock", "src/env/x.cc", line("  clock_gettime(CLOCK_REALTIME, &t);")));
  CHECK_FALSE(breaks("clock", "src/http/x.cc", line("  // steady_clock::now() is in env")));
  CHECK_FALSE(breaks("clock", "src/http/x.cc", line("  auto t = run_time(0);")));
  CHECK_FALSE(breaks("sleep", "src/scheduler/x.cc", line("  Duration max_sleep = f(1);")));
}

TEST_CASE("canary: words") {
  const auto words = [](const std::string& text) {
    return !check_words({"docs/x.md", text}).empty();
  };
  CHECK(
      words("// TO"
            "DO: later"));
  CHECK(
      words("see /wo"
            "rk/shared/x"));
  CHECK(
      words("as iss"
            "ue 2 says"));
  CHECK_FALSE(words("a session's jobs run in order"));
  CHECK_FALSE(words("the store issues one transaction"));
}

TEST_CASE("blanking keeps lines and hides literals") {
  CHECK(blank_comments_and_literals("a // b\nc") == "a     \nc");
  CHECK(blank_comments_and_literals("f(\"x\\\"y\", 'c')") == "f(" + std::string(6, ' ') + ",    )");
  CHECK(blank_comments_and_literals("1'000'000 + 'x'") == "1'000'000 +    ");
  CHECK(blank_comments_and_literals("R\"(a\"b)\" x") == "         x");
}
