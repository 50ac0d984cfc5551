// The actions of the clients of the once world.
#include "simulation/once_actors.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/callback.h"
#include "simulation/key_invariant.h"
#include "simulation/quarantine_invariant.h"

namespace mainspring::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kOnceJobLease = seconds(8), kPoisonLease = seconds(3);
constexpr std::size_t kMaxKnown = 60;  // ids that are kept
constexpr std::uint64_t kMaxSteps = 3, kMaxPosts = 3;
constexpr int kOnceMaxTries = 12;       // of a request without an answer
constexpr int kMaxPostsOfDelivery = 4;  // it is dead after that
constexpr Duration kFirstDelay = seconds(1), kMaxDelay = seconds(8);
constexpr const char* kForged = R"({"mainspring-idempotency-key":"forged","own":"1"})";

void once_send(World& world, Operation operation) {
  world.call(std::move(operation), World::Delivery::repeatable, Duration(0),
             [](const std::optional<OperationResult>&) {});
}

// Reports a violation to the world; "" = none.
void judge(World& world, const std::string& why) {
  if (!why.empty()) world.broken(why);
}

ClaimLoop::Habits habits(std::string worker, std::vector<std::string> queues) {
  return {.worker = std::move(worker),
          .queues = std::move(queues),
          .max = 4,
          .wait = seconds(60),
          .lease = kOnceJobLease,
          .work = seconds(1),
          .late_one_in = 20,
          .rest = milliseconds(800),
          .dies_with_one_in = 20};
}

}  // namespace

// -- senders --------------------------------------------------------------------------------------

OrderMaker::OrderMaker(World& world, OnceInvariants& invariants)
    : world_(world),
      invariants_(invariants),
      orders_(world, milliseconds(500), seconds(6), [this] { send_orders(); }),
      poison_(world, seconds(4), seconds(15), [this] { send_poison(); }),
      changes_(world, seconds(2), seconds(15), [this] { change(); }),
      reads_(world, seconds(1), seconds(10), [this] { read(); }) {}

void OrderMaker::start() {
  for (LineActor* actor : {&orders_, &poison_, &changes_, &reads_}) actor->start();
}

void OrderMaker::stop() {
  for (LineActor* actor : {&orders_, &poison_, &changes_, &reads_}) actor->stop();
}

JobId OrderMaker::some_poison() const {
  return known_poison_.empty() ? 0 : known_poison_[world_.below(known_poison_.size())];
}

NewJob OrderMaker::draw_order() {
  NewJob job{.queue = kOrderQueue, .kind = "order"};
  job.max_attempts = 2 + static_cast<int>(world_.below(4));
  if (world_.chance(8)) job.expires_in = world_.between(seconds(2), seconds(20));
  if (world_.chance(3)) job.headers = kForged;
  for (int i = 0; i < 2 && world_.chance(2); ++i) {
    const auto on = static_cast<std::uint8_t>(1 + world_.below(FollowUp::kEveryEnd));
    job.follow_ups.push_back(invariants_.callbacks.ask(on));
  }
  return job;
}

void OrderMaker::send_orders() {
  Enqueue request;
  for (auto left = 1 + world_.below(3); left > 0; --left) request.jobs.push_back(draw_order());
  send(std::move(request), known_orders_);
}

void OrderMaker::send_poison() {
  Enqueue request;
  for (auto left = 1 + world_.below(3); left > 0; --left) {
    NewJob job{.queue = kPoisonQueue, .kind = "poison"};
    job.priority = static_cast<int>(world_.below(3));
    request.jobs.push_back(std::move(job));
  }
  send(std::move(request), known_poison_);
}

void OrderMaker::send(Enqueue request, std::deque<JobId>& known) {
  world_.call(std::move(request), World::Delivery::repeatable, Duration(0),
              [this, &known](const std::optional<OperationResult>& result) {
                const auto* done = result ? std::get_if<EnqueueResult>(&*result) : nullptr;
                if (done == nullptr) return;
                for (const auto& job : done->jobs) {
                  known.push_back(job.id);
                  invariants_.reads.enqueued(job.id);
                }
                while (known.size() > kMaxKnown) known.pop_front();
              });
}

// Most retries are refused: it runs, or is completed.
void OrderMaker::change() {
  const bool poison = world_.chance(4);
  const std::deque<JobId>& known = poison ? known_poison_ : known_orders_;
  if (known.empty()) return;
  const JobId id = known[world_.below(known.size())];
  if (!poison && world_.chance(3))
    return simulation::once_send(world_, Cancel{.id = id, .reason = "unwanted"});
  invariants_.callbacks.retries(id);
  simulation::once_send(world_, RetryJob{id});
}

