// jobs-host list, show, info, run, stop, start, history, settings, deploy, remove; and logs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "api/fields.h"
#include "cli/handlers.h"
#include "cli/host.h"
#include "cli/sheet.h"
#include "env/clock.h"
#include "env/pause.h"
#include "env/signals.h"
#include "model/program_end.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxSettingsBytes = 1 << 20;
// How long one request waits at the server for more of a log.
constexpr std::string_view kFollowWait = "20s";
constexpr int kExitFailedRun = 1;

Colour colour_of_status(std::string_view status) {
  if (status == "Running" || status == "Success") return Colour::green;
  if (status == "Failed" || status == "Aborted") return Colour::red;
  if (status == "PendingRestart" || status == "missing") return Colour::yellow;
  if (status == "Stopped" || status == "InactiveInstance") return Colour::dim;
  return Colour::none;
}

// "Running"; for a triggered job the outcome of its last run, or why it cannot run.
std::string status_of_folder(const HostJob& job) {
  if (job.missing) return "missing";
  if (!job.error.empty()) return "error";
  if (job.frozen) return "frozen";
  if (job.type == "queue") return fmt::format("{} running", job.children);
  if (job.type == "continuous") return job.disabled ? job.status + " (disabled)" : job.status;
  if (job.latest_run.empty()) return "never ran";
  const auto run = decode_host_run(job.latest_run);
  return run ? run->status : "?";
}

std::string ago(const std::string& time, WallTime now) {
  const auto parsed = parse_wall_time(time);
  return parsed ? relative_to(*parsed, now) : time;
}

Result<std::string> call(Connection& connection, std::string_view method, const std::string& path,
                         std::string_view body = "") {
  return connection.client->request(method, path, body);
}

// One piece of a log.
struct LogPiece {
  std::string text, run;
  std::int64_t next = 0, skipped = 0;
  bool at_end = false, ended = false;
};
// Scripts may write any bytes, including U+0000, which is shown as '?'.
bool log_text(JsonReader& in, LogPiece& piece) {
  return in.text(piece.text, std::numeric_limits<std::size_t>::max());
}
constexpr JsonField<LogPiece> kPieceFields[] = {
    {"text", &log_text},
    {"run", &as_string<&LogPiece::run>},
    {"next", &as_count<&LogPiece::next>},
    {"skipped", &as_count<&LogPiece::skipped>},
    {"at_end", &as_boolean<&LogPiece::at_end>},
    {"ended", &as_boolean<&LogPiece::ended>},
};

Result<LogPiece> read_piece(Connection& connection, const HostJob& job, const std::string& run,
                            std::int64_t position, bool wait) {
  std::string path = fmt::format("{}/log?position={}", host_job_path(job), position);
  if (!run.empty()) path += "&run=" + run;
  if (wait) path += fmt::format("&wait={}", kFollowWait);
  MS_TRY_ASSIGN(const std::string body, call(connection, "GET", path));
  LogPiece piece;
  JsonReader in(body, JsonReader::Unknown::skip);
  if (!in.object(kPieceFields, piece) || !in.end()) return in.error();
  return piece;
}

std::string without_carriage_returns(std::string text) {
  std::erase(text, '\r');
  return text;
}

// Retries while the server is unreachable: it restarts, or the network is interrupted. A server
// that has just started may not have found its folders yet.
class Outage {
 public:
  explicit Outage(Io& io) : io_(io) {}

  template <class F>
  auto bridge(F call) -> decltype(call()) {
    for (;;) {
      auto result = call();
      if (result) {
        away_since_.reset();
        return result;
      }
      const ErrorCode code = result.error().code;
      const bool away = code == ErrorCode::unavailable || code == ErrorCode::timeout;
      const Instant now = clock_.now().instant;
      if (away) {
        if (!away_since_) io_.err(fmt::format("waiting: {}\n", result.error().message));
        away_since_ = now;
      }
      const bool starting =
          code == ErrorCode::not_found && away_since_ && now < *away_since_ + kStarts;
      if (!away && !starting) return result;
      pause(clock_, kPause, {});
    }
  }

