// Jobs made when another job ends, or reports progress or messages while it runs.
#include <utility>

#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

EndedJob SqlStore::read_ended(JobId id) {
  Statement& row = sql_->select_ended;
  row.bind(id);
  ResetGuard guard(row);
  EndedJob ended{.id = id};
  if (!row.step()) return ended;
  ended.queue = row.text(0);
  ended.kind = row.text(1);
  ended.state = row.one_of(2, JobState::dead);
  ended.attempt = static_cast<int>(row.integer(3));
  ended.result = row.text(4);
  ended.reason = row.text(5);
  ended.description = row.text(6);
  ended.tags = split_tags(row.text(7));
  ended.headers = row.text(8);
  ended.correlation_id = row.text(9);
  ended.reply_to = row.text(10);
  ended.reply_session = row.text(12);
  ended.reply_expires_in = options_.store.retention_replies;
  ended.trigger_depth = depth_of(static_cast<int>(row.integer(13)));
  auto follow_ups = decode_follow_ups(row.text(11));
  if (follow_ups) {
    ended.follow_ups = std::move(*follow_ups);
  } else {
    log_.error("the follow-ups of a job cannot be read: none are created",
               {{"job", std::to_string(id)}, {"message", follow_ups.error().message}});
  }
  return ended;
}

std::optional<Progress> SqlStore::read_progress(JobId id) {
  Statement& row = sql_->select_progress;
  row.bind(id);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  return Progress{row.real(0), std::string(row.text(1))};
}

// Makes the follow-ups of the progress and messages of a renewal. `last`: the job's progress before
// it.
void SqlStore::make_news(const Renewal& renewal, const Lease& lease,
                         const std::optional<Progress>& last) {
  const auto& progress = renewal.progress;
  const bool same = last && progress && last->value == progress->value &&
                    (last->text == progress->text || MS_MUTANT(progress_text_ignored));
  const bool progressed = progress && (!same || MS_MUTANT(progress_repeated_is_news));
  if (!progressed && renewal.messages.empty()) return;
  News news{.from = read_ended(renewal.id),
            .progress = progress ? progress : last,
            .progressed = progressed,
            .token = lease.token,
            .first_seq = renewal.first_seq,
            .messages = renewal.messages};
  // The row does not know the current attempt, and may describe an earlier one.
  news.from.state = JobState::running;
  news.from.attempt = lease.attempt;
  news.from.result = news.from.reason = news.from.description = "";
  for (const NewJob& job : follow_news(news)) {
    begin_write();
    made_.push_back(make_job(job, now_.wall, JobState::available, 0).id);
  }
}

// `flags`: of the completed job.
void SqlStore::post(const Outcome& outcome, int flags) {
  const auto* complete = std::get_if<Complete>(&outcome);
  if (complete == nullptr) return;
  for (const NewJob& next : complete->next)
    posted_.emplace_back(next).trigger_depth = depth_of(flags);
}

void SqlStore::make_follow_ups() {
  // Follow-ups of an end are never refused: neither the limit of live jobs nor a full disk is
  // checked.
  const bool later = MS_MUTANT(next_posted_apart) && !ended_.empty();  // in the next transaction
  for (const NewJob& job : later ? std::vector<NewJob>() : std::exchange(posted_, {})) {
    begin_write();
    made_.push_back(enqueue_one(job).id);
  }
  for (const JobId id : std::exchange(watched_, {})) note_end(read_ended(id));
  if (followed_.empty()) return;
  std::vector<JobId> ids;
  ids.swap(followed_);
  for (const JobId id : ids) {
    for (const NewJob& job : follow(read_ended(id)))
      made_.push_back(make_job(job, now_.wall, JobState::available, 0).id);
  }
}

}  // namespace mainspring::sql
