// The nodes: batches of random requests, and the history that they leave.
#include "postgres/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "blackbox/process.h"

namespace mainspring::pg_testing {

using blackbox::Done;
using blackbox::Span;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::size_t kKnownJobs = 200;
constexpr int kMaxHeld = 12;
constexpr int kQueues = 3;
constexpr std::int64_t kSessions = 8;   // of each queue
constexpr std::int64_t kLimitKeys = 4;  // of the last one
constexpr int kAtOnce = 50;             // that an operator looks at
constexpr std::int64_t kMaxLive = 300;  // nodes enqueue nothing beyond

std::string queue_name(std::int64_t number) {
  return fmt::format("q{}", number);
}

const char* status_text(FinishStatus s) {
  return s == FinishStatus::ok ? "ok" : s == FinishStatus::stale ? "stale" : "not_found";
}

void merge(ChangeHints& into, const ChangeHints& more) {
  into.queues.insert(into.queues.end(), more.queues.begin(), more.queues.end());
  into.released.insert(into.released.end(), more.released.begin(), more.released.end());
  into.next_due = std::min(into.next_due, more.next_due);
  into.catalog |= more.catalog;
  into.everything |= more.everything;
}

}  // namespace

// -- the board ------------------------------------------------------------------------------------

void Board::post(int from, const ChangeHints& news) {
  if (news.empty()) return;
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < mail_.size(); ++i) {
    if (static_cast<int>(i) != from) merge(mail_[i], news);
  }
}

ChangeHints Board::take_mail(int node) {
  MutexLock lock(mutex_);
  return std::exchange(mail_[static_cast<std::size_t>(node)], {});
}

void Board::note_job(JobId id) {
  MutexLock lock(mutex_);
  if (jobs_.size() < kKnownJobs) {
    jobs_.push_back(id);
  } else {
    jobs_[next_job_++ % kKnownJobs] = id;
  }
}

JobId Board::some_job(std::uint64_t dice) const {
  MutexLock lock(mutex_);
  return jobs_.empty() ? 0 : jobs_[dice % jobs_.size()];
}

// -- a node ---------------------------------------------------------------------------------------

struct FleetNode::Body {
  Board& board;
  const int number;
  PostgresOptions options;
  blackbox::Chance chance;
  const SystemClock steady;
  NullLog log;
  std::unique_ptr<SharedStore> store;
  NodeReport report;
  int lives = 0;
  std::string worker;

  struct Said {
    Outcome outcome;
    std::optional<std::size_t> write;  // of its session's state, in the history
  };
  struct Held {
    Token token = 0;
    Instant until;       // its action then: finish, or nothing
    SessionKey session;  // without a key: none
    bool careless = false;
    int beats = 0;
    bool told = false;  // to stop
    // Of a finish that may have taken effect: it is repeated unchanged.
    std::optional<Said> said;
  };
  std::map<JobId, Held> held;
  // A session that this node holds.
  struct Hold {
    SessionKey session;
    Token token = 0;
    Instant until;          // it is given back then
    std::size_t event = 0;  // in the history
  };
  std::optional<Hold> hold;
  bool limited = false;                              // the queues have their limits
  std::vector<std::pair<JobId, std::string>> aside;  // deferred jobs and their queues
  std::deque<Enqueue> again;                         // refused ones with a key, to be repeated
  std::vector<std::pair<JobId, Token>> old;          // formerly held
  std::int64_t requests = 0;
  std::int64_t flows_counted = 0;  // of the board's unsent ones
  int keys = 0;
  Instant refresh_at, step_at;

  std::vector<Operation> batch;
  // The answer; nullptr = the batch failed. `sure` = it had no effect; false = it may have had one.
  using Handler = std::function<void(const OperationResult*, bool sure, Span)>;
  std::vector<Handler> handlers;
  FlowSide flows{board.flows(), chance, [this](Operation operation, FlowSide::Handler handler) {
                   add(std::move(operation),
                       [handler = std::move(handler)](const OperationResult* result, bool sure,
                                                      Span) { handler(result, sure); });
                 }};

