// The shared state of the threads, the producers and the operator.
#include "workload.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <chrono>

#include "process.h"

namespace blackbox {

const std::vector<std::string>& queue_names() {
  static const std::vector<std::string> names = {"alpha", "beta", "gamma", "held"};
  return names;
}

void Shared::set_up(bool up) {
  const std::lock_guard lock(mutex_);
  up_ = up;
  changed_.notify_all();
}

void Shared::wait_up(int milliseconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                    [&] { return up_ || stop.load(); });
}

void Shared::allow(std::int64_t jobs) {
  const std::lock_guard lock(mutex_);
  allowed_ = std::min(allowed_ + jobs, 2 * jobs);
  changed_.notify_all();
}

bool Shared::take(std::int64_t jobs) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] { return allowed_ > 0 || stop.load(); };
  if (!changed_.wait_for(lock, std::chrono::milliseconds(10), enough) || stop) return false;
  allowed_ -= jobs;
  return true;
}

void Shared::remember(Id id) {
  const std::lock_guard lock(mutex_);
  if (ids_.size() < kMaxKnownIds) {
    ids_.push_back(id);
  } else {
    ids_[next_id_++ % kMaxKnownIds] = id;
  }
}

Id Shared::some_id(Chance& chance) {
  const std::lock_guard lock(mutex_);
  if (ids_.empty()) return 0;
  return ids_[static_cast<std::size_t>(
      chance.between(0, static_cast<std::int64_t>(ids_.size()) - 1))];
}

void Client::run() {
  while (!shared_.stop) {
    shared_.wait_up(100);
    turn();
  }
}

Answer Client::send(std::string_view method, const std::string& target, const std::string& body,
                    const std::vector<std::string>& headers) {
  Answer answer = http_.request(method, target, body, headers, kAnswerLimitMs);
  // A server that dies breaks the connection; a live one must answer.
  if (answer.sent == Sent::unknown &&
      answer.return_us - answer.invoke_us >= kAnswerLimitMs * 1000LL) {
    history_.unanswered.push_back(
        fmt::format("{} {} sent at {}", method, target, answer.invoke_us));
  }
  return answer;
}

Done Client::done(const Answer& answer) {
  if (answer.sent == Sent::never) return Done::no;
  if (answer.sent == Sent::unknown) return Done::unknown;
  if (answer.status >= 200 && answer.status < 300) return Done::yes;
  // By the error table, 500 and 504 mean: it may have taken effect.
  return answer.status == 500 || answer.status == 504 ? Done::unknown : Done::no;
}

namespace {

class Producer final : public Client {
 public:
  using Client::Client;

 private:
  struct Request {
    std::string body;
    EnqueueEvent event;  // without times and outcome
  };

  void turn() override {
    if (shared_.draining || shared_.backlog > kMaxBacklog) {
      if (shared_.draining) return pause();
      shared_.backlog -= 20;  // an estimate: jobs also end unnoticed
      read_something();
      return;
    }
    const std::int64_t count = chance_.percent(30) ? chance_.between(2, 40) : 1;
    if (!shared_.take(count)) return read_something();
    Request request = compose(count);
    Done outcome = post(request);
    if (request.event.key.empty()) return;
    for (int i = 0; i < kMaxRepeats && !shared_.stop; ++i) {
      const bool again = outcome != Done::yes || chance_.percent(25);
      if (!again) break;
      shared_.wait_up(500);
      if (outcome == Done::yes && chance_.percent(30)) {
        post_other_body(request);
      } else {
        outcome = post(request);
      }
    }
  }

