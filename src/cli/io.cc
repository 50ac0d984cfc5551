// Standard output and error, the progress line, and what makes foreign text harmless.
#include "cli/io.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace mainspring::cli {
namespace {

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// A closed pipe (`mainspring jobs list | head`) is no reason to complain: SIGPIPE ends the process.
void write_all(std::FILE* file, std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), file);
  (void)std::fflush(file);
}

}  // namespace

Io system_io() {
  Io io;
  io.out = [](std::string_view text) { write_all(stdout, text); };
  io.err = [](std::string_view text) { write_all(stderr, text); };
  io.env = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
  io.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  io.err_is_terminal = isatty(STDERR_FILENO) == 1;
  io.width = io.out_is_terminal ? terminal_width() : 0;
  return io;
}

void ProgressLine::show(std::string_view text) {
  if (!io_.err_is_terminal) return;
  const auto width = static_cast<std::size_t>(io_.width > 1 ? io_.width - 1 : 79);
  io_.err(fmt::format("\r\033[K{}", text.substr(0, width)));
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) io_.err("\r\033[K");
  shown_ = false;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace mainspring::cli
