// Checks the source tree: which rule of the project a file breaks, and where.
//
//   check_file({"src/model/job.cc", text})  ->  {{"src/model/job.cc", 12, "floors", "…"}, …}
//
// It reads text, not a syntax tree: comments and literals are blanked out first, so that a rule
// about code does not see prose, and braces are counted. docs/internals/floors.md documents the
// same rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mainspring::tidy {

struct SourceFile {
  std::string path;  // from the project's root: src/model/job.cc
  std::string text;
};

struct Finding {
  std::string path;
  int line = 0;      // 1-based; 0 = the whole file
  std::string rule;  // floors, comment, lines, columns, function, coroutine, sleep, clock, chance,
                     // mutex, word
  std::string message;
};

inline constexpr int kMaxFileLines = 800;
inline constexpr int kMaxFunctionLines = 70;
inline constexpr int kMaxColumns = 100;

// A place that may break a rule, and why. Entries that excuse nothing are themselves findings.
struct Excuse {
  std::string_view path;
  std::string_view rule;
  std::string_view why;
};

// C++ (.cc, .h, .def): every rule.
std::vector<Finding> check_file(const SourceFile& file);
// Scripts, documents, SQL, CMake: words only.
std::vector<Finding> check_words(const SourceFile& file);

// The same text with comments, string and character literals blanked; newlines stay.
std::string blank_comments_and_literals(std::string_view text);

// The floor of a module (`model` is 2) or of a public header (`mainspring/job.h`); -1 = unknown.
int floor_of_module(std::string_view module);
int floor_of_public_header(std::string_view path);

}  // namespace mainspring::tidy
