// The checks. Each walks through the events of single jobs; sorting the history dominates the cost.
#include "checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "session_checks.h"

namespace blackbox {
namespace {

// All events of one job, each list in order of sending, grants in order of tokens.
struct Story {
  std::vector<const EnqueueEvent*> enqueues;
  std::vector<const GrantEvent*> grants;
  std::vector<const FinishEvent*> finishes;
  std::vector<const RenewEvent*> renews;
  std::vector<const CancelEvent*> cancels;
  std::vector<const RetryEvent*> retries;
  std::vector<const ReadEvent*> reads;

  // True if an operator's retry could have taken effect between `from` and `to`.
  // Whether a duplicate may have given it new args: its attempts count from 1 again.
  bool may_be_replaced() const {
    return std::any_of(enqueues.begin(), enqueues.end(),
                       [](const EnqueueEvent* e) { return e->replaces; });
  }
  bool retried_between(Micros from, Micros to) const {
    return std::any_of(retries.begin(), retries.end(), [&](const RetryEvent* r) {
      return r->done != Done::no && r->at.ret > from && r->at.invoke < to;
    });
  }
  bool retried_after(Micros from) const {
    return retried_between(from, std::numeric_limits<Micros>::max());
  }
};

bool terminal(const std::string& state) {
  return state == "completed" || state == "cancelled" || state == "dead";
}

class Checker {
 public:
  explicit Checker(const History& history) : h_(history) {
    for (const EnqueueEvent& e : h_.enqueues) {
      for (const EnqueuedItem& item : e.jobs) {
        if (item.id != 0) stories_[item.id].enqueues.push_back(&e);
      }
    }
    gather(h_.grants, &Story::grants);
    gather(h_.finishes, &Story::finishes);
    gather(h_.renews, &Story::renews);
    gather(h_.cancels, &Story::cancels);
    gather(h_.retries, &Story::retries);
    gather(h_.reads, &Story::reads);
    for (auto& [id, story] : stories_) {
      std::stable_sort(
          story.grants.begin(), story.grants.end(),
          [](const GrantEvent* a, const GrantEvent* b) { return a->token < b->token; });
    }
  }

  std::vector<Verdict> run() {
    enqueues_last();
    outcomes_last();
    checkpoints_last();
    refused_never_appear();
    batches_are_whole();
    keys_are_functions();
    unique_jobs_are_alone();
    leases_do_not_overlap();
    tokens_grow();
    older_tokens_are_refused();
    attempts_are_counted();
    dead_letter_is_complete();
    counters_agree();
    ends_are_final();
    cancels_win_or_lose();
    paused_queues_give_nothing();
    requests_are_answered();
    for (Verdict& verdict : check_sessions(h_)) verdicts_.push_back(std::move(verdict));
    return std::move(verdicts_);
  }

 private:
  template <class Event>
  void gather(const std::vector<Event>& events, std::vector<const Event*> Story::*list) {
    for (const Event& event : events) (stories_[event.id].*list).push_back(&event);
    for (auto& [id, story] : stories_) {
      std::stable_sort((story.*list).begin(), (story.*list).end(),
                       [](const Event* a, const Event* b) { return a->at.invoke < b->at.invoke; });
    }
  }

  void begin(std::string invariant) { verdicts_.push_back({std::move(invariant), 0, 0, {}}); }
  template <class Witness>
  void expect(bool holds, Witness&& witness) {
    Verdict& verdict = verdicts_.back();
    ++verdict.checked;
    if (holds) return;
    ++verdict.violated;
    if (verdict.witnesses.size() < kMaxWitnesses) verdict.witnesses.push_back(witness());
  }

  const FinalJob* final_job(Id id) const {
    const auto found = h_.jobs.find(id);
    return found == h_.jobs.end() ? nullptr : &found->second;
  }