void OrderMaker::read() {
  if (known_orders_.empty()) return;
  const JobId id = known_orders_[world_.below(known_orders_.size())];
  if (const auto job = world_.read(id))
    judge(world_, invariants_.reads.read(id, *job, world_.now()));
}

// -- workers of orders ----------------------------------------------------------------------------

struct OrderWorker::Run {
  ClaimedJob job;
  std::vector<Memo> memos;  // that it found, and kept
  int steps = 0;
};

OrderWorker::OrderWorker(World& world, OnceInvariants& invariants, int number)
    : world_(world),
      invariants_(invariants),
      loop_(world, habits(fmt::format("order{}", number), {kOrderQueue, kPostedQueue}),
            [this](const ClaimedJob& job) { begin(job); }) {}

bool OrderWorker::dies() const {
  return !world_.healed() && world_.chance(15);
}

void OrderWorker::begin(const ClaimedJob& job) {
  judge(world_, KeyInvariant::begins_without(job));
  if (job.queue != kOrderQueue) return send_finish(job, Complete{}, -1, 0);
  invariants_.memos.given(job.id, job.token);
  auto run = std::make_shared<Run>(Run{.job = job, .memos = {}});
  run->steps = static_cast<int>(static_cast<std::uint64_t>(job.id) % (kMaxSteps + 1));
  recall(run);
}

// As Context::step does: it reads no results if the claim reports none. A late attempt finds the
// results of its successor, or none any more; the checkpoint is that of the claim.
void OrderWorker::recall(const std::shared_ptr<Run>& run) {
  const JobId id = run->job.id;
  if (run->job.has_memos) {
    const auto page = world_.memos(id);
    if (!page) return world_.after(milliseconds(500), [this, run] { recall(run); });
    if (!*page) return;  // pruned: it is late
    run->memos = (*page)->memos;
  }
  const auto now = world_.read(id);
  const bool mine =
      now && *now && (*now)->token == run->job.token && (*now)->state == JobState::running;
  if (mine) {
    judge(world_, invariants_.memos.found(id, run->memos));
    const std::string wanted = MemoInvariant::checkpoint(run->memos.size());
    if (MemoInvariant::brings_checkpoints(id) && run->job.checkpoint != wanted)
      world_.broken(fmt::format("EO-3d: job {} has {} results of steps, and checkpoint {}", id,
                                run->memos.size(), run->job.checkpoint));
  }
  next_step(run);
}

void OrderWorker::next_step(const std::shared_ptr<Run>& run) {
  if (dies()) return;
  const auto done = std::ssize(run->memos);
  if (done >= run->steps) return end(run);
  const bool late = !world_.healed() && world_.chance(12);
  world_.after(world_.between(milliseconds(1), late ? kOnceJobLease * 2 : Duration(seconds(2))),
               [this, run, done] { keep(run, invariants_.memos.next(static_cast<int>(done)), 0); });
}

void OrderWorker::keep(const std::shared_ptr<Run>& run, const Memo& memo, int tries) {
  if (dies()) return;
  const JobId id = run->job.id;
  Renewal renewal{.id = id, .token = run->job.token};
  renewal.memos = {memo};
  if (!run->memos.empty() && world_.chance(3))  // repetitions do not matter
    renewal.memos.insert(renewal.memos.begin(), {run->memos.back().name, "0"});
  const bool checkpoint = MemoInvariant::brings_checkpoints(id);
  if (checkpoint) renewal.checkpoint = MemoInvariant::checkpoint(run->memos.size() + 1);
  const bool late = invariants_.memos.is_late(id, run->job.token);
  const auto copies = std::make_shared<int>(0);
  *copies = world_.call(
      Renew{.worker = loop_.worker(), .leases = {renewal}, .lease = kOnceJobLease},
      // A copy that arrives after the next renewal would put an old checkpoint back.
      checkpoint ? World::Delivery::prompt : World::Delivery::repeatable, Duration(0),
      [this, run, memo, tries, late, copies](const std::optional<OperationResult>& result) {
        kept(run, memo, tries, result, late, tries == 0 && *copies == 1);
      });
}