  Now now() const { return board.clock().now(); }
  bool storm() const { return board.phase() == Board::Phase::storm; }
  bool percent(int p) { return chance.percent(p); }
  blackbox::History& history() { return report.history; }
  void broke(const std::string& what) {
    if (report.broken.size() < 5) report.broken.push_back(fmt::format("node {}: {}", number, what));
  }
  void note_time(Instant began) {
    report.longest_call = std::max(report.longest_call, steady.now().instant - began);
  }
  void add(Operation operation, Handler handler) {
    batch.push_back(std::move(operation));
    handlers.push_back(std::move(handler));
  }

  bool open();
  void run(std::atomic<bool>& restart);
  void turn();
  void fill();
  void apply();
  void listen();
  void read_something();

  void enqueue();
  void send(Enqueue request);
  void repeat(Enqueue request) {
    again.push_back(std::move(request));
    board.count_unsent(1);
  }
  void claim();
  void send(Claim request);
  void granted(const ClaimResult& result, Span at, const Claim& request);
  void hold_session();
  void accepted(const SessionGrant& grant, Span at, Duration lease);
  void work();
  void finish(JobId id, const Held& mine);
  void finish_with_old_token();
  void renew();
  void cancel();
  void pause(const std::string& queue, bool paused);
  void limit_queues();
  void take_up_again();
  void retry(JobId id);
  void note_word(JobId id, const OperationResult* result, bool sure, Span at);
  void steps();
  Outcome draw_outcome(const Held& mine);
  Said decide(const Held& mine);
};

bool FleetNode::Body::open() {
  options.incarnation = fmt::format("node{}.{}.{}", number, ++lives, chance.next());
  worker = fmt::format("w{}.{}", number, lives);
  auto opened = open_postgres_store(options, now(), log);
  if (!opened) {
    if (opened.error().code != ErrorCode::unavailable)
      broke(fmt::format("opening: {}: {}", opened.error().name(), opened.error().message));
    return false;
  }
  store = std::move(*opened);
  // The jobs of the previous process have no holder now.
  for (const auto& [id, mine] : held) old.emplace_back(id, mine.token);
  held.clear();
  hold.reset();
  flows.forget();
  return true;
}

void FleetNode::Body::run(std::atomic<bool>& restart) {
  while (board.phase() != Board::Phase::stop) {
    if (restart.exchange(false) && store) {
      store.reset();
      ++report.reopened;
    }
    if (!store && !open()) continue;
    turn();
  }
  store.reset();
}

void FleetNode::Body::turn() {
  batch.clear();
  handlers.clear();
  fill();
  if (!batch.empty()) {
    apply();
  } else {
    blackbox::pause_for(2000);  // a node with nothing to do
  }
  listen();
  if (percent(5)) read_something();
  const auto flows_unsent = static_cast<std::int64_t>(flows.unsent());
  board.count_unsent(flows_unsent - std::exchange(flows_counted, flows_unsent));
}

void FleetNode::Body::fill() {
  steps();
  work();
  if (storm()) {
    if (board.live() < kMaxLive) {
      for (auto n = chance.between(0, 2); n > 0; --n) enqueue();
    }
    if (percent(6)) cancel();
    if (percent(3)) finish_with_old_token();
    if (number == 0 && !limited) limit_queues();
    if (number == 0 && percent(2)) pause(queue_name(chance.between(0, kQueues - 1)), percent(30));
  }
  if (!again.empty() && (!storm() || percent(20))) {
    Enqueue request = std::move(again.front());
    again.pop_front();
    send(std::move(request));
    board.count_unsent(-1);
  }
  if (static_cast<int>(held.size()) < kMaxHeld) claim();
  take_up_again();
  hold_session();
  flows.turn(*store, worker, storm(), now());
}

