// Saved step results: results of earlier attempts are loaded when a handler needs them; new results
// are sent with the next renewal, which is made at once.
#include <fmt/format.h>

#include "base/mutant.h"
#include "worker/state.h"

namespace mainspring {
namespace {

Error lease_lost(JobId id) {
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("job {}: its lease is lost", id)};
}

}  // namespace

Result<std::string> Context::step(std::string_view name,
                                  const std::function<Result<std::string>()>& run) {
  MS_TRY_ASSIGN(std::optional<std::string> kept, recall(name));
  if (kept) return std::move(*kept);
  if (stop_requested()) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("step {} did not start: {}", name, to_string(stop_reason()))};
  }
  MS_TRY_ASSIGN(std::string result, run());
  MS_TRY(remember(name, result));
  return result;
}

Result<std::optional<std::string>> WorkerRuntime::State::recall(Attempt& attempt,
                                                                std::string_view name) {
  const std::string from(name);
  Pauses pauses(random);
  for (;;) {
    {
      MutexLock lock(mutex);
      if (attempt.lost) return lease_lost(attempt.job.id);
      if (!attempt.job.has_memos && !attempt.memo_names.contains(name)) return std::nullopt;
    }
    Result<MemoPage> page = jobs.memos(attempt.job.id, from, 1);
    MutexLock lock(mutex);
    if (attempt.lost) return lease_lost(attempt.job.id);
    if (page) {
      if (page->memos.empty() || page->memos.front().name != name) return std::nullopt;
      return std::move(page->memos.front().result);
    }
    const bool hopeless = info(page.error().code).retryable == Retryable::no ||
                          attempt.reason.load() != StopReason::none;
    if (hopeless) return std::move(page.error());
    stored_cv.wait_for(mutex, pauses.next(page.error()));
  }
}

Result<void> WorkerRuntime::State::remember(Attempt& attempt, Memo memo) {
  MutexLock lock(mutex);
  if (attempt.lost) return lease_lost(attempt.job.id);
  if (!attempt.memo_names.insert(memo.name).second) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("step {}: this attempt has run it before", memo.name)};
  }
  const auto waiting =
      std::make_shared<Attempt::NewMemo>(Attempt::NewMemo{std::move(memo), std::nullopt});
  attempt.memos.push_back(waiting);
  ++flushing;
  renewer_cv.notify_one();
  while (!waiting->answer && !attempt.lost && !MS_MUTANT(step_does_not_wait)) {
    stored_cv.wait(mutex);
  }
  --flushing;
  if (waiting->answer) return *waiting->answer;
  if (MS_MUTANT(step_does_not_wait)) return {};
  return lease_lost(attempt.job.id);
}

// Takes the results that fit, at least one. Returns their number.
std::size_t WorkerRuntime::State::take_memos(const Attempt& attempt, Renewal& renewal,
                                             std::size_t& bytes) {
  for (const auto& waiting : attempt.memos) {
    const std::size_t size = waiting->memo.result.size();
    const bool fits = renewal.memos.empty() || bytes + size <= kMaxCallBytes;
    if (!fits || renewal.memos.size() >= kMaxRenewalMemos) break;
    bytes += size;
    renewal.memos.push_back(waiting->memo);
  }
  return renewal.memos.size();
}

void WorkerRuntime::State::answer_memos(Attempt& attempt, std::size_t count,
                                        const Result<void>& answer) {
  for (; count > 0; --count) {
    attempt.memos.front()->answer = answer;
    attempt.memos.pop_front();
  }
}

}  // namespace mainspring
