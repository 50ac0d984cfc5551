// Reads leases from batches.
#include "test_server/held_leases.h"

#include <algorithm>

namespace mainspring {

template <class Visit>
void HeldLeases::each(Visit visit) const {
  for (const auto& [id, lease] : jobs_) visit(lease);
  for (const auto& [name, lease] : locks_) visit(lease);
  for (const auto& [key, lease] : sessions_) visit(lease);
}

void HeldLeases::note_session(const SessionGrant& grant, const std::string& worker, Now now) {
  HeldLease& lease = sessions_[{grant.session.queue, grant.session.key}];
  const bool same = lease.token == grant.token;
  lease = {.kind = HeldLease::Kind::session,
           .queue = grant.session.queue,
           .name = grant.session.key,
           .holder = same ? lease.holder : worker,
           .token = grant.token,
           .length = grant.lease,
           .ends = now.wall + grant.lease,
           .renewed = same};
}

void HeldLeases::note_claim(const Claim& claim, const ClaimResult& result, Now now) {
  for (const ClaimedJob& job : result.jobs) {
    jobs_[job.id] = {.kind = HeldLease::Kind::job,
                     .job = job.id,
                     .queue = job.queue,
                     .holder = claim.worker,
                     .token = job.token,
                     .length = job.lease,
                     .ends = now.wall + job.lease};
  }
  if (result.session) note_session(*result.session, claim.worker, now);
}

void HeldLeases::note_lock(const Operation& operation, const LeaseGrant& grant, Now now) {
  const auto* acquire = std::get_if<AcquireLease>(&operation);
  const auto* renew = std::get_if<RenewLease>(&operation);
  const std::string& name = acquire != nullptr ? acquire->name : renew->name;
  if (name.starts_with(kReservedLeases)) return;
  locks_[name] = {.kind = HeldLease::Kind::lock,
                  .name = name,
                  .holder = acquire != nullptr ? acquire->holder : renew->holder,
                  .token = grant.token,
                  .length = grant.ttl,
                  .ends = now.wall + grant.ttl,
                  .renewed = grant.held};
}

void HeldLeases::note(std::span<const Operation> batch, const BatchReport& report, Now now) {
  // Before the grants: a job that ended an attempt may be handed out again in the same batch.
  for (const auto* gone :
       {&report.effects.ended, &report.effects.again, &report.effects.quarantined}) {
    for (const JobId id : *gone) drop_job(id);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Operation& operation = batch[i];
    const OperationResult& result = report.results[i];
    if (const auto* claimed = std::get_if<ClaimResult>(&result)) {
      note_claim(std::get<Claim>(operation), *claimed, now);
    } else if (const auto* renewed = std::get_if<RenewResult>(&result)) {
      for (const Renewed& one : renewed->renewed) {
        const auto found = jobs_.find(one.id);
        if (found == jobs_.end()) continue;
        found->second.ends = now.wall + one.lease;
        found->second.renewed = true;
      }
    } else if (const auto* finished = std::get_if<FinishResult>(&result)) {
      const Finish& finish = std::get<Finish>(operation);
      for (std::size_t n = 0; n < finished->results.size(); ++n) {
        const JobOutcome& outcome = finish.results[n];
        if (finished->results[n] == FinishStatus::ok && find(outcome.id, outcome.token) != nullptr)
          drop_job(outcome.id);
      }
    } else if (const auto* session = std::get_if<SessionGrant>(&result)) {
      const auto* accept = std::get_if<AcceptSession>(&operation);
      note_session(*session, accept == nullptr ? std::string() : accept->worker, now);
    } else if (const auto* grant = std::get_if<LeaseGrant>(&result)) {
      note_lock(operation, *grant, now);
    } else if (const auto* release = std::get_if<ReleaseSession>(&operation)) {
      if (std::holds_alternative<Done>(result))
        sessions_.erase({release->session.queue, release->session.key});
    }
  }
  for (const std::string& name : report.effects.released) {
    const bool taken_again = std::any_of(batch.begin(), batch.end(), [&](const Operation& op) {
      const auto* acquire = std::get_if<AcquireLease>(&op);
      return acquire != nullptr && acquire->name == name;
    });
    if (!taken_again) locks_.erase(name);
  }
}

HeldLease* HeldLeases::find(JobId job, Token token) {
  const auto found = jobs_.find(job);
  return found == jobs_.end() || found->second.token != token ? nullptr : &found->second;
}

std::vector<HeldLease> HeldLeases::ending(WallTime until) const {
  std::vector<HeldLease> out;
  each([&](const HeldLease& lease) {
    if (lease.ends <= until) out.push_back(lease);
  });
  std::stable_sort(out.begin(), out.end(),
                   [](const HeldLease& a, const HeldLease& b) { return a.ends < b.ends; });
  return out;
}

WallTime HeldLeases::next_end(WallTime after) const {
  WallTime next = WallTime::never();
  each([&](const HeldLease& lease) {
    if (lease.ends > after) next = std::min(next, lease.ends);
  });
  return next;
}

void HeldLeases::keep(const HeldLease& kept, WallTime at) {
  const auto renew = [&](auto& leases, const auto& key) {
    const auto found = leases.find(key);
    if (found != leases.end() && found->second.token == kept.token)
      found->second.ends = at + kept.length;
  };
  switch (kept.kind) {
    case HeldLease::Kind::job:
      return renew(jobs_, kept.job);
    case HeldLease::Kind::lock:
      return renew(locks_, kept.name);
    case HeldLease::Kind::session:
      return renew(sessions_, std::pair(kept.queue, kept.name));
  }
}

std::vector<HeldLease> HeldLeases::all() const {
  std::vector<HeldLease> out;
  each([&](const HeldLease& lease) { out.push_back(lease); });
  return out;
}

}  // namespace mainspring
