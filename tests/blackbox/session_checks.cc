// The invariants of sessions: grants of one session in the order of their tokens, compared in
// pairs.
#include "session_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace blackbox {
namespace {

constexpr Micros kNever = std::numeric_limits<Micros>::max();

using Key = std::pair<std::string_view, std::string_view>;  // queue, session

// Later observations of one grant.
struct Tenure {
  const GrantEvent* grant = nullptr;
  std::vector<const RenewEvent*> renews;
  Micros may_end = kNever;  // no finish that can have taken effect was sent before
  Micros last_running = 0;  // the last proof that it had not ended
};

class SessionChecker {
 public:
  explicit SessionChecker(const History& history) : h_(history) {
    for (const GrantEvent& g : h_.grants) {
      if (g.session.empty()) continue;
      sessions_[{g.queue, g.session}].push_back(&g);
      tenures_[g.token] = {.grant = &g};
    }
    for (auto& [key, grants] : sessions_) {
      std::sort(grants.begin(), grants.end(),
                [](const auto* a, const auto* b) { return a->token < b->token; });
    }
    for (const RetryEvent& retry : h_.retries) {
      if (retry.done != Done::no) revived_.insert(retry.id);
    }
    note_tenures();
    note_enqueues();
  }

  std::vector<Verdict> run() {
    begin("ORD-1 jobs of a session run one at a time");
    for (const auto& [key, grants] : sessions_) alone(grants);
    begin("ORD-1 jobs of a session begin in the order of their enqueue");
    for (const auto& [key, grants] : sessions_) in_order(grants);
    begin("ORD-2 a claim reads the last state of its session");
    states();
    begin("ORD-3 a held session is its holder's alone");
    holders();
    return std::move(verdicts_);
  }

 private:
  struct Enqueued {
    Micros invoke = kNever, ret = kNever;  // the first request, and the first answer
  };

  void begin(std::string invariant) { verdicts_.push_back({std::move(invariant), 0, 0, {}}); }
  template <class Witness>
  void expect(bool holds, Witness&& witness) {
    Verdict& verdict = verdicts_.back();
    ++verdict.checked;
    if (holds) return;
    ++verdict.violated;
    if (verdict.witnesses.size() < kMaxWitnesses) verdict.witnesses.push_back(witness());
  }

  void note_tenures() {
    for (const RenewEvent& renew : h_.renews) {
      const auto found = tenures_.find(renew.token);
      if (found == tenures_.end()) continue;
      Tenure& t = found->second;
      t.renews.push_back(&renew);
      if (!renew.accepted()) continue;
      t.last_running = std::max(t.last_running, renew.at.invoke);
    }
    for (const FinishEvent& finish : h_.finishes) {
      const auto found = tenures_.find(finish.token);
      if (found == tenures_.end() || !finish.possible()) continue;
      Tenure& t = found->second;
      t.may_end = std::min(t.may_end, finish.at.invoke);
      // A repeated complete is accepted too.
      if (finish.accepted() && finish.outcome != "complete")
        t.last_running = std::max(t.last_running, finish.at.invoke);
    }
  }

  void note_enqueues() {
    std::unordered_map<std::int64_t, Enqueued> by_nonce;
    for (const EnqueueEvent& e : h_.enqueues) {
      for (const EnqueuedItem& item : e.jobs) {
        Enqueued& job = by_nonce[item.nonce];
        job.invoke = std::min(job.invoke, e.at.invoke);
        if (e.done == Done::yes) job.ret = std::min(job.ret, e.at.ret);
      }
    }
    for (const GrantEvent& g : h_.grants) {
      const auto found = by_nonce.find(g.nonce);
      if (!g.session.empty() && found != by_nonce.end()) enqueued_[g.id] = found->second;
    }
  }

  // A job stays the head until it has ended: later grants of the session come after its end.
  void alone(const std::vector<const GrantEvent*>& grants) {
    std::map<Id, std::size_t> last;
    for (std::size_t i = 0; i < grants.size(); ++i) {
      const GrantEvent& g = *grants[i];
      const auto before = last.find(g.id);
      const bool apart = before != last.end() && before->second + 1 != i;
      expect(!apart || revived_.contains(g.id), [&] {
        return fmt::format("job {} of session {} was given with token {}, after job {} was", g.id,
                           g.session, g.token, grants[i - 1]->id);
      });
      last[g.id] = i;
      if (i > 0 && grants[i - 1]->id != g.id) after(*grants[i - 1], g);
    }
  }

