// Handlers without a server.
#include <condition_variable>
#include <utility>

#include "mainspring/testing.h"

namespace mainspring::testing {
namespace {

class PerformContext final : public Context {
 public:
  PerformContext(ClaimedJob job, PerformOptions options)
      : job_(std::move(job)), stop_reason_(options.stop) {
    done.memos = std::move(options.memos);
    if (stop_reason_ != StopReason::none) stop_.request_stop();
  }

  const ClaimedJob& job() const override { return job_; }
  std::string idempotency_key() const override { return "test"; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  StopReason stop_reason() const override { return stop_reason_; }
  void progress(double value, std::string_view text) override {
    done.progress.push_back({value, std::string(text)});
  }
  Result<void> checkpoint(std::string json) override {
    done.checkpoint = std::move(json);
    return {};
  }
  Result<void> set_session_state(std::string json) override {
    done.session_state = std::move(json);
    return {};
  }
  Result<void> send(std::string json) override {
    done.messages.push_back(std::move(json));
    return {};
  }
  void ignore(RemarkFault, std::string_view) override {}
  Result<void> flush() override { return {}; }
  Result<std::optional<std::string>> recall(std::string_view name) override {
    const auto found = done.memos.find(std::string(name));
    return found == done.memos.end() ? std::nullopt : std::optional(found->second);
  }
  Result<void> remember(std::string_view name, std::string json) override {
    done.memos.emplace(std::string(name), std::move(json));
    return {};
  }

  Performed done{.outcome = Outcome(Complete{})};

 private:
  const ClaimedJob job_;
  const StopReason stop_reason_;
  std::stop_source stop_;
};

}  // namespace

Performed perform_kind(ClaimedJob job, const Handler& handler, PerformOptions options) {
  job.id = 1;
  job.token = options.attempt;
  job.attempt = options.attempt;
  job.checkpoint = options.checkpoint;
  job.headers = options.headers;
  job.has_memos = !options.memos.empty();
  PerformContext context(std::move(job), std::move(options));
  context.done.outcome = handler(context.job(), context);
  return std::move(context.done);
}

}  // namespace mainspring::testing
