// The rules of the project, as code that reads code.
#include "tidy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <string>

namespace mainspring::tidy {
namespace {

const std::map<std::string_view, int> kFloors = {
    {"base", 0},       {"dashboard", 0},    {"env", 1},
    {"model", 2},      {"telemetry", 2},    {"tls", 2},
    {"outgoing", 2},   {"store", 3},        {"api", 4},
    {"workflow", 5},   {"trigger", 5},      {"tracing", 5},
    {"sql_store", 6},  {"disk_sqlite", 7},  {"store_postgres", 7},
    {"peer", 8},       {"broker", 8},       {"scheduler", 9},
    {"scale", 9},      {"worker", 9},       {"client", 9},
    {"callbacks", 10}, {"folders", 10},     {"host", 10},
    {"redrive", 10},   {"test_server", 10}, {"engine", 11},
    {"http", 12},      {"roles", 13},       {"cli", 13},
    {"testing", 13},   {"cluster", 8},    {"disk_postgres", 8}};

// A public header is on the floor of the module whose interface it is.
struct PublicHeader {
  std::string_view module;
  int floor;
};
const std::map<std::string_view, PublicHeader> kPublicHeaders = {
    {"mainspring/result.h", {"base", 0}},         {"mainspring/time.h", {"base", 0}},
    {"mainspring/errors.def", {"base", 0}},       {"mainspring/job.h", {"model", 2}},
    {"mainspring/schedule.h", {"model", 2}},      {"mainspring/lease.h", {"model", 2}},
    {"mainspring/session.h", {"model", 2}},       {"mainspring/workflow.h", {"model", 2}},
    {"mainspring/limits.h", {"model", 2}},        {"mainspring/trigger.h", {"model", 2}},
    {"mainspring/breaker.h", {"model", 2}},       {"mainspring/slot.h", {"worker", 9}},
    {"mainspring/timer.h", {"worker", 9}},        {"mainspring/worker.h", {"worker", 9}},
    {"mainspring/context.h", {"worker", 9}},      {"mainspring/engine.h", {"engine", 11}},
    {"mainspring/reflect.h", {"engine", 11}},     {"mainspring/role.h", {"roles", 13}},
    {"mainspring/testing.h", {"testing", 13}},    {"mainspring/why.h", {"model", 2}},
    {"mainspring/event.h", {"model", 2}},         {"mainspring/dead.h", {"model", 2}},
    {"mainspring/held_job.h", {"worker", 9}},     {"mainspring/queues.h", {"engine", 11}},
    {"mainspring/breakers.h", {"engine", 11}},    {"mainspring/quarantine.h", {"engine", 11}},
    {"mainspring/dead_letter.h", {"engine", 11}}, {"mainspring/schedules.h", {"engine", 11}},
    {"mainspring/sessions.h", {"engine", 11}},    {"mainspring/workflows.h", {"engine", 11}},
    {"mainspring/triggers.h", {"engine", 11}},    {"mainspring/search.h", {"model", 2}},
    {"mainspring/bulk.h", {"engine", 11}},        {"mainspring/history.h", {"model", 2}},
    {"mainspring/backlog.h", {"model", 2}},       {"mainspring/marks.h", {"model", 2}},
    {"mainspring/workers.h", {"model", 2}}};

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_test(std::string_view path) {
  return starts_with(path, "tests/") || ends_with(path, "_test.cc");
}

// The module that a file belongs to, by its path; "" for tests/, examples/ and benchmarks/.
std::string_view module_of(std::string_view path) {
  if (starts_with(path, "src/")) {
    path.remove_prefix(4);
    return path.substr(0, path.find('/'));
  }
  if (starts_with(path, "include/")) {
    const auto found = kPublicHeaders.find(path.substr(8));
    if (found != kPublicHeaders.end()) return found->second.module;
  }
  return "";
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Characters as people count columns: UTF-8 continuation bytes do not count.
int columns(std::string_view line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

class Checker {
 public:
  explicit Checker(const SourceFile& file)
      : file_(file), code_(blank_comments_and_literals(file.text)) {
    lines_ = split_lines(file_.text);
    code_lines_ = split_lines(code_);
  }

  std::vector<Finding> run() {
    check_shape();
    check_includes();
    check_functions();
    check_patterns();
    return std::move(findings_);
  }

 private:
  void report(int line, std::string rule, std::string message) {
    findings_.push_back({file_.path, line, std::move(rule), std::move(message)});
  }

  void check_shape() {
    if (lines_.empty() || !starts_with(lines_[0], "//")) {
      report(1, "comment", "a file begins with one sentence in a comment: what it is");
    }
    const int count = static_cast<int>(lines_.size());
    if (count >= kMaxFileLines) {
      report(0, "lines", fmt::format("{} lines: must be under {}", count, kMaxFileLines));
    }
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const int width = columns(lines_[i]);
      if (width > kMaxColumns) {
        report(static_cast<int>(i) + 1, "columns",
               fmt::format("{} columns: must be at most {}", width, kMaxColumns));
      }
    }
  }

  void check_includes() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      std::string_view line = lines_[i];
      if (!starts_with(line, "#include \"")) continue;
      line.remove_prefix(10);
      check_include(static_cast<int>(i) + 1, line.substr(0, line.find('"')));
    }
  }

