// sessions list, show, resume.
#include <fmt/format.h>

#include "api/session_shapes.h"
#include "cli/handlers.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr int kSessionsPage = 1000;

std::string head_text(const SessionInfo& session) {
  return session.head == 0 ? "-" : fmt::to_string(session.head);
}

std::string stop_text(const SessionInfo& session) {
  if (session.stop == SessionStop::none) return "";
  return fmt::format("{} by {}", to_string(session.stop), session.stopped_by);
}

std::string session_time_left(const SessionInfo& session) {
  if (session.worker.empty()) return "-";
  return format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(session.expires_in));
}

}  // namespace

Result<int> run_sessions_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::string queue = *invocation.argument("QUEUE");
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "SESSION", .keep = true},
               {"JOBS", Align::right},
               {"TURN", Align::right},
               {"STATE", Align::right},
               {"HOLDER"},
               {"EXPIRES IN", Align::right},
               {.title = "CHANGED", .whole = true, .drop = 1},
               {.title = "STOP", .least = 16, .below = true}});
  for (std::string after;;) {
    MS_TRY_ASSIGN(SessionPage page, connection->jobs().sessions(queue, after, kSessionsPage));
    for (const SessionInfo& session : page.sessions) {
      if (invocation.json) {
        std::string line;
        encode_session(session, line);
        print_line(io, line);
        continue;
      }
      table.add({{session.session.key},
                 {format_count(session.jobs), session.jobs == 0 ? Colour::dim : Colour::none},
                 {head_text(session)},
                 {session.state_bytes == 0
                      ? "-"
                      : format_count(static_cast<std::int64_t>(session.state_bytes))},
                 {session.worker.empty() ? "-" : session.worker},
                 {session_time_left(session)},
                 {relative_to(session.changed_at, now)},
                 {stop_text(session), Colour::red}});
    }
    if (!page.next) break;
    after = page.next->key;
  }
  if (!invocation.json) io.out(table.empty() ? "no sessions\n" : table.render(io));
  return kExitOk;
}

Result<int> run_sessions_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(
      const SessionInfo session,
      connection->jobs().get_session({*invocation.argument("QUEUE"), *invocation.argument("KEY")}));
  if (invocation.json) {
    std::string line;
    encode_session(session, line);
    print_line(io, line);
    return kExitOk;
  }
  Sheet sheet(io);
  sheet.add("queue", session.session.queue);
  sheet.add("session", session.session.key);
  sheet.add("jobs", format_count(session.jobs));
  sheet.add("head", head_text(session));
  sheet.add("stop", session.stop == SessionStop::none ? "none" : stop_text(session));
  sheet.add("holder", session.worker.empty() ? "no holder" : session.worker);
  if (!session.worker.empty()) {
    sheet.add("token", fmt::to_string(session.token));
    sheet.add("expires_in", session_time_left(session));
  }
  const bool hidden = session.state.empty() && session.state_bytes > 0;
  sheet.add("state",
            hidden ? fmt::format("({} bytes, not shown)", session.state_bytes) : session.state);
  sheet.add("changed", session.changed_at, SystemClock().now().wall);
  io.out(sheet.text());
  return kExitOk;
}

Result<int> run_sessions_resume(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const std::string queue = *invocation.argument("QUEUE");
  return for_each_of(
      io, invocation.all_arguments("KEY"), [&](const std::string& key) -> Result<void> {
        const SessionKey session{queue, key};
        MS_TRY(connection->jobs().resume_session({.session = session, .within = {}}));
        std::string line;
        if (invocation.json) {
          encode_session_resumed(session, line);
        } else {
          line = key + " continues";
        }
        print_line(io, line);
        return {};
      });
}

}  // namespace mainspring::cli
