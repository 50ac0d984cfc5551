// Standard output and error, the progress line, and escaping of foreign text.
#include "cli/io.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/text.h"
#include "env/local_time.h"

namespace mainspring::cli {
namespace {

constexpr std::int64_t kLastShownUs = 253'402'300'799'999'999;  // the end of the year 9999

winsize terminal_size() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size : winsize{};
}

std::atomic<int> output_error = 0;

// Returns errno if the write failed, else 0.
int write_all(std::FILE* file, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fflush(file) == 0 && written ? 0 : errno;
}

// Keeps the first failure for output_failure(). A closed pipe (`mainspring jobs list | head`) is
// none: SIGPIPE ends the process, or the reader has seen enough.
void write_output(std::string_view text) {
  const int error = write_all(stdout, text);
  int none = 0;
  if (error != 0 && error != EPIPE) output_error.compare_exchange_strong(none, error);
}

}  // namespace

std::string output_failure() {
  const int error = output_error;
  return error == 0 ? "" : fmt::format("standard output: {}", std::strerror(error));
}

Io system_io() {
  Io io;
  io.out = write_output;
  io.err = [](std::string_view text) { (void)write_all(stderr, text); };
  io.env = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
  io.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  io.err_is_terminal = isatty(STDERR_FILENO) == 1;
  io.width = io.out_is_terminal ? terminal_size().ws_col : 0;
  io.height = [] { return isatty(STDOUT_FILENO) == 1 ? terminal_size().ws_row : 0; };
  io.offset_s = &local_offset_s;
  return io;
}

std::string shown_time(const Io& io, WallTime time) {
  const std::int64_t offset = io.offset_s ? io.offset_s(time) : 0;
  const std::int64_t local_us = time.us() + offset * 1'000'000;
  if (offset == 0 || local_us < 0 || local_us > kLastShownUs) return format_wall_time(time);
  std::string out = format_wall_time(WallTime::from_us(local_us));
  out.pop_back();  // the Z
  const std::int64_t minutes = std::abs(offset) / 60;
  return out + fmt::format("{}{:02}:{:02}", offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
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
  while (!text.empty()) {
    const Character next = first_character(text);
    if (text.front() == '\n' || text.front() == '\t') {
      out += text.front() == '\n' ? "\\n" : "\\t";
    } else if (!next.valid || next.code < 0x80) {
      const bool plain = next.valid && !is_control(next.code);
      out += plain ? std::string(1, text.front())
                   : fmt::format("\\x{:02x}", static_cast<unsigned>(next.code));
    } else if (is_control(next.code)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(next.code));
    } else {
      out += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += printable(text.substr(0, end));
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string without_c1(std::string_view text) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t lead = text.find('\xc2', at);
    const auto next = lead + 1 < text.size() ? static_cast<unsigned char>(text[lead + 1]) : 0;
    if (lead == text.npos) return out.append(text.substr(at));
    out.append(text.substr(at, lead - at));
    const bool control = next >= 0x80 && next < 0xa0;
    out += control ? fmt::format("\\u00{:02x}", next) : std::string(1, text[lead]);
    at = lead + (control ? 2 : 1);
  }
}

}  // namespace mainspring::cli
