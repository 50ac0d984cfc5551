// Claim: takes jobs from the front of the lines of their queues, past those that other nodes are
// taking.
//
// What was claimed leaves a dead entry at the front of its line until the database has cleaned up,
// which a transaction that somebody holds open prevents for as long as it lives. So this store
// remembers for each queue and priority where the line begins, and looks from the very beginning
// only when that finds too little, and seldom in proportion to what such a look costs. And now and
// then although it finds enough: a transaction of somebody's own that enqueued may have been open
// for long before its commit, and its job must not wait until the others are done.
#include <algorithm>
#include <tuple>

#include "base/mutant.h"
#include "store/bounds.h"
#include "store_postgres/claimed_columns.h"
#include "store_postgres/plain.h"

namespace mainspring::pg {

namespace {
constexpr Duration kCheapLook = std::chrono::milliseconds(2);
constexpr Duration kLookEvery = std::chrono::seconds(2);
constexpr int kLookShare = 10;  // of the time, at most a tenth goes into looks from the beginning
// Others are about to commit jobs whose run_at is the time at which their batch began: what is
// nearer to now than this may still get a job before what was claimed.
constexpr std::int64_t kLateCommit = 100'000;  // microseconds

constexpr std::size_t kMaxGiven = 20'000;      // claims that are remembered
constexpr std::size_t kGivenPerClaim = 2;      // of those are looked at for each new claim
constexpr std::int64_t kLookSoon = 1'000'000;  // microseconds before others look at a claim

bool stands_before(const ClaimedJob& a, const ClaimedJob& b) {
  return std::tie(a.priority, a.run_at, a.id) < std::tie(b.priority, b.run_at, b.id);
}

bool is_of_line(const Claim& op) {
  return op.queues.size() == 1 && queue_of_line(op.queues[0]) != op.queues[0];
}
}  // namespace

std::size_t PostgresStore::claim_run(std::span<const Operation> rest,
                                     std::vector<OperationResult>& results) {
  const std::size_t first = results.size() - rest.size();
  std::vector<std::shared_ptr<Claiming>> run;
  std::size_t done = 0;
  for (; done < rest.size(); ++done) {
    const auto* op = std::get_if<Claim>(&rest[done]);
    if (op == nullptr || is_of_line(*op) || op->job != 0) break;
    if (done + 1 < rest.size() && std::holds_alternative<Audit>(rest[done + 1])) break;
    auto claiming = std::make_shared<Claiming>();
    claiming->op = op;
    claiming->answer = &results[first + done];
    run.push_back(std::move(claiming));
  }
  if (run.empty()) return 0;
  flush();
  workflows_.flush();  // now, and not behind the answers to these
  forget_given(run.size() * kGivenPerClaim);
  for (const auto& claiming : run) claiming->queues = queues_named(*claiming->op);
  lock_limited(run);
  for (const auto& claiming : run) {
    if (!claiming->queues.empty()) begin_claim(claiming);
  }
  if (plain_ || may_close_later(run, done == rest.size())) {
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

// Claims that end a batch which commits in any case: their answers come with the commit's, and what
// they leave open is done behind it, as that of a plain batch.
bool PostgresStore::may_close_later(const std::vector<std::shared_ptr<Claiming>>& run,
                                    bool is_last) const {
  const auto limited = [](const auto& claiming) {
    return std::any_of(claiming->queues.begin(), claiming->queues.end(),
                       [](const QueueInfo* queue) { return queue->limits.any(); });
  };
  return is_last && wrote_ && durable_ && std::none_of(run.begin(), run.end(), limited);
}

// The rows of all their queues before the first breaker, so that two nodes do not wait for each
// other.
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

// Short of what was asked for, and there may be more where it did not look?
bool PostgresStore::wants_more(const Claiming& claiming) {
  if (!claiming.sent_once || claiming.full ||
      std::ssize(claiming.result.jobs) >= claiming.op->max || is_limited(claiming))
    return false;
  return claiming.met_bundles || claiming.undone != 0 || (claiming.short_of && may_look(claiming));
}

// What it found in all its tries. What a later one found may stand before the rest; until it is
// committed it must not, for it may come to nothing alone.
ClaimResult PostgresStore::take_result(Claiming& claiming) {
  auto& jobs = claiming.result.jobs;
  if (claiming.place_of.empty()) std::stable_sort(jobs.begin(), jobs.end(), stands_before);
  return std::move(claiming.result);
}

void PostgresStore::look_again(const std::shared_ptr<Claiming>& claiming) {
  constexpr int kMaxTries = 100;
  for (int tries = 0; tries < kMaxTries && wants_more(*claiming); ++tries) {
    // What it could not take of a bundle stands in front of the next: that is undone, from the
    // beginning, for the line is believed to begin behind what it took.
    const auto before = claiming->result.jobs.size();
    const bool stuck = claiming->left_some && !claiming->undoes;
    claiming->undoes = claiming->undoes || stuck;
    const bool look = stuck ? claiming->from_beginning || may_look(*claiming)
                            : !claiming->met_bundles && claiming->undone == 0;
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
  // One that is unknown here may be another node's by now, whichever others are known.
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

// Enough may be found without; then once in a while.
bool PostgresStore::must_look(const Claiming& claiming) {
  if (claiming.queues.size() != 1) return false;
  QueueHint& hint = hints_[claiming.queues.front()->id];
  const Instant now = steady_.now().instant;
  if (now < hint.looked_at + std::max(kLookEvery, hint.looking * kLookShare)) return false;
  hint.looked_at = now;  // not the next claim of this batch too
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
  claiming->met_bundles = claiming->left_some = false;
  claiming->undone = 0;
  const bool one_queue = claiming->queues.size() == 1;
  const bool bundles = from_beginning || may_hold_bundles(*claiming);
  const bool takes = bundles && one_queue && !claiming->undoes && max >= options_.least_of_bundle;
  if (bundles && !takes) undo_bundles(claiming, max, kinds, from_beginning);
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
    const int each = hint.per_bundle != 0 ? hint.per_bundle : options_.most_of_bundle;
    if (takes) p.add((max + each - 1) / each);
  } else {
    Ints ids;
    for (const QueueInfo* queue : claiming->queues) ids.push_back(queue->id);
    p.add(ids);
  }
  const Statement& plain = one_queue ? sql_.claim_one_queue : sql_.claim_queues;
  later(takes ? sql_.claim_bundles : plain, p, std::move(then));
}

void PostgresStore::take_claimed(Claiming& claiming, const Rows& rows, bool of_bundles) {
  const Claim& op = *claiming.op;
  const bool one_queue = claiming.queues.size() == 1;
  claiming.answered = true;
  auto& jobs = claiming.result.jobs;
  const auto before = static_cast<std::ptrdiff_t>(jobs.size());
  const int begin = of_bundles ? 1 : 0;
  const std::int64_t seq_of_bundles = of_bundles ? note_bundles(claiming, rows) : 0;
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
    return place_of.empty() ? stands_before(a, b) : place_of.at(a.id) < place_of.at(b.id);
  });
  if (rows.size() > begin) {
    wrote();
    marked_ = true;
    const std::int64_t seq = of_bundles ? seq_of_bundles : rows.integer(0, kClaimedColumns);
    GivenClaim given{.look_at = claiming.until, .seq = seq, .ids = {}};
    for (int i = begin; i < rows.size(); ++i) given.ids.push_back(rows.integer(i, 0));
    after_.given.push_back(std::move(given));
  }
  claiming.full = claiming.full || claiming.bytes >= kPageBytes;
  const bool enough = claiming.full || static_cast<int>(claiming.result.jobs.size()) >= op.max;
  if (one_queue) {
    QueueHint& hint = hints_[claiming.queues.front()->id];
    // Behind what was claimed, as far as nothing of that priority was left before it. Of a backlog
    // no more than that: its dead entries lie close together, thousands in a tenth of a second.
    if (op.kinds.empty()) {
      for (const ClaimedJob& job : claiming.result.jobs) {
        auto& first = hint.first[static_cast<std::size_t>(job.priority)];
        first = std::max(first, std::min(job.run_at.us(), wall() - kLateCommit));
      }
    }
    keep_turns_in_sight(claiming, hint);
    if (claiming.from_beginning) {
      hint.looked_at = steady_.now().instant;
      hint.looking = hint.looked_at - claiming.sent;
    }
    claiming.short_of = !enough && !claiming.from_beginning;
  }
  const bool more = claiming.short_of || claiming.met_bundles || claiming.undone != 0;
  if (!enough && op.kinds.empty() && !more) note_dry(claiming);
  // Who waits is not told when others let go of what it passed: refresh() looks.
  for (const QueueInfo* queue : claiming.queues) hints_[queue->id].passed = !enough && more;
}

// Of those that got a turn in this batch a claim may know nothing that was sent with them, and
// began behind them.
void PostgresStore::keep_turns_in_sight(const Claiming& claiming, QueueHint& hint) const {
  for (const auto& [line, first] : turns_) {
    const auto priority = static_cast<std::size_t>(line.second);
    const bool behind = line.first == claiming.queues.front()->id &&
                        first < claiming.from[priority] && !MS_MUTANT(turn_out_of_sight);
    if (behind) hint.first[priority] = std::min(hint.first[priority], first);
  }
}

// Nothing is left that a claim could take, as far as anybody can tell now.
void PostgresStore::note_dry(const Claiming& claiming) {
  for (const QueueInfo* queue : claiming.queues) {
    const auto room = claiming.rooms.find(queue->id);
    // With costs a queue may be full before its hint says so. Whatever gives it room makes it wet.
    const bool full =
        room != claiming.rooms.end() && room->second.jobs() == 0 && queue->limits.costs.empty();
    if (queue->paused || full || claiming.unfinished.contains(queue->id)) continue;
    after_.dry.insert(queue->id);
    after_.gained.erase(queue->id);
  }
}

// The last attempt's checkpoint, for the few that have one; then the answer is whole.
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
  in_hand_.erase(job.id);  // as it was before
  begin_under_breaker(queue, {job.id, job.token});
  --after_.available[queue];
  ++after_.running[queue];
  if (!job.session.empty()) --after_.heads[queue];
  after_.leased.emplace_back(
      job.id, LeaseOfJob{.token = job.token,
                         .until = until,
                         .flags = static_cast<int>(column(7)),
                         .queue = queue,
                         .plain = ends_plainly(column(8), static_cast<int>(column(7))) &&
                                  !is_of_line(op) && !queue_by_id(queue).limits.concurrency &&
                                  !queue_by_id(queue).limits.per_key.any() &&
                                  queue_by_id(queue).limits.breaker.empty(),
                         .session = job.session});
  return job;
}

// Claims all of whose jobs have ended need not be looked at when their leases would have: the row
// goes, a few with each new claim. What a lost connection or a failed batch makes this node forget
// stays in the database, and whoever leads looks at it in time.
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

// It was committed, and the answer was lost. Of two claims that cannot be told apart each gets what
// the other did not.
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

// One that the record of who asked stands behind.
OperationResult PostgresStore::operator()(const Claim& op) {
  if (op.job != 0) return claim_named(op);
  if (op.queues.size() == 1) {
    if (const auto session = parse_session_line(op.queues[0])) return claim_turn(op, *session);
    if (const auto queue = parse_accept_line(op.queues[0]))
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
