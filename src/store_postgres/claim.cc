// Claim: takes jobs from the front of the ready queues, skipping jobs that other nodes are taking.
//
// A claimed job leaves a dead row at the front of its ready queue until vacuum removes it, which
// any long-running transaction prevents. So this store remembers, for each queue and priority,
// where the live rows begin. It reads from the very beginning only when that finds too few jobs,
// and limits the share of time spent on it. It also does so from time to time although it finds
// enough: a client's own transaction may have enqueued a job long before its commit, and this job
// must not wait until all others are done.
#include <algorithm>
#include <tuple>

#include "base/mutant.h"
#include "store/bounds.h"
#include "store_postgres/claimed_columns.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

namespace {
constexpr Duration kCheapLook = std::chrono::milliseconds(2);
constexpr Duration kLookEvery = std::chrono::seconds(2);
constexpr int kLookShare = 10;  // at most a tenth of the time is spent on reads from the beginning
// The run_at of a job is the start of its batch, which commits later. So a run_at closer to now
// than this may still get a job in front of those already claimed.
constexpr std::int64_t kLateCommit = 100'000;  // microseconds

constexpr std::size_t kMaxGiven = 20'000;      // maximum claims remembered
constexpr std::size_t kGivenPerClaim = 2;      // earlier claims examined for each new claim
constexpr std::int64_t kLookSoon = 1'000'000;  // microseconds before other nodes look at a claim

bool comes_before(const ClaimedJob& a, const ClaimedJob& b) {
  return std::tie(a.priority, a.run_at, a.id) < std::tie(b.priority, b.run_at, b.id);
}

bool is_of_queue(const Claim& op) {
  return op.queues.size() == 1 && base_queue_of(op.queues[0]) != op.queues[0];
}
}  // namespace

std::size_t PostgresStore::claim_run(std::span<const Operation> rest,
                                     std::vector<OperationResult>& results) {
  const std::size_t first = results.size() - rest.size();
  std::vector<std::shared_ptr<Claiming>> run;
  std::size_t done = 0;
  for (; done < rest.size(); ++done) {
    const auto* op = std::get_if<Claim>(&rest[done]);
    if (op == nullptr || is_of_queue(*op) || op->job != 0) break;
    if (done + 1 < rest.size() && std::holds_alternative<Audit>(rest[done + 1])) break;
    auto claiming = std::make_shared<Claiming>();
    claiming->op = op;
    claiming->answer = &results[first + done];
    run.push_back(std::move(claiming));
  }
  if (run.empty()) return 0;
  flush();
  workflows_.flush();  // now, not after the answers to these statements
  forget_given(run.size() * kGivenPerClaim);
  for (const auto& claiming : run) claiming->queues = queues_named(*claiming->op);
  lock_limited(run);
  for (const auto& claiming : run) {
    if (!claiming->queues.empty()) begin_claim(claiming);
  }
  if (fast_path_ || may_close_later(run, done == rest.size())) {
    open_->claims = std::move(run);
    return done;
  }
  settle();
  for (const auto& claiming : run) {
    look_again(claiming);
    read_checkpoints(*claiming);
    *claiming->answer = take_result(*claiming);
  }
  return done;
}

// Claims that end a batch which commits anyway: their answers come with the commit's, and what
// remains open is done after the commit, as for a fast-path batch.
bool PostgresStore::may_close_later(const std::vector<std::shared_ptr<Claiming>>& run,
                                    bool is_last) const {
  const auto limited = [](const auto& claiming) {
    return std::any_of(claiming->queues.begin(), claiming->queues.end(),
                       [](const QueueInfo* queue) { return queue->limits.any(); });
  };
  return is_last && wrote_ && durable_ && std::none_of(run.begin(), run.end(), limited);
}

