// The texts, one overload per type.
#include "conformance/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "api/breaker_shapes.h"
#include "api/follow_ups.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "api/program_end.h"

namespace mainspring {
namespace {

constexpr std::size_t kShown = 40;

std::string shown(const std::string& text) {
  if (text.size() <= kShown) return text;
  return fmt::format("{}…{}#{}", text.substr(0, 8), text.size(), std::hash<std::string>{}(text));
}

// Args; those of a follow-up without the text of a rescue, which stores may choose.
std::string shown_args(std::string text) {
  constexpr std::string_view kText = R"("reason":"max_attempts","description":")";
  const std::size_t at = text.find(kText);
  if (at == std::string::npos) return shown(text);
  std::size_t end = at + kText.size();
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  text.erase(at, end - at);
  return shown(text);
}

std::string time(WallTime t) {
  return t == WallTime::never() ? "never" : fmt::format("{}", t.us());
}
template <class T>
std::string time(const std::optional<T>& t) {
  return t ? time(*t) : "-";
}
std::string length(Duration d) {
  return d == kForever ? "none" : fmt::format("{}us", d.count());
}
std::string length(const std::optional<Duration>& d) {
  return d ? length(*d) : "-";
}

std::string line(const std::vector<FollowUp>& all) {
  std::string s = encode_follow_ups(all);
  for (const FollowUp& f : all) {
    if (!f.session.empty()) s += fmt::format(" {}#{}", f.queue, f.session);
  }
  return s;
}

std::string line(const NewJob& j) {
  std::string s = fmt::format("{}/{} p{} max{} args={}", j.queue, j.kind, j.priority,
                              j.max_attempts, shown(j.args));
  if (j.run_at) s += " run_at=" + time(j.run_at);
  if (j.delay) s += " delay=" + length(j.delay);
  if (j.unique)
    s += fmt::format(" unique={}/{}/{}", j.unique->key, length(j.unique->window),
                     to_string(j.unique->on_conflict));
  if (j.expires_in)
    s += fmt::format(" expires_in={}/{}", length(j.expires_in), to_string(j.on_expiry));
  if (j.timeout != NewJob{}.timeout) s += " timeout=" + length(j.timeout);
  if (!j.tags.empty()) s += fmt::format(" tags={}", j.tags);
  if (!j.follow_ups.empty()) s += " then=" + line(j.follow_ups);
  if (!j.session.empty()) s += fmt::format(" session={}/{}", j.session, to_string(j.on_dead));
  if (!j.reply_session.empty()) s += fmt::format(" reply={}#{}", j.reply_to, j.reply_session);
  if (!j.limit_key.empty()) s += " limit_key=" + j.limit_key;
  return s;
}

std::string line(const Outcome& outcome) {
  struct {
    std::string operator()(const Complete& o) {
      std::string s = "complete " + shown(o.result);
      for (const NewJob& job : o.next) s += fmt::format(" next=({})", line(job));
      return s;
    }
    std::string operator()(const Retry& o) {
      return fmt::format("retry {} after {} open {} {}", shown(o.error), length(o.after),
                         length(o.open_breaker_for), encode_program_end(o.program));
    }
    std::string operator()(const Snooze& o) {
      return fmt::format("snooze {} open {}", length(o.after), length(o.open_breaker_for));
    }
    std::string operator()(const Defer& o) { return "defer " + o.reason; }
    std::string operator()(const CancelJob& o) { return "cancel " + o.reason; }
    std::string operator()(const Dead& o) {
      return fmt::format("dead {} {} {}", o.reason, o.description, encode_program_end(o.program));
    }
  } text;
  return std::visit(text, outcome);
}

std::string line(const Within& w) {
  if (w.scopes == nullptr) return "";
  return fmt::format(" within {} of {}", to_string(w.verb), w.scopes->text());
}

std::string line(const JobFilter& f) {
  return fmt::format("queue={} kind={} tag={} state={}{}", f.queue, f.kind, f.tag,
                     f.state ? to_string(*f.state) : "-", line(f.within)) +
         (f.quarantined ? " quarantined" : "");
}

std::string line(const SessionKey& s) {
  return s.queue + "#" + s.key;
}
template <class Op>
std::string if_there(const Op& op) {
  return op.create ? "" : " if it is there";
}
std::string line(const Fence& f) {
  return f.lease.empty() ? "" : fmt::format(" if {}/{}", f.lease, f.token);
}

std::string line(const Schedule& s) {
  std::string out = fmt::format(
      "{} cron={} every={} at={} zone={} job=({} headers={}) misfire={}/{}/{} overlap={} jitter={} "
      "from={} to={} runs={} pause_on_failure={} repeated={}",
      s.name, s.cron, length(s.every), time(s.at), s.time_zone, line(s.job), shown(s.job.headers),
      to_string(s.misfire), length(s.misfire_window), s.misfire_cap, to_string(s.overlap),
      length(s.jitter), time(s.start_at), time(s.end_at), s.max_runs, s.pause_on_failure,
      to_string(s.repeated_hour));
  if (s.continuous)
    out += fmt::format(" continuous={}/{}/{}", length(s.continuous->timeout),
                       length(s.continuous->margin), length(s.continuous->handoff));
  return out;
}

std::string line(const Tick& t) {
  return fmt::format("{} until={} x{} {}{} {} {}", time(t.nominal), time(t.until), t.count,
                     t.fire ? "fires" : "is skipped", t.past_due ? " past due" : "", t.reason,
                     t.note);
}

struct OperationText {
  std::string operator()(const Enqueue& op) {
    std::string s = "enqueue";
    if (!op.idempotency_key.empty())
      s += fmt::format(" key={}/{}", op.idempotency_key, op.fingerprint);
    for (const NewJob& j : op.jobs) s += " [" + line(j) + "]";
    return s + line(op.fence);
  }
  std::string operator()(const Claim& op) {
    std::string s = fmt::format("claim by {} of {}/{} kinds {} max {} lease {}", op.worker,
                                op.queues, op.session_token, op.kinds, op.max, length(op.lease));
    if (op.job != 0) s += fmt::format(" job {}", op.job);
    return s;
  }
  std::string operator()(const Renew& op) {
    std::string s = fmt::format("renew by {} for {}", op.worker, length(op.lease));
    for (const Renewal& r : op.leases) {
      s += fmt::format(" {}/{}", r.id, r.token);
      if (r.warning) s += fmt::format(" warning={}", r.warning->text);
      if (r.progress) s += fmt::format(" progress={}", r.progress->value);
      if (r.checkpoint) s += " checkpoint=" + shown(*r.checkpoint);
      for (const Memo& m : r.memos) s += fmt::format(" {}={}", m.name, shown(m.result));
      if (!r.messages.empty()) s += fmt::format(" messages={}@{}", r.messages, r.first_seq);
    }
    return s + line(op.within);
  }
  std::string operator()(const Finish& op) {
    std::string s = "finish by " + op.worker;
    for (const JobOutcome& o : op.results) {
      s += fmt::format(" {}/{} {}", o.id, o.token, line(o.outcome));
      if (o.session_state) s += " state=" + shown(*o.session_state);
    }
    return s + line(op.within);
  }
  std::string operator()(const Cancel& op) {
    return fmt::format("cancel {} {}{}", op.id, op.reason, line(op.within));
  }
  std::string operator()(const RetryJob& op) {
    return fmt::format("retry {}{}", op.id, line(op.within));
  }
  std::string operator()(const EditJob& op) {
    std::string s = fmt::format("edit {}", op.id);
    if (op.args) s += " args=" + shown(*op.args);
    if (op.priority) s += fmt::format(" priority={}", *op.priority);
    if (op.run_at) s += fmt::format(" run_at={}", op.run_at->us());
    if (op.tags) s += fmt::format(" tags={}", *op.tags);
    if (op.version != 0) s += fmt::format(" version={}", op.version);
    return s + line(op.within);
  }
  std::string operator()(const DeleteJob& op) {
    return fmt::format("delete {}{}", op.id, line(op.within));
  }
  std::string operator()(const Redrive& op) {
    return fmt::format("redrive {} limit {} after {}{}", line(op.filter), op.limit, op.after,
                       line(op.within));
  }
  std::string operator()(const PauseQueue& op) {
    const std::string until = op.until ? " until " + format_wall_time(*op.until) : "";
    return fmt::format("{} {}{}{}", op.paused ? "pause" : "resume", op.queue, until, if_there(op));
  }
  std::string operator()(const SetRetention& op) {
    return fmt::format("retention {} {} {}{}", op.queue, length(op.completed), length(op.dead),
                       if_there(op));
  }
  std::string operator()(const RemoveQueue& op) { return "remove queue " + op.queue; }
  std::string operator()(const ForgetQueues& op) {
    return fmt::format("forget_queues {} {}{}", op.idle.count(), op.limit, line(op.fence));
  }
  std::string operator()(const SetQueueLimits& op) {
    return fmt::format("limits {} {}{}", op.queue, limits_text(op.limits), if_there(op));
  }
  std::string operator()(const PutBreaker& op) {
    return fmt::format("breaker {} {}", op.name, breaker_settings_text(op.settings));
  }
  std::string operator()(const RemoveBreaker& op) { return "remove breaker " + op.name; }
  std::string operator()(const OpenBreaker& op) {
    return fmt::format("open breaker {} {}", op.name, op.open_for.count());
  }
  std::string operator()(const CloseBreaker& op) { return "close breaker " + op.name; }
  std::string operator()(const AddMark& op) {
    return fmt::format("mark {} at {} by {} {}", op.text, op.at ? op.at->us() : -1, op.by,
                       to_string(op.source));
  }
  std::string operator()(const RemoveMark& op) { return fmt::format("remove mark {}", op.id); }
  std::string operator()(const PutView& op) {
    return fmt::format("view {} {}?{} by {}", op.view.name, op.view.page, op.view.query,
                       op.view.by);
  }
  std::string operator()(const RemoveView& op) { return "remove view " + op.name; }
  std::string operator()(const OpenQueues& op) {
    return fmt::format("open_queues {}{}", op.limit, line(op.fence));
  }
  std::string operator()(const WriteProbe&) { return "write_probe"; }
  std::string operator()(const MoveDue& op) {
    return fmt::format("move_due {}{}", op.limit, line(op.fence));
  }
  std::string operator()(const RescueExpired& op) {
    return fmt::format("rescue {}{}", op.limit, line(op.fence));
  }
  std::string operator()(const ExtendLeases& op) {
    return fmt::format("extend_leases {}", length(op.gap));
  }
  std::string operator()(const AllowRestart& op) {
    return fmt::format("allow_restart {}", length(op.allowance));
  }
  std::string operator()(const ExpireJobs& op) {
    return fmt::format("expire {}{}", op.limit, line(op.fence));
  }
  std::string operator()(const PruneJobs& op) {
    return fmt::format("prune {}{}", op.limit, line(op.fence));
  }
  std::string operator()(const AcquireLease& op) {
    return fmt::format("acquire {} by {} for {}", op.name, op.holder, length(op.ttl));
  }
  std::string operator()(const RenewLease& op) {
    return fmt::format("renew_lease {} by {}/{} for {} value={}", op.name, op.holder, op.token,
                       length(op.ttl), shown(op.value.value_or("-")));
  }
  std::string operator()(const ReleaseLease& op) {
    return fmt::format("release {} by {}/{} value={}", op.name, op.holder, op.token,
                       shown(op.value.value_or("-")));
  }
  std::string operator()(const AcceptSession& op) {
    return fmt::format("accept {} by {} for {}", line(op.session), op.worker, length(op.lease));
  }
  std::string operator()(const RenewSession& op) {
    return fmt::format("renew_session {}/{} for {}", line(op.session), op.token, length(op.lease));
  }
  std::string operator()(const ReleaseSession& op) {
    return fmt::format("release_session {}/{}", line(op.session), op.token);
  }
  std::string operator()(const PutSessionState& op) {
    return fmt::format("put_state {}/{} {}", line(op.session), op.token, shown(op.state));
  }
  std::string operator()(const ResumeSession& op) {
    return fmt::format("resume_session {}{}", line(op.session), line(op.within));
  }
  std::string operator()(const StartWorkflow& op) {
    return fmt::format("start_workflow {} {} of {} steps", op.spec.name, op.spec.key,
                       op.spec.steps.size());
  }
  std::string operator()(const SignalWorkflow& op) {
    return fmt::format("signal_workflow {} {} {} {}", op.id, op.name, op.signal_id,
                       shown(op.payload));
  }
  std::string operator()(const CancelWorkflow& op) {
    return fmt::format("cancel_workflow {} {}", op.id, op.reason);
  }
  std::string operator()(const PauseWorkflow& op) {
    return fmt::format("{}_workflow {}", op.paused ? "pause" : "resume", op.id);
  }
  std::string operator()(const RetryWorkflow& op) {
    return fmt::format("retry_workflow {} {}{}", op.id, op.step, op.by_hand ? " by hand" : "") +
           op.result;
  }
  std::string operator()(const ForkWorkflow& op) {
    return fmt::format("fork_workflow {} {} {} {}", op.id, op.step, op.key, op.input.value_or(""));
  }
  std::string operator()(const WakeWorkflows& op) {
    return fmt::format("wake_workflows limit={}", op.limit);
  }
  std::string operator()(const PutTrigger& op) {
    const auto& of = op.trigger.ended;
    return fmt::format("put_trigger {} {}{}", op.trigger.name,
                       of ? fmt::format("on {} of {}/{} ", of->on, of->queue, of->kind) : "",
                       line(op.trigger.job));
  }
  std::string operator()(const RemoveTrigger& op) {
    return fmt::format("remove_trigger {}", op.name);
  }
  std::string operator()(const PauseTrigger& op) {
    return fmt::format("{}_trigger {}", op.paused ? "pause" : "resume", op.name);
  }
  std::string operator()(const FireTrigger& op) {
    return fmt::format("fire_trigger {} {} {}", op.name, op.event, shown(op.args));
  }
  std::string operator()(const PutSchedule& op) {
    return fmt::format("put_schedule {} next={} fires={} paused={}{}", line(op.schedule),
                       time(op.next), time(op.next_fire),
                       op.paused ? (*op.paused ? "yes" : "no") : "-", line(op.within));
  }
  std::string operator()(const RemoveSchedule& op) {
    return fmt::format("remove_schedule {}{}", op.name, line(op.within));
  }
  std::string operator()(const PauseSchedule& op) {
    return fmt::format("{}_schedule {} {}{}", op.paused ? "pause" : "resume", op.name, op.reason,
                       line(op.within));
  }
  std::string operator()(const SetTimer& op) {
    return fmt::format("set_timer {} {}{}", op.name, length(op.timeout), line(op.within));
  }
  std::string operator()(const FireSchedule& op) {
    std::string s =
        fmt::format("fire {} v{} by {} at {} overlap={}", op.name, op.version, to_string(op.source),
                    time(op.expected_next), op.overlap ? to_string(*op.overlap) : "-");
    for (const Tick& t : op.ticks) s += " [" + line(t) + "]";
    return s + fmt::format(" then {} fires={}{}{}", time(op.next), time(op.next_fire),
                           line(op.fence), line(op.within));
  }
  std::string operator()(const CreateToken& op) { return "create " + describe(op.token); }
  std::string operator()(const RevokeToken& op) { return "revoke " + op.name; }
  std::string operator()(const Audit& op) {
    return fmt::format("audit {} {} by {} from {}{}{} before={} after={}", op.action, op.object,
                       op.who, op.from, op.alone ? " alone" : "", op.always ? " always" : "",
                       shown(op.before), shown(op.after));
  }
};

struct ResultText {
  std::string operator()(const Error& e) {
    if (e.code != ErrorCode::lease_held) return fmt::format("refused {}", e.name());
    return fmt::format("refused lease_held for {} ms", e.retry_after_ms);
  }
  std::string operator()(const EnqueueResult& r) {
    std::string s = r.replayed ? "replayed" : "enqueued";
    for (const EnqueuedJob& j : r.jobs)
      s += fmt::format(" {}:{}{}", j.id, to_string(j.state), j.duplicate ? ":duplicate" : "");
    return s;
  }
  std::string operator()(const ClaimResult& r) {
    std::string s = "claimed";
    if (r.session) s += " of " + (*this)(*r.session);
    for (const ClaimedJob& j : r.jobs) {
      s += fmt::format(
          " [{}/{} attempt {}/{} {}/{} p{} run_at={} timeout={} lease={} args={} checkpoint={} "
          "headers={} tags={} correlation={} reply_to={}]",
          j.id, j.token, j.attempt, j.max_attempts, j.queue, j.kind, j.priority, time(j.run_at),
          length(j.timeout), length(j.lease), shown_args(j.args), shown(j.checkpoint),
          shown(j.headers), j.tags, j.correlation_id, j.reply_to);
      if (j.has_memos) s += " has memos";
      if (j.deferred) s += " was deferred";
      if (j.cost != 1) s += fmt::format(" cost={}", j.cost);
      if (!j.session.empty())
        s += fmt::format(" session={} state={}", j.session, shown(j.session_state));
    }
    return s;
  }
  std::string operator()(const RenewResult& r) {
    std::string s = "renewed";
    for (const Renewed& l : r.renewed) s += fmt::format(" {}:{}", l.id, length(l.lease));
    if (!r.memos_full.empty()) s += fmt::format(" memos full {}", r.memos_full);
    return s + fmt::format(" lost {} cancel {}", r.lost, r.cancel);
  }
  std::string operator()(const FinishResult& r) {
    std::string s = "finished";
    for (const FinishStatus f : r.results)
      s += f == FinishStatus::ok ? " ok" : f == FinishStatus::stale ? " stale" : " not_found";
    return s;
  }
  std::string operator()(const CancelResult& r) {
    return fmt::format("cancel {} {} {}", to_string(r.state), r.cancel_requested, r.worker);
  }
  std::string operator()(const EditResult& r) {
    return fmt::format("edited {}", to_string(r.state));
  }
  std::string operator()(const RetryResult& r) {
    return fmt::format("retry {}", to_string(r.state));
  }
  std::string operator()(const RedriveResult& r) {
    return fmt::format("redriven {} {} next {}", r.redriven, r.ids, r.next.value_or(0));
  }
  std::string operator()(const Done&) { return "done"; }
  std::string operator()(const LeaseGrant& r) {
    return fmt::format("granted {} for {} value={} held={}", r.token, length(r.ttl), shown(r.value),
                       r.held);
  }
  std::string operator()(const SessionGrant& r) {
    return fmt::format("session {}#{} {} for {} state={} held={}", r.session.queue, r.session.key,
                       r.token, length(r.lease), shown(r.state), r.held);
  }
  std::string operator()(const WorkflowStarted& r) {
    return fmt::format("workflow {} duplicate={}", r.id, r.duplicate);
  }
  std::string operator()(const WorkflowInfo& r) {
    const ForkedFrom from = r.forked_from.value_or(ForkedFrom{});
    const WorkflowParent parent = r.parent.value_or(WorkflowParent{});
    return fmt::format("workflow {} {} paused={} {} of {}+{}+{}+{} v{} fork of {} {} in {} {}",
                       r.id, to_string(r.state), r.paused, r.steps, r.completed, r.failed, r.undone,
                       r.undo_failed, r.version, from.id, from.step, parent.workflow, parent.step);
  }
  std::string operator()(const PutTriggerResult& r) {
    return fmt::format("trigger v{} {} secret={}", r.version, static_cast<int>(r.outcome),
                       r.secret_taken);
  }
  std::string operator()(const TriggerFired& r) {
    return fmt::format("job {} duplicate={}", r.job, r.duplicate);
  }
  std::string operator()(const Mark& r) {
    return fmt::format("mark {} {} {} {} {}", r.id, r.at.us(), r.text, r.by, to_string(r.source));
  }
  std::string operator()(const SavedView& r) {
    return fmt::format("view {} {}?{} {} {}", r.name, r.page, r.query, r.by, r.updated_at.us());
  }
  std::string operator()(const PutScheduleResult& r) {
    return fmt::format("put v{} {}", r.version, static_cast<int>(r.outcome));
  }
  std::string operator()(const FireResult& r) {
    return fmt::format("fired {} skipped {} jobs {}", r.fired, r.skipped, r.jobs);
  }
  // `more` is a hint to call again: a store may set it once too often.
  std::string operator()(const StepResult& r) { return fmt::format("changed {}", r.changed); }
};

// For a workflow that is undone because a job was rescued: stores may choose the text.
std::string_view without_rescue(std::string_view reason) {
  return reason.substr(0,
                       std::min(reason.find("lease expired"), reason.find("over its time limit")));
}

}  // namespace

