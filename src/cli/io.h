// Io: where a command writes, and whether a person is looking. Tests give one that collects text.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mainspring::cli {

struct Io {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  std::function<std::optional<std::string>(std::string_view name)> env;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool colours = false;  // of out; decided from --color, NO_COLOR and the terminal
  int width = 0;         // columns of the terminal; 0 = no limit
};

// Standard output, standard error, the process's environment.
Io system_io();

// One line on a terminal that is written over; nothing elsewhere. Erased by its destructor.
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

// Text that came from outside, made harmless for a terminal: control characters become \xNN.
std::string printable(std::string_view text);

}  // namespace mainspring::cli
