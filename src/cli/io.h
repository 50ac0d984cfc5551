// Io: where a command writes, and whether it is a terminal. Tests use one that collects text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mainspring/time.h"

namespace mainspring::cli {

struct Io {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  std::function<std::optional<std::string>(std::string_view name)> env;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool colours = false;         // of out; decided from --color, NO_COLOR and the terminal
  int width = 0;                // columns of the terminal; 0 = no limit
  std::function<int()> height;  // rows of the terminal now; 0 = no limit. Empty: no limit
  // How far local clocks are ahead of UTC at a time, in seconds. Empty: times are shown in UTC.
  std::function<std::int64_t(WallTime)> offset_s;
};

// Standard output, standard error, the process's environment.
Io system_io();
// Why standard output lost text: "standard output: No space left on device"; "" = it did not.
std::string output_failure();

// A line on a terminal that is overwritten; nothing elsewhere. Erased by its destructor.
class ProgressLine {
 public:
  explicit ProgressLine(Io& io) : io_(io) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string_view text);
  void clear();

 private:
  Io& io_;
  bool shown_ = false;
};

// A time in a table or a line for people, with the offset of its zone: 2026-01-31T10:00:00+01:00.
std::string shown_time(const Io& io, WallTime time);

// Escapes foreign text for a terminal: control characters and broken UTF-8 become \xNN, those
// beyond ASCII and the controls of text direction \uNNNN.
std::string printable(std::string_view text);
// The same for text of several lines: keeps line ends and tabs.
std::string printable_lines(std::string_view text);
// Writes U+0080 to U+009F, which terminals obey, as \u0080 to \u009f: the same text inside of JSON.
std::string without_c1(std::string_view text);

}  // namespace mainspring::cli