// Locks the rows of all their queues before the first breaker, so that two nodes do not deadlock.
void PostgresStore::lock_limited(const std::vector<std::shared_ptr<Claiming>>& run) {
  std::set<std::int64_t> ids;
  int limited = 0;
  for (const auto& claiming : run) {
    if (!is_limited(*claiming)) continue;
    ++limited;
    for (const QueueInfo* queue : claiming->queues) ids.insert(queue->id);
  }
  if (limited > 1) tell(sql_.lock_limits, params(Ints(ids.begin(), ids.end())));
}

void PostgresStore::begin_claim(const std::shared_ptr<Claiming>& claiming) {
  if (!is_limited(*claiming)) return send_claim(claiming, must_look(*claiming));
  settle();  // claims before it count
  claim_limited(claiming);
}

// Whether the claim found too few jobs and did not look everywhere.
bool PostgresStore::wants_more(const Claiming& claiming) {
  if (!claiming.sent_once || claiming.full ||
      std::ssize(claiming.result.jobs) >= claiming.op->max || is_limited(claiming))
    return false;
  return claiming.met_packs || claiming.undone != 0 || (claiming.short_of && may_look(claiming));
}

// The result of all tries. A later try may have found an earlier job; it stays in the order found
// until it is committed, because it may fail on its own.
ClaimResult PostgresStore::take_result(Claiming& claiming) {
  auto& jobs = claiming.result.jobs;
  if (claiming.place_of.empty()) std::stable_sort(jobs.begin(), jobs.end(), comes_before);
  return std::move(claiming.result);
}

void PostgresStore::look_again(const std::shared_ptr<Claiming>& claiming) {
  constexpr int kMaxTries = 100;
  for (int tries = 0; tries < kMaxTries && wants_more(*claiming); ++tries) {
    // The claim could not take some ids of a pack, which precede the next try. Undo it and read
    // from the beginning, because the ready queue is assumed to begin after what was taken.
    const auto before = claiming->result.jobs.size();
    const bool stuck = claiming->left_some && !claiming->undoes;
    claiming->undoes = claiming->undoes || stuck;
    const bool look = stuck ? claiming->from_beginning || may_look(*claiming)
                            : !claiming->met_packs && claiming->undone == 0;
    send_claim(claiming, look);
    settle();
    if (!stuck && claiming->undone == 0 && claiming->result.jobs.size() == before) break;
  }
}

std::vector<const QueueInfo*> PostgresStore::queues_named(const Claim& op) {
  std::vector<const QueueInfo*> all;
  for (const std::string& name : op.queues) {
    const QueueInfo* queue = find_queue(name);
    if (queue != nullptr && std::find(all.begin(), all.end(), queue) == all.end())
      all.push_back(queue);
  }
  return all;
}

std::optional<Ints> PostgresStore::kinds_named(const Claim& op) {
  if (op.kinds.empty()) return std::nullopt;
  const auto known = [this](const std::string& name) { return kinds_by_name_.contains(name); };
  // An unknown kind may have been created by another node, whatever other kinds are known.
  if (!std::all_of(op.kinds.begin(), op.kinds.end(), known)) look_up_kinds();
  Ints kinds;
  for (const std::string& name : op.kinds) {
    const auto found = kinds_by_name_.find(name);
    if (found != kinds_by_name_.end()) kinds.push_back(found->second);
  }
  return kinds;
}

bool PostgresStore::may_look(const Claiming& claiming) {
  const QueueHint& hint = hints_[claiming.queues.front()->id];
  const Instant next = hint.looked_at + hint.looking * kLookShare;
  return hint.looking <= kCheapLook || steady_.now().instant >= next;
}

// If enough is found without it: only from time to time.
bool PostgresStore::must_look(const Claiming& claiming) {
  if (claiming.queues.size() != 1) return false;
  QueueHint& hint = hints_[claiming.queues.front()->id];
  const Instant now = steady_.now().instant;
  if (now < hint.looked_at + std::max(kLookEvery, hint.looking * kLookShare)) return false;
  hint.looked_at = now;  // also counts for the next claim of this batch
  return true;
}

