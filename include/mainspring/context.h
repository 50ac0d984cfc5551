// Context: what a handler is told about its job, and what it can say while it works.
//
// Every method may be called from every thread while the handler runs; the context ends with it.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

// Why a handler should come to an end.
enum class StopReason : std::uint8_t {
  none,        // it should not
  cancelled,   // somebody cancelled the job
  lease_lost,  // the lease is over, or about to be: another worker may get the job
  timeout,     // the attempt's time limit has passed
  shutdown,    // this worker is ending; the attempt will not be counted
};
std::string_view to_string(StopReason reason);

class Context {
 public:
  virtual ~Context() = default;

  // Args, attempt, fencing token (`token`, grows with every attempt: hand it to whatever you write
  // to), the last attempt's checkpoint, headers, tags, …
  virtual const ClaimedJob& job() const = 0;
  // The same text in every attempt of this job, and no other job's, but those that a workflow makes
  // for the same step, or for its undo: hand it to services that can refuse to do a thing twice.
  virtual std::string idempotency_key() const = 0;

  // Requested when the handler should come to an end. Whatever it returns then is still weighed:
  // a Complete counts if the job is still ours; a failure after a cancel is a cancel, after a
  // shutdown or a lost lease the attempt is given back.
  virtual std::stop_token stop_token() const = 0;
  virtual StopReason stop_reason() const = 0;
  bool stop_requested() const { return stop_token().stop_requested(); }

  // How far it is, 0 to 1 (clamped), for people, and for follow-ups on progress
  // (FollowUp::kProgress); sent within kReportInterval, the last one wins.
  virtual void progress(double value, std::string_view text = {}) = 0;
  // JSON that the next attempt will find in job().checkpoint if this one fails. Sent within
  // kReportInterval, the last one wins; it is durable when flush() returns, and before the
  // attempt's failure is. Errors: too_large (kMaxCheckpointBytes), invalid_argument (not JSON).
  virtual Result<void> checkpoint(std::string json) = 0;
  // The state of the job's session as it was claimed, JSON, "" = none.
  const std::string& session_state() const { return job().session_state; }
  // The state from now on, JSON, "" = none; the last one wins. It is kept in the transaction that
  // ends the attempt, and only if that has not failed: an error, a Retry, an attempt that is given
  // back leave the state as it was. Errors: conflict (the job has no session), too_large
  // (256 KiB), invalid_argument (not JSON).
  virtual Result<void> set_session_state(std::string json) = 0;
  // JSON for whoever waits for this job's answer: its reply_to, and follow-ups on messages
  // (FollowUp::kMessage); it goes nowhere if nobody asked. All are sent, in their order, within
  // kReportInterval; they are made when flush() returns, and before the attempt's outcome is. One
  // may be made twice if an answer of the server was lost; both have the same number ("seq"). Waits
  // while kMaxUnsentMessages are on their way. Errors: too_large (kMaxMessageBytes),
  // invalid_argument (not JSON), conflict (the lease is lost, or the handler is told to stop and
  // there is no room), and the server's if it refused one: then the attempt will count as failed.
  virtual Result<void> send(std::string json) = 0;
  // Reports something that was said about the job and is ignored: it is logged once per fault,
  // counted in mainspring_program_remarks_ignored_total, and shown as the job's warning. It does
  // not change the outcome.
  virtual void ignore(RemarkFault fault, std::string_view text) = 0;
  // Waits until progress, checkpoint and messages so far are stored. Errors: conflict (the lease is
  // lost; at the latest that happens when the server has not answered for most of a lease), and the
  // server's if it refuses them for good.
  virtual Result<void> flush() = 0;

  // A step of a long job, so that it resumes where it was: answers the result that an earlier
  // attempt of this job kept under `name`, or runs `run`, keeps what it answers (JSON), durably,
  // and answers it. An error of `run` is answered and not kept; then, or when the worker dies
  // before the result is kept, the next attempt runs it again. Name: 1 to 64 of [A-Za-z0-9_-], of
  // its own for each step. Results stay until the job is completed, or pruned. Errors: conflict
  // (the lease is lost; the handler is told to stop, and `run` was not begun; two threads are at
  // one name), too_large (kMaxMemoBytes, kMaxMemos), invalid_argument (the name, not JSON), and the
  // server's.
  Result<std::string> step(std::string_view name, const std::function<Result<std::string>()>& run);
  // The two halves of it: what is kept under `name`, and to keep it, durably when it returns.
  virtual Result<std::optional<std::string>> recall(std::string_view name) = 0;
  virtual Result<void> remember(std::string_view name, std::string json) = 0;

  static constexpr Duration kReportInterval = std::chrono::milliseconds(100);
  static constexpr std::size_t kMaxUnsentMessages = 64;
};

}  // namespace mainspring
