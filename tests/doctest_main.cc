// The main() of every test program: doctest's own, with an optional sample of the cases.
//
// MAINSPRING_TEST_EVERY=40:12:1 runs every 40th, 12th or 1st case of each test suite, and so at
// least one of each: by the scale of scale.h.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "scale.h"

namespace {

struct CaseName {
  std::string suite, name;
};

// The cases of the program in doctest's order, as its `--list-test-cases` would print them.
std::vector<CaseName>& collected_cases() {
  static std::vector<CaseName> all;
  return all;
}

struct CollectingReporter : doctest::IReporter {
  explicit CollectingReporter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData& found) override {
    for (unsigned i = 0; i < found.num_data; ++i)
      collected_cases().push_back({found.data[i]->m_test_suite, found.data[i]->m_name});
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_REPORTER("collecting", 1, CollectingReporter);

// The value for this scale; 1 = all cases.
int wanted_of_each() {
  const char* text = std::getenv("MAINSPRING_TEST_EVERY");
  int every[3] = {1, 1, 1};
  if (text == nullptr) return 1;
  if (std::sscanf(text, "%d:%d:%d", &every[0], &every[1], &every[2]) != 3) {
    std::fprintf(stderr, "MAINSPRING_TEST_EVERY is not FAST:DEFAULT:FULL\n");
    std::exit(64);
  }
  return std::max(1, mainspring::by_scale(every[0], every[1], every[2]));
}

void choose_sample(doctest::Context& context, char** argv, int every) {
  // setOption() knows no flags.
  const char* const words[] = {argv[0], "--list-test-cases", "--reporters=collecting"};
  doctest::Context query(static_cast<int>(std::size(words)), words);
  query.run();
  std::map<std::string, int> seen;
  for (const CaseName& one : collected_cases()) {
    if (seen[one.suite]++ % every != 0) continue;
    std::string filter = one.name;
    std::replace(filter.begin(), filter.end(), ',', '?');  // a comma would separate two filters
    context.addFilter("test-case", filter.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (const int every = wanted_of_each(); every > 1) choose_sample(context, argv, every);
  return context.run();
}