  void enqueues_last() {
    begin("DUR-1 acknowledged jobs are there");
    for (const std::string& what : h_.unreadable) {
      expect(false, [&] { return what; });
    }
    for (const EnqueueEvent& e : h_.enqueues) {
      if (e.done != Done::yes || !h_.complete) continue;
      for (const EnqueuedItem& item : e.jobs) {
        const FinalJob* job = final_job(item.id);
        const bool same = job != nullptr && job->queue == e.queue &&
                          (!e.unique.empty() || item.duplicate || job->nonce == item.nonce);
        expect(same, [&] {
          return fmt::format("job {} (nonce {}) acknowledged at {} is {}", item.id, item.nonce,
                             e.at.ret, job == nullptr ? "gone" : "another job");
        });
      }
    }
  }

  void outcomes_last() {
    begin("DUR-2 acknowledged outcomes stay");
    static const std::map<std::string, std::string> kStates = {
        {"complete", "completed"}, {"dead", "dead"}, {"cancel", "cancelled"}};
    for (const auto& [id, story] : stories_) {
      const FinalJob* job = final_job(id);
      if (job == nullptr) continue;
      for (const FinishEvent* f : story.finishes) {
        if (!f->accepted()) continue;
        if (f->outcome == "retry") {
          expect(std::any_of(job->errors.begin(), job->errors.end(),
                             [&](const auto& error) { return error.second == f->text; }),
                 [&] { return fmt::format("job {}: its error \"{}\" is gone", id, f->text); });
          continue;
        }
        const auto state = kStates.find(f->outcome);
        if (state == kStates.end() || story.retried_after(f->at.invoke)) continue;
        const bool text =
            f->outcome == "complete" ? job->result == f->text : job->reason == f->text;
        expect(job->state == state->second && text, [&] {
          return fmt::format("job {} token {}: {} {} was acknowledged at {}; it is {} {}{}", id,
                             f->token, f->outcome, f->text, f->at.ret, job->state, job->result,
                             job->reason);
        });
      }
    }
  }

  void checkpoints_last() {
    begin("DUR-2 the next attempt gets the last checkpoint");
    for (const auto& [id, story] : stories_) {
      if (!story.retries.empty() || story.may_be_replaced()) continue;
      for (const GrantEvent* g : story.grants) {
        const RenewEvent* last = nullptr;  // the last that was accepted before this claim
        for (const RenewEvent* r : story.renews) {
          if (r->accepted() && !r->checkpoint.empty() && r->token < g->token &&
              r->at.ret < g->at.invoke && (last == nullptr || r->at.ret > last->at.ret)) {
            last = r;
          }
        }
        if (last == nullptr) continue;
        const bool fits =
            std::any_of(story.renews.begin(), story.renews.end(), [&](const RenewEvent* r) {
              return r == last ? r->checkpoint == g->checkpoint
                               : r->checkpoint == g->checkpoint && r->at.ret > last->at.invoke &&
                                     (r->done == Done::unknown || r->accepted());
            });
        expect(fits, [&] {
          return fmt::format("job {} attempt {} got checkpoint \"{}\" instead of \"{}\"", id,
                             g->attempt, g->checkpoint, last->checkpoint);
        });
      }
    }
  }

  void refused_never_appear() {
    begin("DUR-3 nothing appears twice, nothing refused appears");
    std::unordered_map<std::int64_t, bool> possible;  // nonce -> was it ever not refused?
    for (const EnqueueEvent& e : h_.enqueues) {
      for (const EnqueuedItem& item : e.jobs) {
        bool& maybe = possible[item.nonce];
        maybe = maybe || e.done != Done::no;
      }
    }
    std::unordered_map<std::int64_t, Id> seen;
    for (const auto& [id, job] : h_.jobs) {
      const auto known = possible.find(job.nonce);
      expect(known != possible.end() && known->second, [&] {
        return fmt::format("job {} (nonce {}) was {}", id, job.nonce,
                           known == possible.end() ? "never asked for" : "refused");
      });
      const auto [other, fresh] = seen.emplace(job.nonce, id);
      expect(fresh, [&] {
        return fmt::format("nonce {} became two jobs: {} and {}", job.nonce, other->second, id);
      });
    }
    for (const auto& [nonce, id] : seen) nonces_.insert(nonce);
  }

