// The pool: assigns children to jobs, and starts and ends children.
#include "host/queue_scripts.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "host/script_child.h"
#include "worker/program_access.h"
#include "worker/program_words.h"
#include "worker/start_failure.h"

namespace mainspring {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr int kMaxPauseDoublings = 16;
constexpr Duration kServerAway = std::chrono::seconds(5);  // until a job is claimed again
// How many children in a row may end before reading a job, until that counts as a failed attempt.
constexpr int kMaxHandOvers = 3;

// Pause before a child is started when the last `failures` ended without answering a job.
Duration pause_after(int failures) {
  if (failures < 2) return Duration(0);
  return std::min(kLongestPause, kFirstPause * (1 << std::min(failures - 2, kMaxPauseDoublings)));
}

int answers_in(const ProgramSaid& said) {
  return (said.result || said.unfit_result ? 1 : 0) + (said.error && !said.dead ? 1 : 0) +
         (said.dead ? 1 : 0) + (said.snooze ? 1 : 0) + (said.defer ? 1 : 0);
}

// Why a line is not an answer to job `id` although it has members of one; "" = it is one.
std::string mistake(const ProgramSaid& said, JobId id) {
  if (!said.bad_outcome.empty()) return said.bad_outcome;
  if (!said.id && said.unfit_result) return "";  // the line is unreadable; the child has one job
  if (!said.id) return "id: must be given";
  if (*said.id != id) return fmt::format("id {}: must be that of its job, {}", *said.id, id);
  if (answers_in(said) > 1) return "result, error, dead, snooze, defer: only one can be given";
  return "";
}

// Ignores members that belong to another kind of answer, or to another job.
void drop_misplaced(ProgramSaid& said, JobId id) {
  const auto drop = [&said](RemarkFault fault, std::string why) {
    said.faults.push_back({fault, std::move(why)});
  };
  const bool retries = said.error && !said.dead;
  if (said.retry_after && !retries) {
    drop(RemarkFault::outcome, "retry_after: needs error");
    said.retry_after.reset();
  }
  if (said.open_breaker_for && !retries && !said.snooze) {
    drop(RemarkFault::outcome, "open_breaker_for: needs error or snooze");
    said.open_breaker_for.reset();
  }
  if (is_answer(said) || said.id == id) return;
  const bool remarks = said.progress || said.checkpoint || said.message || said.session_state;
  if (said.id) {
    drop(RemarkFault::unasked, fmt::format("id {}: must be that of its job, {}", *said.id, id));
  } else if (remarks) {
    drop(RemarkFault::unasked, "id: must be given");
  }
  said.progress.reset();
  said.checkpoint.reset();
  said.message.reset();
  said.session_state.reset();
  said.unfit_state.reset();
}

// `unfit`: an earlier session state that cannot be stored.
std::optional<Outcome> outcome_of(ProgramSaid& said, const std::optional<Dead>& unfit) {
  if (unfit && said.result) return *unfit;
  if (said.unfit_result) return std::move(*said.unfit_result);
  if (said.result) return Complete{std::move(*said.result)};
  if (said.dead) return Dead{std::move(*said.dead), said.error.value_or("")};
  if (said.error) return Retry{std::move(*said.error), said.retry_after, said.open_breaker_for};
  if (said.snooze) return Snooze{*said.snooze, said.open_breaker_for};
  if (said.defer) return Defer{std::move(*said.defer)};
  return std::nullopt;
}

}  // namespace

using ChildPtr = std::shared_ptr<ScriptChild>;

struct PersistentPool::Impl {
  Impl(Processes& processes_in, const Clock& clock_in, Log& log_in, PersistentOptions options_in)
      : processes(processes_in), clock(clock_in), log(log_in), options(std::move(options_in)) {}

  // Work that the maintainer does without the lock.
  struct Work {
    std::vector<ChildPtr> over;  // to be joined
    std::vector<ChildPtr> to_stop;
    ChildPtr to_make;
    bool done = false;
    bool any() const { return !over.empty() || !to_stop.empty() || to_make; }
  };
  void maintain();
  Work next_work() MS_EXCLUDES(shared.mutex);
  Duration look_around(Work& work) MS_REQUIRES(shared.mutex);
  void look_at_idle(const ChildPtr& child, Instant now, Duration& wait) MS_REQUIRES(shared.mutex);

  Result<void> launch(const ChildPtr& child);
  void child_ends(ScriptChild& child, const Result<ProcessEnd>& end);
  ChildPtr reserve() MS_REQUIRES(shared.mutex);
  int usable() const MS_REQUIRES(shared.mutex);
  int alive() const MS_REQUIRES(shared.mutex);
  void child_failed() MS_REQUIRES(shared.mutex);

