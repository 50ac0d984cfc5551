// Bodies of recently enqueued jobs, so that a claim need not read them. For disks where a read is a
// round trip. A body leaves with the first claim; a later one reads its row.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "mainspring/job.h"

namespace mainspring::sql {

class BodyCache {
 public:
  struct Body {
    Duration timeout{};
    int max_attempts = 0;
    std::string args, headers, tags, correlation_id, reply_to;
    std::size_t bytes() const {
      return sizeof(Body) + args.size() + headers.size() + tags.size() + correlation_id.size() +
             reply_to.size();
    }
  };
  // `limit` in bytes; 0 = keeps nothing.
  explicit BodyCache(std::size_t limit) : limit_(limit) {}

  void add(JobId id, const NewJob& job, const std::string& tags) {
    if (limit_ == 0) return;
    Body body{.timeout = job.timeout,
              .max_attempts = job.max_attempts,
              .args = job.args,
              .headers = job.headers,
              .tags = tags,
              .correlation_id = job.correlation_id,
              .reply_to = job.reply_to};
    const std::size_t bytes = body.bytes();
    if (!bodies_.emplace(id, std::move(body)).second) return;
    bytes_ += bytes;
    order_.push_back(id);
    while (bytes_ > limit_ || (!order_.empty() && !bodies_.contains(order_.front()))) {
      drop(order_.front());
      order_.pop_front();
    }
    // Ids of taken bodies after an old one that stays.
    constexpr std::size_t kSpare = 1000;
    if (order_.size() > 2 * bodies_.size() + kSpare)
      std::erase_if(order_, [&](JobId other) { return !bodies_.contains(other); });
  }
  std::optional<Body> take(JobId id) {
    const auto found = bodies_.find(id);
    if (found == bodies_.end()) return std::nullopt;
    Body body = std::move(found->second);
    bodies_.erase(found);
    bytes_ -= body.bytes();
    return body;
  }
  void drop(JobId id) { (void)take(id); }
  void clear() {
    bodies_.clear();
    order_.clear();
    bytes_ = 0;
  }

 private:
  const std::size_t limit_;
  std::size_t bytes_ = 0;
  std::unordered_map<JobId, Body> bodies_;
  std::deque<JobId> order_;  // of all, and of some that were taken
};

}  // namespace mainspring::sql