  void batches_are_whole() {
    begin("ATOM-1 a batch is there whole or not at all");
    for (const EnqueueEvent& e : h_.enqueues) {
      if (e.jobs.size() < 2 || e.done != Done::unknown || !e.unique.empty()) continue;
      const auto there = std::count_if(e.jobs.begin(), e.jobs.end(), [&](const EnqueuedItem& item) {
        return nonces_.count(item.nonce) != 0;
      });
      expect(there == 0 || there == static_cast<std::ptrdiff_t>(e.jobs.size()), [&] {
        return fmt::format("of a batch of {} (first nonce {}) {} are there", e.jobs.size(),
                           e.jobs[0].nonce, there);
      });
    }
  }

  void keys_are_functions() {
    begin("IDEM-1 one key, one set of jobs, one body");
    std::unordered_map<std::string, const EnqueueEvent*> first;
    for (const EnqueueEvent& e : h_.enqueues) {
      if (e.key.empty() || e.done != Done::yes) continue;
      const auto [found, fresh] = first.emplace(e.key, &e);
      if (fresh) continue;
      const EnqueueEvent& other = *found->second;
      const bool same = e.body == other.body && e.jobs.size() == other.jobs.size() &&
                        std::equal(e.jobs.begin(), e.jobs.end(), other.jobs.begin(),
                                   [](const auto& a, const auto& b) { return a.id == b.id; });
      expect(same, [&] {
        return fmt::format("key {}: job {} and job {} (bodies {})", e.key, other.jobs[0].id,
                           e.jobs[0].id, e.body == other.body ? "equal" : "differ");
      });
    }
    for (const EnqueueEvent& e : h_.enqueues) {
      const auto found = e.key.empty() ? first.end() : first.find(e.key);
      if (found == first.end() || e.status != 409) continue;
      expect(e.body != found->second->body, [&] {
        return fmt::format("key {}: the same body was refused as another one", e.key);
      });
    }
  }

  void unique_jobs_are_alone() {
    begin("UNIQ-1 no second job for a key while the first lives");
    std::unordered_map<std::string, std::vector<const EnqueueEvent*>> by_key;
    for (const EnqueueEvent& e : h_.enqueues) {
      if (!e.unique.empty() && e.done == Done::yes && e.key.empty()) {
        by_key[e.queue + '\n' + e.unique].push_back(&e);
      }
    }
    for (auto& [key, events] : by_key) {
      std::sort(events.begin(), events.end(),
                [](const auto* a, const auto* b) { return a->at.invoke < b->at.invoke; });
      for (std::size_t i = 1; i < events.size(); ++i) {
        const EnqueueEvent& before = *events[i - 1];
        const EnqueueEvent& e = *events[i];
        if (before.at.ret >= e.at.invoke || !lives_until(before.jobs[0].id, e.at.ret)) continue;
        expect(e.jobs[0].id == before.jobs[0].id, [&] {
          return fmt::format("unique key of job {} made job {} too", before.jobs[0].id,
                             e.jobs[0].id);
        });
      }
    }
  }

  // True if the job is certainly not terminal at `until`: no request that could end it was sent.
  // (Jobs with a unique key have spare attempts, so that a lost lease does not end them.)
  bool lives_until(Id id, Micros until) {
    const Story& story = stories_[id];
    const FinalJob* job = final_job(id);
    const auto sent_before = [&](const auto* event) { return event->at.invoke < until; };
    return job != nullptr && job->reason != "expired" &&
           std::none_of(story.cancels.begin(), story.cancels.end(), sent_before) &&
           std::none_of(story.finishes.begin(), story.finishes.end(), sent_before);
  }

