// Counts follow-ups by their args.
#include "simulation/follow_invariant.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "simulation/message_invariant.h"

namespace mainspring::simulation {

bool is_on(const Job& job, std::uint8_t on) {
  switch (job.state) {
    case JobState::completed:
      return (on & FollowUp::kCompleted) != 0;
    case JobState::cancelled:
      return (on & FollowUp::kCancelled) != 0;
    default:
      return (on & FollowUp::kDead) != 0;
  }
}

std::int64_t number_after(const std::string& text, const std::string& name, std::int64_t none) {
  const std::size_t at = text.rfind(name);
  return at == std::string::npos ? none
                                 : std::strtoll(text.c_str() + at + name.size(), nullptr, 10);
}

FollowUp follow_up(int entry, std::uint8_t on) {
  return {.queue = kFollowQueue,
          .kind = "next",
          .on = on,
          .data = fmt::format("{{\"entry\":{}}}", entry)};
}

void FollowInvariant::add(const Job& job) {
  if (!job.follow_ups.empty() || !job.reply_to.empty()) followed_[job.id] = job;
  if (job.queue != kFollowQueue || is_news(job)) return;
  const JobId of = number_after(job.args, "{\"job\":", 0);
  const auto entry = static_cast<int>(number_after(job.args, "\"entry\":", kReply));
  ++made_[{of, entry}];
}

FollowInvariant::Verdict FollowInvariant::check(
    const std::vector<blackbox::RetryEvent>& retries) const {
  Verdict verdict;
  std::map<JobId, std::int64_t> retried;
  for (const blackbox::RetryEvent& retry : retries) {
    if (retry.done != blackbox::Done::no) ++retried[retry.id];
  }
  std::map<std::pair<JobId, int>, std::int64_t> left = made_;
  for (const auto& followed : followed_) {
    const JobId id = followed.first;
    const Job& job = followed.second;
    const auto again = retried.find(id);
    const std::int64_t more = again == retried.end() ? 0 : again->second;
    const auto expect = [&](int entry, std::uint8_t on) {
      const auto found = left.find({id, entry});
      const std::int64_t made = found == left.end() ? 0 : found->second;
      if (found != left.end()) left.erase(found);
      verdict.ends += made;
      const std::int64_t least = is_on(job, on) ? 1 : 0;
      if (made >= least && made <= least + more) return;
      verdict.broken = fmt::format(
          "EO-1: job {} is {}, was retried {} times at most, and entry {} was made {} times", id,
          to_string(job.state), more, entry, made);
    };
    for (std::size_t i = 0; i < job.follow_ups.size(); ++i)
      expect(static_cast<int>(i), job.follow_ups[i].on);
    if (!job.reply_to.empty()) expect(kReply, FollowUp::kEveryEnd);
  }
  for (const auto& [what, made] : left) {
    // An operator retried it, and another enqueue replaced its follow-ups.
    if (retried.contains(what.first)) continue;
    verdict.broken = fmt::format("EO-1: job {} asked for no follow-up {}, and {} were made",
                                 what.first, what.second, made);
  }
  return verdict;
}

}  // namespace mainspring::simulation
