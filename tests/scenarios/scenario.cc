// scenario FILE: runs a text scenario on the real store, broker and scheduler under simulated time.
//
//   # comment                         each line is a command; after -> is the expected answer
//   enqueue KIND [queue=q] [priority=] [delay=] [run_at=+D] [max_attempts=] [expires_in=]
//           [timeout=] [unique=K] [window=D] [on_conflict=keep] [key=K] [args=JSON] [tag=T]
//           [times=N]
//                                     -> jobs 1 2 | jobs 1 duplicate | refused conflict
//   claim WORKER QUEUE,QUEUE [max=N] [kinds=a,b] [lease=D]    -> jobs 1 2 | nothing
//   park WORKER QUEUE wait=D [kinds=a,b]     a claim that waits; see `expect WORKER`
//   renew WORKER JOB [progress=0.5] [checkpoint=JSON]         -> 30s | lost | cancel
//   finish WORKER JOB complete [JSON] | retry ERROR [after=D] | snooze D | cancel REASON |
//                     dead REASON     -> ok | stale | not_found     (with the token of its claim)
//   cancel JOB                        -> cancelled | running | refused conflict
//   retry JOB                         -> available | refused CODE
//   redrive [queue=q] [kind=k]        -> 3
//   pause QUEUE   resume QUEUE   retention QUEUE [completed=D] [dead=D]
//   advance D                         time passes; due work happens when it is due
//   set_wall +D                       the wall clock is set
//   restart | kill | power_cut        the server stops or dies, and starts again
//   disk full | disk free
//   schedule NAME every=D | cron=0_30_2_*_*_* | at=+D [zone=Z] [misfire=P] [window=D] [cap=N]
//            [overlap=P] [jitter=D] [max_runs=N] [pause_on_failure=yes] [kind=K]
//                                     -> created | replaced | unchanged | refused CODE
//   pause_schedule NAME  resume_schedule NAME  trigger NAME -> job 3 | skipped
//   backfill NAME from=D to=D         (so long ago)           -> fired 3 skipped 1
//   acquire NAME by=HOLDER [ttl=D] [wait=D]    -> granted | refused lease_held | (nothing: waits)
//   renew_lease NAME by=HOLDER [value=JSON]    release NAME by=HOLDER    -> ok | refused lease_lost
//   fenced KIND lease=NAME by=HOLDER -> jobs 1 | refused lease_lost     an enqueue with its token
//   expect job N STATE|pruned|unknown [attempt=] [errors=] [reason=] [result=] [checkpoint=]
//   expect queue QUEUE [available=2] [dead=1] [enqueued=5] …
//   expect schedule NAME [fired=3] [rows=5] [last=fired|skipped] [reason=WORD] [next=D]
//                        [paused=yes]
//   expect lease NAME HOLDER|free
//   expect WORKER waits | got jobs 1 2 | got nothing | told to stop 1
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "broker/broker.h"
#include "broker/schedule_plans.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "scheduler/scheduler.h"
#include "simulation/sim_vfs.h"