// `sure` = no other copy of this renewal is in flight.
void OrderWorker::kept(const std::shared_ptr<Run>& run, const Memo& memo, int tries,
                       const std::optional<OperationResult>& result, bool late, bool sure) {
  using Fate = MemoInvariant::Fate;
  const auto* answer = result ? std::get_if<RenewResult>(&*result) : nullptr;
  if (answer == nullptr) {
    if (tries < kOnceMaxTries)
      world_.after(world_.between(milliseconds(50), seconds(2)),
                   [this, run, memo, tries] { keep(run, memo, tries + 1); });
    return;
  }
  const bool renewed = !answer->renewed.empty();
  const Fate refused = sure ? Fate::not_made : Fate::unknown;
  judge(world_, invariants_.memos.told(run->job.id, memo, renewed ? Fate::made : refused, late));
  if (!renewed) return;  // its lease is lost
  run->memos.push_back(memo);
  next_step(run);
}

void OrderWorker::end(const std::shared_ptr<Run>& run) {
  const auto dice = world_.healed() ? 99 : world_.below(100);
  if (dice < 15) return send_finish(run->job, Retry{"no", seconds(world_.below(5))}, -1, 0);
  if (dice < 22) return send_finish(run->job, Snooze{seconds(world_.below(5))}, -1, 0);
  if (dice < 30) return send_finish(run->job, Dead{"broken", ""}, -1, 0);
  complete(run);
}

void OrderWorker::complete(const std::shared_ptr<Run>& run) {
  const auto posts = static_cast<int>(world_.below(kMaxPosts + 1));
  const std::int64_t number = invariants_.posts.next(run->job.id, posts);
  Complete outcome{.result = NextInvariant::result(number), .next = {}};
  for (int post = 0; post < posts; ++post) {
    NewJob job{.queue = kPostedQueue, .kind = "posted", .args = NextInvariant::args(number, post)};
    job.headers = kForged;
    if (world_.chance(4)) job.delay = world_.between(seconds(1), seconds(10));
    outcome.next.push_back(std::move(job));
  }
  sent_[number] = world_.now();
  send_finish(run->job, outcome, number, 0);
}

void OrderWorker::send_finish(const ClaimedJob& job, const Outcome& outcome,
                              std::int64_t completion, int tries) {
  world_.call(
      Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
      World::Delivery::repeatable, Duration(0),
      [this, job, outcome, completion, tries](const std::optional<OperationResult>& result) {
        const auto* answer = result ? std::get_if<FinishResult>(&*result) : nullptr;
        if (answer != nullptr) return ended(job, *answer, completion);
        if (tries >= kOnceMaxTries || dies()) return;
        world_.after(world_.between(milliseconds(50), seconds(2)),
                     [this, job, outcome, completion, tries] {
                       send_finish(job, outcome, completion, tries + 1);
                     });
      });
}

void OrderWorker::ended(const ClaimedJob& job, const FinishResult& answer,
                        std::int64_t completion) {
  if (completion < 0) return;
  const FinishStatus status = answer.results.at(0);
  // A completed job may have been pruned before the request was repeated.
  if (status == FinishStatus::not_found) return;
  const bool ok = status == FinishStatus::ok;
  invariants_.posts.told(completion,
                         ok ? NextInvariant::Fate::made : NextInvariant::Fate::not_made);
  if (!ok) return;
  invariants_.reads.completed(job.id, NextInvariant::result(completion), sent_.at(completion));
  if (const auto now = world_.read(job.id))
    judge(world_, invariants_.reads.read(job.id, *now, world_.now()));
}

// -- callbacks ------------------------------------------------------------------------------------

Poster::Poster(World& world, OnceInvariants& invariants, int number)
    : world_(world),
      invariants_(invariants),
      loop_(world, habits(fmt::format("poster{}", number), {std::string(kCallbackQueue)}),
            [this](const ClaimedJob& job) { post(job); }) {}

void Poster::post(const ClaimedJob& claimed) {
  judge(world_, KeyInvariant::begins_without(claimed));
  const auto job = world_.read(claimed.id);
  if (job && *job) return receive(claimed, **job);
  if (!job) world_.after(milliseconds(500), [this, claimed] { post(claimed); });
}

