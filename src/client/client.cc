// Calls of Jobs as requests of the HTTP API, repeated where repeating is safe.
#include "client/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "api/job_edit_shapes.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "api/search_shapes.h"
#include "api/session_shapes.h"
#include "api/shapes.h"
#include "base/mutant.h"
#include "tls/tls.h"

namespace mainspring {
namespace {

constexpr int kListPage = 1000;
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(2);
// With several servers: a machine that is off does not refuse connections, so this bounds the time
// until the next server is tried.
constexpr Duration kConnectToOneOf = std::chrono::seconds(1);
// How long finish is awaited; a stopping worker waits for it. The worker repeats it on failure.
constexpr Duration kFinishWithin = std::chrono::seconds(10);

// The token becomes a header: characters that could end the line are refused.
constexpr std::size_t kMaxTokenBytes = 4096;
bool is_token_text(std::string_view text) {
  return text.size() <= kMaxTokenBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_good(const HttpResponse& response) {
  return response.status >= 200 && response.status < 300;
}

// The answer of a proxy whose server is unreachable: the request may have been processed.
bool is_gateway_error(const HttpResponse& response) {
  return response.status == 502 || response.status == 504;
}

// The server has not executed the request: it is unreachable, or refused it for now.
bool is_undone(const ExchangeResult& result) {
  return result ? result->status == 503 && result->retry_after_s > 0 : result.error().unsent;
}

Error error_of(const HttpResponse& response) {
  Error error = decode_error(response.status, response.body);
  if (error.retry_after_ms == 0) error.retry_after_ms = response.retry_after_s * 1000;
  return error;
}

// `unavailable` promises that nothing was done. For a request that was sent this is not known.
Error maybe_done_error(Error error) {
  error.code = ErrorCode::timeout;
  error.message += "; the server may have executed the request";
  return error;
}

}  // namespace

std::string percent_encode(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::vector<Error> ClientOptions::validate() const {
  std::vector<Error> errors;
  const auto urls = parse_http_urls(url);
  if (!urls) errors.push_back(urls.error());
  for (const HttpUrl& one : urls ? *urls : std::vector<HttpUrl>()) {
    if (token.empty() || one.tls || one.local()) continue;
    errors.push_back(invalid(
        "url", fmt::format("url \"{}\": a token must not go over plain HTTP to another machine, "
                           "where others could read it: use https://{}",
                           url.substr(0, 200), one.authority)));
  }
  if (!is_token_text(token.reveal())) {
    errors.push_back(invalid("token", fmt::format("the token: must be at most {} characters, all "
                                                  "of them visible ASCII without spaces",
                                                  kMaxTokenBytes)));
  }
  for (const auto& [name, value] :
       {std::pair("connect_timeout", connect_timeout), std::pair("read_timeout", read_timeout)}) {
    if (value <= Duration(0)) {
      errors.push_back(
          invalid(name, fmt::format("{} {}: must be more than 0s", name, format_duration(value))));
    }
  }
  if (retry_for < Duration(0)) {
    errors.push_back(invalid("retry_for", "retry_for: must not be negative"));
  }
  return errors;
}

// Sends one request to the current server. If that server is unreachable or refuses for now, the
// next one of the list becomes the current one. The request is sent to it at once if the first
// server has not executed it, or if repeating is safe. A wrong token is an answer like any other.
ExchangeResult Client::Impl::once(const Call& call) {
  std::size_t server = current.load();
  std::vector<std::string> reasons;
  for (std::size_t tried = 1;; ++tried) {
    ExchangeResult result = at(server, call);
    const bool undone = is_undone(result);
    const bool away = undone || (result ? is_gateway_error(*result) : !result.error().stopped);
    if (!away || urls.size() == 1) return result;
    std::size_t failed = server;
    server = (server + 1) % urls.size();
    current.compare_exchange_strong(failed, server);
    const bool may = undone || call.repeat == Repeat::yes;
    if (!result) reasons.push_back(result.error().error.message);
    if (!may || tried == urls.size() || call.stop.stop_requested()) {
      if (reasons.size() == urls.size()) {
        result.error().error.message = fmt::format("none of {} servers answers: {}", urls.size(),
                                                   fmt::join(reasons, "; "));
      }
      return result;
    }
  }
}

// If a kept connection turns out to be closed, sends the request again on a new one: the server
// closes idle connections at any time, and has not read a request that came after that.
ExchangeResult Client::Impl::at(std::size_t server, const Call& call) {
  const HttpUrl& url = urls[server];
  if (tls && options.warn) look_at_certificate();
  const Duration first =
      call.answer_within > Duration(0) ? call.answer_within : options.read_timeout;
  const Duration most = urls.size() > 1 ? kConnectToOneOf : kForever;
  const Connection::Limits limits{std::min({options.connect_timeout, most, first}), first,
                                  options.read_timeout, call.after_stop};
  const TraceHeaders* trace = call.method == "GET" ? nullptr : current_trace();
  if (trace == nullptr && call.method != "GET" && !options.trace.empty()) trace = &options.trace;
  const HttpRequest request{call.method,
                            call.target,
                            call.body,
                            call.idempotency_key,
                            call.content_type,
                            call.file_name,
                            options.token.reveal(),
                            trace,
                            call.sink,
                            call.ask_to_end};
  // A call that must not run twice uses a new connection: on a kept connection it could not know
  // whether the server closed before or after running it.
  const bool may_take = call.repeat != Repeat::unseen || MS_MUTANT(run_asked_for_again);
  std::unique_ptr<Connection> kept = may_take ? take(server) : nullptr;
  const bool reused = kept != nullptr;
  if (reused) {
    ExchangeResult result = kept->exchange(url, request, limits, call.stop);
    if (result) {
      give_back(server, std::move(kept));
      return result;
    }
    const bool closed =
        result.error().error.code == ErrorCode::unavailable && !result.error().answered;
    if (!closed || result.error().stopped) return result;
  }
  const std::shared_ptr<SSL_CTX> context = url.tls ? tls->context() : nullptr;
  auto fresh = Connection::open(url, context.get(), limits.connect, call.stop);
  if (!fresh) {
    fresh.error().unsent = !reused;  // the server may have executed it before it went away
    return tl::unexpected(std::move(fresh.error()));
  }
  ++made;
  ExchangeResult result = (*fresh)->exchange(url, request, limits, call.stop);
  if (result) give_back(server, std::move(*fresh));
  return result;
}

void Client::Impl::look_at_certificate() {
  constexpr Duration kLook = std::chrono::hours(1), kAgain = std::chrono::hours(24);
  const Now now = clock.now();
  const WallTime end = tls->expires_at();
  const std::string problem = tls->problem();
  const bool soon = end != WallTime::never() && end - now.wall < kCertificateEndsSoon;
  {
    MutexLock lock(mutex);
    if (now.instant < look_at) return;
    look_at = now.instant + (soon || !problem.empty() ? kAgain : kLook);
  }
  if (!problem.empty()) options.warn("the new certificate files are not used: " + problem);
  if (soon) {
    options.warn(fmt::format("the certificate in {} {} at {}", options.certificate_file,
                             end <= now.wall ? "ended" : "ends", format_wall_time(end)));
  }
}

void Client::Impl::pause(Duration length, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex);
    paused.notify_all();
  });
  const Instant until = clock.now().instant + length;
  MutexLock lock(mutex);
  for (Instant now; !stop.stop_requested() && (now = clock.now().instant) < until;) {
    paused.wait_for(mutex, until - now);
  }
}