  void check_include(int line, std::string_view target) {
    if (starts_with(file_.path, "tests/") || starts_with(file_.path, "benchmarks/")) return;
    const std::string_view from = module_of(file_.path);
    if (starts_with(file_.path, "examples/")) {
      const bool peer = target.find('/') == std::string_view::npos;
      if (!starts_with(target, "mainspring/") && !peer) {
        report(line, "floors",
               fmt::format("an example includes only mainspring/… and its peers, not {}", target));
      }
      return;
    }
    const int floor = floor_of_module(from);
    if (floor < 0) {
      report(line, "floors", fmt::format("\"{}\" is no module of the table of floors", from));
      return;
    }
    if (target.find('/') == std::string_view::npos) return;  // made by the build, for this module
    const auto header = kPublicHeaders.find(target);
    const bool is_public = header != kPublicHeaders.end();
    const std::string_view to =
        is_public ? header->second.module : target.substr(0, target.find('/'));
    const int to_floor = is_public ? header->second.floor : floor_of_module(to);
    if (to_floor < 0) {
      report(line, "floors", fmt::format("{} is in no module of the table of floors", target));
    } else if (to != from && to_floor >= floor) {
      report(line, "floors",
             fmt::format("{} (floor {}) includes {} (floor {}): includes point down", from, floor,
                         target, to_floor));
    } else if (starts_with(file_.path, "include/") && !is_public) {
      report(line, "floors",
             fmt::format("a public header includes only public headers, not {}", target));
    }
  }

  // Finds bodies that are directly in a namespace or a class and follow a parameter list.
  void check_functions() {
    struct Scope {
      bool function;
      int first_line;
      std::string head;
    };
    std::vector<Scope> scopes;
    std::string head;  // the text since the last ; { or }
    int line = 1;
    int head_line = 0;  // of the head's first character that is no space
    bool inside = false;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const char c = code_[i];
      if (c == '\n') ++line;
      if (c == '#' && head.find_first_not_of(" \n") == std::string::npos) {
        i = skip_directive(i, line);
        continue;
      }
      if (c == '{') {
        const bool function = !inside && is_function_head(head);
        scopes.push_back({function, head_line, head});
        if (function) inside = true;
        head.clear();
        head_line = 0;
      } else if (c == '}') {
        if (!scopes.empty()) {
          if (scopes.back().function) {
            inside = false;
            report_function(scopes.back().head, scopes.back().first_line, line);
          }
          scopes.pop_back();
        }
        head.clear();
        head_line = 0;
      } else if (c == ';') {
        head.clear();
        head_line = 0;
      } else {
        if (head_line == 0 && std::isspace(static_cast<unsigned char>(c)) == 0) head_line = line;
        head += c;
      }
    }
  }

  // The index of the last character of the directive at `i`, its continued lines included.
  std::size_t skip_directive(std::size_t i, int& line) const {
    while (i + 1 < code_.size() && code_[i + 1] != '\n') {
      ++i;
      if (code_[i] == '\\' && i + 1 < code_.size() && code_[i + 1] == '\n') {
        ++i;
        ++line;
      }
    }
    return i;
  }

  static bool is_function_head(const std::string& head) {
    static const std::regex kOther(
        R"(^\s*(template\s*<.*>\s*)?(inline\s+)?(namespace|enum|extern|TEST_SUITE)\b)");
    static const std::regex kRecord(R"(\b(class|struct|union)\s+[\w\s():]*$)");
    if (head.find('(') == std::string::npos) return false;
    if (std::regex_search(head, kOther)) return false;
    if (head.find(')') < head.find("class ") && std::regex_search(head, kRecord)) return false;
    static const std::regex kRecordHead(R"(^\s*(template\s*<[^{]*>\s*)?(class|struct|union)\b)");
    if (std::regex_search(head, kRecordHead)) return false;
    // An initializer: `Thing thing = {`, `return {`, `x(`…
    const std::size_t last = head.find_last_not_of(" \n\t");
    return last != std::string::npos && head[last] != '=' && head[last] != ',' && head[last] != '(';
  }

  void report_function(const std::string& head, int first, int last) {
    const int length = last - first + 1;
    if (length <= kMaxFunctionLines) return;
    static const std::regex kName(R"(([\w:~]+)\s*\()");
    std::smatch match;
    std::string name = std::regex_search(head, match, kName) ? match[1].str() : "?";
    report(first, "function",
           fmt::format("{} has {} lines: must be at most {}", name, length, kMaxFunctionLines));
  }

