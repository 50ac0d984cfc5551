// RES: the callbacks of jobs, as a receiver sees them.
//
//   RES-1a  of each end of a job that asked for one there is a delivery, and of nothing else; it is
//           posted until the receiver says 2xx or 410, or it is dead
//   RES-1b  every post of a delivery has the same id, URL and bytes, and is signed; no two
//           deliveries share an id
//   RES-1c  what is posted has happened: the job ended like that, and its result is that one
//   RES-1d  what has ended is not posted again: neither what was taken nor what is not wanted
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "callbacks/delivery.h"
#include "mainspring/job.h"

namespace mainspring::simulation {

class CallbackLaw {
 public:
  CallbackLaw();
  // What a job asks for: a callback on these ends.
  FollowUp ask(std::uint8_t on);
  const SigningKeys& keys() const { return keys_; }
  // An operator asks for it, of a job or of a delivery; it may end, and be followed, again.
  void retries(JobId id) {
    ++retries_[id];
    ended_.erase(id);
  }

  // A post arrives, made of this job of the callback queue under this token; `of` is the job that
  // it speaks of, as the store has it (nullopt = it cannot be read now). "" = the law holds.
  static JobId of(const Job& delivery);
  std::string posted(const Job& delivery, Token token, const OutgoingRequest& request,
                     const std::optional<Result<Job>>& of, WallTime now);
  // What the receiver said to it, whoever heard it.
  void answered(JobId delivery, int status);
  // The end of the delivery under this token was acknowledged.
  void ended(JobId delivery, Token token) { ended_[delivery] = token; }

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t delivered = 0, gone = 0, dead = 0;  // deliveries
    std::int64_t repeated = 0;                       // posts of a delivery behind the first
    std::string broken;                              // "" = the law holds
  };
  Verdict check() const;

 private:
  struct Post {
    std::string id, url, body;
    bool taken = false, gone = false;  // the receiver said so
  };
  std::string check_signed(const OutgoingRequest& request, const Post& post, WallTime now) const;
  std::string check_ends(const Job& job) const;
  std::string check_delivery(const Job& delivery, Verdict& verdict) const;

  SigningKeys keys_;
  std::int64_t asked_ = 0, repeated_ = 0;
  std::map<JobId, std::int64_t> retries_;
  std::map<JobId, Post> posts_;         // by delivery
  std::map<std::string, JobId> by_id_;  // whose it is
  std::map<JobId, Token> ended_;
  std::map<JobId, Job> jobs_, deliveries_;
  std::map<std::pair<JobId, std::int64_t>, std::int64_t> made_;  // by job and what was asked
};

}  // namespace mainspring::simulation