  Result<ChildPtr> acquire(const std::stop_token& token);
  ChildPtr last_idle() MS_REQUIRES(shared.mutex);
  // The exchange with a child about one job.
  struct Talk {
    std::optional<HandlerResult> result;  // nullopt: the child ended before it read the job
    bool answered = false;
    bool went_on = false;  // it sent a second answer
    std::optional<Dead> unfit_state;
  };
  Talk talk(ScriptChild& child, const std::string& line, const ClaimedJob& job, Context& context);
  void read(ScriptChild& child, ScriptChild::Mail& mail, JobId id, Context& context, Talk& talk);
  void release(ScriptChild& child, const Talk& talk);
  HandlerResult stopped(ScriptChild& child, StopReason reason);
  HandlerResult no_answer(ScriptChild& child, std::string_view why);

  Processes& processes;
  const Clock& clock;
  Log& log;
  const PersistentOptions options;

  mutable ScriptPoolShared shared;
  std::list<ChildPtr> children MS_GUARDED_BY(shared.mutex);  // until they have been joined
  std::int64_t started MS_GUARDED_BY(shared.mutex) = 0;
  std::int64_t turns MS_GUARDED_BY(shared.mutex) = 0;
  int failures MS_GUARDED_BY(shared.mutex) = 0;  // consecutive children without an answer
  Instant not_before MS_GUARDED_BY(shared.mutex);
  bool keep_min MS_GUARDED_BY(shared.mutex) = false;
  bool closing MS_GUARDED_BY(shared.mutex) = false;
  std::thread maintainer;
};

// ---- Making and ending children ----

int PersistentPool::Impl::alive() const {
  return static_cast<int>(std::count_if(children.begin(), children.end(),
                                        [](const ChildPtr& child) { return !child->ended; }));
}

int PersistentPool::Impl::usable() const {
  return static_cast<int>(
      std::count_if(children.begin(), children.end(),
                    [](const ChildPtr& child) { return !child->ended && !child->retired; }));
}

ChildPtr PersistentPool::Impl::reserve() {
  children.push_back(std::make_shared<ScriptChild>(shared));
  return children.back();
}

void PersistentPool::Impl::child_failed() {
  ++failures;
  not_before = clock.now().instant + pause_after(failures);
}

Result<void> PersistentPool::Impl::launch(const ChildPtr& child) {
  Result<ProcessSpec> spec = options.spec();
  Result<void> good;
  if (spec) {
    spec->kill_grace = options.stopping_wait_time;
    spec->kill_grace_at_stop = nullptr;
    good = child->start(
        processes, std::move(*spec),
        [this, raw = child.get()](const Result<ProcessEnd>& end) { child_ends(*raw, end); },
        [this](const SaidFault& fault) {
          log.warn("ignored output of a script's child on fd 3 without a job",
                   {{"reason", std::string(to_string(fault.fault))}, {"what", fault.text}});
        });
  } else {
    good = Result<void>(std::move(spec.error()));
  }
  {
    MutexLock lock(shared.mutex);
    if (good) {
      ++started;
    } else {
      child_failed();
      children.remove(child);
    }
  }
  shared.changed.notify_all();
  return good;
}

void PersistentPool::Impl::child_ends(ScriptChild& child, const Result<ProcessEnd>& end) {
  bool tell = false;
  bool spoke_up = false;
  {
    MutexLock lock(shared.mutex);
    spoke_up = child.spoke_up;
    tell = !child.busy && (!child.retired || spoke_up);  // else the job's error reports it
    if (child.useful) {
      failures = 0;
      not_before = Instant();
    } else if (!child.retired || spoke_up) {
      child_failed();
    }
    child.retired = true;
  }
  if (!tell) return;
  const std::string how = end ? how_it_ended(*end) : end.error().message;
  log.warn(spoke_up ? "a script's child wrote to fd 3 without a job, and was ended"
                    : "a script's child ended unexpectedly",
           {{"how", how}});
}

void PersistentPool::Impl::look_at_idle(const ChildPtr& child, Instant now, Duration& wait) {
  if (!child->retired) {
    const bool over = usable() > options.min_children;
    const Duration left = child->idle_since + options.idle - now;
    if (!closing && !(over && left <= Duration(0))) {
      if (over) wait = std::min(wait, left);
      return;
    }
    child->retired = true;
    child->stop_at = now + options.stopping_wait_time;
    child->close_input();
  }
  if (child->stop_at) wait = std::min(wait, *child->stop_at - now);
}