void PostgresStore::send_claim(const std::shared_ptr<Claiming>& claiming, bool from_beginning) {
  const Claim& op = *claiming->op;
  const auto max = op.max - static_cast<int>(claiming->result.jobs.size());
  const std::optional<Ints> kinds = kinds_named(op);
  if (kinds && kinds->empty()) return;
  hold();
  claiming->at = lease_now();
  claiming->until = claiming->at + op.lease.count();
  claiming->sent = steady_.now().instant;
  claiming->sent_once = true;
  claiming->short_of = false;
  claiming->met_packs = claiming->left_some = false;
  claiming->undone = 0;
  const bool one_queue = claiming->queues.size() == 1;
  const bool packs = from_beginning || may_hold_packs(*claiming);
  const bool takes = packs && one_queue && !claiming->undoes && max >= options_.least_of_pack;
  if (packs && !takes) undo_packs(claiming, max, kinds, from_beginning);
  auto then = [this, claiming, takes](const Rows& rows) { take_claimed(*claiming, rows, takes); };
  Params p = params(max);
  if (kinds) {
    p.add(*kinds);
  } else {
    p.null(Params::kInt8Array);
  }
  p.add(op.worker).add(op.lease.count()).add(claiming->until).add(wall()).add(claiming->at);
  p.add(node_).add(batch_);
  claiming->from_beginning = true;
  if (one_queue) {
    const int queue = claiming->queues.front()->id;
    const QueueHint& hint = hints_[queue];
    Ints priorities, firsts;
    for (int priority = 0; priority <= kLowestPriority; ++priority) {
      const std::int64_t at = hint.first[static_cast<std::size_t>(priority)];
      priorities.push_back(priority);
      firsts.push_back(from_beginning ? 0 : at);
      claiming->from[static_cast<std::size_t>(priority)] = firsts.back();
      if (!from_beginning && at != 0) claiming->from_beginning = false;
    }
    p.add(std::int64_t{queue}).add(priorities).add(firsts);
    const int each = hint.per_pack != 0 ? hint.per_pack : options_.most_of_pack;
    if (takes) p.add((max + each - 1) / each);
  } else {
    Ints ids;
    for (const QueueInfo* queue : claiming->queues) ids.push_back(queue->id);
    p.add(ids);
  }
  const Statement& read_jobs = one_queue ? sql_.claim_one_queue : sql_.claim_queues;
  later(takes ? sql_.claim_packs : read_jobs, p, std::move(then));
}

void PostgresStore::take_claimed(Claiming& claiming, const Rows& rows, bool of_packs) {
  const Claim& op = *claiming.op;
  const bool one_queue = claiming.queues.size() == 1;
  claiming.answered = true;
  auto& jobs = claiming.result.jobs;
  const auto before = static_cast<std::ptrdiff_t>(jobs.size());
  const int begin = of_packs ? 1 : 0;
  const std::int64_t seq_of_packs = of_packs ? note_packs(claiming, rows) : 0;
  jobs.reserve(jobs.size() + static_cast<std::size_t>(rows.size() - begin));
  for (int i = begin; i < rows.size(); ++i) {
    jobs.push_back(read_claimed(rows, i, op, claiming.until));
    claiming.bytes += claimed_bytes(jobs.back());
    if ((after_.leased.back().second.flags & kFlagExtras) != 0)
      claiming.extras.push_back(jobs.back().id);
    const auto room = claiming.rooms.find(after_.leased.back().second.queue);
    if (room != claiming.rooms.end()) room->second.take(jobs.back().cost);
  }
  const auto& place_of = claiming.place_of;
  std::sort(jobs.begin() + before, jobs.end(), [&](const ClaimedJob& a, const ClaimedJob& b) {
    return place_of.empty() ? comes_before(a, b) : place_of.at(a.id) < place_of.at(b.id);
  });
  if (rows.size() > begin) {
    wrote();
    marked_ = true;
    const std::int64_t seq = of_packs ? seq_of_packs : rows.integer(0, kClaimedColumns);
    GivenClaim given{.look_at = claiming.until, .seq = seq, .ids = {}};
    for (int i = begin; i < rows.size(); ++i) given.ids.push_back(rows.integer(i, 0));
    after_.given.push_back(std::move(given));
  }
  claiming.full = claiming.full || claiming.bytes >= kPageBytes;
  const bool enough = claiming.full || static_cast<int>(claiming.result.jobs.size()) >= op.max;
  if (one_queue) {
    QueueHint& hint = hints_[claiming.queues.front()->id];
    // Remembers a start after the claimed jobs, if nothing of that priority was left before it. For
    // a backlog only up to there: its dead rows are adjacent, and thousands take a tenth of a
    // second.
    if (op.kinds.empty()) {
      for (const ClaimedJob& job : claiming.result.jobs) {
        auto& first = hint.first[static_cast<std::size_t>(job.priority)];
        first = std::max(first, std::min(job.run_at.us(), wall() - kLateCommit));
      }
    }
    keep_heads_in_sight(claiming, hint);
    if (claiming.from_beginning) {
      hint.looked_at = steady_.now().instant;
      hint.looking = hint.looked_at - claiming.sent;
    }
    claiming.short_of = !enough && !claiming.from_beginning;
  }
  const bool more = claiming.short_of || claiming.met_packs || claiming.undone != 0;
  if (!enough && op.kinds.empty() && !more) note_dry(claiming);
  // Waiting claims are not notified when other transactions release the jobs that this claim
  // skipped; refresh() finds them.
  for (const QueueInfo* queue : claiming.queues) hints_[queue->id].passed = !enough && more;
}