std::string describe(const Operation& operation) {
  return std::visit(OperationText{}, operation);
}

std::string describe(const OperationResult& result) {
  return std::visit(ResultText{}, result);
}

std::string describe(const Job& j) {
  std::string s = fmt::format(
      "{} {}/{} {} p{} run_at={} attempt {}/{} token={} worker={} wish={} key={} timeout={} "
      "expires={} created={} started={} finished={} checkpoint={} result={} reason={} args={} "
      "tags={} headers={} correlation={} reply_to={} then={}",
      j.id, j.queue, j.kind, to_string(j.state), j.priority, time(j.run_at), j.attempt,
      j.max_attempts, j.token, j.worker, j.cancel_requested, j.unique_key, length(j.timeout),
      time(j.expires_at), time(j.created_at), time(j.started_at), time(j.finished_at),
      shown(j.checkpoint), shown(j.result), without_rescue(j.reason), shown_args(j.args), j.tags,
      j.headers, j.correlation_id, j.reply_to, line(j.follow_ups));
  if (!j.session.empty()) s += fmt::format(" session={}/{}", j.session, to_string(j.on_dead));
  if (!j.reply_session.empty()) s += " reply_session=" + j.reply_session;
  if (j.trigger_depth != 0) s += fmt::format(" trigger_depth={}", j.trigger_depth);
  if (!j.limit_key.empty()) s += " limit_key=" + j.limit_key;
  if (j.on_expiry != OnExpiry::cancel) s += " dies of expiry";
  if (j.deferred) s += " deferred";
  if (j.quarantined) {
    s += fmt::format(" quarantined since {} lost {}{}", time(j.quarantined->since),
                     j.quarantined->lost, j.quarantined->released ? " released" : "");
  }
  if (j.reason != "max_attempts") s += " description=" + j.description;
  if (!j.warning.empty()) s += fmt::format(" warning={}", j.warning);
  if (j.progress) s += fmt::format(" progress={}/{}", j.progress->value, j.progress->text);
  for (const AttemptError& e : j.errors) {
    const bool own = e.message.starts_with("lease expired") || e.message.starts_with("over its");
    s += fmt::format(" [attempt {} at {} by {} for {}: {}]", e.attempt, time(e.at), e.worker,
                     length(e.ran_for), own ? "rescued" : e.message);
    if (!e.program.empty()) s += " program " + encode_program_end(e.program);
  }
  return s;
}

