// Sessions of the model: waiting jobs are found by a walk through all jobs.
#include "conformance/model_sessions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "conformance/model_limits.h"

namespace mainspring {
namespace {

Error lost() {
  return {.code = ErrorCode::lease_lost, .message = "the session is not held by this token"};
}

Error missing() {
  return {.code = ErrorCode::not_found, .message = "there is no such session"};
}

bool is_session_held(const SessionRecord& s) {
  return s.token != 0;
}

// Also true without jobs: a session that is not stopped and has no head has no waiting jobs.
bool is_idle(const SessionRecord& s) {
  return !is_session_held(s) && s.stop == SessionStop::none && s.head == 0;
}

bool is_of(const SessionKey& session, const Job& job) {
  return job.session == session.key && job.queue == session.queue;
}

}  // namespace

void ModelSessions::start_over(Instant now) {
  for (auto& [key, s] : disk_.sessions) {
    if (!is_session_held(s)) continue;
    s.lease = s.kept;
    s.ends = now + std::max(s.kept, disk_.allowance);
  }
}

ModelSessions::Entry ModelSessions::find_or_make(const SessionKey& session) {
  return disk_.sessions.try_emplace(session, SessionRecord{.changed_at = now_.wall}).first;
}

void ModelSessions::changed(Entry entry) {
  entry->second.changed_at = now_.wall;
}

Record* ModelSessions::head_of(const SessionRecord& s) const {
  return s.head == 0 ? nullptr : &disk_.jobs.at(s.head);
}

std::int64_t ModelSessions::jobs_of(const SessionKey& session) const {
  return std::count_if(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
    return live(entry.second) && is_of(session, entry.second.job);
  });
}

// -- jobs -----------------------------------------------------------------------------------------

void ModelSessions::place(Record& record) {
  Job& job = record.job;
  const Entry entry = find_or_make(session_of(job));
  SessionRecord& s = entry->second;
  const bool unblocks = s.stop == SessionStop::blocked && s.stopped_by == job.id;
  if (s.head == 0 && (s.stop == SessionStop::none || unblocks)) {
    s.head = job.id;
    s.stop = SessionStop::none;
    s.stopped_by = 0;
  }
  changed(entry);
  if (s.head != job.id || (job.state == JobState::available && is_session_held(s)))
    job.state = JobState::waiting;
  if (s.head == job.id) offer(entry->first, s);
}

// After each operation: when many jobs end at once, none that ends becomes the head.
void ModelSessions::settle() {
  std::set<SessionKey> left;
  for (const JobId id : std::exchange(ended_, {})) {
    const Job& job = disk_.jobs.at(id).job;
    const Entry entry = disk_.sessions.find(session_of(job));
    SessionRecord& s = entry->second;
    changed(entry);
    left.insert(entry->first);
    if (s.head != id) continue;
    s.head = 0;
    if (job.state != JobState::dead || job.on_dead == OnDead::skip) continue;
    s.stop = job.on_dead == OnDead::block ? SessionStop::blocked : SessionStop::parked;
    s.stopped_by = id;
  }
  for (const SessionKey& session : left) {
    const Entry entry = disk_.sessions.find(session);
    pass_on(entry);
    forget_if_empty(entry);
  }
}

// To the waiting job with the lowest id.
void ModelSessions::pass_on(Entry entry) {
  SessionRecord& s = entry->second;
  if (s.head != 0 || s.stop != SessionStop::none) return;
  for (auto& [id, r] : disk_.jobs) {
    if (r.job.state != JobState::waiting || !is_of(entry->first, r.job)) continue;
    r.job.state = r.job.run_at > now_.wall ? JobState::scheduled : JobState::available;
    ++r.job.version;
    return place(r);
  }
}

// Reports the ready queue in which the head can be claimed now.
void ModelSessions::offer(const SessionKey& session, const SessionRecord& s) {
  const Record* r = head_of(s);
  if (r == nullptr) return;
  if (r->job.state == JobState::waiting) gained_.insert(session_queue(session));
  if (r->job.state != JobState::available) return;
  gained_.insert(session.queue);
  gained_.insert(accept_queue(session.queue));
}

void ModelSessions::forget_if_empty(Entry entry) {
  if (is_idle(entry->second) && entry->second.state.empty()) disk_.sessions.erase(entry);
}

void ModelSessions::put_state(const Record& record, const std::string& state) {
  if (record.job.session.empty()) return;
  const Entry entry = disk_.sessions.find(session_of(record.job));
  entry->second.state = state;
  changed(entry);
}

std::string ModelSessions::state_of(const Job& job) const {
  if (job.session.empty()) return "";
  return disk_.sessions.at(session_of(job)).state;
}

// -- holding --------------------------------------------------------------------------------------

SessionRecord* ModelSessions::held(const SessionKey& session, Token token) {
  const auto found = disk_.sessions.find(session);
  if (found == disk_.sessions.end()) return nullptr;
  SessionRecord& s = found->second;
  return is_session_held(s) && s.token == token && now_.instant < s.ends ? &s : nullptr;
}

