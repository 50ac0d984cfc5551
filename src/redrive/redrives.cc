// A worker with one handler, which redrives.
#include "redrive/redrives.h"

#include <fmt/format.h>

#include "api/redrive_shapes.h"
#include "base/mutant.h"
#include "env/pause.h"
#include "model/callback.h"
#include "model/fingerprint.h"
#include "redrive/bulk_runner.h"
#include "redrive/redrive_json.h"
#include "worker/worker.h"

namespace mainspring {
namespace {

// Renewed while it works; after a crash other nodes take over after this time.
constexpr Duration kLease = std::chrono::seconds(10);
// After a crash, jobs redriven in this time are not watched.
constexpr Duration kKeepInterval = std::chrono::seconds(1);
constexpr Duration kFirstDelay = std::chrono::seconds(1), kMaxDelay = std::chrono::minutes(1);

WorkerOptions worker_options(int slots) {
  WorkerOptions worker;
  worker.queues = {std::string(kRedriveQueue)};
  worker.slots = slots;
  worker.graceful_stop = Redrives::kGracefulStop;
  worker.lease = kLease;
  worker.claim_wait = kMaxClaimWait;
  return worker;
}

// A redrive that runs on this node.
class Running {
 public:
  Running(const RedriveOrder& order, Context& context, const std::stop_token& stopping, Jobs& jobs,
          const Clock& clock, Log& log)
      : order_(order),
        context_(context),
        stop_requested_(context.stop_token(), [this] { stop_.request_stop(); }),
        stopping_(stopping, [this] { stop_.request_stop(); }),
        jobs_(jobs),
        clock_(clock),
        log_(log) {}

  Result<Outcome> run(RedriveState from);

 private:
  RedriveOptions options(Duration between);
  void tell(const std::string& text);
  void keep(const RedriveState& state, RedriveOptions::Turn turn);
  void warn(const Job& again, const RedriveReport& report);

  const RedriveOrder& order_;
  Context& context_;
  std::stop_source stop_;  // for either reason
  const std::stop_callback<std::function<void()>> stop_requested_, stopping_;
  Jobs& jobs_;
  const Clock& clock_;
  Log& log_;
  std::int64_t in_all_ = 0;
  std::int64_t tried_ = 0;
  Instant kept_;
};

RedriveOptions Running::options(Duration between) {
  using Canary = RedriveOptions::Canary;
  return {
      .canary = order_.pace.canary ? Canary::yes : Canary::no,
      .between = between,
      .stop = stop_.get_token(),
      .pause = [this](Duration length) { mainspring::pause(clock_, length, stop_.get_token()); },
      .on_step = [](const RedriveStep&) {},
      .progress = [this](const std::string& text) { tell(text); },
      .keep = [this](const RedriveState& state, RedriveOptions::Turn turn) { keep(state, turn); }};
}

void Running::tell(const std::string& text) {
  const double part = in_all_ == 0 ? 1 : static_cast<double>(tried_) / static_cast<double>(in_all_);
  context_.progress(part, fmt::format("{} of {} tried; {}", tried_, in_all_, text));
}

void Running::keep(const RedriveState& state, RedriveOptions::Turn turn) {
  tried_ = state.tried;
  const Instant now = clock_.now().instant;
  if (turn == RedriveOptions::Turn::no && now < kept_ + kKeepInterval) return;
  kept_ = now;
  tell(fmt::format("{} redriven", state.redriven));
  if (MS_MUTANT(redrive_starts_over)) return;
  // Refused only if the lease is lost: then the attempt is over in any case.
  if (!context_.checkpoint(checkpoint_of(state))) return;
  if (turn == RedriveOptions::Turn::yes) (void)context_.flush();
}

void Running::warn(const Job& again, const RedriveReport& report) {
  log_.warn("a redrive has stopped: a job failed with the same error",
            {{"redrive", fmt::to_string(context_.job().id)},
             {"job", fmt::to_string(again.id)},
             {"fingerprint", fingerprint_of(again)},
             {"redriven", fmt::to_string(report.redriven)},
             {"left", fmt::to_string(report.left)}});
}

Result<Outcome> Running::run(RedriveState from) {
  MS_TRY_ASSIGN(const Duration between, parse_rate(order_.pace.rate));
  tried_ = from.tried;
  MS_TRY_ASSIGN(auto found, find_dead(jobs_, order_.filter, from.after, RedrivePace::kMaxRedriven));
  const auto most = static_cast<std::size_t>(std::max(order_.pace.limit - from.tried, JobId(0)));
  if (found.size() > most) found.resize(most);
  in_all_ = tried_ + std::ssize(found);
  Redriver redriver(jobs_, clock_, options(between), std::move(from));
  MS_TRY(redriver.run(found));
  const RedriveReport report = redriver.report();
  if (report.end == RedriveReport::End::interrupted) {
    keep(redriver.state(), RedriveOptions::Turn::yes);
    if (!context_.stop_requested()) return Outcome(Snooze{Duration(0)});  // the server stops
    return Error{.code = ErrorCode::unavailable, .message = "stopped"};
  }
  const auto& steps = redriver.state().steps;
  if (!steps.empty() && steps.back().again) warn(*steps.back().again, report);
  return Outcome(Complete{result_of(report, redriver.state())});
}

}  // namespace

namespace {

// A bulk operation that runs on this node.
class RunningBulk {
 public:
  RunningBulk(const BulkArgs& args, Context& context, const std::stop_token& stopping, Jobs& jobs,
              const Clock& clock)
      : args_(args),
        context_(context),
        cancelled_(context.stop_token(), [this] { stop_.request_stop(); }),
        stopping_(stopping, [this] { stop_.request_stop(); }),
        jobs_(jobs),
        clock_(clock) {}

