// Callbacks: sends the jobs of the callback queue as signed requests to their URLs.
//
//   job ends ─▶ follow-up in mainspring.callbacks ─claim─▶ slot: sign, post ─▶ finish
//                                                           │ 2xx    completed
//                                                           │ 410    cancelled, "gone"; and what
//                                                           │        else the job has for that URL
//                                                           └ else   retried, then dead
//
// A delivery is a job, with the retries, dead letter and record of a job. If a node dies during a
// delivery, another node sends it again with the same id.
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
  // Concurrent requests, one thread each. Raise if receivers are slow and many. 0 = this node sends
  // none.
  int slots = 8;
  // Of one request, from the look-up of its name to the end of the answer.
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
  // stop() lets requests run for four fifths of it; interrupted ones are sent again.
  static constexpr Duration kGracefulStop = std::chrono::seconds(5);

  // Called before each request, from several threads: should cache the keys.
  using Keys = std::function<Result<SigningKeys>()>;

  // All references outlive it. Errors: invalid_argument (the first of validate(); outgoing_allow),
  // io_error.
  static Result<std::unique_ptr<Callbacks>> open(CallbackOptions options, Jobs& jobs, Keys keys,
                                                 const Clock& clock, Random& random, Log& log,
                                                 Registry& registry);
  ~Callbacks();  // stops
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Checks whether a callback may go to this URL, without looking up its name. Thread-safe. Errors:
  // invalid_argument, field url.
  Result<void> check(const std::string& url) const;

  // May be called once. The jobs' broker must run.
  void start();
  // Blocks. May be called twice, and before start. Call before the broker stops.
  void stop();

 private:
  struct Impl;
  explicit Callbacks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
