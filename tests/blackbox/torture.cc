// mainspring_torture: drives the real server over HTTP, kills it at random moments, and checks that
// every promise was kept. Knows the server only by its wire format.
//
//   mainspring_torture --server build/release/mainspring --cycles 500 --seed 1
//
// A cycle: start the server, let the clients work for some random microseconds, then strike: mostly
// kill -9, sometimes SIGTERM, a stop for longer than a lease, a calm in which leases run out, a
// second server on the same directory, a kill while it starts. With --wander, also a move of the
// store, to a schema of that database or to a directory, while clients work and the copy is
// sometimes killed; the server is then started on the target. In the end: heal, drain, stop, start
// once more, read everything back, check. Exit code: 0 all promises were kept, 1 one was broken,
// 2 the run proves nothing (too few faults, or the server did not work at all).
#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "checks.h"
#include "process.h"
#include "workload.h"

using namespace blackbox;

namespace {

struct Options {
  std::string server;
  std::string directory;  // "" = a temporary one, removed afterwards unless something is wrong
  std::string history;    // file for the history; "" = only when something is wrong
  int cycles = 500;
  std::uint64_t seed = 1;
  std::string wander;      // URL of a database; "" = the store stays in its directory
  std::string must_break;  // self-test: success means that this invariant was broken; "" = off
  std::vector<std::pair<std::string, std::string>> environment;
};

constexpr int kStartLimitMs = 60'000;
constexpr int kStopLimitMs = 60'000;
constexpr int kDrainLimitMs = 60'000;
constexpr int kSelfTestDrainLimitMs = 10'000;  // a mutant may prevent it from ending
constexpr int kMoveLimitMs = 60'000;
constexpr int kReaders = 4;
constexpr std::int64_t kJobsPerCycle = 150;

class Torture {
 public:
  explicit Torture(Options options)
      : options_(std::move(options)), chance_(options_.seed), shared_(free_port()) {
    if (options_.directory.empty()) {
      char path[] = "/tmp/mainspring-torture-XXXXXX";
      directory_ = mkdtemp(path) == nullptr ? "" : path;
      temporary_ = true;
    } else {
      directory_ = options_.directory;
      std::filesystem::create_directories(directory_);
    }
    store_ = directory_ + "/store";
  }

  int run() {
    const Micros started = now_us();
    const bool alive = start_server();
    if (alive) {
      start_clients();
      for (int i = 1; i <= options_.cycles && trouble_.empty(); ++i) cycle(i);
      if (trouble_.empty()) drain();
      stop_clients();
      if (trouble_.empty()) read_back();
      if (trouble_.empty()) verify_offline();
    }
    server_.kill();
    return report(static_cast<double>(now_us() - started) / 1e6);
  }

 private:
  // Workers are killed too: a long allowance would keep their jobs past the drain.
  Command serve(std::uint16_t port) const {
    Command command{
        .args = {options_.server, "serve", "--listen", fmt::format("127.0.0.1:{}", port),
                 "--restart-allowance", "1s"},
        .environment = options_.environment,
        .output = log_path()};
    for (std::string& word : place()) command.args.push_back(std::move(word));
    return command;
  }
  // The place of the store.
  std::vector<std::string> place() const {
    if (schema_.empty()) return {"--data", store_};
    return {"--store", options_.wander, "--store-schema", schema_};
  }
  std::string log_end() const {
    const std::string log = read_file(log_path());
    return log.size() < 600 ? log : log.substr(log.size() - 600);
  }
  std::string log_path() const { return directory_ + "/server.log"; }

  bool start_server() {
    const Micros started = now_us();
    if (!server_.start(serve(shared_.port))) {
      trouble_ = "cannot start " + options_.server;
      return false;
    }
    HttpClient probe(shared_.port);
    while (now_us() - started < kStartLimitMs * 1000LL) {
      if (probe.get("/readyz", 1000).status == 200) {
        longest_start_us_ = std::max(longest_start_us_, now_us() - started);
        shared_.set_up(true);
        return true;
      }
      if (server_.wait(2)) {
        trouble_ =
            fmt::format("the server ended by itself with {} while starting", server_.exit_code());
        return false;
      }
    }
    trouble_ = fmt::format("the server was not ready after {} ms", kStartLimitMs);
    return false;
  }

  // A promise is broken so that the run cannot continue.
  void give_up(const std::string& what) {
    broken_.push_back(what);
    if (trouble_.empty()) trouble_ = "the run was cut short";
  }

  void start_clients() {
    for (int i = 0; i < 2; ++i) clients_.push_back(make_producer(shared_, chance_.next()));
    for (int i = 0; i < 4; ++i) clients_.push_back(make_worker(shared_, chance_.next()));
    clients_.push_back(make_operator(shared_, chance_.next()));
    for (auto& client : clients_) {
      threads_.emplace_back([&client] { client->run(); });
    }
  }