  Result<Outcome> run(BulkProgress from) {
    BulkRunner runner(jobs_, clock_, args_, context_.job().id, options(), std::move(from));
    MS_TRY_ASSIGN(const BulkRunner::End end, runner.run());
    keep(runner.progress(), BulkOptions::Must::yes);
    switch (end) {
      case BulkRunner::End::done:
        return Outcome(Complete{encode_bulk_progress(runner.progress())});
      case BulkRunner::End::canary:
        return Outcome(Defer{"waits to be continued after its canary"});
      case BulkRunner::End::interrupted:
        break;
    }
    if (!context_.stop_requested()) return Outcome(Snooze{Duration(0)});  // the server stops
    return Error{.code = ErrorCode::unavailable, .message = "it was stopped"};
  }

 private:
  BulkOptions options() {
    return {.stop = stop_.get_token(),
            .pause = [this](Duration length) { pause(clock_, length, stop_.get_token()); },
            .keep = [this](const BulkProgress& progress,
                           BulkOptions::Must must) { keep(progress, must); }};
  }

  void keep(const BulkProgress& progress, BulkOptions::Must must) {
    const Instant now = clock_.now().instant;
    if (must == BulkOptions::Must::no && now < kept_ + kKeepInterval) return;
    kept_ = now;
    const std::int64_t done = progress.changed + progress.skipped + progress.failed;
    const double all = static_cast<double>(progress.matched.value_or(0));
    const double part = all > 0 ? static_cast<double>(done) / all : 0;
    context_.progress(part, progress.matched ? fmt::format("{} of {}", done, *progress.matched)
                                             : fmt::format("{} counted", progress.counted));
    // Refused only if the lease is lost: then the attempt is over in any case.
    if (!context_.checkpoint(encode_bulk_progress(progress))) return;
    if (must == BulkOptions::Must::yes) (void)context_.flush();
  }

  const BulkArgs& args_;
  Context& context_;
  std::stop_source stop_;  // for either reason
  const std::stop_callback<std::function<void()>> cancelled_, stopping_;
  Jobs& jobs_;
  const Clock& clock_;
  Instant kept_;
};

}  // namespace

struct Redrives::Impl {
  Impl(int slots, Jobs& jobs_, const Clock& clock_, Random& random, Log& log_)
      : jobs(jobs_),
        clock(clock_),
        log(log_),
        worker(jobs_, clock_, random, log_, worker_options(slots)) {
    worker.on(std::string(kRedriveKind),
              [this](const ClaimedJob& job, Context& context) { return redrive(job, context); },
              {.timeout = kForever,
               .retry = {.first_delay = kFirstDelay, .factor = 2, .max_delay = kMaxDelay}});
    worker.on(std::string(kBulkKind),
              [this](const ClaimedJob& job, Context& context) { return change(job, context); },
              {.timeout = kForever,
               .retry = {.first_delay = kFirstDelay, .factor = 2, .max_delay = kMaxDelay}});
  }

  HandlerResult change(const ClaimedJob& job, Context& context) {
    const auto args = decode_bulk_args(job.args);
    if (!args) return Outcome(Dead{"bad_bulk", args.error().message});
    BulkProgress from;
    if (!job.checkpoint.empty()) {
      auto kept = decode_bulk_progress(job.checkpoint);
      if (!kept) return Outcome(Dead{"bad_bulk", "checkpoint: " + kept.error().message});
      from = std::move(*kept);
    }
    RunningBulk running(*args, context, stopping.get_token(), jobs, clock);
    return running.run(std::move(from));
  }

  HandlerResult redrive(const ClaimedJob& job, Context& context) {
    const auto order = decode_redrive_order(job.args);
    if (!order) return Outcome(Dead{"bad_redrive", order.error().message});
    RedriveState from;
    if (!job.checkpoint.empty()) {
      auto state = state_of(job.checkpoint);
      if (!state) return Outcome(Dead{"bad_redrive", "checkpoint: " + state.error().message});
      from = std::move(*state);
    }
    Running running(*order, context, stopping.get_token(), jobs, clock, log);
    return running.run(std::move(from));
  }

  Jobs& jobs;
  const Clock& clock;
  Log& log;
  std::stop_source stopping;
  WorkerRuntime worker;  // the last member: it is destroyed first
};

Redrives::Redrives(int slots, Jobs& jobs, const Clock& clock, Random& random, Log& log)
    : impl_(std::make_unique<Impl>(slots, jobs, clock, random, log)) {}
Redrives::~Redrives() {
  stop();
}

void Redrives::start() {
  if (const auto started = impl_->worker.start(); !started)
    impl_->log.error("redrives cannot run", {{"why", started.error().message}});
}

void Redrives::stop() {
  impl_->stopping.request_stop();
  impl_->worker.stop();
}

}  // namespace mainspring