 private:
  static constexpr Duration kPause = std::chrono::milliseconds(500);
  static constexpr Duration kStarts = std::chrono::seconds(30);
  Io& io_;
  const SystemClock clock_;
  std::optional<Instant> away_since_;
};

// Prints what scripts wrote: text without the characters that a terminal obeys, because a pager
// passes them on, or with --json an object for each line.
class LogLines {
 public:
  LogLines(Io& io, bool json) : io_(io), json_(json) {}

  void add(const LogPiece& piece) {
    if (!json_) return io_.out(printable_lines(piece.text));
    std::string_view text = piece.text;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      line_ += text.substr(0, end);
      print(piece.run);
    }
    line_ += text;
    if (line_.size() >= kMaxLine) print(piece.run);
  }
  void end(std::string_view run) {
    if (!line_.empty()) print(run);
  }

 private:
  static constexpr std::size_t kMaxLine = 1 << 20;  // a longer line is printed in parts

  void print(std::string_view run) {
    std::string out;
    JsonWriter w(out);
    w.begin_object();
    if (!run.empty()) w.key("run").string(run);
    w.key("line").string(line_).end_object();
    print_line(io_, out);
    line_.clear();
  }

  Io& io_;
  const bool json_;
  std::string line_;  // without an end so far
};

// Prints a log from `position` on, to its current end, or until the run ends.
Result<void> print_log(Connection& connection, const HostJob& job, std::string run,
                       std::int64_t position, bool follow, bool json, Io& io) {
  Outage outage(io);
  LogLines lines(io, json);
  bool answered = false;
  for (bool wait = false;;) {
    const auto ask = [&] { return read_piece(connection, job, run, position, wait); };
    MS_TRY_ASSIGN(LogPiece piece, follow && answered ? outage.bridge(ask) : ask());
    answered = true;
    if (piece.skipped > 0) {
      io.err(fmt::format("({} bytes of older lines are no longer kept)\n", piece.skipped));
    }
    if (run.empty()) run = piece.run;  // stay with this run when a newer one starts
    piece.text = without_carriage_returns(std::move(piece.text));
    lines.add(piece);
    position = piece.next;
    if (piece.at_end && (!follow || piece.ended)) {
      lines.end(piece.run);
      return {};
    }
    wait = piece.at_end;
  }
}

Result<HostRun> read_run(Connection& connection, const HostJob& job, const std::string& id) {
  MS_TRY_ASSIGN(std::string body,
                call(connection, "GET", fmt::format("{}/history/{}", host_job_path(job), id)));
  return decode_host_run(std::move(body));
}

// The outcome of a run whose job folder was removed meanwhile, from its engine job. Waits for that
// job's end.
Result<int> outcome_of_removed(Connection& connection, const HostJob& job, std::int64_t engine_job,
                               Error missing, Outage& outage, Io& io) {
  if (engine_job == 0) return missing;
  for (;;) {
    const auto seen = outage.bridge([&] {
      return connection.client->wait(engine_job, std::chrono::seconds(20), std::stop_token());
    });
    if (!seen) return missing;
    if (!is_terminal(seen->state)) continue;
    const bool completed = seen->state == JobState::completed;
    io.err(fmt::format("{} was removed; its run {}\n", job.name,
                       completed ? "succeeded" : "did not succeed"));
    return completed ? kExitOk : kExitFailedRun;
  }
}

}  // namespace

Result<int> run_host_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body, call(*connection, "GET", "/v1/host/jobs"));
  MS_TRY_ASSIGN(const std::vector<HostJob> jobs, decode_host_jobs(body));
  Table table({{.title = "JOB", .keep = true},
               {.title = "TYPE", .whole = true},
               {.title = "STATUS", .whole = true},
               {.title = "RUNS", .drop = 2},
               {.title = "POOL", .drop = 1},
               {.title = "WHY", .least = 40, .below = true}});
  for (const HostJob& job : jobs) {
    if (invocation.json) {
      print_line(io, job.json);
      continue;
    }
    const std::string status = status_of_folder(job);
    std::string why = job.error;
    if (why.empty() && !job.warnings.empty()) why = job.warnings.front();
    table.add({{job.name},
               {job.type},
               {status, colour_of_status(status)},
               {job.run_file},
               {job.pool},
               {why, Colour::yellow}});
  }
  if (!invocation.json) {
    io.out(table.empty() ? "no job folders\n" : table.render(io));
  }
  return kExitOk;
}