void FleetNode::Body::apply() {
  const Instant began = steady.now().instant;
  const Now sent = now();
  const auto result = store->apply(batch, sent);
  const Span at{sent.instant.us(), now().instant.us()};
  note_time(began);
  ++report.batches;
  bool sure = true;
  if (!result) {
    ++report.unavailable;
    ++report.refusals[fmt::format("{}: {}", result.error().name(), result.error().message)];
    const ErrorCode code = result.error().code;
    sure = code == ErrorCode::unavailable || code == ErrorCode::storage_full;
    const bool known = sure || code == ErrorCode::timeout;
    if (!known) broke(fmt::format("apply: {}: {}", result.error().name(), result.error().message));
    if (sure && result.error().retry_after_ms <= 0) broke("apply: no retry_after_ms");
  } else if (result->results.size() != batch.size()) {
    return broke("apply: another number of answers");
  }
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    const auto* error = result ? std::get_if<Error>(&result->results[i]) : nullptr;
    if (error != nullptr && error->code == ErrorCode::timeout) {  // of this one alone
      ++report.refusals[fmt::format("{}: {}", error->name(), error->message)];
      handlers[i](nullptr, false, at);
    } else {
      handlers[i](result ? &result->results[i] : nullptr, sure, at);
    }
  }
  ChangeHints news = store->take_news();
  if (result) {
    news.released = result->effects.released;
    news.ended = result->effects.ended;
    report.quarantined += std::ssize(result->effects.quarantined);
    board.count_live(-std::count_if(news.ended.begin(), news.ended.end(), [this](const auto& id) {
      return !board.flows().has_claimed(id);
    }));
  }
  // Some notices are lost: refresh() must find the changes.
  if (!percent(20)) board.post(number, news);
}

void FleetNode::Body::listen() {
  if (const ChangeHints mail = board.take_mail(number); !mail.empty()) store->heard(mail);
  const Now n = now();
  if (n.instant < refresh_at) return;
  refresh_at = n.instant + milliseconds(100);
  ++report.refreshes;
  const Instant began = steady.now().instant;
  const auto heard = store->refresh(n);
  note_time(began);
  if (!heard && heard.error().code != ErrorCode::unavailable)
    broke(fmt::format("refresh: {}: {}", heard.error().name(), heard.error().message));
}

void FleetNode::Body::read_something() {
  const JobId id = board.some_job(chance.next());
  if (id == 0) return;
  blackbox::ReadEvent e;
  e.at.invoke = now().instant.us();
  e.id = id;
  const auto job = store->get(id);
  e.at.ret = now().instant.us();
  if (!job && job.error().code == ErrorCode::unavailable) return;
  e.status = job ? 200 : info(job.error().code).http_status;
  if (!job) return broke(fmt::format("get({}): {}", id, job.error().message));
  e.state = to_string(job->state);
  e.attempt = job->attempt;
  history().reads.push_back(e);
}

// -- enqueue

void FleetNode::Body::enqueue() {
  Enqueue e;
  const std::string queue = queue_name(chance.between(0, kQueues - 1));
  const auto n = percent(70) ? 1 : chance.between(2, 6);
  for (std::int64_t i = 0; i < n; ++i) {
    NewJob& j = e.jobs.emplace_back();
    j.queue = queue;
    j.kind = "work";
    j.args = fmt::format("{{\"n\":{}}}", board.new_nonce());
    j.priority = static_cast<int>(chance.between(3, 6));
    j.max_attempts = percent(8) ? 1 : 20;
    if (percent(20)) j.delay = milliseconds(chance.between(1, 400));
    if (percent(5)) j.expires_in = milliseconds(chance.between(50, 900));
    if (percent(30)) {
      j.session = fmt::format("s{}", chance.between(0, kSessions - 1));
    } else if (queue == queue_name(kQueues - 1) && percent(70)) {
      j.limit_key = fmt::format("k{}", chance.between(0, kLimitKeys - 1));
    }
  }
  if (n == 1 && percent(20)) {
    NewJob& j = e.jobs[0];
    j.unique = Unique{.key = fmt::format("u{}", chance.between(0, 3))};
    j.max_attempts = 1000;
    j.expires_in.reset();
    j.session.clear();
  }
  if (percent(50)) {
    e.idempotency_key = fmt::format("key{}.{}", number, ++keys);
    for (const NewJob& j : e.jobs) e.fingerprint += j.args;
    if (percent(10)) repeat(e);  // asked for twice
  }
  send(std::move(e));
}