SessionGrant ModelSessions::hold(Entry entry, const std::string& worker, Duration lease) {
  SessionRecord& s = entry->second;
  s.worker = worker;
  s.token = ++disk_.last_token;
  s.lease = s.kept = lease;
  s.ends = now_.instant + lease;
  changed(entry);
  Record* r = head_of(s);
  if (r != nullptr && r->job.state == JobState::available) {
    r->job.state = JobState::waiting;
    ++r->job.version;
  }
  offer(entry->first, s);
  return {.session = entry->first, .token = s.token, .lease = lease, .state = s.state};
}

void ModelSessions::end_hold(Entry entry) {
  SessionRecord& s = entry->second;
  s.worker.clear();
  s.token = 0;
  changed(entry);
  Record* r = head_of(s);
  if (r != nullptr && r->job.state == JobState::waiting) {
    r->job.state = JobState::available;
    ++r->job.version;
  }
  offer(entry->first, s);
  forget_if_empty(entry);
}

ModelSessions::Answer ModelSessions::run(const AcceptSession& op) {
  const auto found = disk_.sessions.find(op.session);
  const bool taken = found != disk_.sessions.end() && is_session_held(found->second) &&
                     now_.instant < found->second.ends;
  if (taken && found->second.worker != op.worker) {
    const auto wait = (found->second.ends - now_.instant).count() / 1000 + 1;
    return {Error{.code = ErrorCode::lease_held,
                  .message = found->second.worker + " has it",
                  .retry_after_ms = static_cast<int>(wait)}};
  }
  if (taken) {
    SessionRecord& s = found->second;
    const bool longer = op.lease > s.kept;
    s.lease = op.lease;
    s.kept = std::max(s.kept, op.lease);
    s.ends = std::max(now_.instant + op.lease, disk_.allowed_until);
    return {SessionGrant{.session = op.session,
                         .token = s.token,
                         .lease = s.ends - now_.instant,
                         .state = s.state,
                         .held = true},
            longer};
  }
  const auto holds = [](const auto& entry) { return is_session_held(entry.second); };
  if (disk_.sessions.size() >= kMaxHeldSessions &&
      std::count_if(disk_.sessions.begin(), disk_.sessions.end(), holds) >=
          static_cast<std::ptrdiff_t>(kMaxHeldSessions))
    return {Error{.code = ErrorCode::overloaded, .message = "too many sessions are held"}};
  return {hold(find_or_make(op.session), op.worker, op.lease), true};
}

ModelSessions::Answer ModelSessions::run(const RenewSession& op) {
  SessionRecord* s = held(op.session, op.token);
  if (s == nullptr) return {lost()};
  const Duration lease = op.lease > Duration(0) ? op.lease : s->lease;
  const bool longer = lease > s->kept;
  s->lease = lease;
  s->kept = std::max(s->kept, lease);
  s->ends = std::max(now_.instant + lease, disk_.allowed_until);
  return {SessionGrant{.session = op.session,
                       .token = s->token,
                       .lease = s->ends - now_.instant,
                       .state = s->state,
                       .held = true},
          longer};
}

ModelSessions::Answer ModelSessions::run(const ReleaseSession& op) {
  if (held(op.session, op.token) == nullptr) return {lost()};
  end_hold(disk_.sessions.find(op.session));
  return {Done{}, true};
}

ModelSessions::Answer ModelSessions::run(const PutSessionState& op) {
  if (op.state.size() > kMaxSessionStateBytes)
    return {Error{.code = ErrorCode::too_large, .message = "the state is too large"}};
  const auto found = disk_.sessions.find(op.session);
  if (found == disk_.sessions.end()) return {lost()};
  const Record* r = head_of(found->second);
  const bool runs = r != nullptr && r->job.state == JobState::running && r->job.token == op.token;
  if (!runs && held(op.session, op.token) == nullptr) return {lost()};
  found->second.state = op.state;
  changed(found);
  return {Done{}, true};
}

ModelSessions::Answer ModelSessions::run(const ResumeSession& op) {
  const auto found = disk_.sessions.find(op.session);
  if (found == disk_.sessions.end() || !op.within.has(op.session.queue)) return {missing()};
  SessionRecord& s = found->second;
  if (s.stop == SessionStop::none) return {Done{}};
  s.stop = SessionStop::none;
  s.stopped_by = 0;
  changed(found);
  pass_on(found);
  forget_if_empty(found);
  return {Done{}, true};
}

bool ModelSessions::rescue() {
  bool any = false;
  for (auto it = disk_.sessions.begin(); it != disk_.sessions.end();) {
    const auto entry = it++;
    if (!is_session_held(entry->second) || now_.instant < entry->second.ends) continue;
    end_hold(entry);
    any = true;
  }
  return any;
}