  void pause() { pause_for(20'000); }

  std::string job(EnqueuedItem& item, const std::string& queue, const std::string& unique,
                  bool replace) {
    item.nonce = shared_.next_nonce++;
    std::string out = fmt::format(
        R"({{"queue":"{}","kind":"torture","args":{{"n":{}}},"priority":{},"max_attempts":{})",
        queue, item.nonce, chance_.between(0, 9), unique.empty() ? chance_.between(1, 4) : 20);
    // Unique jobs often wait, so that a second one conflicts with the first.
    if (chance_.percent(unique.empty() ? 15 : 60)) {
      item.delay = chance_.between(1, 1500) * 1000;
      out += fmt::format(R"(,"delay":"{}ms")", item.delay / 1000);
    }
    if (unique.empty() && chance_.percent(4)) {
      out += fmt::format(R"(,"expires_in":"{}ms")", chance_.between(50, 1500));
    }
    if (chance_.percent(10))
      out += R"(,"tags":["torture","t)" + std::to_string(item.nonce % 7) + "\"]";
    if (unique.empty() && chance_.percent(30))
      out += fmt::format(R"(,"session":"s{}")", chance_.between(0, kSessions - 1));
    else if (queue == queue_names()[2] && chance_.percent(70))
      out += fmt::format(R"(,"limit_key":"k{}")", chance_.between(0, 5));
    if (!unique.empty()) {
      out += fmt::format(R"(,"unique":{{"key":"{}"{},"on_conflict":"{}"}})", unique,
                         chance_.percent(30) ? R"(,"for":"300ms")" : "",
                         replace               ? "replace"
                         : chance_.percent(50) ? "keep"
                                               : "postpone");
    }
    return out + "}";
  }

  Request compose(std::int64_t count) {
    Request request;
    EnqueueEvent& event = request.event;
    event.queue = queue_names()[static_cast<std::size_t>(
        chance_.between(0, static_cast<std::int64_t>(queue_names().size()) - 1))];
    if (chance_.percent(40))
      event.key = fmt::format("key-{}-{}", shared_.next_nonce.load(), chance_.next());
    if (count == 1 && chance_.percent(35)) event.unique = "only-one";
    event.replaces = chance_.percent(30);
    event.jobs.resize(static_cast<std::size_t>(count));
    for (EnqueuedItem& item : event.jobs) {
      request.body += request.body.empty() ? "" : ",";
      request.body += job(item, event.queue, event.unique, event.replaces);
    }
    if (count > 1) request.body = "{\"jobs\":[" + request.body + "]}";
    event.body = request.body;
    return request;
  }

  static std::vector<std::string> headers(const EnqueueEvent& event) {
    if (event.key.empty()) return {};
    return {"Idempotency-Key: " + event.key};
  }

  Done post(const Request& request) {
    EnqueueEvent event = request.event;
    const Answer answer = send("POST", "/v1/jobs", request.body, headers(event));
    event.at = {answer.invoke_us, answer.return_us};
    event.done = done(answer);
    event.status = answer.status;
    if (event.done == Done::yes) read_ids(answer.body, event);
    history_.enqueues.push_back(event);
    return event.done;
  }

  void read_ids(const std::string& body, EnqueueEvent& event) {
    rapidjson::Document document;
    document.Parse(body.data(), body.size());
    if (!document.IsObject()) return;
    const auto take = [&](const rapidjson::Value& value, EnqueuedItem& item) {
      item.id = value["id"].GetInt64();
      item.state = value["state"].GetString();
      item.duplicate = value.HasMember("duplicate") && value["duplicate"].GetBool();
      shared_.remember(item.id);
      if (!item.duplicate) ++shared_.backlog;
    };
    if (!document.HasMember("jobs")) {
      take(document, event.jobs[0]);
      return;
    }
    const auto& jobs = document["jobs"];
    for (rapidjson::SizeType i = 0; i < jobs.Size() && i < event.jobs.size(); ++i) {
      take(jobs[i], event.jobs[i]);
    }
  }

  // The same key with another body must be refused and have no effect.
  void post_other_body(const Request& request) {
    Request other = request;
    other.event.jobs.assign(1, {});
    other.body = job(other.event.jobs[0], other.event.queue, "", false);
    other.event.body = other.body;
    other.event.unique.clear();
    post(other);
  }

  void read_something() {
    const Id id = shared_.some_id(chance_);
    if (id == 0) return pause();
    const Answer answer = send("GET", fmt::format("/v1/jobs/{}", id), "");
    if (answer.sent != Sent::answered) return;
    ReadEvent event{{answer.invoke_us, answer.return_us}, id, answer.status, "", 0};
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (document.IsObject() && document.HasMember("state")) {
      event.state = document["state"].GetString();
      event.attempt = document["attempt"].GetInt();
    }
    history_.reads.push_back(event);
  }

  static constexpr int kMaxRepeats = 4;
  static constexpr std::int64_t kSessions = 12;  // of each queue
};

class Operator final : public Client {
 public:
  using Client::Client;

