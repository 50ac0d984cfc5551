// Records what the receiver got, and compares it with the jobs.
#include "simulation/callback_invariant.h"

#include <fmt/format.h>

#include "model/callback.h"
#include "simulation/follow_invariant.h"

namespace mainspring::simulation {
namespace {

constexpr const char* kReceiver = "https://receiver.example/";

std::int64_t asked_of(const std::string& text) {
  return number_after(text, kReceiver, -1);
}

std::string_view header(const OutgoingRequest& request, std::string_view name) {
  for (const OutgoingHeader& one : request.headers) {
    if (one.name == name) return one.value;
  }
  return "";
}

}  // namespace

CallbackInvariant::CallbackInvariant() : keys_{Secret(std::string(kMadeKeyBytes, 'k'))} {}

FollowUp CallbackInvariant::ask(std::uint8_t on) {
  return {.queue = std::string(kCallbackQueue),
          .kind = std::string(kCallbackKind),
          .on = on,
          .data = fmt::format(R"({{"url":"{}{}"}})", kReceiver, ++asked_)};
}

JobId CallbackInvariant::of(const Job& delivery) {
  return number_after(delivery.args, "{\"job\":", 0);
}

std::string CallbackInvariant::posted(const Job& delivery, Token token,
                                      const OutgoingRequest& request,
                                      const std::optional<Result<Job>>& of, WallTime now) {
  const Post post{.id = std::string(header(request, "webhook-id")),
                  .url = request.url,
                  .body = std::string(request.body)};
  const auto [at, first] = posts_.try_emplace(delivery.id, post);
  repeated_ += first ? 0 : 1;
  if (at->second.id != post.id)
    return fmt::format("RES-1b: delivery {} had id {}, and has {}", delivery.id, at->second.id,
                       post.id);
  if (at->second.url != post.url || at->second.body != post.body)
    return fmt::format("RES-1b: delivery {} was posted to {} as {}, and now to {} as {}",
                       delivery.id, at->second.url, at->second.body, post.url, post.body);
  if (const auto owner = by_id_.try_emplace(post.id, delivery.id).first->second;
      owner != delivery.id)
    return fmt::format("RES-1b: deliveries {} and {} have id {}", owner, delivery.id, post.id);
  if (std::string why = check_signed(request, post, now); !why.empty()) return why;
  if (const auto over = ended_.find(delivery.id); over != ended_.end() && token > over->second)
    return fmt::format("RES-1d: delivery {} had ended, and is posted again", delivery.id);
  const JobId id = CallbackInvariant::of(delivery);
  if (!of || retries_.contains(id)) return "";
  if (!*of) {
    if (of->error().code == ErrorCode::expired) return "";
    return fmt::format("RES-1c: delivery {} speaks of job {}: {}", delivery.id, id,
                       of->error().message);
  }
  const Job& job = **of;
  const std::string type = fmt::format(R"("type":"job.{}")", to_string(job.state));
  if (post.body.find(type) != std::string::npos && post.body.find(job.result) != std::string::npos)
    return "";
  return fmt::format("RES-1c: job {} is {} with {}, and is posted as {}", id, to_string(job.state),
                     job.result, post.body);
}

std::string CallbackInvariant::check_signed(const OutgoingRequest& request, const Post& post,
                                            WallTime now) const {
  const auto good = verify_signature(
      keys_, {.id = post.id, .timestamp = header(request, "webhook-timestamp"), .body = post.body},
      header(request, "webhook-signature"), now);
  return good ? "" : fmt::format("RES-1b: id {}: {}", post.id, good.error().message);
}

void CallbackInvariant::answered(JobId delivery, int status) {
  Post& post = posts_.at(delivery);
  post.taken = post.taken || (status >= 200 && status < 300);
  post.gone = post.gone || status == 410;
}

void CallbackInvariant::add(const Job& job) {
  if (job.queue == kCallbackQueue) {
    deliveries_[job.id] = job;
    ++made_[{of(job), asked_of(job.args)}];
  } else {
    jobs_[job.id] = job;
  }
}

std::string CallbackInvariant::check_ends(const Job& job) const {
  const auto again = retries_.find(job.id);
  const std::int64_t more = again == retries_.end() ? 0 : again->second;
  for (const FollowUp& wanted : job.follow_ups) {
    if (!is_callback(wanted)) continue;
    const auto found = made_.find({job.id, asked_of(wanted.data)});
    const std::int64_t made = found == made_.end() ? 0 : found->second;
    const std::int64_t least = is_on(job, wanted.on) ? 1 : 0;
    if (made >= least && made <= least + more) continue;
    return fmt::format("RES-1a: job {} is {}, was retried {} times at most, and has {} deliveries",
                       job.id, to_string(job.state), more, made);
  }
  return "";
}

std::string CallbackInvariant::check_delivery(const Job& delivery, Verdict& verdict) const {
  const auto found = posts_.find(delivery.id);
  const Post post = found == posts_.end() ? Post() : found->second;
  switch (delivery.state) {
    case JobState::completed:
      ++verdict.delivered;
      if (post.taken) return "";
      break;
    case JobState::cancelled:
      ++verdict.gone;
      if (post.gone) return "";
      break;
    case JobState::dead:
      ++verdict.dead;
      return "";
    default:
      break;
  }
  return fmt::format("RES-1a: delivery {} is {} ({}), and the receiver {} it", delivery.id,
                     to_string(delivery.state), delivery.reason,
                     post.taken  ? "took"
                     : post.gone ? "does not want"
                                 : "has not taken");
}

CallbackInvariant::Verdict CallbackInvariant::check() const {
  Verdict verdict{.repeated = repeated_, .broken = ""};
  for (const auto& [id, job] : jobs_) {
    if (std::string why = check_ends(job); !why.empty()) verdict.broken = why;
  }
  for (const auto& [id, delivery] : deliveries_) {
    const auto job = jobs_.find(of(delivery));
    if (std::string why = check_delivery(delivery, verdict); !why.empty()) verdict.broken = why;
    if (job == jobs_.end() || job->second.follow_ups.empty())
      verdict.broken = fmt::format("RES-1a: no job has delivery {} as follow-up", id);
  }
  return verdict;
}

}  // namespace mainspring::simulation