// Returns how long to sleep if nothing changes.
Duration PersistentPool::Impl::look_around(Work& work) {
  const Instant now = clock.now().instant;
  Duration wait = kForever;
  // Those that have been idle longest come first.
  children.sort([](const ChildPtr& a, const ChildPtr& b) { return a->idle_turn < b->idle_turn; });
  for (auto at = children.begin(); at != children.end();) {
    const ChildPtr& child = *at;
    if (child->busy || !child->ready) {
      ++at;
    } else if (child->ended) {
      work.over.push_back(child);
      at = children.erase(at);
    } else {
      look_at_idle(child, now, wait);
      if (child->stop_at && *child->stop_at <= now) {
        child->stop_at.reset();
        work.to_stop.push_back(child);
      }
      ++at;
    }
  }
  if (keep_min && !closing && usable() < options.min_children && alive() < options.max_children) {
    if (not_before <= now) {
      work.to_make = reserve();
      work.to_make->busy = work.to_make->ready = false;
    } else {
      wait = std::min(wait, not_before - now);
    }
  }
  work.done = closing && children.empty() && !work.any();
  return wait;
}

PersistentPool::Impl::Work PersistentPool::Impl::next_work() {
  Work work;
  MutexLock lock(shared.mutex);
  for (;;) {
    const Duration wait = look_around(work);
    if (work.done || work.any()) return work;
    shared.changed.wait_for(shared.mutex, std::max(wait, Duration(0)));
  }
}

void PersistentPool::Impl::maintain() {
  for (;;) {
    const Work work = next_work();
    if (work.done) return;
    for (const ChildPtr& child : work.over) child->join();
    for (const ChildPtr& child : work.to_stop) child->request_stop();
    if (!work.to_make) continue;
    if (auto good = launch(work.to_make); !good) {
      log.warn("a script's child cannot be started", {{"error", good.error().message}});
      continue;
    }
    MutexLock lock(shared.mutex);
    work.to_make->ready = true;
    work.to_make->idle_turn = ++turns;
    work.to_make->idle_since = clock.now().instant;
    shared.changed.notify_all();
  }
}

// ---- Running a job ----

ChildPtr PersistentPool::Impl::last_idle() {
  ChildPtr best;
  for (const ChildPtr& child : children) {
    if (child->busy || !child->ready || child->retired || child->ended) continue;
    if (!best || best->idle_turn < child->idle_turn) best = child;
  }
  return best;
}

// Gets a child for one job; nullptr if `token` was stopped first.
Result<ChildPtr> PersistentPool::Impl::acquire(const std::stop_token& token) {
  ChildPtr made;
  {
    MutexLock lock(shared.mutex);
    while (!made) {
      if (token.stop_requested()) return ChildPtr();
      if (ChildPtr child = last_idle()) {
        child->busy = true;
        return child;
      }
      const Duration pause = not_before - clock.now().instant;
      if (alive() >= options.max_children) {
        shared.changed.wait(shared.mutex);
      } else if (pause > Duration(0)) {
        shared.changed.wait_for(shared.mutex, pause);
      } else {
        made = reserve();
      }
    }
  }
  if (auto good = launch(made); !good) return start_failure(std::move(good.error()));
  return made;
}

void PersistentPool::Impl::release(ScriptChild& child, const Talk& talk) {
  bool stop = false;
  {
    MutexLock lock(shared.mutex);
    child.busy = false;
    child.useful = child.useful || talk.answered;
    if (talk.answered) failures = 0, not_before = Instant();
    child.idle_turn = ++turns;
    child.idle_since = clock.now().instant;
    stop = child.drop_mail() || talk.went_on;
    if (stop) child.spoke_up = child.retired = true;
  }
  shared.changed.notify_all();
  if (stop) child.request_stop();
}

HandlerResult PersistentPool::Impl::stopped(ScriptChild& child, StopReason reason) {
  {
    MutexLock lock(shared.mutex);
    child.retired = true;
  }
  const Result<ProcessEnd> end = child.end_now();
  return Outcome(Retry{.error = fmt::format("stopped: {}", to_string(reason)),
                       .after = {},
                       .program = end ? program_end_of(*end) : ProgramEnd()});
}

HandlerResult PersistentPool::Impl::no_answer(ScriptChild& child, std::string_view why) {
  (void)child.end_now();
  return Outcome(Retry{fmt::format("message on fd 3: {}", why), std::nullopt});
}