namespace mainspring {
namespace {

using simulation::SimDisk;

// A parsed line: words, and name=value pairs.
struct Line {
  std::vector<std::string> words;
  std::map<std::string, std::string> named;
  std::string wanted;  // after ->
  std::string word(std::size_t i) const { return i < words.size() ? words[i] : ""; }
  std::string value(const std::string& name, std::string otherwise = "") const {
    const auto found = named.find(name);
    return found == named.end() ? otherwise : found->second;
  }
  bool has(const std::string& name) const { return named.contains(name); }
};

Line take_apart(const std::string& text) {
  Line line;
  const std::size_t arrow = text.find(" -> ");
  if (arrow != std::string::npos) line.wanted = text.substr(arrow + 4);
  std::istringstream in(text.substr(0, arrow));
  for (std::string word; in >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || word[0] == '{' || word[0] == '[') {
      line.words.push_back(word);
    } else {
      line.named[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  while (!line.wanted.empty() && line.wanted.back() == ' ') line.wanted.pop_back();
  return line;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

struct Mistake {
  std::string what;
};

Duration duration(const std::string& text) {
  if (text == "none") return kForever;
  const auto parsed = parse_duration(text);
  if (!parsed) throw Mistake{parsed.error().message};
  return *parsed;
}

std::string job_list(const std::vector<ClaimedJob>& jobs) {
  if (jobs.empty()) return "nothing";
  std::string text = "jobs";
  for (const ClaimedJob& j : jobs) text += fmt::format(" {}", j.id);
  return text;
}

// The engine of a scenario: all parts are real except the clock and the disk.
class Engine {
 public:
  Engine() { start(); }
  ~Engine() { stop(); }

  std::string run(const Line& line) {
    const std::string command = line.word(0);
    const auto found = commands().find(command);
    if (found == commands().end()) throw Mistake{"there is no command \"" + command + "\""};
    return (this->*found->second)(line);
  }

 private:
  using Command = std::string (Engine::*)(const Line&);
  static const std::map<std::string, Command>& commands() {
    static const std::map<std::string, Command> all = {{"enqueue", &Engine::enqueue},
                                                       {"claim", &Engine::claim},
                                                       {"park", &Engine::park},
                                                       {"renew", &Engine::renew},
                                                       {"finish", &Engine::finish},
                                                       {"cancel", &Engine::cancel},
                                                       {"retry", &Engine::retry},
                                                       {"redrive", &Engine::redrive},
                                                       {"pause", &Engine::pause},
                                                       {"resume", &Engine::pause},
                                                       {"retention", &Engine::retain},
                                                       {"advance", &Engine::advance},
                                                       {"set_wall", &Engine::set_wall},
                                                       {"restart", &Engine::end},
                                                       {"kill", &Engine::end},
                                                       {"power_cut", &Engine::end},
                                                       {"disk", &Engine::disk},
                                                       {"expect", &Engine::expect},
                                                       {"schedule", &Engine::schedule},
                                                       {"pause_schedule", &Engine::pause_schedule},
                                                       {"trigger", &Engine::trigger},
                                                       {"resume_schedule", &Engine::pause_schedule},
                                                       {"backfill", &Engine::backfill},
                                                       {"acquire", &Engine::acquire},
                                                       {"renew_lease", &Engine::renew_lease},
                                                       {"release", &Engine::release},
                                                       {"fenced", &Engine::fenced}};
    return all;
  }

  // -- the server ---------------------------------------------------------------------------------

  void start() {
    auto opened = open_sqlite_store({.directory = "/sim", .vfs = disk_.vfs(), .guard_files = false},
                                    clock_.now(), log_);
    if (!opened) throw Mistake{"the store does not open: " + opened.error().message};
    store_ = std::move(*opened);
    broker_ = std::make_unique<Broker>(*store_, clock_, log_, registry_);
    scheduler_ = std::make_unique<Scheduler>(*broker_, clock_, log_, registry_);
    settle();
  }

  void stop() {
    scheduler_.reset();
    broker_.reset();
    store_.reset();
    parked_.clear();
  }

  // Steps broker and scheduler until they are idle; returns the time of the next call.
  Instant settle() {
    constexpr int kMaxRounds = 1000;
    for (int round = 0; round < kMaxRounds; ++round) {
      const std::int64_t commits = store_->commits();
      const Now now = clock_.now();
      const Instant next = std::min(scheduler_->step(now), broker_->step(now));
      const Instant again = std::min(scheduler_->step(now), broker_->step(now));
      if (std::min(next, again) > now.instant && store_->commits() == commits) return again;
    }
    throw Mistake{"broker and scheduler do not come to rest"};
  }

  OperationResult ask(Operation operation) {
    std::optional<OperationResult> result;
    broker_->submit(std::move(operation), [&](OperationResult r) { result = std::move(r); });
    settle();
    if (!result) throw Mistake{"no answer"};
    return std::move(*result);
  }

  template <class T, class Text>
  std::string say(const OperationResult& result, Text text) {
    if (const auto* error = std::get_if<Error>(&result))
      return fmt::format("refused {}", error->name());
    return text(std::get<T>(result));
  }

  // -- commands -----------------------------------------------------------------------------------

  std::string enqueue(const Line& line) {
    NewJob j;
    j.kind = line.word(1);
    j.queue = line.value("queue", "q");
    j.args = line.value("args", "{}");
    j.priority = std::stoi(line.value("priority", "5"));
    j.max_attempts = std::stoi(line.value("max_attempts", "20"));
    if (line.has("delay")) j.delay = duration(line.value("delay"));
    if (line.has("run_at")) j.run_at = clock_.now().wall + duration(line.value("run_at").substr(1));
    if (line.has("expires_in")) j.expires_in = duration(line.value("expires_in"));
    if (line.has("timeout")) j.timeout = duration(line.value("timeout"));
    if (line.has("tag")) j.tags = {line.value("tag")};
    if (line.has("unique")) {
      j.unique =
          Unique{.key = line.value("unique"), .window = duration(line.value("window", "0s"))};
      j.unique->on_conflict = parse_on_conflict(line.value("on_conflict", "keep")).value();
    }
    if (const auto valid = validate(j); !valid)
      return "refused " + std::string(valid.error().name());
    Enqueue e;
    e.jobs.assign(static_cast<std::size_t>(std::stoi(line.value("times", "1"))), j);
    e.idempotency_key = line.value("key");
    e.fingerprint = j.kind + j.args;
    return say<EnqueueResult>(ask(std::move(e)), [](const EnqueueResult& r) {
      std::string text = "jobs";
      for (const EnqueuedJob& job : r.jobs)
        text += fmt::format(" {}{}", job.id, job.duplicate ? " duplicate" : "");
      return text;
    });
  }

  Claim claim_of(const Line& line) {
    Claim c{
        .worker = line.word(1), .queues = split(line.word(2)), .kinds = split(line.value("kinds"))};
    c.max = std::stoi(line.value("max", "1"));
    if (line.has("lease")) c.lease = duration(line.value("lease"));
    return c;
  }

  void remember(const std::string& worker, const std::vector<ClaimedJob>& jobs) {
    for (const ClaimedJob& j : jobs) tokens_[{worker, j.id}] = j.token;
  }

  std::string claim(const Line& line) {
    const Claim c = claim_of(line);
    return say<ClaimResult>(ask(c), [&](const ClaimResult& r) {
      remember(c.worker, r.jobs);
      return job_list(r.jobs);
    });
  }

  std::string park(const Line& line) {
    const Claim c = claim_of(line);
    parked_[c.worker].reset();
    broker_->submit_claim(c, duration(line.value("wait")), [this, c](OperationResult r) {
      const auto* got = std::get_if<ClaimResult>(&r);
      if (got != nullptr) {
        remember(c.worker, got->jobs);
        parked_[c.worker] = *got;
      }
    });
    settle();
    return "";
  }

  Token token(const Line& line) { return tokens_[{line.word(1), std::stoll(line.word(2))}]; }

  std::string renew(const Line& line) {
    Renewal r{
        .id = std::stoll(line.word(2)), .token = token(line), .progress = {}, .checkpoint = {}};
    if (line.has("progress")) r.progress = Progress{std::stod(line.value("progress")), ""};
    if (line.has("checkpoint")) r.checkpoint = line.value("checkpoint");
    return say<RenewResult>(ask(Renew{.worker = line.word(1), .leases = {r}}),
                            [](const RenewResult& got) -> std::string {
                              if (!got.lost.empty()) return "lost";
                              if (!got.cancel.empty()) return "cancel";
                              return format_duration(got.renewed.at(0).lease);
                            });
  }

  static Outcome outcome_of(const Line& line) {
    const std::string what = line.word(3);
    if (what == "complete") return Complete{line.word(4)};
    if (what == "snooze") return Snooze{duration(line.word(4))};
    if (what == "defer") return Defer{line.word(4)};
    if (what == "cancel") return CancelJob{line.word(4)};
    if (what == "dead") return Dead{line.word(4), line.word(5)};
    if (what != "retry") throw Mistake{"there is no outcome \"" + what + "\""};
    Retry retry{.error = line.word(4), .after = {}};
    if (line.has("after")) retry.after = duration(line.value("after"));
    return retry;
  }

  std::string finish(const Line& line) {
    Finish f{.worker = line.word(1), .results = {}};
    f.results.push_back({std::stoll(line.word(2)), token(line), outcome_of(line)});
    return say<FinishResult>(ask(std::move(f)), [](const FinishResult& r) {
      const FinishStatus s = r.results.at(0);
      return s == FinishStatus::ok ? "ok" : s == FinishStatus::stale ? "stale" : "not_found";
    });
  }

  std::string cancel(const Line& line) {
    return say<CancelResult>(ask(Cancel{std::stoll(line.word(1)), line.word(2)}),
                             [](const CancelResult& r) { return std::string(to_string(r.state)); });
  }
  std::string retry(const Line& line) {
    return say<RetryResult>(ask(RetryJob{std::stoll(line.word(1))}),
                            [](const RetryResult& r) { return std::string(to_string(r.state)); });
  }
  std::string redrive(const Line& line) {
    Redrive r;
    r.filter.queue = line.value("queue");
    r.filter.kind = line.value("kind");
    return say<RedriveResult>(
        ask(r), [](const RedriveResult& got) { return fmt::format("{}", got.redriven); });
  }
  std::string pause(const Line& line) {
    return say<Done>(ask(PauseQueue{line.word(1), line.word(0) == "pause"}),
                     [](const Done&) { return ""; });
  }
  std::string retain(const Line& line) {
    SetRetention s{.queue = line.word(1), .completed = {}, .dead = {}};
    if (line.has("completed")) s.completed = duration(line.value("completed"));
    if (line.has("dead")) s.dead = duration(line.value("dead"));
    return say<Done>(ask(s), [](const Done&) { return ""; });
  }

  std::string advance(const Line& line) {
    const Instant until = clock_.now().instant + duration(line.word(1));
    while (true) {
      const Instant next = settle();
      const Instant now = clock_.now().instant;
      if (now >= until) return "";
      clock_.advance(std::min(next, until) - now);
    }
  }
  std::string set_wall(const Line& line) {
    const Duration by = duration(line.word(1).substr(1));
    clock_.step_wall(line.word(1)[0] == '-' ? -by : by);
    settle();
    return "";
  }

  std::string end(const Line& line) {
    const bool well = line.word(0) == "restart";
    if (!well) disk_.crash();
    stop();
    if (!well)
      disk_.reboot(line.word(0) == "kill" ? SimDisk::Loss::nothing : SimDisk::Loss::unsynced);
    start();
    return "";
  }
  std::string disk(const Line& line) {
    disk_.set_capacity(line.word(1) == "full" ? disk_.used() : simulation::kNoFault);
    return "";
  }

  // -- schedules and leases -----------------------------------------------------------------------

  std::string schedule(const Line& line) {
    Schedule s{.name = line.word(1), .cron = line.value("cron")};
    std::replace(s.cron.begin(), s.cron.end(), '_', ' ');
    if (line.has("every")) s.every = duration(line.value("every"));
    if (line.has("at")) s.at = clock_.now().wall + duration(line.value("at").substr(1));
    s.time_zone = line.value("zone", "UTC");
    s.misfire = parse_misfire(line.value("misfire", "once")).value();
    s.misfire_window = duration(line.value("window", "24h"));
    s.misfire_cap = std::stoi(line.value("cap", "100"));
    s.overlap = parse_overlap(line.value("overlap", "skip")).value();
    s.jitter = duration(line.value("jitter", "0s"));
    s.max_runs = std::stoi(line.value("max_runs", "0"));
    s.pause_on_failure = line.has("pause_on_failure");
    s.job = {.queue = "q", .kind = line.value("kind", "tick")};
    auto plan = plan_put(std::move(s), std::nullopt, clock_.now().wall);
    if (!plan) return fmt::format("refused {}", plan.error().name());
    return say<PutScheduleResult>(ask(std::move(*plan)), [](const PutScheduleResult& r) {
      constexpr std::array<const char*, 3> kWords = {"created", "replaced", "unchanged"};
      return std::string(kWords.at(static_cast<std::size_t>(r.outcome)));
    });
  }
  std::string pause_schedule(const Line& line) {
    return say<Done>(
        ask(PauseSchedule{.name = line.word(1), .paused = line.word(0) == "pause_schedule"}),
        [](const Done&) { return ""; });
  }
  std::string trigger(const Line& line) {
    return say<FireResult>(ask(plan_trigger(line.word(1), TickSource::trigger, std::nullopt)),
                           [](const FireResult& r) {
                             return r.fired == 1 ? fmt::format("job {}", r.jobs.at(0)) : "skipped";
                           });
  }
  std::string backfill(const Line& line) {
    const auto info = store_->schedule(line.word(1));
    if (!info) return fmt::format("refused {}", info.error().name());
    const WallTime now = clock_.now().wall;
    auto plan = plan_backfill(*info, {.name = line.word(1),
                                      .from = now - duration(line.value("from")),
                                      .to = now - duration(line.value("to"))});
    if (!plan) return fmt::format("refused {}", plan.error().name());
    return say<FireResult>(ask(std::move(plan->fire)), [](const FireResult& r) {
      return fmt::format("fired {} skipped {}", r.fired, r.skipped);
    });
  }
  std::string acquire(const Line& line) {
    const std::string name = line.word(1), holder = line.value("by");
    std::string answer;
    const auto told = std::make_shared<bool>(true);
    broker_->submit_acquire(
        {.name = name, .holder = holder, .ttl = duration(line.value("ttl", "15s"))},
        duration(line.value("wait", "0s")),
        [this, &answer, told, name, holder](const OperationResult& r) {
          const auto* grant = std::get_if<LeaseGrant>(&r);
          if (grant != nullptr) lease_tokens_[{name, holder}] = grant->token;
          if (!*told) return;  // it waited, and this line has ended
          answer =
              grant != nullptr ? "granted" : fmt::format("refused {}", std::get<Error>(r).name());
        });
    settle();
    *told = false;
    return answer;
  }
  std::string renew_lease(const Line& line) {
    const std::string holder = line.value("by");
    RenewLease r{.name = line.word(1), .holder = holder};
    r.token = lease_tokens_[{r.name, holder}];
    if (line.has("value")) r.value = line.value("value");
    return say<LeaseGrant>(ask(std::move(r)), [](const LeaseGrant&) { return "ok"; });
  }
  std::string release(const Line& line) {
    const std::string holder = line.value("by");
    ReleaseLease r{.name = line.word(1), .holder = holder};
    r.token = lease_tokens_[{r.name, holder}];
    return say<Done>(ask(std::move(r)), [](const Done&) { return "ok"; });
  }
  std::string fenced(const Line& line) {
    Enqueue e;
    e.jobs = {NewJob{.queue = "q", .kind = line.word(1)}};
    e.fence = {.lease = line.value("lease")};
    e.fence.token = lease_tokens_[{e.fence.lease, line.value("by")}];
    return say<EnqueueResult>(ask(std::move(e)), [](const EnqueueResult& r) {
      return fmt::format("jobs {}", r.jobs.at(0).id);
    });
  }

  // -- expectations -------------------------------------------------------------------------------

  std::string expect(const Line& line) {
    if (line.word(1) == "job") return expect_job(line);
    if (line.word(1) == "queue") return expect_queue(line);
    if (line.word(1) == "schedule") return expect_schedule(line);
    if (line.word(1) == "lease") return expect_lease(line);
    const auto parked = parked_.find(line.word(1));
    if (parked == parked_.end()) throw Mistake{"worker " + line.word(1) + " has not parked"};
    std::string is = "waits";
    if (parked->second && !parked->second->cancel.empty()) {
      is = fmt::format("told to stop {}", fmt::join(parked->second->cancel, " "));
    } else if (parked->second) {
      is = "got " + job_list(parked->second->jobs);
    }
    std::string wanted = line.word(2);
    for (std::size_t i = 3; i < line.words.size(); ++i) wanted += " " + line.words[i];
    if (is != wanted) throw Mistake{"it is: " + is};
    return "";
  }

  static void check(const std::string& name, const std::string& wanted, const std::string& is) {
    if (wanted != is) throw Mistake{fmt::format("{} is {}", name, is)};
  }

  std::string expect_job(const Line& line) {
    const JobId id = std::stoll(line.word(2));
    const auto job = store_->get(id);
    if (!job) {
      check("job", line.word(3), job.error().code == ErrorCode::expired ? "pruned" : "unknown");
      return "";
    }
    check("state", line.word(3), std::string(to_string(job->state)));
    for (const auto& [name, wanted] : line.named) {
      const std::map<std::string, std::string> is = {
          {"attempt", fmt::format("{}", job->attempt)},
          {"max_attempts", fmt::format("{}", job->max_attempts)},
          {"errors", fmt::format("{}", job->errors.size())},
          {"last_error", job->errors.empty() ? "" : job->errors.back().message},
          {"reason", job->reason},
          {"result", job->result},
          {"args", job->args},
          {"checkpoint", job->checkpoint},
          {"in", format_duration(std::max(Duration(0), job->run_at - clock_.now().wall))}};
      const auto found = is.find(name);
      if (found == is.end()) throw Mistake{"a job has no \"" + name + "\""};
      check(name, wanted, found->second);
    }
    return "";
  }

  std::string expect_queue(const Line& line) {
    const auto all = store_->queues();
    const auto q = std::find_if(all->begin(), all->end(),
                                [&](const QueueStats& s) { return s.name == line.word(2); });
    if (q == all->end()) throw Mistake{"there is no queue " + line.word(2)};
    for (const auto& [name, wanted] : line.named) {
      std::int64_t is = 0;
      if (const auto state = parse_job_state(name)) {
        is = q->counts[static_cast<std::size_t>(*state)];
      } else if (name == "enqueued") {
        is = q->enqueued;
      } else if (name == "pruned") {
        is = q->pruned;
      } else if (name == "expired") {
        is = q->expired;
      } else {
        throw Mistake{"a queue has no \"" + name + "\""};
      }
      check(name, wanted, fmt::format("{}", is));
    }
    return "";
  }

  std::string expect_schedule(const Line& line) {
    const auto info = store_->schedule(line.word(2));
    if (!info) throw Mistake{info.error().message};
    const auto page = store_->ledger(line.word(2), 1000, 0);
    const LedgerRow last = page->rows.empty() ? LedgerRow{} : page->rows.front();
    const std::map<std::string, std::string> is = {
        {"fired", fmt::format("{}", info->fired)},
        {"rows", fmt::format("{}", page->rows.size())},
        {"last", std::string(to_string(last.state))},
        {"past_due", last.past_due ? "yes" : "no"},
        {"reason", last.reason.substr(0, last.reason.find_first_of(": "))},
        {"paused", info->paused ? "yes" : "no"},
        {"buffered", fmt::format("{}", info->buffered)},
        {"next", info->next == WallTime::never()
                     ? "never"
                     : format_duration(info->next - clock_.now().wall)}};
    for (const auto& [name, wanted] : line.named) {
      const auto found = is.find(name);
      if (found == is.end()) throw Mistake{"a schedule has no \"" + name + "\""};
      check(name, wanted, found->second);
    }
    return "";
  }

  std::string expect_lease(const Line& line) {
    const auto lease = store_->lease(line.word(2), clock_.now().instant);
    const bool held = lease && lease->expires_in > Duration(0);
    check("holder", line.word(3), held ? lease->holder : "free");
    return "";
  }

  SimDisk disk_{"scenario", 1};
  ManualClock clock_;
  NullLog log_;
  Registry registry_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<std::pair<std::string, JobId>, Token> tokens_;
  std::map<std::string, std::optional<ClaimResult>> parked_;
  std::map<std::pair<std::string, std::string>, Token> lease_tokens_;
};

int run_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    fmt::print("{}: cannot be read\n", path);
    return 1;
  }
  Engine engine;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string::npos || text[first] == '#') continue;
    try {
      const Line line = take_apart(text);
      const std::string is = engine.run(line);
      if (is == line.wanted) continue;
      fmt::print("{}:{}: {}\n  it is: {}\n", path, number, text, is);
    } catch (const Mistake& mistake) {
      fmt::print("{}:{}: {}\n  {}\n", path, number, text, mistake.what);
    }
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mainspring

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("usage: scenario FILE…\n");
    return 64;
  }
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed += mainspring::run_file(argv[i]);
  return failed == 0 ? 0 : 1;
}
