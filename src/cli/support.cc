// Connection, ids, ages, files.
#include "cli/support.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/mutex.h"
#include "env/clock.h"
#include "env/pause.h"

namespace mainspring::cli {

namespace {

constexpr std::size_t kMaxTokenFileBytes = 8 << 10;

// A flag takes precedence over MAINSPRING_ACCESS_TOKEN, which does over a file or other variables.
Result<Secret> token_of(const Invocation& invocation) {
  const std::string& file = invocation.options.token_file;
  const bool by_flag = is_flag(invocation, "token_file");
  if (!invocation.token.empty() && !by_flag) return invocation.token;
  if (file == "none") return Secret();
  MS_TRY_ASSIGN(std::string text, read_file(file, kMaxTokenFileBytes));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) {
    return invalid("token_file", fmt::format("--token-file {}: its first line is empty", file));
  }
  return Secret(std::move(text));
}

std::string path_or_nothing(const std::string& setting, std::string_view word) {
  return setting == word ? "" : setting;
}

}  // namespace

bool is_flag(const Invocation& invocation, std::string_view setting) {
  return invocation.origins.at(setting).starts_with("flag ");
}

Result<ClientOptions> client_options(const Invocation& invocation) {
  ClientOptions options;
  options.url = invocation.options.server;
  MS_TRY_ASSIGN(options.token, token_of(invocation));
  options.ca_file = path_or_nothing(invocation.options.ca_file, "system");
  options.certificate_file = path_or_nothing(invocation.options.cert_file, "none");
  options.key_file = path_or_nothing(invocation.options.key_file, "none");
  options.warn = [level = log_level_of(invocation.options),
                  format = log_format_of(invocation.options)](const std::string& text) {
    StderrLog(level, format).warn(text);
  };
  return options;
}

ProgramAccess program_access(const Invocation& invocation, JobTokens& tokens) {
  // The program may run in another directory.
  const auto absolute = [](const std::string& path) {
    std::error_code problem;
    const std::filesystem::path out = std::filesystem::absolute(path, problem);
    return problem ? path : out.string();
  };
  constexpr std::string_view kUnix = "unix:";
  std::string server;
  std::istringstream urls(without_password(invocation.options.server));
  for (std::string url; std::getline(urls, url, ',');) {
    if (!server.empty()) server += ',';
    server += url.starts_with(kUnix) ? std::string(kUnix) + absolute(url.substr(5)) : url;
  }
  ProgramAccess access;
  access.server = [server] { return server; };
  const std::string ca_file = path_or_nothing(invocation.options.ca_file, "system");
  if (!ca_file.empty()) access.ca_file = absolute(ca_file);
  const auto own = token_of(invocation);
  if (own && !own->empty()) {
    access.token = [&tokens](const std::string& queue, const std::string& folder, Duration limit) {
      return tokens.get(queue, folder, limit);
    };
  }
  return access;
}

Result<std::unique_ptr<Connection>> connect(const Invocation& invocation, Duration retry_for) {
  auto connection = std::make_unique<Connection>();
  MS_TRY_ASSIGN(ClientOptions options, client_options(invocation));
  options.retry_for = retry_for;
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  options.trace = TraceHeaders(variable("TRACEPARENT"), variable("TRACESTATE"));
  auto client = Client::open(std::move(options), connection->random);
  if (!client) {
    Error error = client.error();
    error.message = fmt::format("--server: {}", error.message);
    return error;
  }
  connection->client = std::move(*client);
  return connection;
}

namespace {

// "2026-01-31", "2026-01-31T09:00", "2026-01-31 09:00:30": as a clock of that zone shows it. An
// hour that a clock change skips is shifted by the change.
std::optional<WallTime> parse_local_time(const Io& io, std::string text) {
  constexpr std::string_view kFull = "0000-00-00T00:00:00";
  if (text.size() != 10 && text.size() != 16 && text.size() != kFull.size()) return std::nullopt;
  text += kFull.substr(text.size());
  const auto shown = parse_wall_time(text + "Z");
  if (!shown) return std::nullopt;
  if (!io.offset_s) return *shown;
  const auto minus = [&](std::int64_t offset) {
    return WallTime::from_us(std::max<std::int64_t>(shown->us() - offset * 1'000'000, 0));
  };
  const WallTime near = minus(io.offset_s(*shown));
  return minus(io.offset_s(near));
}

}  // namespace

Result<std::optional<WallTime>> past_time(const Invocation& invocation, const Io& io,
                                          const std::string& flag) {
  const auto text = invocation.flag(flag);
  if (!text) return std::optional<WallTime>();
  const WallTime now = SystemClock().now().wall;
  if (const auto ago = parse_duration(*text); ago && *ago != kForever && *ago >= Duration(0))
    return std::optional(*ago < Duration(now.us()) ? now - *ago : WallTime());
  if (const auto at = parse_wall_time(*text)) return std::optional(*at);
  if (const auto at = parse_local_time(io, *text)) return at;
  return invalid(flag, fmt::format("--{} \"{}\": must be a duration ago (2h, 7d), an instant "
                                   "(2026-01-31T09:00:00Z), or a local time (2026-01-31T09:00)",
                                   flag, text->substr(0, 64)));
}

