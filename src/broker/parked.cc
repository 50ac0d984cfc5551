// Claims that wait for work: which park, which are woken with a batch, and which end.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/mutant.h"
#include "broker/broker.h"
#include "model/callback.h"
#include "model/queue_pattern.h"
#include "model/session.h"

namespace mainspring {
namespace {

using Answers = std::vector<std::function<void()>>;

bool wants_kind(const Claim& claim, const std::string& kind) {
  return claim.kinds.empty() ||
         std::find(claim.kinds.begin(), claim.kinds.end(), kind) != claim.kinds.end();
}

// A claim of the engine itself: no caller waits for its answer.
bool is_own(const Claim& claim) {
  return !claim.queues.empty() && claim.queues.front().starts_with(kReservedQueues);
}

// The names of its queues, as shown to people.
std::vector<std::string> queues_of(const Claim& claim) {
  std::vector<std::string> out;
  for (const std::string& line : claim.queues) out.emplace_back(base_queue_of(line));
  return out;
}

bool available_now(const NewJob& job, Now now) {
  if (job.run_at) return *job.run_at <= now.wall;
  return !job.delay || job.delay->count() == 0;
}

}  // namespace

void Broker::abandon(ParkId id) {
  if (MS_MUTANT(abandoned_claim_lives_on)) return;
  MutexLock lock(mutex_);
  abandoned_.push_back(id);
  if (loop_waiting_) work_.notify_one();
}

std::size_t Broker::parked_claims() const {
  MutexLock lock(mutex_);
  return parked_.size() - own_parked_;
}

void Broker::abandon_now(ParkId id, Answers& answers) {
  if (const auto found = parked_.find(id); found != parked_.end()) {
    answers.push_back([answer = unpark(*found->second).answer] { answer(ClaimResult{}); });
    return;
  }
  if (auto waiter = lease_waiters_.take(id)) {
    answers.push_back([gone = std::move(*waiter)] { gone.answer(gone.held); });
    return;
  }
  const auto is_it = [&](const Pending& p) { return p.park_id == id; };
  const auto acquire = std::find_if(urgent_.begin(), urgent_.end(), is_it);
  if (acquire != urgent_.end()) acquire->deadline = Instant();  // it is tried once, without waiting
  const auto fresh = std::find_if(claims_.begin(), claims_.end(), is_it);
  if (fresh == claims_.end()) return;
  answers.push_back([answer = std::move(fresh->answer)] { answer(ClaimResult{}); });
  claims_.erase(fresh);
}

// A new claim that would find nothing parks at once, without reading the store.
void Broker::gather_new_claims(Batch& batch, Answers& answers, Now now) {
  while (!claims_.empty() && (batch.operations.empty() || batch.has_room(options_))) {
    Pending pending = std::move(claims_.front());
    claims_.pop_front();
    Claim& claim = std::get<Claim>(pending.operation);
    Worker& worker = worker_of(claim.worker);
    worker.last_seen = now.instant;
    if (claim.facts != nullptr && worker.facts != nullptr &&
        (claim.facts->pid != worker.facts->pid || claim.facts->host != worker.facts->host))
      worker.queues.clear();  // another process
    if (pending.asked.empty()) worker.add_queues(queues_of(claim));
    if (claim.facts != nullptr && claim.facts != worker.facts) {
      if (!is_own(claim) && (worker.facts == nullptr || *worker.facts != *claim.facts))
        version_marks_.note(claim.worker, *claim.facts);
      worker.facts = claim.facts;
    }
    commands_.seen(claim.worker, claim.facts, now.instant);
    if (!commands_.empty() && withhold(pending, answers, now)) continue;
    // The store checks whether the token belongs to the session's holder.
    const bool found = claim.session_token != 0 || claim.job != 0 || choose_queues(pending);
    if (found) {
      batch.add(std::move(pending));
    } else if (!worker.cancels.empty() || pending.deadline <= now.instant) {
      answers.push_back(
          [answer = std::move(pending.answer), cancels = std::exchange(worker.cancels, {})] {
            answer(ClaimResult{.cancel = cancels});
          });
    } else {
      park(std::move(pending));
    }
  }
}

// Parked claims that an enqueue of this batch can serve join the same commit, after the enqueue; up
// to one per job.
void Broker::wake_parked_for_enqueues(Batch& batch, Now now) {
  if (parked_.empty()) return;
  const std::size_t enqueues_end = batch.operations.size();
  for (std::size_t i = 0; i < enqueues_end; ++i) {
    std::map<std::string, std::vector<const NewJob*>, std::less<>> by_line;
    const auto* enqueue = std::get_if<Enqueue>(&batch.operations[i]);
    if (enqueue == nullptr) continue;
    std::set<std::pair<std::string_view, std::string_view>> sessions;
    for (const NewJob& job : enqueue->jobs) {
      if (!available_now(job, now)) continue;
      // At most one job of a session can start.
      if (!job.session.empty() && !sessions.emplace(job.queue, job.session).second) continue;
      auto line = by_line.find(job.queue);
      if (line == by_line.end()) line = by_line.try_emplace(job.queue).first;
      line->second.push_back(&job);
      // Whether the job is at the head of its session is not known here. If the session has a
      // holder, only the holder waits for the job. If not: claims of jobs, else claims of sessions.
      if (job.session.empty()) continue;
      by_line[session_queue({job.queue, job.session})].push_back(&job);
      if (lines_of(job.queue).empty()) by_line[accept_queue(job.queue)].push_back(&job);
    }
    std::map<Parked*, std::string> woken;
    std::vector<Parked*> in_order;
    for (const auto& [queue, jobs] : by_line) {
      std::size_t served = 0;
      for (const QueueLine* line : lines_of(queue)) {
        for (Parked* parked : *line) {
          if (served >= jobs.size()) break;
          const bool fits = std::any_of(jobs.begin(), jobs.end(), [&](const NewJob* job) {
            return wants_kind(parked->claim, job->kind);
          });
          if (!fits || !woken.try_emplace(parked, queue).second) continue;
          in_order.push_back(parked);
          served += static_cast<std::size_t>(parked->claim.max);
        }
      }
    }
    // add_parked grows the batch: do not use `enqueue` after this.
    for (Parked* parked : in_order) add_parked(batch, *parked, woken.at(parked));
  }
}

// Jobs that become due with this batch are also given to claims in the same commit, as far as the
// store can predict them. A claim that was woken in vain parks again.
void Broker::wake_parked_for_due(Batch& batch, Now now) {
  constexpr int kMaxLook = 100;
  if (parked_.empty()) return;
  const std::size_t end = batch.operations.size();
  std::map<std::string, std::size_t> jobs;
  for (std::size_t i = 0; i < end; ++i) {
    if (const auto* move = std::get_if<MoveDue>(&batch.operations[i])) {
      for (const auto& [queue, count] :
           store_.due_queues(now.wall, std::min(move->limit, kMaxLook)))
        jobs[queue] += static_cast<std::size_t>(count);
    } else if (const auto* fire = std::get_if<FireSchedule>(&batch.operations[i])) {
      const auto info = store_.schedule(fire->name);
      if (info) jobs[info->schedule.job.queue] += fire->ticks.size();
    }
  }
  for (const auto& [queue, count] : jobs) wake_claims_of(batch, queue, count);
}

void Broker::wake_claims_of(Batch& batch, const std::string& queue, std::size_t jobs) {
  std::vector<Parked*> woken;
  std::size_t served = 0;
  for (const QueueLine* line : lines_of(queue)) {
    for (Parked* parked : *line) {
      if (served >= jobs) break;
      woken.push_back(parked);
      served += static_cast<std::size_t>(parked->claim.max);
    }
  }
  for (Parked* parked : woken) add_parked(batch, *parked, queue);
}

// Offers queues that an earlier batch made available to the claims that were parked then.
void Broker::wake_ready(Batch& batch) {
  const auto has_room = [&] { return batch.operations.empty() || batch.has_room(options_); };
  for (auto it = ready_.begin(); it != ready_.end() && has_room();) {
    auto& [queue, ready] = *it;
    bool done = false;
    for (std::size_t woken = 0; woken < ready.burst && !done && has_room(); ++woken) {
      const auto lines = lines_of(queue);
      const auto line = std::find_if(lines.begin(), lines.end(), [&](const QueueLine* one) {
        return one->front()->order <= ready.up_to;
      });
      done = line == lines.end() || !store_.has_available(queue);
      if (!done) add_parked(batch, *(*line)->front(), queue);
    }
    if (done) {
      it = ready_.erase(it);
      continue;
    }
    if (ready.burst <= options_.max_parked_claims) ready.burst *= 4;
    ++it;
  }
}

void Broker::add_parked(Batch& batch, Parked& parked, const std::string& queue) {
  Pending pending = unpark(parked);
  auto& queues = std::get<Claim>(pending.operation).queues;
  if (std::any_of(queues.begin(), queues.end(), is_pattern)) {
    pending.asked = std::exchange(queues, {queue});
    pending.last_try = true;  // when it was parked, no other queue had a job for it
  }
  batch.add(std::move(pending));
}

std::vector<const Broker::QueueLine*> Broker::lines_of(const std::string& queue) const {
  std::vector<const QueueLine*> out;
  const auto add = [&](const std::string& name) {
    if (const auto line = lines_.find(name); line != lines_.end()) out.push_back(&line->second);
  };
  add(queue);
  if (parked_patterns_ == 0 || !fits_pattern("*", queue) || base_queue_of(queue) != queue)
    return out;
  for (std::size_t end = queue.size() + 1; end-- > 0;) add(queue.substr(0, end) + "*");
  return out;
}

// Sets the queues of this try. Returns false if none of them has an available job.
bool Broker::choose_queues(Pending& pending) {
  auto& queues = std::get<Claim>(pending.operation).queues;
  if (pending.asked.empty()) {
    if (std::none_of(queues.begin(), queues.end(), is_pattern)) {
      return std::any_of(queues.begin(), queues.end(),
                         [&](const std::string& queue) { return store_.has_available(queue); });
    }
    pending.asked = std::move(queues);
  }
  // First one queue, so that the queues take turns: a claim of several takes the oldest jobs. If
  // that gives no job (of other kinds, or all limited by their keys), all.
  queues = next_queues(pending.asked, pending.last_try ? kMaxPatternQueues : 1);
  if (!queues.empty()) return true;
  queues = std::exchange(pending.asked, {});
  return false;
}

namespace {

// Of the patterns, without those that another one covers.
std::vector<std::string_view> widest_prefixes(const std::vector<std::string>& asked) {
  std::vector<std::string_view> all, out;
  for (const std::string& queue : asked) {
    if (is_pattern(queue)) all.push_back(prefix_of(queue));
  }
  std::sort(all.begin(), all.end());
  for (const std::string_view prefix : all) {
    if (out.empty() || !prefix.starts_with(out.back())) out.push_back(prefix);
  }
  return out;
}

}  // namespace

// The queues with available jobs that follow those of the last turn, in rotation.
std::vector<std::string> Broker::next_queues(const std::vector<std::string>& asked,
                                             std::size_t most) {
  constexpr std::size_t kMaxTurns = 10'000;
  std::string text;
  for (const std::string& queue : asked) text += queue + ",";
  const std::size_t key = std::hash<std::string>()(text);  // equal keys share a turn, no more
  const auto turn = turns_.find(key);
  const std::string last = turn == turns_.end() ? std::string() : turn->second;
  std::vector<std::string> out;
  const std::vector<std::string_view> prefixes = widest_prefixes(asked);
  for (const std::string& after : {last, std::string()}) {
    std::set<std::string> found;
    for (const std::string_view prefix : prefixes) {
      const auto some = store_.available_queues(prefix, after, most);
      found.insert(some.begin(), some.end());
    }
    for (const std::string& queue : asked) {
      if (!is_pattern(queue) && queue > after && store_.has_available(queue)) found.insert(queue);
    }
    for (const std::string& queue : found) {
      if (out.size() < most && (queue > last) == (after == last)) out.push_back(queue);
    }
    if (last.empty()) break;
  }
  if (out.empty()) return out;
  if (turn == turns_.end() && turns_.size() >= kMaxTurns) turns_.erase(turns_.begin());
  turns_[key] = out.back();
  return out;
}

void Broker::park(Pending pending, Parking parking) {
  auto parked = std::make_unique<Parked>();
  parked->id = pending.park_id;
  parked->claim = std::move(std::get<Claim>(pending.operation));
  if (!pending.asked.empty()) parked->claim.queues = std::move(pending.asked);
  parked->answer = std::move(pending.answer);
  parked->deadline = pending.deadline;
  parked->order = next_order_++;
  parked->audit = std::move(pending.audit);
  for (const std::string& queue : parked->claim.queues) {
    if (parking == Parking::withheld) break;
    QueueLine& line = lines_[queue];
    parked->lines.emplace_back(queue, line.insert(line.end(), parked.get()));
    if (is_pattern(queue)) ++parked_patterns_;
  }
  if (is_own(parked->claim)) {
    ++own_parked_;
  } else if (waits_) {
    waits_();
  }
  deadlines_.emplace(std::pair(parked->deadline, parked->id), parked.get());
  parked_.emplace(parked->id, std::move(parked));
}

Broker::Pending Broker::unpark(Parked& parked) {
  Pending pending{
      .answer = std::move(parked.answer), .park_id = parked.id, .deadline = parked.deadline};
  for (auto& [queue, place] : parked.lines) {
    const auto line = lines_.find(queue);
    line->second.erase(place);
    if (is_pattern(queue)) --parked_patterns_;
    if (line->second.empty()) lines_.erase(line);
  }
  deadlines_.erase({parked.deadline, parked.id});
  if (is_own(parked.claim)) --own_parked_;
  pending.jobs = static_cast<std::size_t>(parked.claim.max);
  pending.operation = std::move(parked.claim);
  pending.audit = std::move(parked.audit);
  parked_.erase(pending.park_id);
  return pending;
}

void Broker::expire_parked(Answers& answers, Now now) {
  while (!MS_MUTANT(parked_claim_never_ends) && !deadlines_.empty() &&
         deadlines_.begin()->first.first <= now.instant) {
    Parked& parked = *deadlines_.begin()->second;
    const WorkerCommand command = commands_.of(parked.claim.worker);
    answers.push_back(
        [answer = unpark(parked).answer, command] { answer(ClaimResult{.command = command}); });
  }
}

Broker::Pending& Broker::take_back(Batch& batch, std::size_t i) {
  Pending& caller = batch.callers[i];
  caller.operation = std::move(batch.operations[i]);
  auto* audit =
      i + 1 < batch.operations.size() ? std::get_if<Audit>(&batch.operations[i + 1]) : nullptr;
  if (audit != nullptr && !audit->alone) caller.audit = std::move(*audit);
  return caller;
}

void Broker::park_again(Batch& batch, std::size_t i) {
  park(std::move(take_back(batch, i)));
}

}  // namespace mainspring
