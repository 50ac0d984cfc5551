// The details of a job that the model store puts into its follow-ups.
#pragma once

#include <vector>

#include "api/follow_ups.h"
#include "store/operations.h"

namespace mainspring {

inline EndedJob as_seen(const Job& j, Duration reply_expires_in) {
  return {.id = j.id,
          .queue = j.queue,
          .kind = j.kind,
          .state = j.state,
          .attempt = j.attempt,
          .trigger_depth = j.trigger_depth,
          .result = j.result,
          .reason = j.reason,
          .description = j.description,
          .tags = j.tags,
          .headers = j.headers,
          .correlation_id = j.correlation_id,
          .reply_to = j.reply_to,
          .reply_session = j.reply_session,
          .reply_expires_in = reply_expires_in,
          .follow_ups = j.follow_ups};
}

inline void keep_next(const Outcome& outcome, int trigger_depth, std::vector<NewJob>& posted) {
  const auto* complete = std::get_if<Complete>(&outcome);
  if (complete == nullptr) return;
  for (const NewJob& next : complete->next) posted.emplace_back(next).trigger_depth = trigger_depth;
}

// Also gives it the progress.
inline std::vector<NewJob> follow_renewal(Job& j, const Renewal& renewal,
                                          Duration reply_expires_in) {
  const bool progressed = renewal.progress && j.progress != renewal.progress;
  if (renewal.progress) j.progress = renewal.progress;
  return follow_news({.from = as_seen(j, reply_expires_in),
                      .progress = j.progress,
                      .progressed = progressed,
                      .token = j.token,
                      .first_seq = renewal.first_seq,
                      .messages = renewal.messages});
}

}  // namespace mainspring