Result<std::string> Client::Impl::run(const Call& call) {
  Instant give_up = clock.now().instant + options.retry_for;
  const Duration wait = std::max(Duration(0), call.answer_within - options.read_timeout);
  Duration limit = kFirstPause;
  bool maybe_done = false;  // some try was sent and not answered
  for (;;) {
    const Instant sent = clock.now().instant;
    ExchangeResult result = once(call);
    give_up = give_up + std::min(clock.now().instant - sent, wait);  // it only waited
    if (result && is_good(*result)) return std::move(result->body);
    const bool gateway = result && is_gateway_error(*result);
    const bool seen = gateway || (!result && !result.error().unsent);
    maybe_done = maybe_done || seen;
    Error error = result ? error_of(*result) : std::move(result.error().error);
    if (gateway) error.code = ErrorCode::unavailable;
    const bool away =
        !result || error.code == ErrorCode::unavailable || error.code == ErrorCode::overloaded;
    if (away && maybe_done && call.method != "GET" && call.repeat != Repeat::no)
      error = maybe_done_error(std::move(error));
    const bool may = call.repeat == Repeat::yes || (call.repeat == Repeat::unseen && !seen);
    if (!away || !may || call.stop.stop_requested()) return error;
    const auto bound = static_cast<std::uint64_t>(limit.count());
    const Duration length = std::max(Duration(static_cast<std::int64_t>(random.below(bound)) + 1),
                                     Duration(std::chrono::milliseconds(error.retry_after_ms)));
    if (clock.now().instant + length >= give_up) return error;
    pause(length, call.stop);
    limit = std::min(limit * 2, kLongestPause);
  }
}