LogLevel log_level_of(const Options& options) {
  if (options.log_level == "debug") return LogLevel::debug;
  if (options.log_level == "warn") return LogLevel::warn;
  if (options.log_level == "error") return LogLevel::error;
  if (options.log_level == "off") return LogLevel::off;
  return LogLevel::info;
}

namespace {

// The variable is inherited: a program with another standard error has it too.
bool logs_to_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat err {};
  return stream != nullptr && fstat(STDERR_FILENO, &err) == 0 &&
         fmt::format("{}:{}", err.st_dev, err.st_ino) == stream;
}

}  // namespace

LogFormat log_format_of(const Options& options) {
  if (options.log_format == "json") return LogFormat::json;
  const bool journal =
      options.log_format == "journal" || (options.log_format == "auto" && logs_to_journal());
  return journal ? LogFormat::journal : LogFormat::text;
}

bool stops_all(const Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout ||
         error.code == ErrorCode::unauthenticated;
}

Result<std::vector<JobId>> ids_of(const Invocation& invocation, const std::string& name) {
  std::vector<JobId> ids;
  for (const std::string& text : invocation.all_arguments(name)) {
    const auto id = parse_count(text);
    if (!id || *id < 1) {
      return invalid(name, fmt::format("{} \"{}\": must be a job's number, from 1 on", name, text));
    }
    ids.push_back(*id);
  }
  return ids;
}

void log_stop(Log& log, const StopSignals& signals) {
  if (signals.first() != 0) log.info("stopping", {{"why", signals.why()}});
}

std::string format_age(Duration age) {
  using std::chrono::duration_cast;
  const auto seconds = duration_cast<std::chrono::seconds>(age).count();
  if (seconds <= -1) return "in " + format_age(-age);
  if (seconds < 1) return "now";
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 86'400) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86'400);
}

std::string short_duration(Duration value) {
  const auto us = static_cast<double>(std::max(value, Duration(0)).count());
  if (us < 1e3) return fmt::format("{:.0f}us", us);
  if (us < 1e6) return fmt::format("{:.{}f}ms", us / 1e3, us < 1e4 ? 1 : 0);
  if (us < 60e6) return fmt::format("{:.{}f}s", us / 1e6, us < 1e7 ? 1 : 0);
  if (us < 3600e6) return fmt::format("{:.{}f}m", us / 60e6, us < 600e6 ? 1 : 0);
  if (us < 86400e6) return fmt::format("{:.1f}h", us / 3600e6);
  return fmt::format("{:.1f}d", us / 86400e6);
}

std::string format_left(Duration left) {
  for (const Duration unit : {Duration(24h), Duration(1h), Duration(1min), Duration(1s)}) {
    if (left >= unit - unit / 120) return format_age((left + unit / 2) / unit * unit);
  }
  return "now";
}

std::string format_count(std::int64_t value) {
  std::string digits = fmt::to_string(value);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

Colour colour_of(JobState state) {
  switch (state) {
    case JobState::completed:
      return Colour::green;
    case JobState::running:
      return Colour::blue;
    case JobState::retryable:
      return Colour::yellow;
    case JobState::dead:
      return Colour::red;
    case JobState::cancelled:
      return Colour::dim;
    default:
      return Colour::none;
  }
}

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(n), noun, n == 1 ? "" : "s");
}

Result<std::string> read_file(const std::string& name, std::size_t limit) {
  std::FILE* const file = name == "-" ? stdin : std::fopen(name.c_str(), "rb");
  if (file == nullptr) {
    return Error{.code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io_error,
                 .message = fmt::format("{}: {}", name, std::strerror(errno))};
  }
  std::string content;
  char buffer[64 << 10];
  std::size_t got = 0;
  while (content.size() <= limit && (got = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
    content.append(buffer, got);
  }
  const bool failed = std::ferror(file) != 0;
  const int problem = errno;
  if (file != stdin) (void)std::fclose(file);
  if (failed) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("reading {}: {}", name, std::strerror(problem))};
  }
  if (content.size() > limit) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("{} has more than {} bytes", name, limit)};
  }
  return content;
}

Error in_file(const std::string& name, Error error) {
  const bool nested = error.field.find_first_of(".[") != std::string::npos;
  if (nested && error.message.find(error.field) == std::string::npos)
    error.message += fmt::format(" ({})", error.field);
  error.message = fmt::format("{}: {}", name, error.message);
  return error;
}

void pause(Duration length, const std::stop_token& stop) {
  mainspring::pause(SystemClock(), length, stop);
}

void print_line(Io& io, std::string_view line) {
  io.out(std::string(line) + "\n");
}

}  // namespace mainspring::cli