Result<int> run_host_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job, find_host_job(*connection, *invocation.argument("NAME"), ""));
  if (invocation.json) {
    print_line(io, job.json);
    return kExitOk;
  }
  const WallTime now = SystemClock().now().wall;
  Sheet sheet(io);
  sheet.add("name", job.name);
  sheet.add("type", job.type);
  sheet.add("status", status_of_folder(job));
  sheet.add("error", job.error);
  if (!job.missing) sheet.add("runs", fmt::format("{} by {}", job.run_file, job.host));
  sheet.add("directory", job.directory);
  sheet.add("pool", job.pool);
  sheet.add("port", job.port == 0 ? "" : fmt::to_string(job.port));
  sheet.add("job", job.job == 0 ? "" : fmt::to_string(job.job));
  if (!job.latest_run.empty()) {
    MS_TRY_ASSIGN(const HostRun run, decode_host_run(job.latest_run));
    sheet.add("latest_run", fmt::format("{} {}, {}", run.id, run.status, ago(run.started, now)));
    sheet.add("trigger", run.trigger);
  }
  sheet.add("settings", job.settings == "{}" ? "" : job.settings);
  for (const std::string& warning : job.warnings) sheet.add("warning", warning);
  io.out(sheet.text());
  return kExitOk;
}

Result<int> run_host_info(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body, call(*connection, "GET", "/v1/host"));
  if (invocation.json) {
    print_line(io, body);
    return kExitOk;
  }
  struct Layer {
    std::string name, detail;
    bool active = false;
  };
  static constexpr JsonField<Layer> kLayer[] = {{"name", &as_string<&Layer::name>},
                                                {"active", &as_boolean<&Layer::active>},
                                                {"detail", &as_string<&Layer::detail>}};
  Table layers({{"ISOLATION"}, {"ACTIVE"}, {"HOW"}});
  Sheet sheet(io);
  JsonReader in(body, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name == "layers") {
      return in.array(kMaxSettingsBytes, [&](std::size_t) {
        Layer layer;
        if (!in.object(kLayer, layer)) return false;
        layers.add({{layer.name},
                    {layer.active ? "yes" : "no", layer.active ? Colour::green : Colour::dim},
                    {layer.detail}});
        return true;
      });
    }
    if (name == "problems") {
      std::vector<std::string> problems;
      const bool read = in.array(kMaxSettingsBytes,
                                 [&](std::size_t) { return in.string(problems.emplace_back()); });
      sheet.add(name, fmt::format("{}", fmt::join(problems, "\n")));
      return read;
    }
    std::string value;
    if (!in.raw(value)) return false;
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    sheet.add(name, value);
    return true;
  });
  if (!good || !in.end()) return in.error();
  io.out(sheet.text() + "\n" + layers.render(io));
  return kExitOk;
}

