// What the simulated clients do.
#include "simulation/actors.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {
namespace {

using blackbox::Done;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kLease = seconds(12);
constexpr int kMaxTries = 12;

template <class T>
const T& pick(World& w, const std::vector<T>& from) {
  return from[w.below(from.size())];
}

blackbox::Micros micros(Duration d) {
  return d.count();
}

const char* status_text(FinishStatus s) {
  return s == FinishStatus::ok ? "ok" : s == FinishStatus::stale ? "stale" : "not_found";
}

// The outcome's name and data, as the history stores them.
void note_outcome(const Outcome& outcome, blackbox::FinishEvent& event, bool wall_is_steady) {
  if (const auto* c = std::get_if<Complete>(&outcome)) {
    event.outcome = "complete";
    event.text = c->result;
  } else if (const auto* r = std::get_if<Retry>(&outcome)) {
    event.outcome = "retry";
    event.text = r->error;
    if (r->after && wall_is_steady) event.after = micros(*r->after);
  } else if (const auto* s = std::get_if<Snooze>(&outcome)) {
    event.outcome = "snooze";
    if (wall_is_steady) event.after = micros(s->after);
  } else if (const auto* k = std::get_if<CancelJob>(&outcome)) {
    event.outcome = "cancel";
    event.text = k->reason;
  } else {
    event.outcome = "dead";
    event.text = std::get<Dead>(outcome).reason;
  }
}

}  // namespace

std::int64_t nonce_of(const std::string& args) {
  const std::size_t at = args.find("\"n\":");
  return at == std::string::npos ? -1 : std::strtoll(args.c_str() + at + 4, nullptr, 10);
}

// -- workers --------------------------------------------------------------------------------------

SimWorker::SimWorker(World& world, int number) : world_(world), number_(number) {
  for (const std::string& q : kQueues) {
    if (number == 0 || !world.chance(4)) queues_.push_back(q);
  }
  if (queues_.empty()) queues_.push_back(kQueues[0]);
  if (number != 0 && world.chance(4)) kinds_ = {kKinds[0], kKinds[1]};
  slots_ = 1 + static_cast<int>(world.below(6));
}

void SimWorker::start() {
  ++life_;
  id_ = fmt::format("worker{}.{}", number_, life_);
  held_.clear();
  paused_until_ = Duration(0);
  later(world_.between(milliseconds(1), seconds(1)), [this] { claim(); });
  later(kLease / 3, [this] { beat(); });
  plan_faults();
}

void SimWorker::later(Duration delay, std::function<void()> action) {
  world_.after(delay, [this, life = life_, action = std::move(action)] {
    if (life != life_) return;
    if (world_.now() < paused_until_ && !world_.healed())
      return later(paused_until_ - world_.now(), action);
    action();
  });
}

void SimWorker::plan_faults() {
  later(world_.between(seconds(2), minutes(3)), [this] {
    if (world_.healed()) return;
    if (world_.faults.worker_crashes && world_.chance(2)) {
      world_.trace(id_ + " crashes");
      ++life_;
      const Duration down = world_.between(milliseconds(1), seconds(40));
      return world_.after(down, [this] { start(); });
    }
    if (world_.faults.worker_pauses && world_.chance(2)) {
      paused_until_ = world_.now() + world_.between(seconds(1), kLease * 10);
      world_.trace(id_ + " pauses");
    }
    plan_faults();
  });
}

void SimWorker::claim() {
  const int free = slots_ - static_cast<int>(held_.size());
  if (free <= 0) return later(world_.between(milliseconds(20), seconds(1)), [this] { claim(); });
  const Duration wait =
      world_.chance(3) ? Duration(0) : world_.between(milliseconds(1), seconds(20));
  const Duration lease = world_.chance(6) ? kLease / 4 : kLease;
  send_claim({.worker = id_, .queues = queues_, .kinds = kinds_, .max = free, .lease = lease},
             wait);
}

void SimWorker::send_claim(Claim claim, Duration wait) {
  const Duration sent = world_.now();
  world_.call(claim, World::Delivery::repeatable, wait,
              [this, life = life_, sent, claim](const std::optional<OperationResult>& result) {
                const auto* got = result ? std::get_if<ClaimResult>(&*result) : nullptr;
                if (got == nullptr) ++world_.history.unknown_claims;
                if (life != life_) return;
                const blackbox::Span at{micros(sent), micros(world_.now())};
                if (result) answered(*result, sent, claim);
                if (got != nullptr) {
                  const Token hold = got->session ? got->session->token : claim.session_token;
                  // A paused worker finds the answer when it continues; the store gave it before.
                  later(Duration(1), [this, got = *got, at, lease = claim.lease, hold] {
                    granted(got, at, lease, hold);
                  });
                }
                later(world_.between(milliseconds(1), milliseconds(300)),
                      [this] { this->claim(); });
              });
}

