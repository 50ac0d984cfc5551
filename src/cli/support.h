// Shared by several commands: the connection, ids, ages, reading files.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/handlers.h"
#include "cli/table.h"
#include "client/client.h"
#include "client/job_tokens.h"
#include "env/random.h"
#include "env/signals.h"
#include "mainspring/job.h"
#include "telemetry/log.h"
#include "worker/program_access.h"

namespace mainspring::cli {

// A client of --server. Connects at the first call.
struct Connection {
  SystemRandom random;
  std::unique_ptr<Client> client;
  Jobs& jobs() { return *client; }
  Workflows& workflows() { return *client; }
  Triggers& triggers() { return *client; }
  Breakers& breakers() { return *client; }
};
// `retry_for`: how long calls are repeated while the server is unreachable; 0 = fail at once, as a
// person is waiting. Errors: invalid_argument (--server).
Result<std::unique_ptr<Connection>> connect(const Invocation& invocation, Duration retry_for);

// The options of a client of --server, with its token. Errors: invalid_argument, not_found,
// io_error (the file of the token).
Result<ClientOptions> client_options(const Invocation& invocation);

// How programs that this process starts connect to its server. `tokens`: of a client of that
// server; outlives the result.
ProgramAccess program_access(const Invocation& invocation, JobTokens& tokens);

// Whether `setting` was given on the command line.
bool is_flag(const Invocation& invocation, std::string_view setting);

LogLevel log_level_of(const Options& options);
// `auto` is decided by JOURNAL_STREAM and standard error: see systemd.exec(5).
LogFormat log_format_of(const Options& options);

// Whether the error has nothing to do with one item: the server is away, or the token is wrong.
bool stops_all(const Error& error);

// Calls `change` for each item, also after an error about one of them. Returns the first error and
// prints the others. Ends at an error that would meet all items: see stops_all.
template <class Items, class Change>
Result<int> for_each_of(Io& io, const Items& items, Change&& change) {
  std::optional<Error> first;
  for (const auto& item : items) {
    const Result<void> good = change(item);
    if (good) continue;
    if (first) io.err(fmt::format("mainspring: {}\n", good.error().message));
    if (!first) first = good.error();
    if (stops_all(good.error())) break;
  }
  if (first) return *first;
  return 0;
}

// The job numbers of argument `name`. Errors: invalid_argument.
Result<std::vector<JobId>> ids_of(const Invocation& invocation, const std::string& name);

// A flag that names a time: a duration ago (2h), an instant (2026-01-31T09:00:00Z), or a date or
// time without a zone, which is local, or UTC with --utc. nullopt if it was not given. Errors:
// invalid_argument.
Result<std::optional<WallTime>> past_time(const Invocation& invocation, const Io& io,
                                          const std::string& flag);

// "now", "12s", "3m", "5h", "2d": how long, rounded down, for people.
std::string format_age(Duration age);
// "850us", "12ms", "3.4s", "5.2m", "1.5h", "2.0d": how long something took, in up to three digits.
std::string short_duration(Duration value);
// How much time is left, rounded to the nearest unit: "10m" of 9 minutes 59 seconds.
std::string format_left(Duration left);
// Logs the signal that ended the program, and its sender; nothing if none came.
void log_stop(Log& log, const StopSignals& signals);
// 1,234,567.
std::string format_count(std::int64_t value);
Colour colour_of(JobState state);
// "1 job", "2 jobs".
std::string counted(std::int64_t n, std::string_view noun);

// The content of a file, "-" = standard input. Errors: not_found, io_error, too_large (over
// `limit`).
Result<std::string> read_file(const std::string& name, std::size_t limit);
// An error in a file's content: adds the file to the message, and the path of a nested field.
Error in_file(const std::string& name, Error error);

// Sleeps for `length`, or until `stop` is requested.
void pause(Duration length, const std::stop_token& stop);

// JSON of a list: one object per line.
void print_line(Io& io, std::string_view line);

}  // namespace mainspring::cli