// A claim sent in the same round trip as new heads of sessions does not know them. It may have read
// the ready queue from a later position. Moves the remembered start back to the new heads.
void PostgresStore::keep_heads_in_sight(const Claiming& claiming, QueueHint& hint) const {
  for (const auto& [place, first] : heads_) {
    const auto priority = static_cast<std::size_t>(place.second);
    const bool missed = place.first == claiming.queues.front()->id &&
                        first < claiming.from[priority] && !MS_MUTANT(head_out_of_sight);
    if (missed) hint.first[priority] = std::min(hint.first[priority], first);
  }
}

// No available job is left, as far as this node can tell now.
void PostgresStore::note_dry(const Claiming& claiming) {
  for (const QueueInfo* queue : claiming.queues) {
    const auto room = claiming.rooms.find(queue->id);
    // With costs a queue may be full before its hint says so; more capacity then clears `dry`.
    const bool full =
        room != claiming.rooms.end() && room->second.jobs() == 0 && queue->limits.costs.empty();
    if (queue->paused || full || claiming.unfinished.contains(queue->id)) continue;
    after_.dry.insert(queue->id);
    after_.gained.erase(queue->id);
  }
}

// Reads the last attempt's checkpoint, for the few jobs that have one; then the answer is complete.
void PostgresStore::read_checkpoints(Claiming& claiming) {
  if (claiming.extras.empty()) return;
  const Rows rows = ask(sql_.checkpoints, params(claiming.extras));
  for (int i = 0; i < rows.size(); ++i) {
    for (ClaimedJob& job : claiming.result.jobs) {
      if (job.id == rows.integer(i, 0)) job.checkpoint = rows.string(i, 1);
    }
  }
}

