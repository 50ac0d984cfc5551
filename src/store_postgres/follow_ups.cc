// Jobs made when another job ends, or reports progress or messages while it runs.
#include <fmt/format.h>

#include <utility>

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

// Reads the fields of these jobs that are not loaded.
void PostgresStore::read_followed(std::vector<EndedJob>& ended) {
  const auto keep = [this](EndedJob& one, const NewJob& body) {
    one.reply_expires_in = options_.store.retention_replies;
    one.tags = body.tags;
    one.headers = body.headers;
    one.correlation_id = body.correlation_id;
    one.reply_to = body.reply_to;
    one.reply_session = body.reply_session;
    one.follow_ups = body.follow_ups;
  };
  Ints wanted;
  std::unordered_map<JobId, EndedJob*> by_id;
  for (EndedJob& one : ended) {
    const auto held = loaded_.find(one.id);
    if (held != loaded_.end() && held->second.body) {
      keep(one, *held->second.body);
    } else {
      wanted.push_back(one.id);
      by_id.emplace(one.id, &one);
    }
  }
  if (wanted.empty()) return;
  const Rows rows = ask(sql_.read_followed, params(wanted));
  for (int i = 0; i < rows.size(); ++i) {
    NewJob body;
    body.tags = rows.texts(i, 1);
    body.headers = rows.string(i, 2);
    body.correlation_id = rows.string(i, 3);
    body.reply_to = rows.string(i, 4);
    body.reply_session = rows.string(i, 6);
    auto follow_ups = decode_follow_ups(rows.string(i, 5));
    if (follow_ups) {
      body.follow_ups = std::move(*follow_ups);
    } else {
      log_.error(
          "the follow-ups of a job cannot be read: none are created",
          {{"job", fmt::to_string(rows.integer(i, 0))}, {"message", follow_ups.error().message}});
    }
    keep(*by_id.at(rows.integer(i, 0)), body);
  }
}

std::map<JobId, Progress> PostgresStore::read_progress(const std::vector<Renewal>& leases) {
  Ints ids;
  for (const Renewal& renewal : leases) {
    if (!renewal.progress && renewal.messages.empty()) continue;
    const LoadedJob* held = job(renewal.id);
    if (held != nullptr && (held->row.flags & kFlagFollowed) != 0) ids.push_back(renewal.id);
  }
  std::map<JobId, Progress> out;
  if (ids.empty()) return out;
  const Rows rows = ask(sql_.select_progress, params(ids));
  for (int i = 0; i < rows.size(); ++i)
    out[rows.integer(i, 0)] = {rows.real(i, 1), rows.string(i, 2)};
  return out;
}

// The follow-ups are made after the operation. `last` tracks the progress of its jobs.
void PostgresStore::note_news(const JobRow& row, const Renewal& renewal,
                              std::map<JobId, Progress>& last) {
  if ((row.flags & kFlagFollowed) == 0) return;
  auto at = last.find(row.id);
  bool progressed = false;
  if (renewal.progress) {
    progressed = at == last.end() || at->second != *renewal.progress;
    at = last.insert_or_assign(row.id, *renewal.progress).first;
  }
  if (!progressed && renewal.messages.empty()) return;
  News& news = follow_up_news_.emplace_back(News{.from = {.id = row.id,
                                                          .queue = queue_name(row.queue),
                                                          .kind = kind_name(row.kind),
                                                          .state = JobState::running,
                                                          .attempt = row.attempt,
                                                          .trigger_depth = row.trigger_depth},
                                                 .progressed = progressed,
                                                 .token = row.token,
                                                 .first_seq = renewal.first_seq,
                                                 .messages = renewal.messages});
  if (at != last.end()) news.progress = at->second;
}

std::vector<NewJob> PostgresStore::follow_all_news() {
  std::vector<News> news = std::exchange(follow_up_news_, {});
  std::map<JobId, std::size_t> at;  // a job may occur several times
  std::vector<EndedJob> from;
  for (const News& one : news) {
    if (at.emplace(one.from.id, from.size()).second) from.push_back(one.from);
  }
  if (!from.empty()) read_followed(from);
  std::vector<NewJob> jobs;
  for (News& one : news) {
    one.from = from[at[one.from.id]];
    for (NewJob& job : follow_news(one)) jobs.push_back(std::move(job));
  }
  return jobs;
}

void PostgresStore::make_follow_ups() {
  if (followed_.empty() && follow_up_news_.empty() && posted_.empty()) return;
  std::vector<NewJob> jobs = follow_all_news();
  for (NewJob& job : std::exchange(posted_, {})) jobs.push_back(std::move(job));
  std::vector<EndedJob> ended = std::exchange(followed_, {});
  if (!ended.empty()) read_followed(ended);
  for (const EndedJob& one : ended) {
    for (NewJob& job : follow(one)) jobs.push_back(std::move(job));
  }
  // Follow-ups of an end are never refused: the limit of live jobs is not checked.
  std::set<SessionName> sessions;
  for (const NewJob& job : jobs) {
    if (!job.session.empty()) sessions.insert({queue_of(job.queue).id, job.session});
  }
  if (!sessions.empty()) take_sessions(sessions);
  if (jobs.size() > 1 && next_id_ >= ids_end_) new_ids(jobs.size());
  for (const NewJob& job : jobs) after_.made.push_back(enqueue_one(job).id);
}

}  // namespace mainspring::pg
