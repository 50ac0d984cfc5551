// Simulated workers of a torture run: correct ones, ones that vanish, ones that return too late.
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <optional>
#include <set>

#include "process.h"
#include "workload.h"

namespace blackbox {
namespace {

std::string json_text(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

class Worker final : public Client {
 public:
  Worker(Shared& shared, std::uint64_t seed) : Client(shared, seed) { reborn(); }

 private:
  struct Held {
    Id id = 0;
    std::int64_t token = 0;
    Micros until = 0;  // when a late one returns
    std::string queue, session;
  };
  struct Result {
    Held job;
    FinishEvent event;  // without times
    std::string json;
    std::optional<std::size_t> write;  // of its session's state
  };

  void turn() override {
    const auto late = std::find_if(late_.begin(), late_.end(), [&](const Held& job) {
      return job.until < now_us() || shared_.draining;
    });
    if (late != late_.end()) {
      const Held job = *late;
      late_.erase(late);
      come_back_late(job);
    }
    if (!slow_.empty()) go_on();
    std::vector<Held> jobs;
    {
      const std::string body = claim_body();
      const Answer answer = send("POST", "/v1/claim", body);
      if (done(answer) == Done::unknown) ++history_.unknown_claims;
      if (done(answer) == Done::yes) jobs = take_jobs(answer);
    }
    if (jobs.empty() && shared_.draining) pause_for(5'000);
    while (!jobs.empty() && !shared_.stop) jobs = work(jobs);
  }

  // A new process with a new name that holds no jobs.
  void reborn() { name_ = fmt::format("w{:016x}", chance_.next()); }

  std::string claim_body() {
    std::string queues;
    for (const std::string& queue : queue_names()) {
      if (shared_.draining || chance_.percent(70))
        queues += fmt::format("{}\"{}\"", queues.empty() ? "" : ",", queue);
    }
    if (queues.empty()) queues = "\"alpha\"";
    return fmt::format(R"({{"worker":"{}","queues":[{}],"max":{},"wait":"{}ms","lease":"1s"}})",
                       name_, queues, chance_.between(1, 16),
                       chance_.percent(50) ? 0 : chance_.between(1, 60));
  }

  std::vector<Held> take_jobs(const Answer& answer) {
    std::vector<Held> jobs;
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (!document.IsObject() || !document.HasMember("jobs")) return jobs;
    const std::int64_t request = shared_.next_request++;
    for (const auto& job : document["jobs"].GetArray()) {
      GrantEvent grant;
      grant.at = {answer.invoke_us, answer.return_us};
      grant.request = request;
      grant.id = job["id"].GetInt64();
      grant.token = job["token"].GetInt64();
      grant.attempt = job["attempt"].GetInt();
      grant.max_attempts = job["max_attempts"].GetInt();
      grant.nonce = job["args"]["n"].GetInt64();
      grant.queue = job["queue"].GetString();
      if (job.HasMember("checkpoint") && !job["checkpoint"].IsNull()) {
        grant.checkpoint = json_text(job["checkpoint"]);
      }
      grant.lease = kLease;
      if (job.HasMember("session") && job["session"].IsString()) {
        grant.session = job["session"].GetString();
        const bool has = job.HasMember("session_state") && !job["session_state"].IsNull();
        if (has) grant.session_state = json_text(job["session_state"]);
      }
      jobs.push_back({grant.id, grant.token, 0, grant.queue, grant.session});
      history_.grants.push_back(std::move(grant));
    }
    return jobs;
  }

  // Works on the claimed jobs; returns the jobs that the finish claimed, if it asked for more.
  std::vector<Held> work(const std::vector<Held>& jobs) {
    std::vector<Result> results;
    std::vector<Held> renewed;
    for (const Held& job : jobs) {
      const std::int64_t what = shared_.draining ? 100 : chance_.between(1, 100);
      if (what <= 5) continue;  // vanished: its lease must run out
      if (what <= 9) {
        // Some soon after their lease, some when another worker has claimed the job.
        const Micros late = chance_.percent(40) ? 600'000 : 6'000'000;
        late_.push_back(job);
        late_.back().until = now_us() + kLease + chance_.between(50'000, late);
        continue;
      }
      if (what <= 14 && slow_.size() < kMaxSlow) {
        slow_.push_back(job);
        slow_.back().until = now_us() + chance_.between(20'000, 2'500'000);
        continue;
      }
      if (what <= 34) renewed.push_back(job);
      results.push_back(decide(job));
    }
    if (!renewed.empty()) renew(renewed);
    if (chance_.percent(3)) reborn();
    if (results.empty()) return {};
    const bool more = !shared_.draining && chance_.percent(30);
    Done outcome = Done::no;
    std::vector<Held> next = finish(results, more, outcome);
    // A correct worker repeats a request with an unknown outcome.
    if (outcome != Done::yes && chance_.percent(60)) {
      shared_.wait_up(300);
      next = finish(results, false, outcome);
    }
    return next;
  }

  Result decide(const Held& job) {
    Result result;
    result.job = job;
    FinishEvent& event = result.event;
    event.id = job.id;
    event.token = job.token;
    const std::int64_t mark = shared_.next_nonce++;
    const std::int64_t what = shared_.draining ? 1 : chance_.between(1, 100);
    const std::string head = fmt::format(R"({{"id":{},"token":{},"outcome":)", job.id, job.token);
    if (what <= 62) {
      event.outcome = "complete";
      event.text = fmt::format(R"({{"r":{}}})", mark);
      result.json = head + R"("complete","result":)" + event.text + "}";
    } else if (what <= 80) {
      event.outcome = "retry";
      event.text = fmt::format("failed-{}", mark);
      event.after = chance_.between(0, 400) * 1000;
      result.json = head + fmt::format(R"("retry","error":"{}","after":"{}ms"}})", event.text,
                                       event.after / 1000);
    } else if (what <= 88) {
      event.outcome = "snooze";
      event.after = chance_.between(0, 400) * 1000;
      result.json = head + fmt::format(R"("snooze","after":"{}ms"}})", event.after / 1000);
    } else if (what <= 91 && job.session.empty()) {
      event.outcome = "defer";
      event.text = fmt::format("aside-{}", mark);
      result.json = head + fmt::format(R"("defer","reason":"{}"}})", event.text);
    } else if (what <= 94) {
      event.outcome = "cancel";
      event.text = fmt::format("stopped-{}", mark);
      result.json = head + fmt::format(R"("cancel","reason":"{}"}})", event.text);
    } else {
      event.outcome = "dead";
      event.text = fmt::format("hopeless-{}", mark);
      result.json = head + fmt::format(R"("dead","reason":"{}","description":"by the torture"}})",
                                       event.text);
    }
    if (!job.session.empty() && chance_.percent(50)) leave_state(result);
    return result;
  }

  // With the finish: the claim of the session's next job returns this state.
  void leave_state(Result& result) {
    const std::string state = fmt::format("[{}]", shared_.next_nonce++);
    result.json.insert(result.json.size() - 1, ",\"session_state\":" + state);
    result.write = history_.session_writes.size();
    history_.session_writes.push_back({.queue = result.job.queue,
                                       .session = result.job.session,
                                       .state = state,
                                       .invoke = now_us()});
  }

  std::vector<Held> finish(const std::vector<Result>& results, bool more, Done& outcome) {
    std::string body = fmt::format(R"({{"worker":"{}","results":[)", name_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      body += (i == 0 ? "" : ",") + results[i].json;
    }
    body += more ? "],\"claim\":" + claim_body() + "}" : std::string("]}");
    const Answer answer = send("POST", "/v1/finish", body);
    outcome = done(answer);
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      FinishEvent event = results[i].event;
      event.at = {answer.invoke_us, answer.return_us};
      event.done = outcome;
      if (outcome == Done::yes) {
        event.status =
            document["results"][static_cast<rapidjson::SizeType>(i)]["status"].GetString();
        const bool lives = event.outcome == "retry" || event.outcome == "snooze";
        if (event.status == "ok" && !lives) --shared_.backlog;  // also for a deferred job
        if (event.status == "ok" && results[i].write)
          history_.session_writes[*results[i].write].acked = event.at.ret;
      }
      history_.finishes.push_back(std::move(event));
    }
    if (outcome == Done::unknown && more) ++history_.unknown_claims;
    return outcome == Done::yes && more ? take_jobs(answer) : std::vector<Held>{};
  }

  // The answer names jobs, not tokens: of a job that this worker was given again while it still
  // renews the older lease, the two go in calls of their own.
  void renew(std::vector<Held> jobs) {
    while (!jobs.empty()) {
      std::vector<Held> once, again;
      std::set<Id> named;
      for (const Held& job : jobs) (named.insert(job.id).second ? once : again).push_back(job);
      renew_each(once);
      jobs = std::move(again);
    }
  }

  void renew_each(const std::vector<Held>& jobs) {
    std::string body = fmt::format(R"({{"worker":"{}","leases":[)", name_);
    std::vector<RenewEvent> events;
    for (const Held& job : jobs) {
      RenewEvent event;
      event.id = job.id;
      event.token = job.token;
      event.lease = kLease;
      if (chance_.percent(60))
        event.checkpoint = fmt::format(R"({{"c":{}}})", shared_.next_nonce++);
      body +=
          fmt::format(R"({}{{"id":{},"token":{},"progress":{{"value":0.5,"text":"half"}}{}{}}})",
                      events.empty() ? "" : ",", job.id, job.token,
                      event.checkpoint.empty() ? "" : ",\"checkpoint\":", event.checkpoint);
      events.push_back(std::move(event));
    }
    body += R"(],"lease":"1s"})";
    const Answer answer = send("POST", "/v1/renew", body);
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    for (RenewEvent& event : events) {
      event.at = {answer.invoke_us, answer.return_us};
      event.done = done(answer);
      if (event.done == Done::yes) read_renewal(document, event);
      history_.renews.push_back(std::move(event));
    }
  }

  static void read_renewal(const rapidjson::Document& document, RenewEvent& event) {
    for (const auto& renewed : document["renewed"].GetArray()) {
      if (renewed["id"].GetInt64() == event.id) event.renewed = true;
    }
    for (const auto& id : document["lost"].GetArray()) {
      if (id.GetInt64() == event.id) event.lost = true;
    }
    for (const auto& id : document["cancel"].GetArray()) {
      if (id.GetInt64() == event.id) event.cancel = true;
    }
  }

  // Jobs that take their time: their leases are renewed, and at the end they are finished.
  void go_on() {
    renew({slow_.begin(), slow_.end()});
    std::vector<Result> results;
    for (const Held& job : slow_) {
      if (job.until < now_us() || shared_.draining) results.push_back(decide(job));
    }
    std::erase_if(slow_, [&](const Held& job) {
      return std::any_of(results.begin(), results.end(), [&](const Result& result) {
        return result.job.id == job.id && result.job.token == job.token;
      });
    });
    Done outcome = Done::no;
    if (!results.empty()) finish(results, false, outcome);
  }

  void come_back_late(const Held& job) {
    if (chance_.percent(40)) renew({job});
    Done outcome = Done::no;
    finish({decide(job)}, false, outcome);
  }

  std::string name_;
  std::vector<Held> late_;
  std::vector<Held> slow_;
  static constexpr std::size_t kMaxSlow = 20;
};

}  // namespace

std::unique_ptr<Client> make_worker(Shared& shared, std::uint64_t seed) {
  return std::make_unique<Worker>(shared, seed);
}

}  // namespace blackbox