std::string describe(const QueueStats& q) {
  return fmt::format(
      "{} paused={} {} counts={} enqueued={} pruned={} expired={} oldest={} keep={}/{} limits={} "
      "opens={} quarantined={} slots={}",
      q.name, q.paused, pause_text(q.pause), q.counts, q.enqueued, q.pruned, q.expired,
      time(q.oldest_available), length(q.retention_completed), length(q.retention_dead),
      limits_text(q.limits), time(q.opens_at), q.quarantined, q.slots_taken);
}

std::string describe(const LeaseInfo& l) {
  return fmt::format("lease {} by {}/{} for {} since={} value={}", l.name, l.holder, l.token,
                     length(l.expires_in), time(l.since), shown(l.value));
}

std::string describe(const SessionInfo& s) {
  std::string text =
      fmt::format("session {} jobs={} head={} stop={}/{} holder={}/{} for {} state={}/{}",
                  line(s.session), s.jobs, s.head, to_string(s.stop), s.stopped_by, s.worker,
                  s.token, length(s.expires_in), shown(s.state), s.state_bytes);
  // Other changes are not visible.
  const bool idle = s.jobs == 0 && s.token == 0 && s.stop == SessionStop::none;
  if (idle) text += " changed=" + time(s.changed_at);
  return text;
}