  void after(const GrantEvent& first, const GrantEvent& next) {
    const Tenure& t = tenures_.at(first.token);
    const bool had_lease = next.at.ret < lease_end(*t.grant, t.renews) - kClockTolerance;
    expect(!(had_lease && next.at.ret < t.may_end) && t.last_running <= next.at.ret, [&] {
      return fmt::format("job {} of session {} was given at {} while job {} ran", next.id,
                         next.session, next.at.ret, first.id);
    });
  }

  void in_order(const std::vector<const GrantEvent*>& grants) {
    std::set<Id> started;
    const GrantEvent* highest = nullptr;
    Micros latest_invoke = 0;  // of those before it
    for (const GrantEvent* g : grants) {
      if (!started.insert(g->id).second || revived_.contains(g->id)) continue;
      expect(highest == nullptr || highest->id < g->id, [&] {
        return fmt::format("job {} of session {} began after job {}", g->id, g->session,
                           highest->id);
      });
      highest = g;
      const auto found = enqueued_.find(g->id);
      if (found == enqueued_.end()) continue;
      expect(found->second.ret >= latest_invoke, [&] {
        return fmt::format("job {} of session {} began after one that was enqueued later", g->id,
                           g->session);
      });
      latest_invoke = std::max(latest_invoke, found->second.invoke);
    }
  }

  void states() {
    std::map<Key, std::vector<const SessionWrite*>> writes;
    for (const SessionWrite& w : h_.session_writes) writes[{w.queue, w.session}].push_back(&w);
    for (const auto& [key, grants] : sessions_) {
      for (const GrantEvent* g : grants) read(*g, writes[key]);
    }
  }

  void read(const GrantEvent& g, const std::vector<const SessionWrite*>& writes) {
    const auto told = [&](std::string_view what) {
      return fmt::format("session {} gave the state \"{}\" with token {}, {}", g.session,
                         g.session_state, g.token, what);
    };
    const auto found = std::find_if(writes.begin(), writes.end(), [&](const SessionWrite* w) {
      return w->state == g.session_state;
    });
    if (found == writes.end() && (g.session_state.empty() && h_.sessions_are_forgotten)) return;
    Micros from = 0;  // states written entirely after it are later
    if (found != writes.end()) {
      expect((*found)->invoke <= g.at.ret, [&] { return told("before it was written"); });
      if ((*found)->acked == 0) return;  // it may have come late
      from = (*found)->acked;
    } else {
      expect(g.session_state.empty(), [&] { return told("which no worker wrote"); });
    }
    for (const SessionWrite* later : writes) {
      if (later->acked == 0 || later->invoke <= from || later->acked >= g.at.invoke) continue;
      expect(false, [&] { return told("when " + later->state + " had been written"); });
    }
  }

  void holders() {
    for (const SessionHold& hold : h_.session_holds) {
      const auto grants = sessions_.find({hold.queue, hold.session});
      const Micros until = hold.valid_until - kClockTolerance;
      if (grants == sessions_.end()) continue;
      for (const GrantEvent* g : grants->second) {
        if (g->token < hold.token || g->hold == hold.token) continue;
        expect(g->at.ret >= until, [&] {
          return fmt::format("job {} was given at {} while session {} was held with token {}",
                             g->id, g->at.ret, hold.session, hold.token);
        });
      }
    }
    held_by_one();
  }

  void held_by_one() {
    std::map<Key, std::vector<const SessionHold*>> by_session;
    for (const SessionHold& hold : h_.session_holds)
      by_session[{hold.queue, hold.session}].push_back(&hold);
    for (const auto& [key, holds] : by_session) {
      for (const SessionHold* a : holds) {
        for (const SessionHold* b : holds) {
          if (b->token <= a->token) continue;
          expect(b->granted >= a->valid_until - kClockTolerance, [&] {
            return fmt::format("session {} was held with token {} and with token {}", a->session,
                               a->token, b->token);
          });
        }
      }
    }
  }

  const History& h_;
  std::map<Key, std::vector<const GrantEvent*>> sessions_;
  std::unordered_map<std::int64_t, Tenure> tenures_;  // by token
  std::unordered_map<Id, Enqueued> enqueued_;
  std::set<Id> revived_;  // perhaps
  std::vector<Verdict> verdicts_;
};

}  // namespace

std::vector<Verdict> check_sessions(const History& history) {
  return SessionChecker(history).run();
}

}  // namespace blackbox
