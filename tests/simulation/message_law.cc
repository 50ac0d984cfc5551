// Counts messages by what the args of their jobs say.
#include "simulation/message_law.h"

#include <fmt/format.h>

#include "simulation/follow_law.h"

namespace mainspring::simulation {

bool is_message(const Job& job) {
  return job.queue == kFollowQueue && job.args.find("\"state\":\"running\"") != std::string::npos;
}

std::string MessageLaw::next(JobId from, Token token) {
  sent_.push_back({.from = from, .token = token});
  return fmt::format("{{\"said\":{}}}", sent_.size() - 1);
}

void MessageLaw::told(const std::string& message, Fate fate) {
  sent_.at(static_cast<std::size_t>(number_behind(message, "\"said\":", 0))).fate = fate;
}

void MessageLaw::add(const Job& job) {
  // What follows a job that another one can replace is not known for the time before.
  if ((!job.follow_ups.empty() || !job.reply_to.empty()) && job.unique_key.empty())
    senders_[job.id] = job;
  if (!is_message(job)) return;
  const Line line{.from = number_behind(job.args, "{\"job\":", 0),
                  .entry = static_cast<int>(number_behind(job.args, "\"entry\":", kReply)),
                  .token = number_behind(job.args, "\"token\":", 0)};
  made_[line][job.id] = number_behind(job.args, "\"said\":", -1);
}

MessageLaw::Verdict MessageLaw::check() {
  Verdict verdict;
  std::map<std::pair<std::int64_t, int>, int> times;  // by number and entry
  for (const auto& [line, made] : made_) {
    std::int64_t last = -1;
    for (const auto& [id, number] : made) {
      ++verdict.messages;
      ++times[{number, line.entry}];
      if (number <= last && senders_.contains(line.from)) {
        verdict.broken =
            fmt::format("EO-2: message {} of job {} was made behind {}", number, line.from, last);
      }
      last = number;
    }
  }
  for (std::size_t number = 0; number < sent_.size(); ++number) {
    const Sent& one = sent_[number];
    const auto sender = senders_.find(one.from);
    if (sender == senders_.end()) continue;
    const Job& job = sender->second;
    const auto expect = [&](int entry, bool asked) {
      const auto found = times.find({static_cast<std::int64_t>(number), entry});
      const int made = found == times.end() ? 0 : found->second;
      const int least = asked && one.fate == Fate::made ? 1 : 0;
      const int most = asked && one.fate != Fate::not_made ? 1 : 0;
      if (made >= least && made <= most) return;
      verdict.broken =
          fmt::format("EO-2: message {} of job {} was made {} times for entry {}, not {} to {}",
                      number, one.from, made, entry, least, most);
    };
    for (std::size_t i = 0; i < job.follow_ups.size(); ++i)
      expect(static_cast<int>(i), (job.follow_ups[i].on & FollowUp::kMessage) != 0);
    expect(kReply, !job.reply_to.empty());
  }
  return verdict;
}

}  // namespace mainspring::simulation