 private:
  void turn() override {
    if (!limited_) limited_ = limit_queues();
    if (shared_.draining) {
      drain();
      return;
    }
    const Id id = shared_.some_id(chance_);
    const std::int64_t what = chance_.between(1, 100);
    pause_for(200);
    if (id == 0) {
      pause_for(20'000);
    } else if (what <= 35) {
      cancel(id);
    } else if (what <= 50) {
      retry(id);
    } else if (what <= 58) {
      pause(!paused_);
    } else if (what <= 62) {
      send("GET", "/v1/jobs?state=dead&limit=20", "");
    } else if (what <= 66) {
      read_counts();
    } else {
      read(id);
    }
  }

  // The end of a run: nothing stays paused, nothing waits for a long back-off.
  void drain() {
    if (paused_ || !resumed_) resumed_ = pause(false);
    for (const char* which : {"state=retryable", "state=scheduled", "quarantined=true"})
      retry_all(which, false);
    retry_all("state=waiting", true);
    pause_for(5'000);
  }

  // One queue with quarantine after the first lost attempt, one with a breaker, one with rates.
  bool limit_queues() {
    const auto put = [this](const std::string& target, const std::string& body) {
      return done(send("PUT", target, body)) == Done::yes;
    };
    return put("/v1/breakers/peer",
               R"({"failures":10,"within":"1s","open_for":"1s","max_open_for":"2s"})") &&
           put("/v1/queues/alpha/limits", R"({"quarantine_after":1})") &&
           put("/v1/queues/beta/limits", R"({"breaker":"peer"})") &&
           put("/v1/queues/gamma/limits", R"({"per_key":{"rate":{"count":20,"per":"1s"}}})");
  }

  void retry_all(const std::string& which, bool deferred_alone) {
    std::string cursor;
    do {
      const Answer page = send(
          "GET",
          fmt::format("/v1/jobs?{}&limit=500{}", which, cursor.empty() ? "" : "&cursor=" + cursor),
          "");
      rapidjson::Document document;
      document.Parse(page.body.data(), page.body.size());
      if (page.status != 200 || !document.IsObject()) return;
      for (const auto& job : document["jobs"].GetArray()) {
        if (!deferred_alone || job.HasMember("deferred")) retry(job["id"].GetInt64());
      }
      const auto& next = document["next_cursor"];
      cursor = next.IsString() ? next.GetString() : "";
    } while (!cursor.empty());
  }

  void read_counts() {
    const Answer answer = send("GET", "/v1/queues", "");
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (answer.status != 200 || !document.IsObject()) return;
    for (const auto& queue : document["queues"].GetArray()) {
      CountsEvent event{{answer.invoke_us, answer.return_us}, queue["name"].GetString(), 0, 0};
      event.enqueued = queue["enqueued"].GetInt64();
      event.accounted = queue["pruned"].GetInt64() + queue["expired"].GetInt64();
      for (const auto& count : queue["counts"].GetObject())
        event.accounted += count.value.GetInt64();
      history_.counts.push_back(std::move(event));
    }
  }

  void cancel(Id id) {
    const Answer answer =
        send("POST", fmt::format("/v1/jobs/{}/cancel", id), R"({"reason":"torture"})");
    CancelEvent event{
        {answer.invoke_us, answer.return_us}, done(answer), id, answer.status, "", false};
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (event.done == Done::yes && document.IsObject()) {
      event.state = document["state"].GetString();
      event.requested =
          document.HasMember("cancel_requested") && document["cancel_requested"].GetBool();
    }
    history_.cancels.push_back(event);
  }

  void retry(Id id) {
    const Answer answer = send("POST", fmt::format("/v1/jobs/{}/retry", id), "");
    history_.retries.push_back(
        {{answer.invoke_us, answer.return_us}, done(answer), id, answer.status});
  }

  bool pause(bool paused) {
    const std::string& queue = queue_names().back();
    const Answer answer =
        send("POST",
             fmt::format("/v1/queues/{}/{}?create=true", queue, paused ? "pause" : "resume"), "");
    history_.pauses.push_back({{answer.invoke_us, answer.return_us}, done(answer), queue, paused});
    if (done(answer) == Done::yes) paused_ = paused;
    return done(answer) == Done::yes;
  }

  void read(Id id) {
    const Answer answer = send("GET", fmt::format("/v1/jobs/{}", id), "");
    if (answer.sent != Sent::answered) return;
    ReadEvent event{{answer.invoke_us, answer.return_us}, id, answer.status, "", 0};
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (answer.status == 200 && document.IsObject()) event.state = document["state"].GetString();
    history_.reads.push_back(event);
  }

  bool limited_ = false;
  bool paused_ = false;
  bool resumed_ = false;
};

}  // namespace

std::unique_ptr<Client> make_producer(Shared& shared, std::uint64_t seed) {
  return std::make_unique<Producer>(shared, seed);
}
std::unique_ptr<Client> make_operator(Shared& shared, std::uint64_t seed) {
  return std::make_unique<Operator>(shared, seed);
}

}  // namespace blackbox