void SimWorker::granted(const ClaimResult& result, blackbox::Span at, Duration lease, Token hold) {
  static_assert(std::is_same_v<blackbox::Micros, std::int64_t>);
  const std::int64_t request = world_.history.unknown_claims * 1'000'000'000 + at.invoke;
  for (const ClaimedJob& j : result.jobs) {
    blackbox::GrantEvent g;
    g.at = at;
    g.request = request * 64 + number_;
    g.id = j.id;
    g.token = j.token;
    g.attempt = j.attempt;
    g.max_attempts = j.max_attempts;
    g.nonce = nonce_of(j.args);
    g.queue = j.queue;
    g.checkpoint = j.checkpoint;
    g.lease = micros(lease);
    g.session = j.session;
    g.session_state = j.session_state;
    g.hold = hold;
    world_.history.grants.push_back(g);
    held_[j.id] = {.token = j.token, .nonce = g.nonce, .session = {j.queue, j.session}};
    const Duration work = world_.healed() || !world_.chance(8)
                              ? world_.between(milliseconds(1), seconds(3))
                              : world_.between(seconds(1), kLease * 4);
    later(work, [this, id = j.id, token = j.token] {
      const auto found = held_.find(id);
      if (found != held_.end() && found->second.token == token && !found->second.finishing)
        finish(id, draw_outcome());
    });
  }
  for (const JobId id : result.cancel) {
    if (held_.contains(id) && !held_[id].finishing) finish(id, CancelJob{"told to stop"});
  }
}

void SimWorker::beat() {
  later(kLease / 3, [this] { beat(); });
  if (held_.empty()) return;
  Renew renew{.worker = id_, .leases = {}, .lease = kLease};
  bool payload = false;
  for (auto& [id, held] : held_) {
    Renewal& r = renew.leases.emplace_back(Renewal{id, held.token, {}, {}});
    ++held.beats;
    if (world_.chance(3)) {
      const bool again = held.progress && held.beats % 2 == 0;
      r.progress = again ? held.progress : world_.messages.next_progress(id);
      held.progress = r.progress;
    }
    if (world_.chance(2)) r.checkpoint = fmt::format("[{},{}]", held.token, held.beats);
    if (world_.chance(3)) r.first_seq = held.said + 1;
    for (int i = 0; i < 4 && world_.chance(3); ++i, ++held.said)
      r.messages.push_back(world_.messages.next(id));
    payload = payload || r.progress || r.checkpoint || !r.messages.empty();
  }
  const Duration sent = world_.now();
  // A copy that arrives after the next renewal would put an old checkpoint back.
  world_.call(renew, payload ? World::Delivery::prompt : World::Delivery::repeatable, Duration(0),
              [this, life = life_, sent,
               leases = renew.leases](const std::optional<OperationResult>& result) {
                const blackbox::Span at{micros(sent), micros(world_.now())};
                renewed(leases, at, result);
                if (life != life_ || !result) return;
                const auto* r = std::get_if<RenewResult>(&*result);
                if (r == nullptr) return;
                later(Duration(1), [this, r = *r, leases] {
                  for (const Renewal& lease : leases) {
                    const auto found = held_.find(lease.id);
                    if (found == held_.end() || found->second.token != lease.token) continue;
                    const auto told = [&](const std::vector<JobId>& list) {
                      return std::find(list.begin(), list.end(), lease.id) != list.end();
                    };
                    if (told(r.lost)) {
                      held_.erase(found);
                    } else if (told(r.cancel) && !found->second.finishing) {
                      finish(lease.id, CancelJob{"told to stop"});
                    }
                  }
                });
              });
}