void Poster::receive(const ClaimedJob& claimed, const Job& job) {
  const auto delivery = delivery_of(job);
  if (!delivery)
    return world_.broken(fmt::format("RES-1: job {} is no delivery: {}", job.id, job.args));
  const OutgoingRequest request =
      request_of(*delivery, invariants_.callbacks.keys(), world_.wall());
  judge(world_,
        invariants_.callbacks.posted(job, claimed.token, request,
                                     world_.read(CallbackInvariant::of(job)), world_.wall()));
  const OutgoingResponse response = draw_answer();
  invariants_.callbacks.answered(job.id, response.status);
  if (!world_.healed() && world_.chance(10)) return;  // it dies before the answer
  const Duration back_off = std::min(kMaxDelay, kFirstDelay * (1 << std::min(job.attempt, 4)));
  Outcome outcome =
      response.status == 0 ? Outcome(Retry{"no answer", back_off}) : outcome_of(response, back_off);
  const auto* retry = std::get_if<Retry>(&outcome);
  if (retry != nullptr && claimed.attempt >= kMaxPostsOfDelivery)
    outcome = Dead{"max_attempts", retry->error};
  const bool dead = std::holds_alternative<Dead>(outcome);
  const bool taken = response.status >= 200 && response.status < 300;
  const bool ends = dead || taken || response.status == 410;
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, claimed.token, outcome}}},
              World::Delivery::repeatable, Duration(0),
              [this, id = job.id, token = claimed.token, ends,
               dead](const std::optional<OperationResult>& result) {
                const auto* answer = result ? std::get_if<FinishResult>(&*result) : nullptr;
                if (!ends || answer == nullptr || answer->results.at(0) != FinishStatus::ok) return;
                invariants_.callbacks.ended(id, token);
                if (!world_.chance(3)) return;
                // An operator retries dead deliveries; delivered and unwanted ones stay.
                if (dead) invariants_.callbacks.retries(id), once_send(world_, RetryJob{id});
              });
}

// Status 0: no answer.
OutgoingResponse Poster::draw_answer() {
  const auto dice = world_.healed() ? 99 : world_.below(100);
  if (dice < 20) return {.status = 500, .reason = "Oh", .body = "", .cut = ""};
  if (dice < 30) return {.status = 410, .reason = "Gone", .body = "", .cut = ""};
  if (dice < 37) return {.status = 302, .reason = "Found", .body = "", .cut = ""};
  if (dice < 45)
    return {.status = 429, .reason = "Slow", .body = "", .cut = "", .retry_after = seconds(9)};
  if (dice < 55) return {.status = 0, .reason = "", .body = "", .cut = ""};
  return {.status = 200 + static_cast<int>(dice % 5), .reason = "OK", .body = "", .cut = ""};
}

// -- poison ---------------------------------------------------------------------------------------

PoisonWorker::PoisonWorker(World& world, const OrderMaker& jobs, int number)
    : world_(world),
      jobs_(jobs),
      loop_(world,
            {.worker = fmt::format("taster{}", number),
             .queues = {kPoisonQueue},
             .max = 3,
             .wait = seconds(60),
             .lease = kPoisonLease,
             .work = seconds(2),
             .rest = milliseconds(800),
             .dies_with_one_in = 2,
             .renews_first = true},
            [this](const ClaimedJob& job) { finish(job); }),
      asks_(world, seconds(2), seconds(20), [this] { ask_by_id(); }) {}

void PoisonWorker::start() {
  loop_.start();
  asks_.start();
}

void PoisonWorker::finish(const ClaimedJob& job) {
  Outcome outcome = Complete{};
  if (!world_.healed()) {
    if (world_.chance(4)) outcome = Retry{.error = "no", .after = seconds(world_.below(6))};
    if (world_.chance(6)) outcome = Snooze{seconds(world_.below(6))};
  }
  world_.call(Finish{.worker = loop_.worker(), .results = {{job.id, job.token, outcome}}},
              World::Delivery::prompt, Duration(0), [](const std::optional<OperationResult>&) {});
}

void PoisonWorker::ask_by_id() {
  const JobId id = jobs_.some_poison();
  if (id == 0 || world_.healed()) return;
  world_.call(
      Claim{.worker = loop_.worker(), .queues = {kPoisonQueue}, .lease = kPoisonLease, .job = id},
      World::Delivery::prompt, Duration(0), [this](const std::optional<OperationResult>& result) {
        const auto* got = result ? std::get_if<ClaimResult>(&*result) : nullptr;
        if (got == nullptr || (!world_.healed() && world_.chance(2))) return;
        for (const ClaimedJob& job : got->jobs)
          world_.after(world_.between(milliseconds(1), seconds(2)), [this, job] { finish(job); });
      });
}

}  // namespace mainspring::simulation