  void leases_do_not_overlap() {
    begin("LEASE a job is given again only after its lease");
    for (const auto& [id, story] : stories_) {
      for (std::size_t i = 1; i < story.grants.size(); ++i) {
        const GrantEvent& before = *story.grants[i - 1];
        const GrantEvent& after = *story.grants[i];
        const bool released =
            std::any_of(story.finishes.begin(), story.finishes.end(), [&](const FinishEvent* f) {
              return f->token == before.token && f->possible() && f->at.invoke < after.at.ret;
            });
        if (released) continue;
        const Micros sure_end = lease_end(before, story.renews);
        expect(after.at.ret + kClockTolerance >= sure_end, [&] {
          return fmt::format(
              "job {}: token {} held a lease until at least {}, token {} was given at {} or before",
              id, before.token, sure_end, after.token, after.at.ret);
        });
      }
    }
  }

  void tokens_grow() {
    begin("FENCE-1 tokens grow with every claim");
    for (const auto& [id, story] : stories_) {
      for (std::size_t i = 1; i < story.grants.size(); ++i) {
        const GrantEvent& low = *story.grants[i - 1];
        const GrantEvent& high = *story.grants[i];
        expect(low.token < high.token && !(high.at.ret < low.at.invoke), [&] {
          return fmt::format("job {}: token {} was given before token {}", id, high.token,
                             low.token);
        });
      }
    }
    begin("FENCE-2 a token belongs to one claim");
    std::unordered_map<std::int64_t, std::int64_t> owner;
    for (const GrantEvent& g : h_.grants) {
      const auto [found, fresh] = owner.emplace(g.token, g.request);
      expect(fresh || found->second == g.request, [&] {
        return fmt::format("token {} was given by two claims; job {}", g.token, g.id);
      });
    }
  }

  void older_tokens_are_refused() {
    begin("FENCE-3 an older token is refused once a newer was seen");
    for (const auto& [id, story] : stories_) {
      const auto newer_seen = [&](std::int64_t token, Micros before) {
        return std::any_of(story.grants.begin(), story.grants.end(), [&](const GrantEvent* g) {
          return g->token > token && g->at.ret < before;
        });
      };
      for (const FinishEvent* f : story.finishes) {
        if (f->done == Done::unknown) continue;
        expect(!(f->accepted() && newer_seen(f->token, f->at.invoke)), [&] {
          return fmt::format("job {}: {} with token {} was accepted at {}", id, f->outcome,
                             f->token, f->at.ret);
        });
      }
      for (const RenewEvent* r : story.renews) {
        if (r->done == Done::unknown) continue;
        expect(!(r->accepted() && newer_seen(r->token, r->at.invoke)), [&] {
          return fmt::format("job {}: a renewal with token {} was accepted at {}", id, r->token,
                             r->at.ret);
        });
      }
    }
  }

  void attempts_are_counted() {
    begin("ATT-1 attempts within bounds, back-off kept, snooze and defer refunded");
    for (const auto& [id, story] : stories_) {
      for (const GrantEvent* g : story.grants) {
        expect(g->attempt >= 1 && g->attempt <= g->max_attempts, [&] {
          return fmt::format("job {}: attempt {} of {}", id, g->attempt, g->max_attempts);
        });
      }
      for (const FinishEvent* f : story.finishes) {
        if (f->accepted()) attempt_after(id, story, *f);
      }
      delay_is_kept(id, story);
    }
    for (const auto& [id, job] : h_.jobs) {
      if (stories_[id].may_be_replaced()) continue;
      for (std::size_t i = 1; i < job.errors.size(); ++i) {
        expect(job.errors[i].first > job.errors[i - 1].first,
               [&, job_id = id, errors = &job.errors] {
                 return fmt::format("job {}: attempt {} failed twice", job_id, (*errors)[i].first);
               });
      }
    }
  }

