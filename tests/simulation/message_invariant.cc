// Counts messages and reports of progress by the args of their jobs.
#include "simulation/message_invariant.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {
namespace {

constexpr const char* kSaid = "{\"said\":";
constexpr const char* kReported = "\"text\":\"report ";

}  // namespace

bool is_news(const Job& job) {
  return job.queue == kFollowQueue && job.args.find("\"state\":\"running\"") != std::string::npos;
}

std::string MessageInvariant::next(JobId from) {
  sent_.push_back({.from = from});
  return fmt::format("{}{}}}", kSaid, sent_.size() - 1);
}

Progress MessageInvariant::next_progress(JobId from) {
  sent_.push_back({.from = from, .what = What::progress});
  return {0.5, fmt::format("report {}", sent_.size() - 1)};
}

void MessageInvariant::told(const std::string& message, Fate fate) {
  sent_.at(static_cast<std::size_t>(number_after(message, kSaid, 0))).fate = fate;
}

void MessageInvariant::told(const Progress& progress, Fate fate) {
  auto& so_far = sent_.at(static_cast<std::size_t>(number_after(progress.text, " ", 0))).fate;
  so_far = std::max(so_far.value_or(fate), fate);
}

void MessageInvariant::add(const Job& job) {
  // The earlier follow-ups of a replaceable job are not known.
  if ((!job.follow_ups.empty() || !job.reply_to.empty()) && job.unique_key.empty())
    senders_[job.id] = job;
  if (!is_news(job)) return;
  const bool message = job.args.find("\"message\":") != std::string::npos;
  const Line line{.what = message ? What::message : What::progress,
                  .from = number_after(job.args, "{\"job\":", 0),
                  .entry = static_cast<int>(number_after(job.args, "\"entry\":", kReply)),
                  .token = number_after(job.args, "\"token\":", 0)};
  made_[line][job.id] = number_after(job.args, message ? kSaid : kReported, -1);
}

MessageInvariant::Verdict MessageInvariant::check() {
  Verdict verdict;
  check_order(verdict);
  for (std::size_t number = 0; number < sent_.size(); ++number) check_number(number, verdict);
  return verdict;
}

void MessageInvariant::check_order(Verdict& verdict) {
  for (const auto& [line, made] : made_) {
    const bool message = line.what == What::message;
    std::int64_t last = -1;
    for (const auto& [id, number] : made) {
      ++(message ? verdict.messages : verdict.progress);
      ++times_[{number, line.entry}];
      if (number <= last && senders_.contains(line.from)) {
        verdict.broken =
            fmt::format("{} {} of job {} was made after {}",
                        message ? "EO-2: message" : "EO-6: progress", number, line.from, last);
      }
      last = number;
    }
  }
}

void MessageInvariant::check_number(std::size_t number, Verdict& verdict) const {
  const Sent& one = sent_[number];
  const auto sender = senders_.find(one.from);
  if (sender == senders_.end()) return;
  const Job& job = sender->second;
  const bool message = one.what == What::message;
  const Fate fate = one.fate.value_or(Fate::unknown);
  const auto expect = [&](int entry, bool asked) {
    const auto found = times_.find({static_cast<std::int64_t>(number), entry});
    const int made = found == times_.end() ? 0 : found->second;
    const int least = asked && fate == Fate::made ? 1 : 0;
    const int most = asked && fate != Fate::not_made ? 1 : 0;
    if (made >= least && made <= most) return;
    verdict.broken = fmt::format("{} {} of job {} was made {} times for entry {}, not {} to {}",
                                 message ? "EO-2: message" : "EO-6: progress", number, one.from,
                                 made, entry, least, most);
  };
  const std::uint8_t bit = message ? FollowUp::kMessage : FollowUp::kProgress;
  for (std::size_t i = 0; i < job.follow_ups.size(); ++i)
    expect(static_cast<int>(i), (job.follow_ups[i].on & bit) != 0);
  expect(kReply, message && !job.reply_to.empty());
}

}  // namespace mainspring::simulation