std::string describe(const ScheduleInfo& i) {
  return fmt::format(
      "v{} {} paused={} ({}) next={} fires={} skip before {} ({}) remaining={} fired={} last={}/{} "
      "live={} buffered={} timeout={} created={} updated={}",
      i.version, line(i.schedule), i.paused, i.paused_reason, time(i.next), time(i.next_fire),
      time(i.skip_before), i.skip_reason, i.remaining.value_or(-1), i.fired, time(i.last_fired),
      i.last_job, i.live, i.buffered, length(i.timeout_override), time(i.created_at),
      time(i.updated_at));
}

std::string describe(const TokenRecord& t) {
  return fmt::format("token {} #{} {} rate={} created={} by {} expires={} revoked={}", t.name,
                     to_hex(t.digest).substr(0, 8), t.scopes.text(), t.rate, time(t.created_at),
                     t.created_by, time(t.expires_at), time(t.revoked_at));
}

std::string describe(const AuditRecord& r) {
  return fmt::format("#{} at {} {} {} by {} from {} before={} after={} hash={}", r.seq, time(r.at),
                     r.action, r.object, r.who, r.from, r.before, r.after,
                     to_hex(r.hash).substr(0, 8));
}

std::string describe(const LedgerRow& r) {
  return fmt::format("#{} v{} {} until={} x{} by {} {}{} job={} {} {} {} decided={}", r.seq,
                     r.version, time(r.nominal), time(r.until), r.count, to_string(r.source),
                     to_string(r.state), r.past_due ? " past due" : "", r.job,
                     r.job_state ? to_string(*r.job_state) : "-", r.reason, r.note,
                     time(r.decided_at));
}

}  // namespace mainspring