void FleetNode::Body::send(Enqueue request) {
  blackbox::EnqueueEvent event;
  event.key = request.idempotency_key;
  event.body = request.fingerprint;
  event.queue = request.jobs[0].queue;
  for (const NewJob& j : request.jobs) {
    auto& item = event.jobs.emplace_back();
    item.nonce = nonce_of(j.args);
    item.delay = j.delay.value_or(Duration(0)).count();
  }
  if (request.jobs[0].unique) event.unique = request.jobs[0].unique->key;
  add(request, [this, request, event](const OperationResult* result, bool sure, Span at) mutable {
    event.at = at;
    const auto* r = result == nullptr ? nullptr : std::get_if<EnqueueResult>(result);
    if (r != nullptr) {
      event.done = Done::yes;
      event.status = r->replayed ? 200 : 201;
      for (std::size_t i = 0; i < r->jobs.size(); ++i) {
        event.jobs[i].id = r->jobs[i].id;
        event.jobs[i].duplicate = r->jobs[i].duplicate || r->replayed;
        event.jobs[i].state = to_string(r->jobs[i].state);
        board.note_job(r->jobs[i].id);
        if (!event.jobs[i].duplicate) board.count_live(1);
      }
    } else {
      event.done = sure ? Done::no : Done::unknown;
      event.status = 503;
      if (result != nullptr) {
        const Error& error = std::get<Error>(*result);
        event.status = info(error.code).http_status;
        broke(fmt::format("enqueue: {}: {}", error.name(), error.message));
      }
      if (!event.key.empty()) repeat(request);
    }
    history().enqueues.push_back(event);
  });
}

// -- work

void FleetNode::Body::claim() {
  Claim c{.worker = worker, .queues = {}, .kinds = {}};
  // As a broker does: it claims when there may be jobs.
  for (int q = 0; q < kQueues; ++q) {
    if (store->has_available(queue_name(q))) c.queues.push_back(queue_name(q));
  }
  if (c.queues.empty()) return;
  c.max = static_cast<int>(chance.between(1, kMaxHeld - static_cast<int>(held.size())));
  c.lease = storm() ? milliseconds(chance.between(250, 1500)) : milliseconds(5000);
  send(std::move(c));
}

void FleetNode::Body::send(Claim request) {
  add(request, [this, request](const OperationResult* result, bool sure, Span at) {
    if (result == nullptr) {
      if (!sure) ++history().unknown_claims;
      return;
    }
    if (const auto* error = std::get_if<Error>(result)) {
      // It may have held its session for too long.
      if (request.session_token == 0 || error->code != ErrorCode::lease_lost)
        broke("claim: " + error->message);
      return;
    }
    granted(std::get<ClaimResult>(*result), at, request);
  });
}

// Holds one session at a time, until it releases or forgets it.
void FleetNode::Body::hold_session() {
  if (!hold) {
    const std::string line = accept_queue(queue_name(chance.between(0, kQueues - 1)));
    if (!storm() || !percent(20) || !store->has_available(line)) return;
    return send(Claim{
        .worker = worker, .queues = {line}, .lease = milliseconds(chance.between(250, 1500))});
  }
  const std::string line = session_queue(hold->session);
  if (storm() && now().instant < hold->until) {
    if (!store->has_available(line)) return;
    return send(Claim{.worker = worker,
                      .queues = {line},
                      .lease = milliseconds(500),
                      .session_token = hold->token});
  }
  if (!percent(10)) {  // else its lease ends by itself
    auto& event = history().session_holds.at(hold->event);
    event.valid_until = std::min(event.valid_until, now().instant.us());
    add(ReleaseSession{.session = hold->session, .token = hold->token},
        [](const OperationResult*, bool, Span) {});
  }
  hold.reset();
}

void FleetNode::Body::accepted(const SessionGrant& grant, Span at, Duration lease) {
  hold = Hold{.session = grant.session,
              .token = grant.token,
              .until = now().instant + milliseconds(chance.between(50, 1500)),
              .event = history().session_holds.size()};
  history().session_holds.push_back({.granted = at.ret,
                                     .queue = grant.session.queue,
                                     .session = grant.session.key,
                                     .token = grant.token,
                                     .valid_until = at.invoke + lease.count()});
}

void FleetNode::Body::granted(const ClaimResult& result, Span at, const Claim& claim) {
  const std::int64_t request = ++requests * 64 + number;
  if (result.session) accepted(*result.session, at, claim.lease);
  for (const ClaimedJob& j : result.jobs) {
    blackbox::GrantEvent g;
    g.at = at;
    g.request = request;
    g.id = j.id;
    g.token = j.token;
    g.attempt = j.attempt;
    g.max_attempts = j.max_attempts;
    g.nonce = nonce_of(j.args);
    g.queue = j.queue;
    g.checkpoint = j.checkpoint;
    g.lease = claim.lease.count();
    g.session = j.session;
    g.session_state = j.session_state;
    g.hold = result.session ? result.session->token : claim.session_token;
    history().grants.push_back(g);
    Held mine{.token = j.token, .until = now().instant, .session = {j.queue, j.session}};
    if (storm()) {
      mine.until = mine.until + milliseconds(chance.between(0, 60));
      if (percent(6)) mine.careless = true, mine.until = mine.until + seconds(2);
    }
    held[j.id] = mine;
  }
}