Result<std::unique_ptr<Client>> Client::open(ClientOptions options, Random& random) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  MS_TRY_ASSIGN(std::vector<HttpUrl> urls, parse_http_urls(options.url));
  std::unique_ptr<TlsClient> tls;
  if (std::any_of(urls.begin(), urls.end(), [](const HttpUrl& url) { return url.tls; })) {
    MS_TRY_ASSIGN(tls,
                  TlsClient::open({options.ca_file, options.certificate_file, options.key_file}));
  }
  return std::unique_ptr<Client>(new Client(
      std::make_unique<Impl>(std::move(options), std::move(urls), std::move(tls), random)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

std::int64_t Client::connections_made() const {
  return impl_->made.load();
}

Result<void> Client::ready() {
  MS_TRY(impl_->run({.method = "GET", .target = "/readyz", .repeat = Impl::Repeat::no}));
  return {};
}

Result<std::string> Client::request(std::string_view method, std::string_view path,
                                    std::string_view body) {
  return impl_->run({.method = method,
                     .target = std::string(path),
                     .body = std::string(body),
                     .repeat = Impl::Repeat::no});
}

Result<std::string> Client::upload(std::string_view method, std::string_view path, std::string body,
                                   std::string_view content_type, std::string_view file_name) {
  return impl_->run({.method = method,
                     .target = std::string(path),
                     .body = std::move(body),
                     .repeat = Impl::Repeat::no,
                     .content_type = content_type,
                     .file_name = file_name});
}

Result<void> Client::stream(std::string_view path,
                            const std::function<bool(std::string_view)>& sink,
                            std::stop_token stop) {
  Impl::Call call{.method = "GET", .target = std::string(path), .repeat = Impl::Repeat::unseen};
  call.sink = &sink;
  call.stop = stop;
  MS_TRY(impl_->run(call));
  return {};
}

Result<EnqueueResult> Client::enqueue(Enqueue request) {
  Impl::Call call{.method = "POST", .target = "/v1/jobs"};
  call.idempotency_key = request.idempotency_key.empty() ? "auto-" + impl_->random.hex128()
                                                         : std::move(request.idempotency_key);
  encode_enqueue_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_enqueue_response(body);
}

Result<ClaimResult> Client::claim(Claim request, Duration wait, std::stop_token stop) {
  Impl::Call call{.method = "POST", .target = "/v1/claim", .repeat = Impl::Repeat::no};
  call.stop = stop;
  call.answer_within = impl_->options.read_timeout + wait;
  call.after_stop = kAfterStop;
  // A proxy may not forward the worker's disconnect, so its claim could still get a job: ask the
  // server to end the claim.
  const std::string worker = request.worker;
  const std::function<bool()> end = [this, &worker] {
    Impl::Call ending{.method = "POST", .target = "/v1/claim/end", .repeat = Impl::Repeat::no};
    ending.answer_within = kAfterStop;
    encode_end_claims_request({.worker = worker}, ending.body);
    return impl_->run(ending).has_value();
  };
  call.ask_to_end = &end;
  // The next free session of a queue has a path of its own.
  const std::string first = request.queues.empty() ? "" : request.queues.front();
  if (const auto queue = parse_accept_queue(first)) {
    call.target = fmt::format("/v1/queues/{}/sessions/accept", percent_encode(*queue));
    encode_accept_request(
        {.worker = std::move(request.worker), .session = {}, .lease = request.lease, .wait = wait},
        call.body);
  } else {
    encode_claim_request({std::move(request), wait}, call.body);
  }
  Result<std::string> body = impl_->run(call);
  if (!body && stop.stop_requested()) return ClaimResult{};
  if (!body) return std::move(body.error());
  std::vector<JobOutcome> unreadable;
  MS_TRY_ASSIGN(ClaimResult claimed, decode_claim_response(*body, &unreadable));
  // No handler can run them. If this fails, their leases end.
  if (!unreadable.empty()) (void)finish({.worker = worker, .results = std::move(unreadable)});
  return claimed;
}

Result<RenewResult> Client::renew(Renew request) {
  Impl::Call call{.method = "POST", .target = "/v1/renew", .repeat = Impl::Repeat::no};
  call.answer_within = std::min(impl_->options.read_timeout, request.lease / 3);
  encode_renew_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_renew_response(body);
}

Result<FinishResult> Client::finish(Finish request) {
  Impl::Call call{.method = "POST", .target = "/v1/finish", .repeat = Impl::Repeat::no};
  call.answer_within = std::min(impl_->options.read_timeout, kFinishWithin);
  encode_finish_request(request, nullptr, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  MS_TRY_ASSIGN(FinishResponse response, decode_finish_response(body));
  if (response.result.results.size() != request.results.size()) {
    return Error{.message = fmt::format("finish: {} answers to {} outcomes",
                                        response.result.results.size(), request.results.size())};
  }
  return std::move(response.result);
}

Result<CancelResult> Client::cancel(Cancel request) {
  Impl::Call call{.method = "POST", .target = fmt::format("/v1/jobs/{}/cancel", request.id)};
  encode_cancel_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_cancel_response(body);
}

Result<RetryResult> Client::retry(RetryJob request) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "POST",
                            .target = fmt::format("/v1/jobs/{}/{}", request.id,
                                                  request.take_back ? "take-back" : "retry")}));
  return decode_retry_response(body);
}