  void delay_is_kept(Id id, const Story& story) {
    if (story.grants.empty() || story.enqueues.empty() || !story.retries.empty()) return;
    const EnqueueEvent& e = *story.enqueues.front();
    if (e.done != Done::yes || !e.unique.empty()) return;
    for (const EnqueuedItem& item : e.jobs) {
      // A repeated request returns the job of the first one, which may have been sent earlier.
      if (item.id != id || item.delay == 0 || item.duplicate) continue;
      expect(story.grants.front()->at.ret + kClockTolerance >= e.at.invoke + item.delay, [&] {
        return fmt::format("job {}: delayed for {} us at {}, given at {}", id, item.delay,
                           e.at.invoke, story.grants.front()->at.ret);
      });
    }
  }

  // The claims around an accepted retry, snooze or defer.
  void attempt_after(Id id, const Story& story, const FinishEvent& f) {
    const auto own = std::find_if(story.grants.begin(), story.grants.end(),
                                  [&](const GrantEvent* g) { return g->token == f.token; });
    if (own == story.grants.end() || own + 1 == story.grants.end()) return;
    const GrantEvent& mine = **own;
    const GrantEvent& next = **(own + 1);
    const bool replaced = story.may_be_replaced();
    if (f.outcome == "retry") {
      expect(next.attempt > mine.attempt || replaced, [&] {
        return fmt::format("job {}: attempt {} failed, the next one is {}", id, mine.attempt,
                           next.attempt);
      });
    } else if (f.outcome == "snooze" || f.outcome == "defer") {
      expect(next.attempt >= mine.attempt || replaced, [&] {
        return fmt::format("job {}: attempt {} ended by {}, the next one is {}", id, mine.attempt,
                           f.outcome, next.attempt);
      });
    } else {
      expect(story.retried_between(f.at.invoke, next.at.ret), [&] {
        return fmt::format("job {}: given again after {} was acknowledged", id, f.outcome);
      });
      return;
    }
    if (f.outcome == "defer") {
      expect(story.retried_between(f.at.invoke, next.at.ret), [&] {
        return fmt::format("job {}: deferred at {}, claimed again at {} without a retry", id,
                           f.at.invoke, next.at.ret);
      });
      return;
    }
    // An enqueue with the same unique key may have set another run_at.
    const bool unique = std::any_of(story.enqueues.begin(), story.enqueues.end(),
                                    [](const EnqueueEvent* e) { return !e->unique.empty(); });
    if (unique || story.retried_between(f.at.invoke, next.at.ret)) return;
    expect(next.at.ret + kClockTolerance >= f.at.invoke + f.after, [&] {
      return fmt::format("job {}: {} for {} us at {}, given again at {}", id, f.outcome, f.after,
                         f.at.invoke, next.at.ret);
    });
  }

  void dead_letter_is_complete() {
    begin("DLQ-1 the dead are in the dead letter once, with a reason");
    std::unordered_map<Id, int> listed;
    for (const Id id : h_.dead_listing) ++listed[id];
    for (const auto& [id, job] : h_.jobs) {
      const auto found = listed.find(id);
      const int times = found == listed.end() ? 0 : found->second;
      expect(times == (job.state == "dead" ? 1 : 0), [&] {
        return fmt::format("job {} is {} and is listed {} times in the dead letter", id, job.state,
                           times);
      });
      if (job.state != "dead") continue;
      expect(!job.reason.empty(), [&] { return fmt::format("dead job {} has no reason", id); });
      if (job.reason != "max_attempts") continue;
      expect(job.attempt == job.max_attempts && !job.errors.empty(), [&] {
        return fmt::format("job {} is exhausted after {} of {} attempts with {} errors", id,
                           job.attempt, job.max_attempts, job.errors.size());
      });
    }
  }

