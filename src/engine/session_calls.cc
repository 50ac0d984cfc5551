// Sessions of an engine, forwarded to the broker or the server.
#include <fmt/format.h>

#include "broker/session_calls.h"
#include "engine/checks.h"
#include "engine/session_means.h"
#include "model/callback.h"
#include "worker/held_session.h"

namespace mainspring {
namespace {

SessionStatus status_of(SessionInfo info) {
  SessionStatus out;
  out.queue = std::move(info.session.queue);
  out.key = std::move(info.session.key);
  out.jobs = info.jobs;
  out.head = info.head;
  if (info.stop != SessionStop::none) out.stopped = to_string(info.stop);
  out.stopped_by = info.stopped_by;
  out.worker = std::move(info.worker);
  out.token = info.token;
  out.expires_in = info.expires_in;
  out.state = std::move(info.state);
  out.state_bytes = info.state_bytes;
  out.changed_at = info.changed_at;
  return out;
}

}  // namespace

Result<HeldSession> EngineSessions::accept(const std::string& queue, SessionOptions options) {
  MS_TRY(check_name("queue", queue));
  MS_TRY(check_not_reserved("queue", queue));
  if (!options.key.empty()) MS_TRY(check_session_key("key", options.key));
  if (options.lease < kMinLease || options.lease > kMaxLease) {
    return invalid("lease",
                   fmt::format("lease {}: must be {} to {}", format_duration(options.lease),
                               format_duration(kMinLease), format_duration(kMaxLease)));
  }
  return hold_session(means_->jobs, means_->clock, means_->random, queue, std::move(options));
}

Result<SessionStatusPage> EngineSessions::list(const std::string& queue, int limit,
                                               const std::string& after) {
  MS_TRY(check_name("queue", queue));
  MS_TRY(check_limit(limit));
  MS_TRY_ASSIGN(SessionPage page, means_->jobs.sessions(queue, after, limit));
  SessionStatusPage out;
  for (SessionInfo& info : page.sessions) out.sessions.push_back(status_of(std::move(info)));
  if (page.next) out.next = std::move(page.next->key);
  return out;
}

Result<SessionStatus> EngineSessions::get(const std::string& queue, const std::string& key) {
  const SessionKey session{queue, key};
  MS_TRY(check_session(session));
  MS_TRY_ASSIGN(SessionInfo info, means_->jobs.get_session(session));
  return status_of(std::move(info));
}

Result<void> EngineSessions::resume(const std::string& queue, const std::string& key) {
  ResumeSession resume{{queue, key}};
  MS_TRY(check_session(resume.session));
  return means_->jobs.resume_session(std::move(resume));
}

}  // namespace mainspring