  void stop_clients() {
    shared_.stop = true;
    shared_.set_up(true);
    for (std::thread& thread : threads_) thread.join();
    for (auto& client : clients_) history_.append(std::move(client->history()));
  }

  void cycle(int i) {
    if (i % 100 == 0) {
      fmt::print("cycle {} of {}\n", i, options_.cycles);
      std::fflush(stdout);
    }
    if (server_.wait(0)) {
      give_up(fmt::format("the server ended by itself with {}", server_.exit_code()));
      return;
    }
    shared_.allow(kJobsPerCycle);
    pause_for(chance_.between(20'000, 110'000));
    if (i % 25 == 13) strike_stop();
    if (i % 40 == 20) note("calm", [&] { pause_for(kLease + 250'000); });
    if (i % 30 == 7 && schema_.empty()) strike_second();
    if (i % 6 == 3 && !options_.wander.empty()) return strike_move();
    if (i % 10 == 5) {
      strike_term();
    } else {
      strike_kill();
    }
    if (i % 15 == 11 && trouble_.empty()) strike_start();
    if (trouble_.empty()) start_server();
  }

  void note(const std::string& what, const std::function<void()>& act) {
    NemesisEvent event{{now_us(), 0}, what};
    act();
    event.at.ret = now_us();
    history_.nemeses.push_back(event);
  }

  void strike_kill() {
    note("kill", [&] {
      server_.signal(SIGKILL);
      shared_.set_up(false);
      server_.wait(-1);
    });
  }

  void strike_term() {
    note("term", [&] {
      server_.signal(SIGTERM);
      shared_.set_up(false);
      if (!server_.wait(kStopLimitMs)) {
        give_up(fmt::format("SIGTERM did not end the server within {} ms", kStopLimitMs));
      } else if (server_.exit_code() != 0) {
        give_up(fmt::format("after SIGTERM the server ended with {}", server_.exit_code()));
      }
    });
  }

  // Longer than a lease: when the server continues, every lease that it granted is over.
  void strike_stop() {
    note("stop", [&] {
      server_.signal(SIGSTOP);
      pause_for(kLease + chance_.between(20'000, 300'000));
      server_.signal(SIGCONT);
    });
    pause_for(chance_.between(20'000, 110'000));
  }

  // A second server on the same directory must refuse to start and name the first.
  void strike_second() {
    note("second", [&] {
      const Command command = serve(free_port());
      const Finished second = blackbox::run(command.args, kStartLimitMs, options_.environment);
      const std::string pid = std::to_string(server_.pid());
      if (second.exit_code == 0 || second.output.find(pid) == std::string::npos) {
        broken_.push_back(fmt::format(
            "a second server on the same directory ended with {} and did not name pid {}: {}",
            second.exit_code, pid, second.output.substr(0, 300)));
      }
    });
  }

  // Moves the store to a place of the other kind while all clients work. Restarts killed copies.
  void strike_move() {
    const std::string number = std::to_string(++moves_);
    const bool to_schema = schema_.empty();
    const std::string store = directory_ + "/store" + number, schema = "torture" + number;
    const std::vector<std::string> copy = {options_.server,
                                           "store",
                                           "copy",
                                           to_schema ? store_ : options_.wander,
                                           to_schema ? options_.wander : store,
                                           to_schema ? "--to-schema" : "--from-schema",
                                           to_schema ? schema : schema_};
    note("move", [&] {
      for (std::int64_t kills = chance_.between(0, 2); kills > 0; --kills) {
        Process copier;
        copier.start({.args = copy, .environment = options_.environment, .output = log_path()});
        pause_for(chance_.between(10'000, 250'000));
        copier.kill();
      }
      const Finished done = blackbox::run(copy, kMoveLimitMs, options_.environment);
      if (done.exit_code != 0) {
        give_up(fmt::format("the move ended with {}: {}", done.exit_code, done.output));
        return;
      }
      shared_.set_up(false);
      server_.kill();
      const Finished old =
          blackbox::run(serve(free_port()).args, kStartLimitMs, options_.environment);
      if (old.exit_code == 0 || old.output.find("has moved to") == std::string::npos) {
        broken_.push_back(fmt::format(
            "a server on the place that was left ended with {} and did not say where it "
            "went: {}",
            old.exit_code, old.output.substr(0, 300)));
      }
      if (to_schema) {
        schema_ = schema;
      } else {
        schema_.clear();
        store_ = store;
      }
    });
    if (trouble_.empty()) start_server();
  }

  // Killed during its start, while it recovers.
  void strike_start() {
    note("kill while starting", [&] {
      if (!server_.start(serve(shared_.port))) return;
      pause_for(chance_.between(0, 15'000));
      server_.kill();
    });
  }

  // The faults are over: all jobs must end by themselves.
  void drain() {
    shared_.draining = true;
    HttpClient http(shared_.port);
    const Micros started = now_us();
    std::string left;
    const int limit_ms = options_.must_break.empty() ? kDrainLimitMs : kSelfTestDrainLimitMs;
    while (now_us() - started < limit_ms * 1000LL) {
      left = live_jobs(http);
      if (left.empty()) return;
      pause_for(20'000);
    }
    broken_.push_back(
        fmt::format("{} s after the last fault jobs were left: {}", limit_ms / 1000, left));
  }

  static std::string live_jobs(HttpClient& http) {
    const Answer answer = http.get("/v1/queues");
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (answer.status != 200 || !document.IsObject()) return "no answer from /v1/queues";
    std::string left;
    for (const auto& queue : document["queues"].GetArray()) {
      for (const char* state : {"waiting", "scheduled", "available", "running", "retryable"}) {
        const auto count = queue["counts"].FindMember(state);
        if (count == queue["counts"].MemberEnd() || count->value.GetInt64() == 0) continue;
        left +=
            fmt::format("{} {} in {}; ", count->value.GetInt64(), state, queue["name"].GetString());
      }
    }
    return left;
  }

  void read_back() {
    strike_term();
    if (!trouble_.empty() || !start_server()) return;
    HttpClient http(shared_.port);
    read_queues(http);
    const std::vector<Id> ids = list_ids(http, "/v1/jobs?limit=1000");
    history_.dead_listing = list_ids(http, "/v1/jobs?state=dead&limit=1000");
    std::vector<std::map<Id, FinalJob>> found(kReaders);
    std::vector<std::vector<std::string>> lost(kReaders);
    std::vector<std::thread> readers;
    for (std::size_t r = 0; r < kReaders; ++r) {
      readers.emplace_back([&, r] {
        HttpClient own(shared_.port);
        for (std::size_t i = r; i < ids.size(); i += kReaders)
          read_job(own, ids[i], found[r], lost[r]);
      });
    }
    for (std::thread& reader : readers) reader.join();
    for (std::size_t r = 0; r < kReaders; ++r) {
      history_.jobs.merge(found[r]);
      for (std::string& what : lost[r]) history_.unreadable.push_back(std::move(what));
    }
    history_.complete = trouble_.empty();
    strike_term();
  }

  void read_queues(HttpClient& http) {
    const Answer answer = http.get("/v1/queues");
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (!document.IsObject()) return;
    for (const auto& queue : document["queues"].GetArray()) {
      FinalQueue& mine = history_.queues[queue["name"].GetString()];
      for (const auto& count : queue["counts"].GetObject()) {
        mine.counts[count.name.GetString()] = count.value.GetInt64();
      }
      mine.enqueued = queue["enqueued"].GetInt64();
      mine.pruned = queue["pruned"].GetInt64();
      mine.expired = queue["expired"].GetInt64();
    }
  }

  std::vector<Id> list_ids(HttpClient& http, const std::string& target) {
    std::vector<Id> ids;
    std::string cursor;
    do {
      const Answer answer = http.get(target + (cursor.empty() ? "" : "&cursor=" + cursor));
      rapidjson::Document document;
      document.Parse(answer.body.data(), answer.body.size());
      if (answer.status != 200 || !document.IsObject()) {
        trouble_ = fmt::format("GET {} answered {}: {}", target, answer.status,
                               answer.body.substr(0, 200));
        return ids;
      }
      for (const auto& job : document["jobs"].GetArray()) ids.push_back(job["id"].GetInt64());
      const auto& next = document["next_cursor"];
      cursor = next.IsString() ? next.GetString() : "";
    } while (!cursor.empty());
    return ids;
  }

  static void read_job(HttpClient& http, Id id, std::map<Id, FinalJob>& found,
                       std::vector<std::string>& lost) {
    const Answer answer = http.get(fmt::format("/v1/jobs/{}", id));
    rapidjson::Document document;
    document.Parse(answer.body.data(), answer.body.size());
    if (answer.status != 200 || !document.IsObject()) {
      lost.push_back(fmt::format("job {} is listed and answers {}", id, answer.status));
      return;
    }
    FinalJob& job = found[id];
    job.id = id;
    job.nonce = document["args"]["n"].GetInt64();
    job.queue = document["queue"].GetString();
    job.state = document["state"].GetString();
    job.attempt = document["attempt"].GetInt();
    job.max_attempts = document["max_attempts"].GetInt();
    if (document.HasMember("result") && !document["result"].IsNull()) {
      rapidjson::StringBuffer buffer;
      rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
      document["result"].Accept(writer);
      job.result.assign(buffer.GetString(), buffer.GetSize());
    }
    if (document.HasMember("reason") && document["reason"].IsString())
      job.reason = document["reason"].GetString();
    if (!document.HasMember("errors") || !document["errors"].IsArray()) return;
    for (const auto& error : document["errors"].GetArray()) {
      job.errors.emplace_back(error["attempt"].GetInt(), error["message"].GetString());
    }
  }

  void verify_offline() {
    std::vector<std::string> command = {options_.server, "verify"};
    for (std::string& word : place()) command.push_back(std::move(word));
    const Finished verify = blackbox::run(command, 60'000, options_.environment);
    if (verify.exit_code != 0) {
      broken_.push_back(fmt::format("mainspring verify ended with {}: {}", verify.exit_code,
                                    verify.output.substr(0, 2000)));
    }
  }

  int report(double seconds) {
    std::size_t violated = broken_.size();
    bool caught = false;
    for (const std::string& what : broken_) fmt::print("BROKEN   {}\n", what);
    for (const Verdict& verdict : check(history_)) {
      violated += verdict.violated;
      caught = caught || (verdict.violated > 0 && !options_.must_break.empty() &&
                          verdict.invariant.starts_with(options_.must_break));
      fmt::print("{:8} {:62} {:>9} checked{}\n", verdict.violated == 0 ? "ok" : "BROKEN",
                 verdict.invariant, verdict.checked,
                 verdict.violated == 0 ? "" : fmt::format(", {} violated", verdict.violated));
      for (const std::string& witness : verdict.witnesses) fmt::print("         {}\n", witness);
    }
    fmt::print("{}\nseed {}, {} cycles, {} moves, {:.0f} s, longest start {} ms\n",
               summary(history_), options_.seed, options_.cycles, moves_, seconds,
               longest_start_us_ / 1000);
    int code = violated > 0 ? 1 : 0;
    if (!trouble_.empty()) {
      fmt::print("TROUBLE  {}\n", trouble_);
      if (code == 0) code = 2;
    }
    for (const std::string& what : not_met(history_)) {
      if (options_.cycles < 100) break;
      fmt::print("VACUOUS  the run did not meet {}\n", what);
      if (code == 0) code = 2;
    }
    if (!options_.must_break.empty()) {
      keep_or_remove(0);
      fmt::print("{} was {}.\n", options_.must_break,
                 caught ? "broken, and seen" : "NOT SEEN BROKEN");
      return caught ? 0 : 1;
    }
    keep_or_remove(code);
    fmt::print("{}\n", code == 0   ? "All promises kept."
                       : code == 1 ? "A PROMISE WAS BROKEN."
                                   : "THE RUN PROVES NOTHING.");
    return code;
  }

  void keep_or_remove(int code) {
    if (!options_.history.empty()) write_jsonl(history_, options_.history);
    if (code == 0) {
      if (temporary_) std::filesystem::remove_all(directory_);
      return;
    }
    write_jsonl(history_, directory_ + "/history.jsonl");
    fmt::print("kept for a look: {}/{{store,server.log,history.jsonl}}\n", directory_);
  }

  Options options_;
  Chance chance_;
  Shared shared_;
  std::string directory_, store_;
  std::string schema_;  // "" = it is in the directory store_
  int moves_ = 0;
  bool temporary_ = false;
  Process server_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
  History history_;
  std::vector<std::string> broken_;  // promises broken outside of the history
  std::string trouble_;              // why the run cannot continue
  Micros longest_start_us_ = 0;
};

constexpr const char* kUsage =
    "usage: mainspring_torture --server PATH [--cycles N] [--seed S] [--directory DIR]\n"
    "                          [--history FILE] [--env NAME=VALUE]… [--must-break INVARIANT]\n"
    "                          [--wander postgres://…]\n"
    "Drives the server at PATH, kills it N times (500) and checks every promise.\n"
    "Example: mainspring_torture --server build/release/mainspring --cycles 10000 --seed 7\n";

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) return std::nullopt;
    const std::string value = argv[++i];
    if (name == "--server") {
      options.server = value;
    } else if (name == "--cycles") {
      options.cycles = std::atoi(value.c_str());
    } else if (name == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--directory") {
      options.directory = value;
    } else if (name == "--history") {
      options.history = value;
    } else if (name == "--wander") {
      options.wander = value;
    } else if (name == "--must-break") {
      options.must_break = value;
    } else if (name == "--env" && value.find('=') != std::string::npos) {
      const std::size_t at = value.find('=');
      options.environment.emplace_back(value.substr(0, at), value.substr(at + 1));
    } else {
      return std::nullopt;
    }
  }
  if (options.server.empty() || options.cycles < 1) return std::nullopt;
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "{}", kUsage);
    return 64;
  }
  return Torture(*options).run();
}