void FleetNode::Body::work() {
  const Instant at = now().instant;
  std::vector<JobId> ripe;
  for (const auto& [id, mine] : held) {
    if (mine.until <= at || mine.told || !storm()) ripe.push_back(id);
  }
  for (const JobId id : ripe) finish(id, held[id]);
  if (!held.empty() && percent(30)) renew();
}

Outcome FleetNode::Body::draw_outcome(const Held& mine) {
  const auto text = [&] { return fmt::format("e{}", chance.next() % 1'000'000'000); };
  const auto dice = storm() ? chance.between(0, 99) : 99;
  if (dice < 12) return Retry{text(), milliseconds(chance.between(0, 300))};
  if (dice < 20) return Snooze{milliseconds(chance.between(0, 200))};
  if (dice < 23) return CancelJob{text()};
  if (dice < 27) return Dead{text(), "the handler says so"};
  if (dice < 31 && mine.session.key.empty()) return Defer{text()};
  return Complete{fmt::format("[\"{}\"]", text())};
}

// The claim of the next job of its session returns this state.
FleetNode::Body::Said FleetNode::Body::decide(const Held& mine) {
  Said says{.outcome = mine.told ? Outcome(CancelJob{"told to stop"}) : draw_outcome(mine),
            .write = std::nullopt};
  if (mine.session.key.empty() || !percent(50)) return says;
  says.write = history().session_writes.size();
  history().session_writes.push_back({.queue = mine.session.queue,
                                      .session = mine.session.key,
                                      .state = fmt::format("[{}]", board.new_nonce()),
                                      .invoke = now().instant.us()});
  return says;
}

void note_outcome(const Outcome& outcome, blackbox::FinishEvent& event) {
  if (const auto* c = std::get_if<Complete>(&outcome)) {
    event.outcome = "complete", event.text = c->result;
  } else if (const auto* r = std::get_if<Retry>(&outcome)) {
    event.outcome = "retry", event.text = r->error;
    event.after = r->after.value_or(Duration(0)).count();
  } else if (const auto* s = std::get_if<Snooze>(&outcome)) {
    event.outcome = "snooze", event.after = s->after.count();
  } else if (const auto* k = std::get_if<CancelJob>(&outcome)) {
    event.outcome = "cancel", event.text = k->reason;
  } else if (const auto* d = std::get_if<Defer>(&outcome)) {
    event.outcome = "defer", event.text = d->reason;
  } else {
    event.outcome = "dead", event.text = std::get<Dead>(outcome).reason;
  }
}

void FleetNode::Body::finish(JobId id, const Held& mine) {
  const Said says = mine.said ? *mine.said : decide(mine);
  Finish f{.worker = worker, .results = {}};
  f.results.push_back({id, mine.token, says.outcome});
  if (says.write) f.results[0].session_state = history().session_writes.at(*says.write).state;
  blackbox::FinishEvent event;
  event.id = id;
  event.token = mine.token;
  note_outcome(says.outcome, event);
  add(f, [this, event, says](const OperationResult* result, bool sure, Span at) mutable {
    event.at = at;
    const auto* r = result == nullptr ? nullptr : std::get_if<FinishResult>(result);
    event.done = r != nullptr ? Done::yes : sure ? Done::no : Done::unknown;
    if (r != nullptr) event.status = status_text(r->results.at(0));
    if (says.write && event.accepted()) history().session_writes[*says.write].acked = at.ret;
    history().finishes.push_back(event);
    if (result != nullptr && r == nullptr) broke("finish: " + std::get<Error>(*result).message);
    const auto mine_now = held.find(event.id);
    if (mine_now == held.end() || mine_now->second.token != event.token) return;
    if (event.done == Done::unknown) mine_now->second.said = says;
    if (r == nullptr) return;
    old.emplace_back(event.id, event.token);
    if (old.size() > kKnownJobs) old.erase(old.begin());
    if (event.outcome == "defer" && event.accepted() && aside.size() < kKnownJobs)
      aside.emplace_back(event.id, mine_now->second.session.queue);
    held.erase(mine_now);
  });
}

// For a job that it no longer holds: refused, except for a repeated completion.
void FleetNode::Body::finish_with_old_token() {
  if (old.empty()) return;
  const auto [id, token] = old[chance.next() % old.size()];
  if (held.contains(id)) return;
  Finish f{.worker = worker, .results = {}};
  f.results.push_back({id, token, Retry{"too late", Duration(0)}});
  blackbox::FinishEvent event;
  event.id = id;
  event.token = token;
  event.outcome = "retry";
  event.text = "too late";
  add(f, [this, event](const OperationResult* result, bool sure, Span at) mutable {
    event.at = at;
    const auto* r = result == nullptr ? nullptr : std::get_if<FinishResult>(result);
    event.done = r != nullptr ? Done::yes : sure ? Done::no : Done::unknown;
    if (r != nullptr) event.status = status_text(r->results.at(0));
    history().finishes.push_back(event);
  });
}

void FleetNode::Body::renew() {
  Renew renew{.worker = worker, .leases = {}, .lease = milliseconds(chance.between(300, 1500))};
  for (auto& [id, mine] : held) {
    const bool in_batch = std::any_of(batch.begin(), batch.end(), [&, id = id](const auto& o) {
      const auto* f = std::get_if<Finish>(&o);
      return f != nullptr && f->results[0].id == id;
    });
    if (mine.careless || in_batch) continue;
    Renewal& r = renew.leases.emplace_back(Renewal{id, mine.token, {}, {}});
    if (percent(40)) r.checkpoint = fmt::format("[{},{}]", mine.token, ++mine.beats);
  }
  if (renew.leases.empty()) return;
  add(renew, [this, sent = renew.leases](const OperationResult* result, bool sure, Span at) {
    const auto* r = result == nullptr ? nullptr : std::get_if<RenewResult>(result);
    const auto in = [](const std::vector<JobId>& list, JobId id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (const Renewal& lease : sent) {
      blackbox::RenewEvent e;
      e.at = at;
      e.id = lease.id;
      e.token = lease.token;
      e.checkpoint = lease.checkpoint.value_or("");
      e.done = r != nullptr ? Done::yes : sure ? Done::no : Done::unknown;
      const auto mine = held.find(lease.id);
      const bool still = mine != held.end() && mine->second.token == lease.token;
      if (r != nullptr) {
        for (const Renewed& ok : r->renewed) {
          if (ok.id == lease.id) e.renewed = true, e.lease = ok.lease.count();
        }
        e.lost = in(r->lost, lease.id);
        e.cancel = in(r->cancel, lease.id);
        if (still && e.cancel) mine->second.told = true;
        if (still && e.lost) {
          old.emplace_back(lease.id, lease.token);
          held.erase(mine);
        }
      }
      history().renews.push_back(e);
    }
  });
}

// -- operators and the scheduler

void FleetNode::Body::cancel() {
  const JobId id = board.some_job(chance.next());
  if (id == 0) return;
  add(Cancel{id, "unwanted"}, [this, id](const OperationResult* result, bool sure, Span at) {
    blackbox::CancelEvent e;
    e.at = at;
    e.id = id;
    const auto* r = result == nullptr ? nullptr : std::get_if<CancelResult>(result);
    e.done = r != nullptr ? Done::yes : sure ? Done::no : Done::unknown;
    if (r != nullptr) {
      e.status = 200;
      e.state = to_string(r->state);
      e.requested = r->cancel_requested;
    } else if (result != nullptr) {
      const Error& error = std::get<Error>(*result);
      e.status = info(error.code).http_status;
      if (error.code != ErrorCode::conflict)
        broke(fmt::format("cancel {}: {}: {}", id, error.name(), error.message));
    }
    history().cancels.push_back(e);
  });
}

void FleetNode::Body::pause(const std::string& queue, bool paused) {
  add(PauseQueue{queue, paused},
      [this, queue, paused](const OperationResult* result, bool sure, Span at) {
        const bool ok = result != nullptr && std::holds_alternative<mainspring::Done>(*result);
        history().pauses.push_back({at,
                                    ok     ? Done::yes
                                    : sure ? Done::no
                                           : Done::unknown,
                                    queue, paused});
      });
}

// One queue with quarantine after the first lost attempt, one with a breaker, one with key rates.
void FleetNode::Body::limit_queues() {
  add(PutBreaker{.name = "peer",
                 .settings = {.failures = 4,
                              .within = seconds(5),
                              .open_for = seconds(1),
                              .max_open_for = seconds(2)}},
      [](const OperationResult*, bool, Span) {});
  const QueueLimits limits[kQueues] = {
      {.quarantine_after = 1},
      {.breaker = "peer"},
      {.per_key = {.rate = RateLimit{.count = 10, .per = seconds(1)}}}};
  for (int q = 0; q < kQueues; ++q) {
    add(SetQueueLimits{.queue = queue_name(q), .limits = limits[q]},
        [this, q](const OperationResult* result, bool, Span) {
          const bool done = result != nullptr && std::holds_alternative<mainspring::Done>(*result);
          limited = done && (q == 0 || limited);
        });
  }
}

// Notes a request that lets a deferred or quarantined job continue.
void FleetNode::Body::note_word(JobId id, const OperationResult* result, bool sure, Span at) {
  const auto* error = result == nullptr ? nullptr : std::get_if<Error>(result);
  history().retries.push_back({.at = at,
                               .done = error != nullptr    ? Done::no
                                       : result != nullptr ? Done::yes
                                       : sure              ? Done::no
                                                           : Done::unknown,
                               .id = id,
                               .status = error == nullptr ? 200 : info(error->code).http_status});
}

void FleetNode::Body::retry(JobId id) {
  add(RetryJob{.id = id}, [this, id](const OperationResult* result, bool sure, Span at) {
    note_word(id, result, sure, at);
  });
}

// Claims some deferred jobs by id. In the end an operator retries the remaining ones and the jobs
// in quarantine.
void FleetNode::Body::take_up_again() {
  if (storm() && !aside.empty() && percent(20) && static_cast<int>(held.size()) < kMaxHeld) {
    const std::size_t at = chance.next() % aside.size();
    const auto [id, queue] = aside[at];
    aside.erase(aside.begin() + static_cast<std::ptrdiff_t>(at));
    Claim named{.worker = worker, .queues = {queue}, .lease = milliseconds(500), .job = id};
    add(named, [this, named](const OperationResult* result, bool sure, Span span) {
      note_word(named.job, result, sure, span);
      const auto* claimed = result == nullptr ? nullptr : std::get_if<ClaimResult>(result);
      if (claimed != nullptr) granted(*claimed, span, named);
    });
  }
  if (storm() || !percent(5)) return;
  JobFilter waiting, apart;
  waiting.state = JobState::waiting;
  apart.quarantined = true;
  for (const JobFilter& filter : {waiting, apart}) {
    const auto page = store->list(filter, kAtOnce, 0);
    if (!page) continue;
    for (const Job& job : page->jobs) {
      if (job.deferred || (job.quarantined && percent(50))) retry(job.id);
    }
  }
}

// Without a leader: any number of nodes may do them.
void FleetNode::Body::steps() {
  const Now n = now();
  const Agenda agenda = store->agenda();
  const auto ignore = [this](const OperationResult* result, bool, Span) {
    if (result == nullptr) return;
    if (const auto* error = std::get_if<Error>(result)) broke("step: " + error->message);
  };
  if (!storm() && number == 0 && percent(20)) {
    for (int q = 0; q < kQueues; ++q) pause(queue_name(q), false);
  }
  if (n.instant < step_at) return;
  step_at = n.instant + milliseconds(20);
  if (agenda.next_due <= n.wall) add(MoveDue{}, ignore);
  if (agenda.next_lease_expiry <= n.instant) add(RescueExpired{}, ignore);
  if (agenda.next_expiry <= n.wall) add(ExpireJobs{}, ignore);
  if (agenda.next_opening <= n.wall) add(OpenQueues{}, ignore);
}

FleetNode::FleetNode(Board& board, int number, PostgresOptions options, std::uint64_t seed)
    : body_(new Body{board, number, std::move(options), blackbox::Chance(seed)}) {}

FleetNode::~FleetNode() {
  if (thread_.joinable()) thread_.join();
}

void FleetNode::start() {
  thread_ = std::thread([this] { body_->run(restart_); });
}

NodeReport FleetNode::join() {
  if (thread_.joinable()) thread_.join();
  return std::move(body_->report);
}

}  // namespace mainspring::pg_testing
