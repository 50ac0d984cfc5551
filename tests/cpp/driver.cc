// The C++ driver of the conformance cases: operations in, answers out, one JSON object a line. See
// clients/conformance/README.md.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <thread>

#include "handler.h"
#include "values.h"

namespace conformance {
namespace {

using namespace mainspring;
using namespace std::chrono_literals;

// The answer of an operation: JSON text, or the JSON text of an error.
struct Answer {
  std::string ok{}, error{};
  Answer(std::string ok_) : ok(std::move(ok_)) {}
  Answer(const Error& e) : error(error_json(e)) {}
  static Answer failed(std::string json) {
    Answer out{std::string()};
    out.error = std::move(json);
    return out;
  }
  std::string line() const {
    return error.empty() ? "{\"ok\":" + ok + "}" : "{\"error\":" + error + "}";
  }
};
const std::string kDone = "{}";

template <class T, class F>
Answer answer(Result<T>&& result, F&& write) {
  if (!result) return result.error();
  return write(*result);
}
Answer done(Result<void>&& result) {
  if (!result) return result.error();
  return kDone;
}

JobId id_of(const Json& request) {
  return std::stoll(string_of(request, "id"));
}

// The objects opened by one case. Calls come from several threads.
class Case {
 public:
  static Result<std::unique_ptr<Case>> open(const std::string& url, const Json& options) {
    auto out = std::make_unique<Case>();
    out->url_ = url;
    out->options_.token = string_of(options, "token");
    out->options_.ca_file = string_of(options, "ca_file");
    out->options_.request_timeout =
        std::chrono::milliseconds(int_of(options, "timeout_ms", 30'000));
    out->options_.retry_for = std::chrono::milliseconds(int_of(options, "retry_for_ms", 15'000));
    MS_TRY_ASSIGN(out->engine_, Engine::open(url, out->options_));
    return out;
  }
  ~Case() {
    gates_.close();
    for (auto& [name, worker] : workers_) worker.engine->stop();
  }

  Answer run(const std::string& op, const Json& request) {
    const auto found = operations().find(op);
    if (found == operations().end())
      return Answer::failed(Object().string("code", "driver").string("message", op).text());
    return found->second(*this, request);
  }

 private:
  using Operation = Answer (*)(Case&, const Json&);
  using Table = std::map<std::string, Operation, std::less<>>;
  static const Table& operations();
  static void add_jobs(Table& table);
  static void add_workers(Table& table);
  static void add_leases(Table& table);
  static void add_schedules(Table& table);
  static void add_workflows(Table& table);

  Answer enqueue(const Json& r) {
    const Json& job = r["job"];
    return answer(engine_->enqueue(new_job(job), string_of(job, "idempotency_key"), fence_of(job)),
                  enqueued_json);
  }
  Answer enqueue_many(const Json& r);
  Answer result(const Json& r);
  Answer work(const Json& r);
  Answer lock(const Json& r);
  Answer hold(const Json& r);
  Answer next(const Json& r);
  Answer finish(const Json& r);
  Answer follow(const Json& r);
  Answer workflow_wait(const Json& r);

  struct Worker {
    std::unique_ptr<Runs> runs;
    std::unique_ptr<Engine> engine;
  };

  std::string url_;
  EngineOptions options_;
  std::optional<Engine> engine_;
  Gates gates_;
  std::mutex mutex_;  // of the rest
  std::map<std::string, Worker> workers_;
  std::map<std::string, AutoRenewLease> locks_;
  std::optional<HeldSession> session_;
  std::optional<ClaimedJob> job_;  // of the session
  std::map<std::string, std::shared_ptr<std::vector<std::string>>> events_;
  std::vector<EventSubscription> subscriptions_;
};

Answer Case::enqueue_many(const Json& r) {
  std::vector<NewJob> jobs;
  if (r.HasMember("job")) {
    jobs.assign(static_cast<std::size_t>(int_of(r, "times", 0)), new_job(r["job"]));
  } else {
    for (const Json& job : r["jobs"].GetArray()) jobs.push_back(new_job(job));
  }
  return answer(engine_->enqueue_many(std::move(jobs)), [](const std::vector<Enqueued>& made) {
    std::vector<std::string> first;
    for (std::size_t i = 0; i < std::min<std::size_t>(made.size(), 100); ++i)
      first.push_back(enqueued_json(made[i]));
    Object out;
    out.number("count", static_cast<std::int64_t>(made.size()));
    return out.raw("jobs", array_of(first)).text();
  });
}

Answer Case::result(const Json& r) {
  const Result<Job> job = engine_->wait(id_of(r), duration_of(r, "timeout", 30s));
  if (!job) return job.error();
  if (!is_terminal(job->state)) {
    return Answer::failed(Object()
                              .string("code", "result_timeout")
                              .string("message", fmt::format("job {} has not ended", job->id))
                              .text());
  }
  if (const auto good = Engine::result<std::optional<bool>>(*job);
      !good && good.error().code == ErrorCode::conflict) {
    Object out;
    out.string("code", "job_failed").string("message", good.error().message);
    return Answer::failed(
        out.string("state", to_string(job->state)).string("reason", job->reason).text());
  }
  return Object().payload("result", job->result).text();
}

Answer Case::work(const Json& r) {
  EngineOptions options = options_;
  options.worker.queues = strings_of(r, "queues");
  options.worker.slots = int_of(r, "slots", options.worker.slots);
  options.worker.lease = duration_of(r, "lease", options.worker.lease);
  options.worker.graceful_stop = duration_of(r, "graceful_stop", options.worker.graceful_stop);
  options.worker.claim_wait = duration_of(r, "claim_wait", options.worker.claim_wait);
  auto engine = Engine::open(url_, options);
  if (!engine) return engine.error();
  Worker worker{std::make_unique<Runs>(), std::make_unique<Engine>(std::move(*engine))};
  for (const auto& [kind, what] : r["handlers"].GetObject()) {
    worker.engine->on_kind(
        kind.GetString(), handler_of(what["do"], *worker.runs, gates_, *engine_),
        {.queue = options.worker.queues.at(0), .concurrency = int_of(what, "concurrency", 0)});
  }
  if (auto started = worker.engine->start(); !started) return started.error();
  const std::lock_guard lock(mutex_);
  workers_.insert_or_assign(string_of(r, "worker"), std::move(worker));
  return kDone;
}

Answer Case::lock(const Json& r) {
  auto lease = engine_->lock(
      string_of(r, "name"),
      {.ttl = duration_of(r, "ttl", kDefaultNamedLease), .wait = duration_of(r, "wait", 0s)});
  if (!lease) return lease.error();
  const std::string token = fmt::to_string(lease->token());
  const std::lock_guard lock(mutex_);
  locks_.insert_or_assign(string_of(r, "name"), std::move(*lease));
  return Object().string("token", token).text();
}

Answer Case::hold(const Json& r) {
  SessionOptions options{.key = string_of(r, "key")};
  options.wait = duration_of(r, "wait", options.wait);
  options.lease = duration_of(r, "lease", options.lease);
  auto held = engine_->sessions().accept(string_of(r, "queue"), std::move(options));
  if (!held) return held.error();
  session_.emplace(std::move(*held));
  Object out;
  out.string("key", session_->key()).string("token", fmt::to_string(session_->token()));
  return out.payload("state", session_->state()).text();
}

Answer Case::next(const Json& r) {
  auto job = session_->next(duration_of(r, "wait", 0s));
  if (!job) return job.error();
  job_ = std::move(*job);
  return Object().raw("job", job_ ? claimed_json(*job_) : "null").text();
}

Answer Case::finish(const Json& r) {
  std::optional<std::string> state;
  if (r.HasMember("session_state")) state = member_text(r, "session_state");
  return done(session_->finish(*job_, Complete{member_text(r, "result")}, std::move(state)));
}

Answer Case::follow(const Json& r) {
  const auto seen = std::make_shared<std::vector<std::string>>();
  auto subscription = engine_->events({.queues = {string_of(r["filter"], "queue")}},
                                      [this, seen](const EngineEvent& event) {
                                        const std::lock_guard lock(mutex_);
                                        seen->push_back(event_json(event));
                                      });
  if (!subscription) return subscription.error();
  const std::lock_guard lock(mutex_);
  events_[string_of(r, "name")] = seen;
  subscriptions_.push_back(std::move(*subscription));
  return kDone;
}

Answer Case::workflow_wait(const Json& r) {
  auto flow = engine_->workflows().wait(id_of(r), duration_of(r, "timeout", 30s));
  return answer(std::move(flow), [](const WorkflowInfo& info) {
    return Object().string("state", to_string(info.state)).payload("result", info.result).text();
  });
}

std::string state_text(JobState state) {
  return Object().string("state", to_string(state)).text();
}

const Case::Table& Case::operations() {
  static const Table table = [] {
    Table all;
    add_jobs(all);
    add_workers(all);
    add_leases(all);
    add_schedules(all);
    add_workflows(all);
    return all;
  }();
  return table;
}

void Case::add_jobs(Table& table) {
  table["enqueue"] = [](Case& c, const Json& r) { return c.enqueue(r); };
  table["enqueue_many"] = [](Case& c, const Json& r) { return c.enqueue_many(r); };
  table["get"] = [](Case& c, const Json& r) { return answer(c.engine_->get(id_of(r)), job_json); };
  table["result"] = [](Case& c, const Json& r) { return c.result(r); };
  table["cancel"] = [](Case& c, const Json& r) {
    return answer(c.engine_->cancel(id_of(r), string_of(r, "reason")), state_text);
  };
  table["retry"] = [](Case& c, const Json& r) {
    return answer(c.engine_->retry(id_of(r)), state_text);
  };
  table["why"] = [](Case& c, const Json& r) {
    return answer(c.engine_->why(id_of(r)), [](const Why& why) {
      return Object().string("gate", to_string(why.gate)).string("why", why.text).text();
    });
  };
  table["limit"] = [](Case& c, const Json& r) {
    return done(c.engine_->queues().set_limits(string_of(r, "queue"), limits_of(r["limits"])));
  };
  table["pause"] = [](Case& c, const Json& r) {
    return done(c.engine_->queues().pause(string_of(r, "queue")));
  };
  table["resume"] = [](Case& c, const Json& r) {
    return done(c.engine_->queues().resume(string_of(r, "queue")));
  };
}

void Case::add_workers(Table& table) {
  table["work"] = [](Case& c, const Json& r) { return c.work(r); };
  table["stop"] = [](Case& c, const Json& r) -> Answer {
    c.workers_.at(string_of(r, "worker")).engine->stop();
    return Object().boolean("clean", true).text();
  };
  table["runs"] = [](Case& c, const Json& r) -> Answer {
    return c.workers_.at(string_of(r, "worker")).runs->json();
  };
  table["open_gate"] = [](Case& c, const Json& r) -> Answer {
    c.gates_.open(string_of(r, "gate"));
    return kDone;
  };
  table["follow"] = [](Case& c, const Json& r) { return c.follow(r); };
  table["followed"] = [](Case& c, const Json& r) -> Answer {
    const std::lock_guard lock(c.mutex_);
    return Object().raw("events", array_of(*c.events_.at(string_of(r, "name")))).text();
  };
}

void Case::add_leases(Table& table) {
  table["lock"] = [](Case& c, const Json& r) { return c.lock(r); };
  table["unlock"] = [](Case& c, const Json& r) {
    return done(c.locks_.at(string_of(r, "name")).release());
  };
  table["lock_state"] = [](Case& c, const Json& r) -> Answer {
    return Object().boolean("lost", c.locks_.at(string_of(r, "name")).lost()).text();
  };
  table["hold"] = [](Case& c, const Json& r) { return c.hold(r); };
  table["next"] = [](Case& c, const Json& r) { return c.next(r); };
  table["finish"] = [](Case& c, const Json& r) { return c.finish(r); };
  table["release"] = [](Case& c, const Json&) { return done(c.session_->release()); };
}

void Case::add_schedules(Table& table) {
  table["schedule_set"] = [](Case& c, const Json& r) {
    const std::string name = string_of(r, "name");
    return answer(c.engine_->schedules().put(schedule_of(r["schedule"], name)),
                  [&](const DefinedSchedule& put) {
                    Object out;
                    out.string("name", name).string("outcome", to_string(put.outcome));
                    return out.number("version", put.version).text();
                  });
  };
  table["schedule_get"] = [](Case& c, const Json& r) {
    return answer(c.engine_->schedules().get(string_of(r, "name")), schedule_json);
  };
  table["schedule_remove"] = [](Case& c, const Json& r) {
    return done(c.engine_->schedules().remove(string_of(r, "name")));
  };
  table["schedule_trigger"] = [](Case& c, const Json& r) {
    return answer(c.engine_->schedules().trigger(string_of(r, "name")),
                  [](JobId job) { return Object().string("job", fmt::to_string(job)).text(); });
  };
}

void Case::add_workflows(Table& table) {
  table["workflow_start"] = [](Case& c, const Json& r) {
    return answer(c.engine_->workflows().start(workflow_of(r["workflow"])),
                  [](const StartedWorkflow& flow) {
                    Object out;
                    out.string("id", fmt::to_string(flow.id));
                    return out.boolean("duplicate", flow.duplicate).text();
                  });
  };
  table["workflow_wait"] = [](Case& c, const Json& r) { return c.workflow_wait(r); };
  table["workflow_signal"] = [](Case& c, const Json& r) {
    return done(c.engine_->workflows().signal(
        id_of(r), string_of(r, "name"), member_text(r, "payload"), string_of(r, "signal_id")));
  };
  table["workflow_cancel"] = [](Case& c, const Json& r) {
    return answer(c.engine_->workflows().cancel(id_of(r)), [](const WorkflowInfo& info) {
      return Object().string("state", to_string(info.state)).text();
    });
  };
}

class Driver {
 public:
  std::string line(const std::string& text) {
    auto request = std::make_shared<Document>(parse_request(text));
    const std::string op = string_of(*request, "op");
    if (op == "hello")
      return Answer(Object().string("language", "cpp").raw("has", R"(["wide_args"])").text())
          .line();
    if (op == "open") return open(*request).line();
    const int ticket = int_of(*request, "ticket", 0);
    if (op == "join") {
      Ticket& waited = tickets_.at(ticket);
      waited.thread.join();
      return *waited.answer;
    }
    if (ticket == 0) return run(op, *request);
    auto answer = std::make_shared<std::string>();
    tickets_[ticket] = {std::thread([this, op, request, answer] { *answer = run(op, *request); }),
                        answer};
    return Answer(kDone).line();
  }
  ~Driver() {
    case_.reset();
    for (auto& [number, ticket] : tickets_) {
      if (ticket.thread.joinable()) ticket.thread.join();
    }
  }

 private:
  struct Ticket {
    std::thread thread;
    std::shared_ptr<std::string> answer;
  };

  Answer open(const Json& request) {
    case_.reset();
    auto opened = Case::open(string_of(request, "url"), request["options"]);
    if (!opened) return opened.error();
    case_ = std::move(*opened);
    return kDone;
  }
  std::string run(const std::string& op, const Json& request) {
    try {
      return case_->run(op, request).line();
    } catch (const std::exception& e) {
      Object error;
      return Answer::failed(error.string("code", "driver").string("message", e.what()).text())
          .line();
    }
  }

  std::unique_ptr<Case> case_;
  std::map<int, Ticket> tickets_;
};

}  // namespace
}  // namespace conformance

int main() {
  conformance::Driver driver;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << driver.line(line) << std::endl;
  }
  return 0;
}
