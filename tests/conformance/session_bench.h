// SessionBench: a Bench with short names for sessions, their holders and ready queues.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "conformance/bench.h"

namespace mainspring::conformance {

class SessionBench : public Bench {
 public:
  using Bench::Bench;
  using Bench::enqueue;

  NewJob in(const std::string& key, std::string queue = "q") const {
    NewJob j = job(std::move(queue));
    j.session = key;
    return j;
  }
  NewJob in(const std::string& key, OnDead on_dead) const {
    NewJob j = in(key);
    j.on_dead = on_dead;
    return j;
  }
  // One job.
  JobId put(const std::string& key) { return enqueue(in(key)); }
  std::vector<JobId> put(const std::string& key, int n) {
    std::vector<JobId> all;
    for (int i = 0; i < n; ++i) all.push_back(put(key));
    return all;
  }
  void complete(const ClaimedJob& job) { CHECK(finish(job, Complete{}) == FinishStatus::ok); }
  // Claims and requires this job.
  ClaimedJob start(JobId id) {
    const ClaimedJob job = claim_one();
    REQUIRE(job.id == id);
    return job;
  }
  void die(JobId id) { CHECK(finish(start(id), Dead{"poison", ""}) == FinishStatus::ok); }
  FinishStatus finish_with(const ClaimedJob& job, Outcome outcome,
                           std::optional<std::string> state) {
    Finish f{.worker = "w1", .results = {}};
    f.results.push_back({job.id, job.token, std::move(outcome), std::move(state)});
    return one<FinishResult>(std::move(f)).results.at(0);
  }

  // -- the session ----------------------------------------------------------------------------
  static SessionKey key_of(const std::string& key, const std::string& queue = "q") {
    return {.queue = queue, .key = key};
  }
  SessionInfo info(const std::string& key, const std::string& queue = "q") const {
    auto found = store->session(key_of(key, queue), clock.now().instant);
    if (!found) FAIL("session " << key << ": " << found.error().message);
    return *found;
  }
  bool gone(const std::string& key) const {
    const auto found = store->session(key_of(key), clock.now().instant);
    return !found && found.error().code == ErrorCode::not_found;
  }
  void resume(const std::string& key) { one<Done>(ResumeSession{.session = key_of(key)}); }
  void put_state(const std::string& key, Token token, std::string state) {
    one<Done>(PutSessionState{.session = key_of(key), .token = token, .state = std::move(state)});
  }
  ErrorCode put_state_refused(const std::string& key, Token token, std::string state = "1") {
    return refused(
        PutSessionState{.session = key_of(key), .token = token, .state = std::move(state)});
  }

  // -- its holder -----------------------------------------------------------------------------
  AcceptSession accepting(const std::string& key, std::string worker = "h1",
                          Duration lease = seconds(30)) const {
    return {.worker = std::move(worker), .session = key_of(key), .lease = lease};
  }
  SessionGrant accept(const std::string& key, std::string worker = "h1",
                      Duration lease = seconds(30)) {
    return one<SessionGrant>(accepting(key, std::move(worker), lease));
  }
  SessionGrant renew_hold(const SessionGrant& g, Duration lease = Duration(0)) {
    return one<SessionGrant>(RenewSession{.session = g.session, .token = g.token, .lease = lease});
  }
  void release(const SessionGrant& g) {
    one<Done>(ReleaseSession{.session = g.session, .token = g.token});
  }
  // All operations that need its token.
  bool lost(const SessionGrant& g) {
    const ErrorCode lost = ErrorCode::lease_lost;
    return refused(RenewSession{.session = g.session, .token = g.token}) == lost &&
           refused(ReleaseSession{.session = g.session, .token = g.token}) == lost &&
           refused(PutSessionState{.session = g.session, .token = g.token, .state = "1"}) == lost &&
           refused(line_claim(g)) == lost;
  }
  static Claim line_claim(const SessionGrant& g) {
    return {.worker = "h1",
            .queues = {session_queue(g.session)},
            .kinds = {},
            .max = 1,
            .session_token = g.token};
  }
  std::vector<ClaimedJob> claim_held(const SessionGrant& g) {
    return one<ClaimResult>(line_claim(g)).jobs;
  }
  ClaimedJob start_held(const SessionGrant& g, JobId id) {
    const auto jobs = claim_held(g);
    REQUIRE(ids(jobs) == std::vector<JobId>{id});
    return jobs[0];
  }
  ClaimResult accept_next(std::string worker = "h1", Duration lease = seconds(30)) {
    return one<ClaimResult>(Claim{.worker = std::move(worker),
                                  .queues = {accept_queue("q")},
                                  .kinds = {},
                                  .max = 1,
                                  .lease = lease});
  }

  // -- lines ----------------------------------------------------------------------------------
  // The ready queues that the last batch made available, sorted: "q" is the queue, "~" its accept
  // queue, "?…" another name, and anything else the key of a session of q.
  std::string lines() const {
    std::vector<std::string> all;
    for (const std::string& name : effects().available) {
      const auto session = parse_session_queue(name);
      if (session) {
        all.push_back(session->key);
      } else {
        all.push_back(name == "q" ? "q" : name == accept_queue("q") ? "~" : "?" + name);
      }
    }
    std::sort(all.begin(), all.end());
    std::string text;
    for (const std::string& name : all) text += (text.empty() ? "" : " ") + name;
    return text;
  }
  bool has_line(const std::string& key) const {
    return store->has_available(session_queue(key_of(key)));
  }
  bool has_next() const { return store->has_available(accept_queue("q")); }
};

}  // namespace mainspring::conformance