void SimWorker::renewed(const std::vector<Renewal>& sent, blackbox::Span at,
                        const std::optional<OperationResult>& result) {
  const auto* r = result ? std::get_if<RenewResult>(&*result) : nullptr;
  for (const Renewal& lease : sent) {
    blackbox::RenewEvent e;
    e.at = at;
    e.id = lease.id;
    e.token = lease.token;
    e.checkpoint = lease.checkpoint.value_or("");
    e.done = r != nullptr ? Done::yes : result ? Done::no : Done::unknown;
    if (r != nullptr) {
      for (const Renewed& ok : r->renewed) {
        if (ok.id != lease.id) continue;
        e.renewed = true;
        e.lease = micros(ok.lease);
      }
      const auto in = [&](const std::vector<JobId>& list) {
        return std::find(list.begin(), list.end(), lease.id) != list.end();
      };
      e.lost = in(r->lost);
      e.cancel = in(r->cancel);
      world_.met.stale += e.lost ? 1 : 0;
    }
    using Fate = MessageInvariant::Fate;
    const auto* error = result ? std::get_if<Error>(&*result) : nullptr;
    const bool full = error != nullptr && (error->code == ErrorCode::storage_full ||
                                           error->code == ErrorCode::overloaded);
    const Fate answered = e.renewed ? Fate::made : Fate::not_made;
    const Fate fate = r != nullptr ? answered : full ? Fate::not_made : Fate::unknown;
    for (const std::string& message : lease.messages) world_.messages.told(message, fate);
    if (lease.progress) world_.messages.told(*lease.progress, fate);
    world_.history.renews.push_back(e);
  }
}

