// scale show and scale run: the workers that queues need, and a program that sets their number.
#include "cli/scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "client/calls.h"
#include "env/clock.h"
#include "env/processes.h"
#include "worker/auto_renew_lease.h"
#include "worker/exec.h"

namespace mainspring::cli {
namespace {

constexpr Duration kAskScaleEvery = 15s;
constexpr Duration kFirstRetry = 1s, kLongestRetry = 1min;
constexpr Duration kStandbyWait = 30s;
constexpr Duration kCommandGrace = 5s;

constexpr JsonField<ScaleAnswer> kScaleNeeded[] = {
    {"total", [](JsonReader& in, ScaleAnswer& a) { return in.number(a.slots_needed, 0, 1e15); }}};
constexpr JsonField<ScaleAnswer> kScaleWorkers[] = {
    {"seen",
     [](JsonReader& in, ScaleAnswer& a) { return in.integer(a.workers_seen, 0, INT32_MAX); }}};
constexpr JsonField<ScaleAnswer> kScaleAnswer[] = {
    {"value", [](JsonReader& in, ScaleAnswer& a) { return in.integer(a.value, 0, INT32_MAX); }},
    {"raw", [](JsonReader& in, ScaleAnswer& a) { return in.integer(a.raw, 0, INT32_MAX); }},
    {"reason", [](JsonReader& in, ScaleAnswer& a) { return in.string(a.reason); }},
    {"slots_needed", [](JsonReader& in, ScaleAnswer& a) { return in.object(kScaleNeeded, a); }},
    {"workers", [](JsonReader& in, ScaleAnswer& a) { return in.object(kScaleWorkers, a); }},
    {"min", [](JsonReader& in, ScaleAnswer& a) { return in.integer(a.min, 0, INT32_MAX); }},
    {"max", [](JsonReader& in, ScaleAnswer& a) { return in.integer(a.max, 0, INT32_MAX); }},
};

// "{desired}" in each word.
std::vector<std::string> filled(std::vector<std::string> words, int desired) {
  constexpr std::string_view kPlace = "{desired}";
  for (std::string& word : words) {
    for (std::size_t at = 0; (at = word.find(kPlace, at)) != std::string::npos;) {
      word.replace(at, kPlace.size(), fmt::to_string(desired));
    }
  }
  return words;
}

Result<void> run_command(const std::vector<std::string>& words, const ScaleAnswer& answer,
                         const std::stop_token& stop) {
  ProcessSpec spec;
  spec.argv = filled(words, answer.value);
  spec.environment = inherited_environment("MAINSPRING_SCALE_");
  std::erase_if(spec.environment, [](const std::string& entry) {
    return entry.starts_with("MAINSPRING_ACCESS_TOKEN=");  // not for the command
  });
  spec.environment.push_back(fmt::format("MAINSPRING_SCALE_DESIRED={}", answer.value));
  spec.environment.push_back("MAINSPRING_SCALE_REASON=" + answer.reason);
  spec.inherit_streams = true;
  spec.kill_grace_at_stop = [] { return kCommandGrace; };
  SystemProcesses processes;
  MS_TRY_ASSIGN(const ProcessEnd end, processes.run(
                                          spec, [](std::string_view) {}, stop));
  if (end.signal == 0 && end.exit_code == 0) return {};
  return Error{ErrorCode::unavailable,
               end.signal != 0 ? fmt::format("the command ended by {}", signal_name(end.signal))
                               : fmt::format("the command ended with code {}", end.exit_code)};
}

}  // namespace

Result<std::string> scale_query(const Invocation& invocation, const std::string& pool) {
  std::string query = "/v1/scale?queues=";
  for (const std::string& queue : invocation.all_flags("queue")) {
    query += (query.ends_with('=') ? "" : ",") + percent_encode(queue);
  }
  if (!pool.empty()) {
    MS_TRY(check_name("--pool", pool));
    query += "&pool=" + percent_encode(pool);
  }
  for (const char* name : {"slots", "target", "min", "max", "lead", "hold"}) {
    if (const auto value = invocation.flag(name))
      query += fmt::format("&{}={}", name, percent_encode(*value));
  }
  for (const std::string& window : invocation.all_flags("window")) {
    query += "&window=" + percent_encode(window);
  }
  return query;
}

Result<ScaleAnswer> ask_scale(Client& client, const std::string& query, Duration wait, int value) {
  std::string path = query;
  if (wait > Duration(0)) path += fmt::format("&wait={}&value={}", format_duration(wait), value);
  MS_TRY_ASSIGN(const std::string body, client.request("GET", path, ""));
  ScaleAnswer answer;
  JsonReader in(body, JsonReader::Unknown::skip);
  if (in.object(kScaleAnswer, answer) && in.end()) return answer;
  return Error{ErrorCode::internal, "the server's answer about scaling is not valid"};
}

Result<int> follow_scale(const Invocation& invocation, Io& io, Client& client,
                         const std::string& query, const std::string& pool, const ApplyScale& apply,
                         const std::function<bool()>& again) {
  MS_TRY_ASSIGN(const auto given, invocation.duration("every"));
  const Duration every = std::clamp<Duration>(given.value_or(kAskScaleEvery), 1s, kMaxClaimWait);
  StopSignals signals;
  const SystemClock clock;
  SystemRandom random;
  std::stop_source stop;
  const std::stop_callback on_signal(signals.stop(), [&] { stop.request_stop(); });
  LeaseOptions options{.wait = kStandbyWait};
  options.stop = signals.stop();
  options.on_lost = [&] { stop.request_stop(); };
  std::optional<AutoRenewLease> lease;
  while (!lease) {
    auto got = acquire(client, clock, random, "scale/" + pool, options);
    if (got)
      lease = std::move(*got);
    else if (got.error().code != ErrorCode::lease_held)
      return got.error();
    if (signals.stop().stop_requested()) return kExitOk;
  }
  std::optional<int> applied;
  Duration retry = kFirstRetry;
  while (!stop.stop_requested()) {
    const bool wait = applied && !again();
    const auto answer = ask_scale(client, query, wait ? every : Duration(0), applied.value_or(0));
    if (!answer && stops_all(answer.error()) && answer.error().code != ErrorCode::unavailable) {
      return answer.error();
    }
    Result<void> done;
    if (!answer) {
      done = answer.error();
    } else if (applied != answer->value || again()) {
      done = apply(*answer);
      if (done && applied != answer->value) {
        io.err(fmt::format("{}: {}: {}\n", pool, counted(answer->value, "worker"),
                           printable(answer->reason)));
      }
      if (done) applied = answer->value;
    }
    if (!done) io.err(fmt::format("mainspring: {}\n", done.error().message));
    if (!done || again()) pause(done ? kFirstRetry : retry, stop.get_token());
    retry = done ? kFirstRetry : std::min(retry * 2, kLongestRetry);
  }
  const bool lost = lease->lost();
  (void)lease->release();
  if (!lost) return kExitOk;
  io.err(fmt::format("mainspring: lock scale/{} was lost\n", pool));
  return info(ErrorCode::lease_held).exit_code;
}

Result<int> run_scale_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const std::string query,
                scale_query(invocation, invocation.flag("pool").value_or("")));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  if (invocation.json) {
    MS_TRY_ASSIGN(const std::string body, connection->client->request("GET", query, ""));
    print_line(io, body);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const ScaleAnswer answer, ask_scale(*connection->client, query, Duration(0), 0));
  print_line(io, fmt::format("{}: {}", counted(answer.value, "worker"), printable(answer.reason)));
  return kExitOk;
}

Result<int> run_scale_run(const Invocation& invocation, Io& io) {
  const auto command = invocation.flag("exec");
  if (!command) return invalid("exec", "--exec: must be given, such as './set-size {desired}'");
  const auto words = split_command(*command);
  if (!words) return invalid("exec", fmt::format("--exec: {}", words.error().message));
  const auto pool = invocation.flag("pool");
  if (!pool) return invalid("pool", "--pool: must be given: the name of the pool");
  MS_TRY_ASSIGN(const std::string query, scale_query(invocation, *pool));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, 15s));
  const std::stop_token never;
  return follow_scale(
      invocation, io, *connection->client, query, *pool,
      [&](const ScaleAnswer& answer) { return run_command(*words, answer, never); },
      [] { return false; });
}

}  // namespace mainspring::cli
