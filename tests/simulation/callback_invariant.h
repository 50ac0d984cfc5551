// RES: the callbacks of jobs, as a receiver sees them.
//
//   RES-1a  each end of a job with a callback has a delivery, and nothing else has one; it is
//           posted until the receiver answers 2xx or 410, or it is dead
//   RES-1b  every post of a delivery has the same id, URL and bytes, and is signed; no two
//           deliveries share an id
//   RES-1c  a post is true: the job ended with that state and that result
//   RES-1d  an ended delivery is not posted again, neither after 2xx nor after 410
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "callbacks/delivery.h"
#include "mainspring/job.h"

namespace mainspring::simulation {

class CallbackInvariant {
 public:
  CallbackInvariant();
  // A job has a callback on these ends.
  FollowUp ask(std::uint8_t on);
  const SigningKeys& keys() const { return keys_; }
  // An operator retries a job or a delivery: it may end, and make its follow-ups, again.
  void retries(JobId id) {
    ++retries_[id];
    ended_.erase(id);
  }

  // A post arrives, made from this job of the callback queue under this token. `of` is the job that
  // ended, as the store has it (nullopt = it cannot be read now). "" = the invariant holds.
  static JobId of(const Job& delivery);
  std::string posted(const Job& delivery, Token token, const OutgoingRequest& request,
                     const std::optional<Result<Job>>& of, WallTime now);
  // The receiver's answer to it, even if the answer was lost.
  void answered(JobId delivery, int status);
  // The end of the delivery under this token was acknowledged.
  void ended(JobId delivery, Token token) { ended_[delivery] = token; }

  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t delivered = 0, gone = 0, dead = 0;  // deliveries
    std::int64_t repeated = 0;                       // posts of a delivery after the first
    std::string broken;                              // "" = the invariant holds
  };
  Verdict check() const;

 private:
  struct Post {
    std::string id, url, body;
    bool taken = false, gone = false;  // by the receiver's answer
  };
  std::string check_signed(const OutgoingRequest& request, const Post& post, WallTime now) const;
  std::string check_ends(const Job& job) const;
  std::string check_delivery(const Job& delivery, Verdict& verdict) const;

  SigningKeys keys_;
  std::int64_t asked_ = 0, repeated_ = 0;
  std::map<JobId, std::int64_t> retries_;
  std::map<JobId, Post> posts_;         // by delivery
  std::map<std::string, JobId> by_id_;  // its delivery
  std::map<JobId, Token> ended_;
  std::map<JobId, Job> jobs_, deliveries_;
  std::map<std::pair<JobId, std::int64_t>, std::int64_t> made_;  // by job and request
};

}  // namespace mainspring::simulation
