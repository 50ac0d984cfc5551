// Context: gives a handler its job, and sends its progress and messages to the server.
//
// All methods are thread-safe while the handler runs. The context ends with the handler.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

// Why a handler should stop.
enum class StopReason : std::uint8_t {
  none,        // it should not stop
  cancelled,   // the job was cancelled
  lease_lost,  // the lease has ended or is about to: another worker may get the job
  timeout,     // the attempt's time limit has passed
  shutdown,    // this worker stops; the attempt is not counted
};
std::string_view to_string(StopReason reason);

class Context {
 public:
  virtual ~Context() = default;

  // Args, attempt, the last attempt's checkpoint, headers, tags, … `token` is the fencing token: it
  // grows with every attempt. Pass it to systems that you write to.
  virtual const ClaimedJob& job() const = 0;
  // A text that is the same in every attempt of this job and differs between jobs. Only the jobs of
  // one workflow step share it, and so do the jobs of its undo. Pass it to services that can refuse
  // a repeated request.
  virtual std::string idempotency_key() const = 0;

  // Stop is requested when the handler should stop. Its return value still counts: a Complete
  // counts if this worker still holds the job; a failure after a cancel is a cancel; after a
  // shutdown or a lost lease the job is returned and the attempt is not counted.
  virtual std::stop_token stop_token() const = 0;
  virtual StopReason stop_reason() const = 0;
  bool stop_requested() const { return stop_token().stop_requested(); }

  // Progress, 0 to 1 (clamped), for people and for follow-ups on progress (FollowUp::kProgress).
  // Sent within kReportInterval; the last value wins.
  virtual void progress(double value, std::string_view text = {}) = 0;
  // JSON that the next attempt finds in job().checkpoint if this one fails. Sent within
  // kReportInterval; the last value wins. It is durable when flush() returns, and before the
  // attempt's failure is. Errors: too_large (kMaxCheckpointBytes), invalid_argument (not JSON).
  virtual Result<void> checkpoint(std::string json) = 0;
  // The state of the job's session as it was claimed, JSON, "" = none.
  const std::string& session_state() const { return job().session_state; }
  // Sets the session's state, JSON, "" = none; the last value wins. It is stored in the transaction
  // that ends the attempt, unless the attempt failed: an error, a Retry or a returned job leaves
  // the state unchanged. Errors: conflict (the job has no session), too_large (256 KiB),
  // invalid_argument (not JSON).
  virtual Result<void> set_session_state(std::string json) = 0;
  // Sends a message (JSON) to the job's reply_to queue and to follow-ups on messages
  // (FollowUp::kMessage). Without either it is dropped. All messages are sent in order within
  // kReportInterval. They are durable when flush() returns, and before the attempt's outcome is. A
  // message may arrive twice after a lost answer of the server; both copies have the same number
  // ("seq"). Blocks while kMaxUnsentMessages are unsent. Errors: too_large (kMaxMessageBytes),
  // invalid_argument (not JSON), conflict (the lease is lost, or stop is requested and the buffer
  // is full), and the server's error if it refused a message: then the attempt counts as failed.
  virtual Result<void> send(std::string json) = 0;
  // Reports an ignored remark about the job. It is logged once per fault, counted in
  // mainspring_program_remarks_ignored_total, and shown as the job's warning. It does not change
  // the outcome.
  virtual void ignore(RemarkFault fault, std::string_view text) = 0;
  // Waits until progress, checkpoint and messages so far are stored. Errors: conflict (the lease is
  // lost; at the latest after the server has not answered for most of a lease), and the server's
  // error if it refuses them permanently.
  virtual Result<void> flush() = 0;

  // Runs one step of a long job, so that a later attempt resumes after it. Returns the result that
  // an earlier attempt of this job saved under `name`. If there is none, calls `run`, saves its
  // result (JSON) durably, and returns it. An error of `run` is returned and not saved; then, or
  // when the worker dies before the result is saved, the next attempt runs the step again. Name: 1
  // to 64 of [A-Za-z0-9_-], unique per step. Results stay until the job is completed or pruned.
  // Errors: conflict (the lease is lost; stop is requested and `run` was not called; two threads
  // use one name), too_large (kMaxMemoBytes, kMaxMemos), invalid_argument (the name, not JSON), and
  // the server's errors.
  Result<std::string> step(std::string_view name, const std::function<Result<std::string>()>& run);
  // The two halves of step(): load the result saved under `name`; save one, durable on return.
  virtual Result<std::optional<std::string>> recall(std::string_view name) = 0;
  virtual Result<void> remember(std::string_view name, std::string json) = 0;

  static constexpr Duration kReportInterval = std::chrono::milliseconds(100);
  static constexpr std::size_t kMaxUnsentMessages = 64;
};

}  // namespace mainspring