  void counters_agree() {
    begin("CONS-1 counters equal a recount");
    for (const CountsEvent& c : h_.counts) {
      expect(c.enqueued == c.accounted, [&] {
        return fmt::format("queue {} at {}: {} enqueued, {} accounted for", c.queue, c.at.ret,
                           c.enqueued, c.accounted);
      });
    }
    std::map<std::string, FinalQueue> recount;
    for (const auto& [id, job] : h_.jobs) {
      FinalQueue& queue = recount[job.queue];
      ++queue.enqueued;
      if (job.reason == "expired" && job.state == "cancelled") {
        ++queue.expired;
      } else {
        ++queue.counts[job.state];
      }
    }
    for (const auto& [name, queue] : h_.queues) {
      FinalQueue& mine = recount[name];
      std::int64_t kept = 0;
      for (const auto& [state, count] : queue.counts) {
        kept += count;
        expect(count == mine.counts[state], [&, s = state, n = count] {
          return fmt::format("queue {}: {} {} by its counter, {} by reading", name, n, s,
                             mine.counts[s]);
        });
      }
      expect(queue.expired == mine.expired, [&, q = &queue] {
        return fmt::format("queue {}: {} expired by its counter, {} by reading", name, q->expired,
                           mine.expired);
      });
      expect(queue.enqueued == kept + queue.expired + queue.pruned &&
                 queue.enqueued == mine.enqueued + queue.pruned,
             [&, q = &queue] {
               return fmt::format("queue {}: enqueued {} is not {} kept + {} expired + {} pruned",
                                  name, q->enqueued, kept, q->expired, q->pruned);
             });
    }
  }

  void ends_are_final() {
    begin("STATE-1 everything ends, and ends are final");
    for (const auto& [id, job] : h_.jobs) {
      expect(terminal(job.state), [&] {
        return fmt::format("job {} is still {} after everything was drained", id, job.state);
      });
      const auto found = stories_.find(id);
      if (found == stories_.end()) continue;
      for (const ReadEvent* read : found->second.reads) {
        if (read->status != 200 || !terminal(read->state)) continue;
        if (found->second.retried_after(read->at.invoke)) continue;
        expect(job.state == read->state, [&] {
          return fmt::format("job {} was read as {} at {} and is {} in the end", id, read->state,
                             read->at.ret, job.state);
        });
      }
    }
  }

  void cancels_win_or_lose() {
    begin("CAN-1 of cancel and completion exactly one wins");
    for (const auto& [id, story] : stories_) {
      for (const CancelEvent* c : story.cancels) {
        if (c->done != Done::yes) continue;
        if (c->state == "cancelled") {
          cancelled_stays(id, story, *c);
        } else {
          holder_learns(id, story, *c);
        }
      }
    }
  }

  void cancelled_stays(Id id, const Story& story, const CancelEvent& c) {
    if (story.retried_after(c.at.invoke)) return;
    const FinalJob* job = final_job(id);
    if (!h_.complete) return;
    expect(job != nullptr && job->state == "cancelled", [&] {
      return fmt::format("job {} was cancelled at {} and is {}", id, c.at.ret,
                         job == nullptr ? "gone" : job->state);
    });
    for (const GrantEvent* g : story.grants) {
      expect(g->at.invoke < c.at.ret, [&] {
        return fmt::format("job {} was cancelled at {} and given at {}", id, c.at.ret, g->at.ret);
      });
    }
    for (const FinishEvent* f : story.finishes) {
      if (f->outcome != "complete") continue;
      expect(!f->accepted(), [&] {
        return fmt::format("job {}: both its cancel and its completion were acknowledged", id);
      });
    }
  }

  // A running job: the next renewal with the token from before the cancel reports the cancel.
  void holder_learns(Id id, const Story& story, const CancelEvent& c) {
    if (story.retried_after(c.at.invoke)) return;
    for (const RenewEvent* r : story.renews) {
      if (!r->accepted() || r->at.invoke <= c.at.ret) continue;
      expect(r->cancel, [&] {
        return fmt::format("job {}: its cancel was noted at {}, its renewal at {} says nothing", id,
                           c.at.ret, r->at.ret);
      });
    }
  }