Result<EditResult> Client::edit(EditJob request) {
  MS_TRY(validate(request));
  Impl::Call call{.method = "PATCH", .target = fmt::format("/v1/jobs/{}", request.id)};
  encode_edit_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  MS_TRY_ASSIGN(const Job job, decode_job(body));
  return EditResult{.state = job.state};
}

Result<void> Client::delete_job(DeleteJob request) {
  MS_TRY(impl_->run({.method = "DELETE",
                     .target = fmt::format("/v1/jobs/{}", request.id),
                     .repeat = Impl::Repeat::unseen}));
  return {};
}

Result<EnqueuedJob> Client::clone(CloneJob request) {
  Impl::Call call{.method = "POST",
                  .target = fmt::format("/v1/jobs/{}/clone", request.id),
                  .repeat = Impl::Repeat::unseen};  // repeating could create two
  encode_clone_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  MS_TRY_ASSIGN(const EnqueueResult made, decode_enqueue_response(body));
  return made.jobs.at(0);
}

Result<RedriveResult> Client::redrive(Redrive request) {
  Impl::Call call{.method = "POST", .target = "/v1/dead/redrive"};
  encode_redrive_request({.operation = std::move(request)}, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_redrive_response(body);
}

Result<void> Client::pause_queue(PauseQueue request) {
  Impl::Call call{.method = "POST",
                  .target = fmt::format("/v1/queues/{}/{}{}", percent_encode(request.queue),
                                        request.paused ? "pause" : "resume",
                                        request.create ? "?create=true" : "")};
  if (request.paused) encode_pause_queue(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::remove_queue(const std::string& name) {
  MS_TRY(check_name("queue", name));
  MS_TRY(impl_->run({.method = "DELETE", .target = "/v1/queues/" + percent_encode(name)}));
  return {};
}

Result<void> Client::set_retention(SetRetention request) {
  Impl::Call call{.method = "PUT",
                  .target = fmt::format("/v1/queues/{}{}", percent_encode(request.queue),
                                        request.create ? "" : "?create=false")};
  encode_retention_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::set_queue_limits(SetQueueLimits request) {
  Impl::Call call{.method = "PUT",
                  .target = fmt::format("/v1/queues/{}/limits{}", percent_encode(request.queue),
                                        request.create ? "" : "?create=false")};
  encode_limits_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<Job> Client::get(JobId id) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = fmt::format("/v1/jobs/{}", id)}));
  return decode_job(body);
}

Result<MemoPage> Client::memos(JobId id, const std::string& from, int limit) {
  std::string target = fmt::format("/v1/jobs/{}/memos?limit={}", id, limit);
  if (!from.empty()) target += "&from=" + from;  // as check_memo_name: nothing to escape
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = std::move(target)}));
  return decode_memo_page(body);
}