Outcome SimWorker::draw_outcome() {
  const auto text = [&] { return fmt::format("e{}", world_.below(1'000'000'000)); };
  const auto dice = world_.healed() ? 99 : world_.below(100);
  if (dice < 12) return Retry{text(), {}};
  if (dice < 22) return Retry{text(), world_.between(Duration(0), seconds(10))};
  if (dice < 30) return Snooze{world_.chance(2) ? Duration(0) : Duration(seconds(world_.below(9)))};
  if (dice < 34) return CancelJob{text()};
  if (dice < 40) return Dead{text(), "the handler says so"};
  return Complete{fmt::format("[\"{}\"]", text())};
}

void SimWorker::finish(JobId id, Outcome outcome) {
  held_[id].finishing = true;
  send_finish(id, held_[id].token, std::move(outcome));
}

void SimWorker::send_finish(JobId id, Token token, Outcome outcome) {
  const auto found = held_.find(id);
  if (found == held_.end() || found->second.token != token) return;
  const bool tried = std::exchange(found->second.tried, true);
  Held& held = found->second;
  if (!tried && !held.session.key.empty() && world_.chance(2)) {
    held.state = fmt::format("[{}]", token);
    auto& writes = world_.history.session_writes;
    held.write = writes.size();
    writes.push_back({.queue = held.session.queue,
                      .session = held.session.key,
                      .state = held.state,
                      .invoke = micros(world_.now())});
  }
  Finish f{.worker = id_, .results = {}};
  f.results.push_back({id, token, outcome});
  if (held.write != kNone) f.results[0].session_state = held.state;
  const Duration sent = world_.now();
  world_.call(f, World::Delivery::repeatable, Duration(0),
              [this, life = life_, sent, tried, id, token, write = held.write,
               outcome](const std::optional<OperationResult>& result) {
                blackbox::FinishEvent e;
                e.at = {micros(sent), micros(world_.now())};
                e.id = id;
                e.token = token;
                note_outcome(outcome, e, !world_.faults.wall_steps);
                const auto* r = result ? std::get_if<FinishResult>(&*result) : nullptr;
                if (r != nullptr) {
                  e.done = Done::yes;
                  e.status = status_text(r->results.at(0));
                  world_.met.stale += e.status == "stale" ? 1 : 0;
                  world_.met.completed += e.status == "ok" && e.outcome == "complete" ? 1 : 0;
                  if (write != kNone && e.status == "ok")
                    world_.history.session_writes[write].acked = micros(world_.now());
                  // The second copy of a request may be answered as stale if the first took
                  // effect.
                  if (e.status != "ok" && (tried || world_.faults.duplicates))
                    e.done = Done::unknown;
                } else {
                  e.done = result ? Done::no : Done::unknown;
                }
                world_.history.finishes.push_back(e);
                if (life != life_) return;
                if (r != nullptr) {
                  later(Duration(1), [this, id, token] {
                    const auto now_held = held_.find(id);
                    if (now_held != held_.end() && now_held->second.token == token)
                      held_.erase(now_held);
                  });
                } else {
                  later(world_.between(milliseconds(50), seconds(2)),
                        [this, id, token, outcome] { send_finish(id, token, outcome); });
                }
              });
}

// -- producers ------------------------------------------------------------------------------------

void Producer::next() {
  world_.after(world_.between(milliseconds(10), milliseconds(1500)), [this] {
    if (stopped_) return;
    next();
    const auto dice = world_.below(100);
    if (dice < 62) return enqueue();
    if (dice < 74) return cancel();
    if (dice < 80) return retry();
    if (dice < 84) return pause();
    if (dice < 88) return resume();
    read();
  });
}

NewJob Producer::draw_job(const std::string& queue) {
  NewJob j;
  j.queue = queue;
  j.kind = pick(world_, kKinds);
  j.args = fmt::format(R"({{"n":{},"pad":"{}"}})", number_ * 1'000'000'000LL + ++nonces_,
                       std::string(world_.chance(12) ? world_.below(6000) : world_.below(60), 'x'));
  if (world_.chance(2)) j.priority = static_cast<int>(world_.below(10));
  if (world_.chance(4)) j.delay = world_.between(Duration(0), seconds(30));
  j.max_attempts = world_.chance(2) ? 1 + static_cast<int>(world_.below(4)) : 20;
  if (world_.chance(8)) j.expires_in = world_.between(seconds(1), seconds(40));
  if (j.expires_in && world_.chance(3)) j.on_expiry = OnExpiry::dead;
  if (world_.chance(8)) j.timeout = seconds(15);
  if (world_.chance(5)) j.tags = {"tagged"};
  for (int i = 0; i < 3 && world_.chance(4); ++i)
    j.follow_ups.push_back(
        follow_up(i, static_cast<std::uint8_t>(1 + world_.below(FollowUp::kEverything))));
  if (world_.chance(10)) j.reply_to = kFollowQueue;
  if (world_.chance(4)) into_session(j);
  return j;
}

void Producer::into_session(NewJob& job) {
  job.session = fmt::format("s{}", world_.below(kSessions));
  if (world_.chance(3)) job.on_dead = static_cast<OnDead>(world_.below(3));
}

void Producer::enqueue() {
  const std::string queue = pick(world_, kQueues);
  if (world_.faults.duplicates && !sent_.empty() && world_.chance(8)) {
    Enqueue again = pick(world_, sent_);  // the same request, or its key with another body
    blackbox::EnqueueEvent event;
    if (world_.chance(3)) {
      again.jobs = {draw_job(again.jobs[0].queue)};
      again.fingerprint = again.jobs[0].args;
    }
    return send(std::move(again), std::move(event), kMaxTries);
  }
  Enqueue e;
  const auto n = world_.chance(5) ? 2 + world_.below(12) : 1;
  for (std::uint64_t i = 0; i < n; ++i) e.jobs.push_back(draw_job(queue));
  if (n == 1 && world_.chance(4)) {
    NewJob& j = e.jobs[0];
    j.unique = Unique{.key = fmt::format("{}-{}", queue, world_.below(5))};
    j.unique->on_conflict = static_cast<OnConflict>(world_.below(3));
    j.session.clear();  // a replacement cannot belong to a session
    j.max_attempts = 20;
    j.expires_in.reset();
    j.on_expiry = OnExpiry::cancel;
  }
  if (!world_.chance(5)) {
    e.idempotency_key = fmt::format("key{}.{}", number_, ++keys_);
    for (const NewJob& j : e.jobs) e.fingerprint += j.args;
    sent_.push_back(e);
  }
  send(std::move(e), {}, 0);
}

void Producer::send(Enqueue request, blackbox::EnqueueEvent event, int tries) {
  event.at.invoke = micros(world_.now());
  event.key = request.idempotency_key;
  event.body = request.fingerprint;
  event.queue = request.jobs[0].queue;
  event.jobs.clear();
  for (const NewJob& j : request.jobs) event.jobs.emplace_back().nonce = nonce_of(j.args);
  if (const auto& unique = request.jobs[0].unique) {
    event.unique = unique->key;
    event.replaces = unique->on_conflict == OnConflict::replace;
  }
  const auto delivery =
      request.idempotency_key.empty() ? World::Delivery::plain : World::Delivery::repeatable;
  const Enqueue copy = request;
  world_.call(copy, delivery, Duration(0),
              [this, request = std::move(request), event,
               tries](const std::optional<OperationResult>& result) mutable {
                event.at.ret = micros(world_.now());
                const auto* r = result ? std::get_if<EnqueueResult>(&*result) : nullptr;
                event.done = r != nullptr ? Done::yes : result ? Done::no : Done::unknown;
                if (r != nullptr) {
                  event.status = r->replayed ? 200 : 201;
                  for (std::size_t i = 0; i < r->jobs.size(); ++i) {
                    event.jobs[i].id = r->jobs[i].id;
                    event.jobs[i].duplicate = r->jobs[i].duplicate;
                    event.jobs[i].state = to_string(r->jobs[i].state);
                    world_.met.dedup_hits += r->jobs[i].duplicate ? 1 : 0;
                    known_.push_back(r->jobs[i].id);
                  }
                } else if (result) {
                  const Error& error = std::get<Error>(*result);
                  event.status = info(error.code).http_status;
                  world_.met.full += error.code == ErrorCode::storage_full ? 1 : 0;
                  // Another copy of a repeatable request may still have taken effect.
                  if (world_.faults.duplicates && error.code != ErrorCode::conflict)
                    event.done = Done::unknown;
                }
                world_.history.enqueues.push_back(event);
                const bool again = event.done == Done::unknown && !request.idempotency_key.empty();
                if (!again || tries >= kMaxTries) return;
                world_.after(world_.between(milliseconds(100), seconds(4)),
                             [this, request = std::move(request), event, tries]() mutable {
                               send(std::move(request), std::move(event), tries + 1);
                             });
              });
}

JobId Producer::some_job() {
  if (known_.empty()) return 1;
  const std::size_t recent = std::min<std::size_t>(known_.size(), 40);
  return known_[known_.size() - 1 - world_.below(recent)];
}

void Producer::cancel() {
  const JobId id = some_job();
  const Duration sent = world_.now();
  world_.call(Cancel{id, "unwanted"}, World::Delivery::repeatable, Duration(0),
              [this, id, sent](const std::optional<OperationResult>& result) {
                blackbox::CancelEvent e;
                e.at = {micros(sent), micros(world_.now())};
                e.id = id;
                e.done = Done::unknown;
                if (result) {
                  const auto* r = std::get_if<CancelResult>(&*result);
                  e.done = r != nullptr ? Done::yes : Done::no;
                  if (r != nullptr) {
                    e.status = 200;
                    e.state = to_string(r->state);
                    e.requested = r->cancel_requested;
                    ++world_.met.cancels;
                  } else {
                    e.status = info(std::get<Error>(*result).code).http_status;
                    if (world_.faults.duplicates) e.done = Done::unknown;
                  }
                }
                world_.history.cancels.push_back(e);
              });
}

void Producer::retry() {
  const JobId id = some_job();
  const Duration sent = world_.now();
  world_.call(RetryJob{id}, World::Delivery::sure, Duration(0),
              [this, id, sent](const std::optional<OperationResult>& result) {
                blackbox::RetryEvent e;
                e.at = {micros(sent), micros(world_.now())};
                e.id = id;
                e.done = Done::unknown;
                if (result) {
                  const bool ok = std::holds_alternative<RetryResult>(*result);
                  e.done = ok ? Done::yes : Done::no;
                  e.status = ok ? 200 : info(std::get<Error>(*result).code).http_status;
                  world_.met.retries += ok ? 1 : 0;
                }
                world_.history.retries.push_back(e);
              });
}

void Producer::pause() {
  if (!world_.faults.queue_pauses || number_ != 0) return;  // one operator, in order
  const std::string queue = pick(world_, kQueues);
  const bool paused = world_.chance(3);
  const Duration sent = world_.now();
  world_.call(PauseQueue{queue, paused}, World::Delivery::sure, Duration(0),
              [this, queue, paused, sent](const std::optional<OperationResult>& result) {
                blackbox::PauseEvent e;
                e.at = {micros(sent), micros(world_.now())};
                e.queue = queue;
                e.paused = paused;
                e.done = Done::unknown;
                if (result && std::holds_alternative<mainspring::Done>(*result)) e.done = Done::yes;
                world_.history.pauses.push_back(e);
              });
}

// Of a session that may be stopped.
void Producer::resume() {
  const SessionKey session{pick(world_, kQueues), fmt::format("s{}", world_.below(kSessions))};
  world_.call(ResumeSession{.session = session}, World::Delivery::repeatable, Duration(0),
              [this](const std::optional<OperationResult>& result) {
                const bool done = result && std::holds_alternative<mainspring::Done>(*result);
                world_.met.sessions_resumed += done ? 1 : 0;
              });
}

void Producer::read() {
  const JobId id = some_job();
  const auto job = world_.read(id);
  if (!job) return;
  blackbox::ReadEvent e;
  e.at = {micros(world_.now()), micros(world_.now())};
  e.id = id;
  if (*job) {
    e.status = 200;
    e.state = to_string((*job)->state);
    e.attempt = (*job)->attempt;
  } else {
    e.status = info(job->error().code).http_status;
  }
  world_.history.reads.push_back(e);
}

}  // namespace mainspring::simulation