  void paused_queues_give_nothing() {
    begin("CTL-1 a paused queue gives nothing");
    std::map<std::string, std::vector<const PauseEvent*>> by_queue;
    for (const PauseEvent& p : h_.pauses) by_queue[p.queue].push_back(&p);
    for (const GrantEvent& g : h_.grants) {
      const auto found = by_queue.find(g.queue);
      if (found == by_queue.end()) continue;
      const PauseEvent* last = nullptr;  // acknowledged before the claim was sent
      bool disturbed = false;            // by a resume that may have happened since
      for (const PauseEvent* p : found->second) {
        if (p->done == Done::yes && p->at.ret < g.at.invoke) {
          last = p;
          disturbed = false;
        } else if (p->done != Done::no && p->at.invoke < g.at.ret && !p->paused) {
          disturbed = true;
        }
      }
      expect(last == nullptr || !last->paused || disturbed, [&] {
        return fmt::format("job {} was given at {} from queue {}, paused since {}", g.id, g.at.ret,
                           g.queue, last->at.ret);
      });
    }
  }

  void requests_are_answered() {
    begin("LIVE-1 every request is answered or its connection breaks");
    verdicts_.back().checked = h_.operations();
    for (const std::string& what : h_.unanswered) {
      expect(false, [&] { return what; });
    }
  }

  const History& h_;
  std::map<Id, Story> stories_;
  std::unordered_set<std::int64_t> nonces_;  // of all jobs in the end
  std::vector<Verdict> verdicts_;
};

struct Tally {
  std::size_t unknown = 0, duplicates = 0, conflicts = 0, stale = 0, expired_leases = 0, dead = 0,
              acknowledged = 0, ok_finishes = 0, deferred = 0, cancelled = 0, kills = 0, stops = 0;
};

Tally tally(const History& h) {
  Tally t;
  for (const EnqueueEvent& e : h.enqueues) {
    t.unknown += e.done == Done::unknown;
    t.conflicts += e.status == 409;
    if (e.done != Done::yes) continue;
    t.acknowledged += e.jobs.size();
    for (const EnqueuedItem& item : e.jobs) t.duplicates += item.duplicate;
  }
  for (const FinishEvent& f : h.finishes) {
    t.unknown += f.done == Done::unknown;
    t.stale += f.status == "stale";
    t.ok_finishes += f.accepted();
    t.deferred += f.accepted() && f.outcome == "defer";
  }
  for (const RenewEvent& r : h.renews) t.stale += r.lost;
  for (const auto& [id, job] : h.jobs) {
    t.dead += job.state == "dead";
    for (const auto& [attempt, message] : job.errors) {
      t.expired_leases += message.find("lease") != std::string::npos;
    }
  }
  for (const CancelEvent& c : h.cancels) t.cancelled += c.done == Done::yes;
  for (const NemesisEvent& n : h.nemeses) {
    t.kills += n.what == "kill";
    t.stops += n.what == "stop";
  }
  return t;
}

}  // namespace

std::vector<Verdict> check(const History& history) {
  return Checker(history).run();
}

std::vector<std::string> not_met(const History& history) {
  const Tally t = tally(history);
  std::vector<std::string> missing;
  const auto need = [&](std::size_t count, const char* what) {
    if (count == 0) missing.emplace_back(what);
  };
  need(t.unknown, "a request with an unknown outcome");
  need(t.duplicates, "an enqueue that found its duplicate");
  need(t.conflicts, "an idempotency key with another body");
  need(t.stale, "a refused stale token");
  need(t.expired_leases, "an expired lease");
  need(t.dead, "a job in the dead letter");
  need(t.deferred, "a deferred job");
  need(t.cancelled, "an acknowledged cancel");
  need(t.kills, "a kill -9");
  return missing;
}

std::string summary(const History& history) {
  const Tally t = tally(history);
  return fmt::format(
      "{} operations: {} jobs acknowledged, {} duplicates found, {} claims granted, {} outcomes "
      "accepted, {} stale refused, {} leases expired, {} dead, {} cancels, {} outcomes unknown; "
      "{} kills, {} stops",
      history.operations(), t.acknowledged, t.duplicates, history.grants.size(), t.ok_finishes,
      t.stale, t.expired_leases, t.dead, t.cancelled, t.unknown, t.kills, t.stops);
}

}  // namespace blackbox