Result<int> run_host_run(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job,
                find_host_job(*connection, *invocation.argument("NAME"), "triggered"));
  std::string text;
  for (const std::string& word : invocation.all_arguments("ARGUMENT")) {
    // Quoted so that a shell could read the words again.
    const bool plain = !word.empty() && word.find_first_of(" \t\n\r'\"\\") == std::string::npos;
    std::string quoted;
    for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  std::string request;
  JsonWriter w(request);
  w.begin_object().key("arguments").string(text).end_object();
  MS_TRY_ASSIGN(const std::string body,
                call(*connection, "POST", host_job_path(job) + "/run", request));
  std::string id;
  std::int64_t engine_job = 0;
  JsonReader in(body, JsonReader::Unknown::skip);
  if (!in.members([&](std::string_view name) {
        if (name == "job") return in.integer(engine_job, 0, INT64_MAX);
        return name == "run" ? in.string(id) : in.skip();
      })) {
    return in.error();
  }
  if (!invocation.has("wait")) {
    print_line(io, invocation.json ? body : id);
    return kExitOk;
  }
  Outage outage(io);
  const auto removed = [&](Error error) -> Result<int> {
    if (error.code != ErrorCode::not_found) return error;
    return outcome_of_removed(*connection, job, engine_job, std::move(error), outage, io);
  };
  if (!invocation.json) {
    if (auto end = print_log(*connection, job, id, 0, true, false, io); !end)
      return removed(end.error());
  }
  for (;;) {
    const auto run = outage.bridge([&] { return read_run(*connection, job, id); });
    if (!run) return removed(run.error());
    if (run->ended.empty() && run->status != "Aborted") {
      const auto more =
          outage.bridge([&] { return read_piece(*connection, job, id, INT64_MAX, true); });
      if (!more) return removed(more.error());
      continue;
    }
    if (invocation.json) print_line(io, run->json);
    return run->status == "Success" ? kExitOk : kExitFailedRun;
  }
}

namespace {

Result<int> change(const Invocation& invocation, Io& io, std::string_view verb,
                   std::string_view done) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job, find_host_job(*connection, *invocation.argument("NAME"), ""));
  MS_TRY_ASSIGN(const std::string body,
                call(*connection, "POST", fmt::format("{}/{}", host_job_path(job), verb)));
  print_line(io, invocation.json ? body : fmt::format("{} {}", job.name, done));
  return kExitOk;
}

}  // namespace

Result<int> run_host_stop(const Invocation& invocation, Io& io) {
  return change(invocation, io, "stop", "is stopping");
}

Result<int> run_host_start(const Invocation& invocation, Io& io) {
  return change(invocation, io, "start", "is started");
}

Result<int> run_host_history(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job,
                find_host_job(*connection, *invocation.argument("NAME"), "triggered"));
  MS_TRY_ASSIGN(const std::string body, call(*connection, "GET", host_job_path(job) + "/history"));
  MS_TRY_ASSIGN(const std::vector<HostRun> runs, decode_host_runs(body));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "RUN", .whole = true},
               {.title = "STATUS", .whole = true},
               {"STARTED"},
               {"TOOK", Align::right},
               {"EXIT", Align::right},
               {.title = "PEAK MEMORY", .align = Align::right, .drop = 1},
               {"JOB", Align::right},
               {"TRIGGER"}});
  for (const HostRun& run : runs) {
    if (invocation.json) {
      print_line(io, run.json);
      continue;
    }
    std::string took = "-";
    const auto started = parse_wall_time(run.started);
    if (const auto ended = parse_wall_time(run.ended); started && ended) {
      took =
          format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(*ended - *started));
    }
    table.add({{run.id},
               {run.status, colour_of_status(run.status)},
               {ago(run.started, now)},
               {took},
               {run.exit_code ? fmt::to_string(*run.exit_code) : "-"},
               {run.peak_memory ? mebibytes_text(*run.peak_memory) : "-"},
               {run.job == 0 ? "-" : fmt::to_string(run.job)},
               {run.trigger}});
  }
  if (!invocation.json) io.out(table.empty() ? "no runs\n" : table.render(io));
  return kExitOk;
}