bool ModelSessions::prune(Duration retention) {
  return std::erase_if(disk_.sessions, [&](const auto& entry) {
           const auto& [key, s] = entry;
           return is_idle(s) && s.changed_at + retention <= now_.wall;
         }) > 0;
}

// -- claims ---------------------------------------------------------------------------------------

bool ModelSessions::is_of_queue(const Claim& op) {
  return op.queues[0].starts_with('~');
}

bool ModelSessions::is_over(const Record& r) const {
  return can_expire(r) && *r.job.expires_at <= now_.wall;
}
bool ModelSessions::fits(const Record& r) const {
  return ModelLimits(disk_, now_.wall).fits(r.job, now_.wall);
}

bool ModelSessions::may_claim(const Claim& op) {
  const auto session = is_of_queue(op) ? parse_session_queue(op.queues[0]) : std::nullopt;
  return !session || held(*session, op.session_token) != nullptr;
}

Result<Record*> ModelSessions::pick(const Claim& op, std::optional<SessionGrant>& accepted) {
  if (const auto session = parse_session_queue(op.queues[0])) {
    const SessionRecord* s = held(*session, op.session_token);
    if (s == nullptr) return lost();
    Record* r = head_of(*s);
    const bool found =
        r != nullptr && r->job.state == JobState::waiting && fits(*r) && !is_over(*r);
    return found ? r : nullptr;
  }
  const std::string queue(*parse_accept_queue(op.queues[0]));
  Record* first = nullptr;
  const auto rank = [](const Record& r) {
    return std::tie(r.job.priority, r.job.run_at, r.job.id);
  };
  for (auto& [id, r] : disk_.jobs) {
    if (r.job.queue != queue || r.job.session.empty() || r.job.state != JobState::available)
      continue;
    if (!is_over(r) && (first == nullptr || rank(r) < rank(*first))) first = &r;
  }
  if (first != nullptr && !fits(*first)) return nullptr;
  if (first != nullptr)
    accepted = hold(disk_.sessions.find(session_of(first->job)), op.worker, op.lease);
  return first;
}

bool ModelSessions::has_available(const std::string& line) const {
  if (ModelLimits(disk_, now_.wall).is_closed(std::string(base_queue_of(line)))) return false;
  if (const auto session = parse_session_queue(line)) {
    const auto found = disk_.sessions.find(*session);
    const Record* r = found == disk_.sessions.end() ? nullptr : head_of(found->second);
    return r != nullptr && r->job.state == JobState::waiting;
  }
  const std::string_view queue = base_queue_of(line);
  return std::any_of(disk_.jobs.begin(), disk_.jobs.end(), [&](const auto& entry) {
    const Job& job = entry.second.job;
    return job.queue == queue && !job.session.empty() && job.state == JobState::available;
  });
}

void ModelSessions::queue_opened(const std::string& queue) {
  gained_.insert(accept_queue(queue));
  for (const auto& [key, s] : disk_.sessions) {
    if (key.queue == queue) offer(key, s);
  }
}

// -- reads ----------------------------------------------------------------------------------------

Instant ModelSessions::next_end() const {
  Instant next = Instant::never();
  for (const auto& [key, s] : disk_.sessions) {
    if (is_session_held(s)) next = std::min(next, s.ends);
  }
  return next;
}

WallTime ModelSessions::next_prune(Duration retention) const {
  WallTime next = WallTime::never();
  for (const auto& [key, s] : disk_.sessions) {
    if (is_idle(s)) next = std::min(next, s.changed_at + retention);
  }
  return next;
}

SessionInfo ModelSessions::shown(const SessionKey& session, const SessionRecord& s,
                                 Instant now) const {
  SessionInfo info{.session = session,
                   .jobs = jobs_of(session),
                   .head = s.head,
                   .stop = s.stop,
                   .stopped_by = s.stopped_by,
                   .state = s.state,
                   .state_bytes = s.state.size(),
                   .changed_at = s.changed_at};
  if (is_session_held(s) && now < s.ends) {
    info.worker = s.worker;
    info.token = s.token;
    info.expires_in = s.ends - now;
  }
  return info;
}

Result<SessionInfo> ModelSessions::read(const SessionKey& session, Instant now) const {
  const auto found = disk_.sessions.find(session);
  if (found == disk_.sessions.end()) return missing();
  return shown(session, found->second, now);
}

SessionPage ModelSessions::list(const std::string& queue, const SessionKey& after, int limit,
                                Instant now) const {
  SessionPage page;
  for (auto it = disk_.sessions.upper_bound(after); it != disk_.sessions.end(); ++it) {
    if (!queue.empty() && it->first.queue != queue) continue;
    if (static_cast<int>(page.sessions.size()) == limit) {
      page.next = page.sessions.back().session;
      break;
    }
    page.sessions.push_back(shown(it->first, it->second, now));
    page.sessions.back().state.clear();
  }
  return page;
}

}  // namespace mainspring