Result<Job> Client::wait(JobId id, Duration wait, std::stop_token stop) {
  const Instant end = impl_->clock.now().instant + wait;
  for (;;) {
    const Duration left = std::max(end - impl_->clock.now().instant, Duration(0));
    const Duration slice = std::min(left, kWaitSlice);
    Impl::Call call{.method = "GET",
                    .target = fmt::format("/v1/jobs/{}?wait={}", id, format_duration(slice))};
    call.stop = stop;
    call.answer_within = impl_->options.read_timeout + slice;
    Result<std::string> body = impl_->run(call);
    if (!body && stop.stop_requested()) return get(id);
    if (!body) return std::move(body.error());
    MS_TRY_ASSIGN(Job job, decode_job(*body));
    if (is_terminal(job.state) || stop.stop_requested() || left <= kWaitSlice) return job;
  }
}

std::string list_path(std::string_view path, const std::string& after, int limit) {
  std::string out = fmt::format("{}?limit={}", path, limit);
  if (!after.empty()) out += "&after=" + percent_encode(after);
  return out;
}

Result<JobPage> Client::list(const JobFilter& filter, int limit, JobId before) {
  std::string target = fmt::format("/v1/jobs?limit={}", limit);
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) target += fmt::format("&{}={}", name, percent_encode(value));
  };
  add("queue", filter.queue);
  add("kind", filter.kind);
  add("tag", filter.tag);
  if (filter.quarantined) add("quarantined", "true");
  if (filter.whole_args) add("whole_args", "true");
  target += search_parameters(filter);
  if (before != 0) add("cursor", encode_cursor(before));
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = target}));
  return decode_job_page(body);
}

Result<std::vector<QueueStats>> Client::queues() {
  return read_named<QueueStats>(
      "", INT_MAX,
      [&](const std::string& from, int) {
        return impl_->run({.method = "GET", .target = list_path("/v1/queues", from, kListPage)});
      },
      &decode_queues);
}

Result<std::vector<WorkerInfo>> Client::workers() {
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = "/v1/workers"}));
  return decode_workers(body);
}

Result<WorkerInfo> Client::command_worker(CommandWorker request) {
  const bool resumes = request.command == WorkerCommand::none;
  MS_TRY_ASSIGN(
      const std::string body,
      impl_->run({.method = "POST",
                  .target = fmt::format("/v1/workers/{}/{}", percent_encode(request.worker),
                                        resumes ? "resume" : to_string(request.command))}));
  return decode_worker(body);
}

}  // namespace mainspring
