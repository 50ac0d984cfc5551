// Callbacks: posts to their URLs what jobs of the callback queue say, signed.
//
//   job ends ─▶ follow-up in mainspring.callbacks ─claim─▶ slot: sign, post ─▶ finish
//                                                           │ 2xx    completed
//                                                           │ 410    cancelled, "gone"; and what
//                                                           │        else the job has for that URL
//                                                           └ else   retried, then dead
//
// A delivery is a job: its retries, its dead letter, its record are those of every job, and what a
// node that died had posted and not finished is posted again by another, under the same id.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/jobs.h"
#include "callbacks/signature.h"
#include "env/clock.h"
#include "env/random.h"
#include "model/callback.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

struct CallbackOptions {
  // Posts at once. Raise if receivers are slow and many; each is a thread. 0 = this node posts
  // none.
  int slots = 8;
  // Of one post, from the look-up of its name to the end of the answer.
  Duration timeout = std::chrono::seconds(15);
  std::vector<std::string> outgoing_allow;  // see OutgoingOptions

  std::vector<Error> validate() const;
};

class Callbacks {
 public:
  static constexpr int kMaxSlots = 1024;
  static constexpr int kMaxAttempts = kCallbackAttempts;
  static constexpr Duration kFirstDelay = std::chrono::seconds(5);  // doubles, ± 20 %, up to
  static constexpr Duration kMaxDelay = std::chrono::hours(1);
  // stop() lets posts go on for four fifths of it; those it ends are made again.
  static constexpr Duration kGracefulStop = std::chrono::seconds(5);

  // Asked before each post, from several threads: it keeps what does not change.
  using Keys = std::function<Result<SigningKeys>()>;

  // All references outlive it. Errors: invalid_argument (the first of validate(); outgoing_allow),
  // io_error.
  static Result<std::unique_ptr<Callbacks>> open(CallbackOptions options, Jobs& jobs, Keys keys,
                                                 const Clock& clock, Random& random, Log& log,
                                                 Registry& registry);
  ~Callbacks();  // stops
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // May a callback go there, as far as that can be known without looking up a name? From every
  // thread. Errors: invalid_argument, field url.
  Result<void> check(const std::string& url) const;

  // Once. The jobs' broker must run.
  void start();
  // May be called twice, before start too; waits. Before the broker stops.
  void stop();

 private:
  struct Impl;
  explicit Callbacks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