  void check_patterns() {
    struct Pattern {
      const char* rule;
      const char* regex;
      const char* message;
    };
    static const std::vector<Pattern> kEverywhere = {
        {"coroutine", R"(\bco_(await|yield|return)\b)",
         "no coroutines (docs/decisions): g++ 12.2 destroys temporaries twice"}};
    static const std::vector<Pattern> kTests = {
        {"sleep", R"(\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\()",
         "a test waits on a signal or moves the clock; it does not sleep"}};
    static const std::vector<Pattern> kSource = {
        {"clock",
         R"(_clock\s*::\s*now\s*\(|\b(clock_gettime|gettimeofday)\s*\(|)"
         R"((^|[^\w.>])(std::|::)?time\s*\(\s*(NULL|nullptr|0|&))",
         "only src/env reads a clock; take a Clock or a Now as an argument"},
        {"chance", R"(\b(random_device|mt19937(_64)?|getrandom)\b|\b(rand|srand)\s*\()",
         "only src/env makes random numbers; take a Random as an argument"},
        {"mutex",
         R"(\bstd::(recursive_|shared_|timed_)?mutex\b|\bstd::condition_variable(_any)?\b)",
         "use base/mutex.h, which clang's thread-safety analysis understands"}};
    match_all(kEverywhere.data(), kEverywhere.size());
    if (is_test(file_.path)) {
      match_all(kTests.data(), kTests.size());
    } else if ((starts_with(file_.path, "src/") && !starts_with(file_.path, "src/env/")) ||
               starts_with(file_.path, "include/")) {
      match_all(kSource.data(), kSource.size());
    }
  }

  template <class Pattern>
  void match_all(const Pattern* patterns, std::size_t count) {
    for (std::size_t p = 0; p < count; ++p) {
      const std::regex regex(patterns[p].regex);
      for (std::size_t i = 0; i < code_lines_.size(); ++i) {
        const std::string line(code_lines_[i]);
        if (std::regex_search(line, regex)) {
          report(static_cast<int>(i) + 1, patterns[p].rule, patterns[p].message);
        }
      }
    }
  }

  const SourceFile& file_;
  std::string code_;
  std::vector<std::string_view> lines_;
  std::vector<std::string_view> code_lines_;
  std::vector<Finding> findings_;
};

// Where a raw string literal that begins at `i` ("R" of R"x(…)x") ends; npos if it is none.
std::size_t raw_string_end(std::string_view text, std::size_t i) {
  if (text[i] != 'R' || i + 1 >= text.size() || text[i + 1] != '"') return std::string_view::npos;
  if (i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 || text[i - 1] == '_')) {
    return std::string_view::npos;
  }
  const std::size_t open = text.find('(', i + 2);
  if (open == std::string_view::npos || open - i > 18) return std::string_view::npos;
  std::string close = ")";
  close.append(text.substr(i + 2, open - i - 2)).append("\"");
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

bool is_digit_separator(std::string_view text, std::size_t i) {
  return i > 0 && std::isxdigit(static_cast<unsigned char>(text[i - 1])) != 0 &&
         i + 1 < text.size() && std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0;
}

std::size_t quoted_end(std::string_view text, std::size_t i) {
  const char quote = text[i];
  for (++i; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    }
  }
  return std::min(i, text.size());
}

}  // namespace

int floor_of_module(std::string_view module) {
  const auto found = kFloors.find(module);
  return found == kFloors.end() ? -1 : found->second;
}

int floor_of_public_header(std::string_view path) {
  const auto found = kPublicHeaders.find(path);
  return found == kPublicHeaders.end() ? -1 : found->second.floor;
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string out(text);
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = std::string_view::npos;
    if (text.substr(i, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      end = text.find("*/", i + 2);
      end = end == std::string_view::npos ? text.size() : end + 2;
    } else if (text[i] == 'R') {
      end = raw_string_end(text, i);
    } else if (text[i] == '"' || (text[i] == '\'' && !is_digit_separator(text, i))) {
      end = quoted_end(text, i);
    }
    if (end == std::string_view::npos) {
      ++i;
      continue;
    }
    for (; i < end; ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  }
  return out;
}

std::vector<Finding> check_file(const SourceFile& file) {
  std::vector<Finding> findings = Checker(file).run();
  for (Finding& finding : check_words(file)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> check_words(const SourceFile& file) {
  // Split, so that this file does not break its own rule.
  static const std::regex kUnfinished(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|HA"
      "CK)\\b|not "
      "implemented|to be "
      "done later");
  static const std::regex kPlanning(
      "/wo"
      "rk/|/tmp/m"
      "s\\b|\\bissue[ -]?#?\\d|\\b(this|next|later|another|own|its) issue\\b|"
      "session no"
      "tes|coding ses"
      "sion|helper ses"
      "sion|the "
      "brief\\b",
      std::regex::icase);
  std::vector<Finding> findings;
  const std::vector<std::string_view> lines = split_lines(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line(lines[i]);
    if (std::regex_search(line, kUnfinished)) {
      findings.push_back(
          {file.path, static_cast<int>(i) + 1, "word", "says that it is unfinished"});
    }
    if (std::regex_search(line, kPlanning)) {
      findings.push_back({file.path, static_cast<int>(i) + 1, "word",
                          "speaks of the project's planning; say it for the reader of the code"});
    }
  }
  return findings;
}

}  // namespace mainspring::tidy