// Reads lines until one of them is the answer, or is invalid.
void PersistentPool::Impl::read(ScriptChild& child, ScriptChild::Mail& mail, JobId id,
                                Context& context, Talk& talk) {
  while (!mail.lines.empty() && !talk.result) {
    ProgramSaid said = mail.lines.front().said();
    mail.lines.pop_front();
    drop_misplaced(said, id);
    std::string wrong = is_answer(said) ? mistake(said, id) : "";
    if (wrong.empty()) {
      const bool stateful = said.session_state || said.unfit_state;
      if (auto good = report_said(said, context); !good) wrong = good.error().message;
      if (stateful) talk.unfit_state = std::move(said.unfit_state);
    }
    if (!wrong.empty()) {
      talk.result = no_answer(child, wrong);
    } else if (std::optional<Outcome> outcome = outcome_of(said, talk.unfit_state)) {
      talk.answered = true;
      talk.went_on = std::any_of(mail.lines.begin(), mail.lines.end(),
                                 [](const auto& line) { return is_answer(line.said()); });
      talk.result = HandlerResult(std::move(*outcome));
    }
  }
}

PersistentPool::Impl::Talk PersistentPool::Impl::talk(ScriptChild& child, const std::string& line,
                                                      const ClaimedJob& job, Context& context) {
  const std::stop_token token = context.stop_token();
  const std::stop_callback wake_writing(token, [&child] { child.wake(); });
  (void)child.write_line(line, token);  // the code below detects a failure
  Talk talk;
  while (!talk.result) {
    ScriptChild::Mail mail = child.wait(token);
    read(child, mail, job.id, context, talk);
    if (talk.result) break;
    if (mail.end) {
      if (*mail.end && child.idle_turn > 0 && child.unread(line.size())) break;
      talk.result = *mail.end
                        ? HandlerResult(Outcome(Retry{
                              .error = fmt::format(
                                  "the process ended without an answer: {}; its output is in the "
                                  "log of its job folder",
                                  how_it_ended(**mail.end)),
                              .after = {},
                              .program = program_end_of(**mail.end)}))
                    : child.ran ? HandlerResult(mail.end->error())
                                : HandlerResult(start_failure(mail.end->error()));
    } else if (token.stop_requested()) {
      talk.result = stopped(child, context.stop_reason());
    }
  }
  return talk;
}

PersistentPool::PersistentPool(Processes& processes, const Clock& clock, Log& log,
                               PersistentOptions options)
    : impl_(std::make_unique<Impl>(processes, clock, log, std::move(options))) {
  impl_->maintainer = std::thread([this] { impl_->maintain(); });
}

PersistentPool::~PersistentPool() {
  {
    MutexLock lock(impl_->shared.mutex);
    impl_->closing = true;
  }
  impl_->shared.changed.notify_all();
  impl_->maintainer.join();
}

void PersistentPool::start() {
  {
    MutexLock lock(impl_->shared.mutex);
    impl_->keep_min = true;
  }
  impl_->shared.changed.notify_all();
}

HandlerResult PersistentPool::handle(const ClaimedJob& job, Context& context) {
  Secret job_token;
  if (impl_->options.job_token) {
    auto made = impl_->options.job_token(job.queue, "", job.timeout);
    if (!made && is_away(made.error())) return Outcome(Snooze{kServerAway});
    if (made) job_token = std::move(*made);
  }
  const std::string line = job_json(job, context.idempotency_key(), job_token);
  const std::stop_token token = context.stop_token();
  const std::stop_callback wake_waiting(token, [this] {
    // Threads between the check and the wait hold the mutex.
    MutexLock lock(impl_->shared.mutex);
    impl_->shared.changed.notify_all();
  });
  for (int i = 0; i < kMaxHandOvers; ++i) {
    MS_TRY_ASSIGN(const ChildPtr child, impl_->acquire(token));
    if (!child) {
      return Outcome(
          Retry{fmt::format("stopped: {}", to_string(context.stop_reason())), std::nullopt});
    }
    Impl::Talk talk = impl_->talk(*child, line, job, context);
    impl_->release(*child, talk);
    if (talk.result) return std::move(*talk.result);
  }
  return Outcome(Retry{
      fmt::format("{} children ended one after the other before they read the job", kMaxHandOvers),
      std::nullopt});
}

int PersistentPool::children() const {
  MutexLock lock(impl_->shared.mutex);
  return impl_->alive();
}

std::int64_t PersistentPool::started() const {
  MutexLock lock(impl_->shared.mutex);
  return impl_->started;
}

}  // namespace mainspring