ClaimedJob PostgresStore::read_claimed(const Rows& rows, int row, const Claim& op,
                                       std::int64_t until) {
  const auto column = [&](int at) { return rows.integer(row, at); };
  ClaimedJob job;
  job.id = column(0);
  job.token = column(1);
  job.attempt = static_cast<int>(column(2));
  job.max_attempts = static_cast<int>(column(3));
  job.priority = static_cast<int>(column(4));
  job.run_at = WallTime::from_us(column(5));
  job.timeout = Duration(column(6));
  job.lease = op.lease;
  const int queue = static_cast<int>(column(9));
  job.queue = queue_name(queue);
  job.kind = kind_name(static_cast<int>(column(10)));
  job.cost = cost_of(queue_by_id(queue), column(10));
  job.args = rows.string(row, 11);
  job.headers = rows.string(row, 12);
  job.tags = rows.texts(row, 13);
  job.correlation_id = rows.string(row, 14);
  job.reply_to = rows.string(row, 15);
  job.session = rows.string(row, 16);
  job.session_state = rows.string(row, 17);
  job.has_memos = (column(7) & kFlagMemos) != 0;
  loaded_.erase(job.id);  // as it was before
  begin_under_breaker(queue, {job.id, job.token});
  --after_.available[queue];
  ++after_.running[queue];
  if (!job.session.empty()) --after_.heads[queue];
  after_.leased.emplace_back(
      job.id, LeaseOfJob{.token = job.token,
                         .until = until,
                         .flags = static_cast<int>(column(7)),
                         .queue = queue,
                         .simple = ends_simply(column(8), static_cast<int>(column(7))) &&
                                   !is_of_queue(op) && !queue_by_id(queue).limits.concurrency &&
                                   !queue_by_id(queue).limits.per_key.any() &&
                                   queue_by_id(queue).limits.breaker.empty(),
                         .session = job.session});
  return job;
}

// A claim whose jobs have all ended need not be examined when its leases would expire: its row is
// deleted, a few with each new claim. Rows that this node forgets, by a lost connection or a failed
// batch, stay in the database, and the leader examines them when they are due.
void PostgresStore::forget_given(std::size_t claims) {
  Ints times, seqs;
  for (std::size_t left = std::min(claims, given_.size()); left > 0; --left) {
    GivenClaim claim = std::move(given_.front());
    given_.pop_front();
    if (claim.look_at <= lease_now() + kLookSoon) continue;
    if (std::any_of(claim.ids.begin(), claim.ids.end(),
                    [this](const std::int64_t id) { return own_leases_.contains(id); })) {
      given_.push_back(std::move(claim));
    } else {
      times.push_back(claim.look_at), seqs.push_back(claim.seq);
    }
  }
  if (!times.empty()) write(sql_.delete_leased, params(times, seqs), false);
}

void PostgresStore::remember_given() {
  for (GivenClaim& claim : after_.given) {
    if (given_.size() < kMaxGiven) given_.push_back(std::move(claim));
  }
}

// The claim was committed, and its answer was lost. If two claims cannot be distinguished, each
// gets jobs that the other did not get.
void PostgresStore::find_claimed(Claiming& claiming, std::unordered_set<JobId>& given) {
  const Claim& op = *claiming.op;
  const Rows rows = ask(sql_.find_claimed, params(claiming.until, node_, op.worker, claiming.at));
  for (int i = 0; i < rows.size() && std::ssize(claiming.result.jobs) < op.max; ++i) {
    if (given.contains(rows.integer(i, 0))) continue;
    const QueueInfo* queue = &queue_by_id(static_cast<int>(rows.integer(i, 9)));
    const auto& asked = claiming.queues;
    if (std::find(asked.begin(), asked.end(), queue) == asked.end()) continue;
    claiming.result.jobs.push_back(read_claimed(rows, i, op, claiming.until));
    given.insert(claiming.result.jobs.back().id);
    if ((rows.integer(i, 7) & kFlagExtras) != 0) claiming.extras.push_back(rows.integer(i, 0));
  }
}

// A claim that is followed by its audit record.
OperationResult PostgresStore::operator()(const Claim& op) {
  if (op.job != 0) return claim_named(op);
  if (op.queues.size() == 1) {
    if (const auto session = parse_session_queue(op.queues[0])) return claim_head(op, *session);
    if (const auto queue = parse_accept_queue(op.queues[0]))
      return accept_next(op, std::string(*queue));
  }
  flush();
  const auto claiming = std::make_shared<Claiming>();
  claiming->op = &op;
  claiming->queues = queues_named(op);
  if (claiming->queues.empty()) return ClaimResult{};
  forget_given(kGivenPerClaim);
  begin_claim(claiming);
  settle();
  look_again(claiming);
  read_checkpoints(*claiming);
  return take_result(*claiming);
}

}  // namespace mainspring::pg
