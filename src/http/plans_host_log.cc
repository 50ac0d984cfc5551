// The plan of a job's log: read it, wait for it, or follow it as it grows.
#include <fmt/format.h>

#include <charconv>

#include "http/host_plans.h"
#include "http/host_shapes.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kLogPieceBytes = 64 << 10;  // of a followed log; also the default of max
constexpr std::int64_t kMaxReadBytes = 1 << 20;

struct LogRequest {
  JobType type = JobType::triggered;
  std::string name, run;
  std::int64_t position = 0;
  std::size_t max = kLogPieceBytes;
};

Result<std::int64_t> whole_number(const Request& request, std::string_view name,
                                  std::int64_t fallback, std::int64_t min, std::int64_t max) {
  const std::string* text = query_value(request, name);
  if (text == nullptr) return fallback;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [last, problem] = std::from_chars(text->data(), end, value);
  if (problem == std::errc() && last == end && value >= min && value <= max) return value;
  return invalid(std::string(name), fmt::format("{} \"{}\": must be a whole number, {} to {}", name,
                                                cut_text(*text, 64), min, max));
}

Result<LogRequest> log_request(const Request& request) {
  LogRequest log;
  const auto type = parse_job_type(request.param);
  if (!type) {
    return invalid("type", fmt::format("type \"{}\": must be continuous, triggered or queue",
                                       cut_text(request.param, 64)));
  }
  log.type = *type;
  log.name = request.more_params.front();
  MS_TRY(check_job_name(log.name));
  if (const std::string* run = query_value(request, "run"); run != nullptr && !run->empty()) {
    MS_TRY(check_run_id(*run));
    if (log.type != JobType::triggered) {
      return invalid("run", fmt::format("run: a {} job has one log, no runs", to_string(*type)));
    }
    log.run = *run;
  }
  MS_TRY_ASSIGN(log.position, whole_number(request, "position", 0, -kMaxReadBytes, INT64_MAX));
  MS_TRY_ASSIGN(const std::int64_t max,
                whole_number(request, "max", kLogPieceBytes, 1, kMaxReadBytes));
  log.max = static_cast<std::size_t>(max);
  return log;
}

// Resolves the latest run once: a follower stays with this run when the next one starts.
Result<void> settle_run(HostControl& host, LogRequest& log) {
  if (log.type != JobType::triggered || !log.run.empty()) return {};
  MS_TRY_ASSIGN(const JobView job, host.find(log.type, log.name));
  if (!job.latest_run) {
    return Error{ErrorCode::not_found, fmt::format("\"{}\" has not run yet", log.name)};
  }
  log.run = job.latest_run->id;
  return {};
}

struct Read {
  LogText text;
  bool ended = false;
};
Result<Read> read(HostControl& host, LogRequest& log) {
  MS_TRY(settle_run(host, log));
  Read out;
  // Checked first, so that lines written between the two calls are not missed.
  const bool ended = host.log_ended(log.type, log.name, log.run);
  MS_TRY_ASSIGN(out.text, host.log(log.type, log.name, log.run, log.position, log.max));
  out.ended = ended && out.text.at_end;
  log.position = out.text.next;
  return out;
}

StreamPiece waited_piece(HostControl& host, LogRequest& log, bool last) {
  auto got = read(host, log);
  if (!got) return {.reply = error_reply(got.error())};
  if (got->text.text.empty() && !got->ended && !last) return {};
  Reply reply;
  JsonWriter w(reply.body);
  write_host_log(w, got->text, got->ended, log.run);
  return {.reply = std::move(reply)};
}

StreamPiece followed_piece(HostControl& host, LogRequest& log) {
  auto got = read(host, log);
  if (!got) return {.reply = error_reply(got.error())};
  StreamPiece piece;
  if (got->text.skipped > 0) {
    piece.bytes = fmt::format("[{} bytes are missing: the log was rolled]\r\n", got->text.skipped);
  }
  piece.bytes += got->text.text;
  piece.ended = got->ended;
  return piece;
}

}  // namespace

Plan plan_host_log(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto wanted = log_request(request);
  if (!wanted) return error_reply(wanted.error());
  const auto wait = parse_wait(request);
  if (!wait) return error_reply(wait.error());
  const auto follow = query_flag(request, "follow", false);
  if (!follow) return error_reply(follow.error());
  HostControl& host = *services.host;
  const auto log = std::make_shared<LogRequest>(std::move(*wanted));
  DoStream stream;
  if (*follow) {
    log->max = std::min(log->max, kLogPieceBytes);
    stream.next = [&host, log](bool) { return followed_piece(host, *log); };
  } else {
    stream.wait = *wait;
    stream.next = [&host, log](bool last) { return waited_piece(host, *log, last); };
  }
  stream.watch = [&host, log](std::function<void()> ready) -> Result<std::shared_ptr<void>> {
    return host.watch_log(log->type, log->name, log->run, log->position, std::move(ready));
  };
  return stream;
}

}  // namespace mainspring::http