Result<int> run_host_settings(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job, find_host_job(*connection, *invocation.argument("NAME"), ""));
  const std::string path = host_job_path(job) + "/settings";
  if (const auto text = invocation.argument("JSON")) {
    std::string json = *text;
    if (json == "-" || json.starts_with('@')) {
      MS_TRY_ASSIGN(json, read_file(json == "-" ? json : json.substr(1), kMaxSettingsBytes));
    }
    MS_TRY(check_json("JSON", json));
    MS_TRY(call(*connection, "PUT", path, json));
    if (invocation.json) return kExitOk;
    print_line(io, fmt::format("settings of {} are set", job.name));
    // The server keeps settings that it does not know, and says so with the job.
    MS_TRY_ASSIGN(const HostJob now, find_host_job(*connection, job.name, job.type));
    for (const std::string& warning : now.warnings) {
      io.err(fmt::format("mainspring: warning: {}\n", printable(warning)));
    }
    return kExitOk;
  }
  MS_TRY_ASSIGN(const std::string body, call(*connection, "GET", path));
  print_line(io, without_c1(body));
  return kExitOk;
}

Result<int> run_host_deploy(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::string target = *invocation.argument("TYPE/NAME");
  const std::string source = *invocation.argument("SOURCE");
  const std::size_t slash = target.find('/');
  // The folder of queue scripts is called queues/NAME.
  const std::string folder = target.substr(0, slash), type = folder == "queues" ? "queue" : folder;
  if (slash == std::string::npos ||
      (type != "continuous" && type != "triggered" && type != "queue")) {
    return invalid("TYPE/NAME", fmt::format("\"{}\": must be continuous/NAME, triggered/NAME or "
                                            "queue/NAME",
                                            target));
  }
  const auto limit = static_cast<std::size_t>(invocation.options.max_upload_bytes);
  std::string name = std::filesystem::path(source).filename().string();
  std::error_code ignored;
  std::string content;
  bool zip = name.ends_with(".zip");
  if (std::filesystem::is_directory(source, ignored)) {
    MS_TRY_ASSIGN(content, zip_directory(source, limit));
    zip = true;
  } else {
    MS_TRY_ASSIGN(content, read_file(source, limit));
  }
  if (name.find_first_of("\"\r\n\\") != std::string::npos) {
    return invalid(
        "SOURCE",
        fmt::format("file name \"{}\": must not contain quotes, backslashes or line breaks", name));
  }
  MS_TRY_ASSIGN(std::string body,
                connection->client->upload(
                    "PUT", "/v1/host/jobs/" + type + target.substr(slash), std::move(content),
                    zip ? "application/zip" : "application/octet-stream", name));
  if (invocation.json) {
    print_line(io, body);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const HostJob job, decode_host_job(std::move(body)));
  print_line(io, fmt::format("{} {} runs {} by {}", job.type, job.name, job.run_file, job.host));
  if (job.frozen) {
    print_line(io, "it stays frozen: set \"freeze\" to false in its settings to start it");
  } else if (job.disabled && job.type == "continuous") {
    print_line(
        io, fmt::format("it stays stopped: start it with mainspring jobs-host start {}", job.name));
  } else if (job.disabled && job.type == "queue") {
    print_line(io, "it stays stopped: remove disable.job from its folder to start it");
  }
  if (!job.error.empty()) io.err(fmt::format("error: {}\n", printable(job.error)));
  for (const std::string& warning : job.warnings)
    io.err(fmt::format("warning: {}\n", printable(warning)));
  return kExitOk;
}

Result<int> run_host_remove(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job, find_host_job(*connection, *invocation.argument("NAME"), ""));
  MS_TRY_ASSIGN(const std::string body, call(*connection, "DELETE", host_job_path(job)));
  print_line(io, invocation.json ? body : fmt::format("{} is removed, with its data", job.name));
  return kExitOk;
}

Result<int> run_logs(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const HostJob job, find_host_job(*connection, *invocation.argument("NAME"), ""));
  MS_TRY_ASSIGN(const auto bytes, invocation.number("bytes", 1, INT64_MAX));
  const std::string run = invocation.flag("run").value_or("");
  const bool all = invocation.has("all") || (job.type == "triggered" && !bytes);
  constexpr std::int64_t kTail = 16 << 10;
  const std::int64_t position = all ? 0 : -bytes.value_or(kTail);
  MS_TRY(print_log(*connection, job, run, position, invocation.has("follow"), invocation.json, io));
  return kExitOk;
}

}  // namespace mainspring::cli
