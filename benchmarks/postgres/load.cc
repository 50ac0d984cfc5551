// postgres_load: one node over a PostgreSQL database with the load of `mainspring bench`. It reads
// commands from standard input and answers each with one line of JSON.
//
//   postgres_load --url URL --schema NAME [--new] [--clients N] [--batch N] [--payload BYTES]
//                 [--http] [--no-packs] [--retention SECONDS] [--steps N] [--sessions N]
//
// --steps N: the load is workflows of N steps each, and jobs are the jobs of steps. --sessions N:
// the jobs go to N sessions, one after another.
//
//   run WARM SECONDS   a lifecycle load: WARM seconds without measurement, then SECONDS with it
//   jobs N             the same until N jobs are completed; all are measured
//   steps N TIMES      one load; prints a line after each N jobs
//   fill N             adds N available jobs
//   alone N            N enqueues of one job, each followed by an INSERT of the same row by libpq
//   pruned             how many jobs the store has pruned
//
// To measure several nodes, start several of these programs and combine their lines. A line
// {"begin":true} precedes the measured part, so that the script can read the server's processor
// time and log position at both ends.
#include <fmt/format.h>
#include <libpq-fe.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "api/json.h"
#include "broker/broker.h"
#include "cli/bench_http.h"
#include "cli/bench_local.h"
#include "store_postgres/inspect.h"

namespace mainspring::cli::bench {
namespace {

struct Settings {
  std::string url;
  std::string schema = std::string(kScratchSchema);
  bool fresh = false;  // drop an existing schema
  bool http = false;
  bool packs = true;
  Duration retention = std::chrono::hours(24);
  LoadOptions load{.clients = 16, .batch = 100, .payload = 200, .lifecycle = true};
};

Error wrong(std::string what) {
  return Error{.code = ErrorCode::invalid_argument, .message = "postgres_load: " + what};
}

Result<Settings> parse(int argc, char** argv) {
  Settings out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--new") {
      out.fresh = true;
      continue;
    }
    if (name == "--http") {
      out.http = true;
      continue;
    }
    if (name == "--no-packs") {
      out.packs = false;
      continue;
    }
    if (i + 1 == argc) return wrong(name + ": must have a value");
    const std::string value = argv[++i];
    if (name == "--url") {
      out.url = value;
    } else if (name == "--schema") {
      out.schema = value;
    } else if (name == "--clients") {
      out.load.clients = std::atoi(value.c_str());
    } else if (name == "--batch") {
      out.load.batch = std::atoi(value.c_str());
    } else if (name == "--payload") {
      out.load.payload = std::atoi(value.c_str());
    } else if (name == "--steps") {
      out.load.steps = std::atoi(value.c_str());
    } else if (name == "--sessions") {
      out.load.sessions = std::atoi(value.c_str());
    } else if (name == "--retention") {
      out.retention = std::chrono::seconds(std::atoi(value.c_str()));
    } else {
      return wrong(name + ": is not known");
    }
  }
  if (out.url.empty()) return wrong("--url: must be given");
  if (out.load.clients < 1 || out.load.batch < 1 || out.load.payload < 16)
    return wrong("--clients, --batch must be at least 1, --payload at least 16");
  return out;
}

// A line of JSON on standard output: names and numbers.
void say(std::initializer_list<std::pair<std::string_view, double>> values) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  for (const auto& [name, value] : values) json.key(name).real(value);
  json.end_object();
  std::cout << text << std::endl;
}

void say_begin() {
  std::cout << R"({"begin":true})" << std::endl;
}

class Bed {
 public:
  static Result<std::unique_ptr<Bed>> open(const Settings& settings);
  ~Bed() {
    if (server_ != nullptr) server_->stop(1s);
    if (node_ != nullptr) node_->stop();
    server_.reset();
  }
  Result<void> run(double warm, double seconds);
  Result<void> steps(std::int64_t jobs, int times);
  Result<void> fill(std::int64_t jobs);
  Result<void> alone(int samples);
  Result<void> pruned();

 private:
  explicit Bed(const Settings& settings) : settings_(settings) {}
  double now() const { return microseconds(clock_.now().instant - Instant()) / 1e6; }
  // Calls `measure` with the number of completed jobs while the load runs.
  template <class Measure>
  Result<void> loaded(Measure measure);

  const Settings settings_;
  SystemClock clock_;
  StderrLog log_{LogLevel::error};
  Registry registry_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<HttpServer> server_;
};

Result<std::unique_ptr<Bed>> Bed::open(const Settings& settings) {
  std::unique_ptr<Bed> out(new Bed(settings));
  NodeOptions options;
  options.postgres = PostgresOptions{.url = Secret(settings.url), .schema = settings.schema};
  options.postgres->packs = settings.packs;
  options.postgres->store.retention_completed = settings.retention;
  options.postgres->store.max_finished_jobs = 1'000'000'000;  // no pruning by count
  if (settings.fresh) MS_TRY(drop_postgres_store(*options.postgres));
  MS_TRY_ASSIGN(out->node_, Node::open(std::move(options), out->clock_, out->log_, out->registry_));
  out->node_->start();
  if (!settings.http) return out;
  HttpOptions http;
  http.port = 0;
  out->server_ = std::make_unique<HttpServer>(http, out->node_->broker(), out->node_->store(),
                                              out->clock_, out->log_, out->registry_);
  MS_TRY(out->server_->start());
  return out;
}

template <class Measure>
Result<void> Bed::loaded(Measure measure) {
  if (server_ != nullptr) {
    HttpLoad load(server_->port(), settings_.load);
    MS_TRY(load.start());
    measure([&] { return load.done(); });
    return load.stop();
  }
  LocalLoad load(node_->broker(), settings_.load);
  load.start();
  measure([&] { return load.done(); });
  return load.stop();
}

Result<void> Bed::run(double warm, double seconds) {
  return loaded([&](const auto& done) {
    pass(Duration(static_cast<std::int64_t>(warm * 1e6)));
    say_begin();
    const std::int64_t before = done();
    const double begin = now();
    pass(Duration(static_cast<std::int64_t>(seconds * 1e6)));
    const double jobs = static_cast<double>(done() - before);
    say({{"jobs", jobs}, {"seconds", now() - begin}});
  });
}

Result<void> Bed::steps(std::int64_t jobs, int times) {
  constexpr Duration kLook = 2ms;
  constexpr double kStill = 60;  // seconds without a job that count as a failure
  say_begin();
  return loaded([&](const auto& done) {
    double begin = now();
    std::int64_t before = 0;
    for (int i = 0; i < times; ++i) {
      std::int64_t seen = done();
      double moved = now();
      while (seen < before + jobs && now() < moved + kStill) {
        pass(kLook);
        const std::int64_t is = done();
        if (is != seen) moved = now();
        seen = is;
      }
      const double end = now();
      say({{"jobs", static_cast<double>(seen - before)}, {"seconds", end - begin}});
      if (seen < before + jobs) return;
      before = seen;
      begin = end;
    }
  });
}

Result<void> Bed::fill(std::int64_t jobs) {
  constexpr std::int64_t kChunk = 4'000;
  const std::string args = payload_of(settings_.load.payload);
  const double begin = now();
  say_begin();
  for (std::int64_t made = 0; made < jobs;) {
    Enqueue request;
    request.jobs.resize(static_cast<std::size_t>(std::min(kChunk, jobs - made)));
    for (NewJob& job : request.jobs) {
      job.queue = "bench";
      job.kind = "bench";
      job.args = args;
    }
    made += static_cast<std::int64_t>(request.jobs.size());
    MS_TRY(node_->broker().enqueue(std::move(request)));
  }
  say({{"jobs", static_cast<double>(jobs)}, {"seconds", now() - begin}});
  return {};
}

// The same row as an application would write it: one prepared INSERT, committed by itself.
class PlainInsert {
 public:
  Result<void> open(const Settings& settings) {
    connection_.reset(PQconnectdb(settings.url.c_str()));
    args_ = payload_of(settings.load.payload);
    const std::string s = settings.schema;
    for (const std::string& text : {
             fmt::format("CREATE TABLE IF NOT EXISTS {0}.plain (LIKE {0}.jobs INCLUDING ALL)", s),
             fmt::format("CREATE SEQUENCE IF NOT EXISTS {}.plain_ids CACHE 100", s),
         }) {
      MS_TRY(check(PQexec(connection_.get(), text.c_str()), PGRES_COMMAND_OK));
    }
    const std::string insert = fmt::format(
        "INSERT INTO {0}.plain (id, state, flags, priority, attempt, max_attempts, version, token, "
        "lease_until, lease, claimed_at, run_at, started_at, finished_at, expires_at, created_at, "
        "timeout, schedule, queue, kind, budget, args) VALUES (nextval('{0}.plain_ids'), 2, 0, 5, "
        "0, 20, 1, 0, 0, 0, 0, 1700000000000000, 0, 0, 0, 1700000000000000, 900000000, 0, 1, 1, "
        "20, $1) RETURNING id",
        s);
    return check(PQprepare(connection_.get(), "i", insert.c_str(), 1, nullptr), PGRES_COMMAND_OK);
  }
  Result<void> insert() {
    const char* const values[] = {args_.c_str()};
    return check(PQexecPrepared(connection_.get(), "i", 1, values, nullptr, nullptr, 1),
                 PGRES_TUPLES_OK);
  }

 private:
  Result<void> check(PGresult* result, ExecStatusType wanted) {
    const std::unique_ptr<PGresult, void (*)(PGresult*)> kept(result, PQclear);
    if (PQresultStatus(result) == wanted) return {};
    return Error{.code = ErrorCode::internal, .message = PQerrorMessage(connection_.get())};
  }
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_{nullptr, PQfinish};
  std::string args_;
};

Result<void> Bed::alone(int samples) {
  PlainInsert plain;
  MS_TRY(plain.open(settings_));
  constexpr int kWarmUp = 300;
  std::vector<double> ours, bare;
  say_begin();
  for (int i = 0; i < samples + kWarmUp; ++i) {
    Enqueue request;
    request.jobs.resize(1);
    request.jobs[0].queue = "bench";
    request.jobs[0].kind = "bench";
    request.jobs[0].args = payload_of(settings_.load.payload);
    const Instant a = clock_.now().instant;
    MS_TRY(node_->broker().enqueue(std::move(request)));
    const Instant b = clock_.now().instant;
    MS_TRY(plain.insert());
    const Instant c = clock_.now().instant;
    if (i < kWarmUp) continue;
    ours.push_back(microseconds(b - a));
    bare.push_back(microseconds(c - b));
  }
  say({{"enqueue_p50_us", percentile(ours, 0.5)},
       {"enqueue_p99_us", percentile(ours, 0.99)},
       {"insert_p50_us", percentile(bare, 0.5)},
       {"insert_p99_us", percentile(bare, 0.99)}});
  return {};
}

Result<void> Bed::pruned() {
  MS_TRY_ASSIGN(const auto queues, node_->broker().queues());
  double sum = 0;
  for (const QueueStats& queue : queues) sum += static_cast<double>(queue.pruned);
  say({{"pruned", sum}});
  return {};
}

Result<void> obey(Bed& bed, const std::string& line) {
  std::istringstream in(line);
  std::string what;
  double a = 0, b = 0;
  in >> what >> a >> b;
  if (what == "run") return bed.run(a, b);
  if (what == "jobs") return bed.steps(static_cast<std::int64_t>(a), 1);
  if (what == "steps") return bed.steps(static_cast<std::int64_t>(a), static_cast<int>(b));
  if (what == "fill") return bed.fill(static_cast<std::int64_t>(a));
  if (what == "alone") return bed.alone(static_cast<int>(a));
  if (what == "pruned") return bed.pruned();
  return wrong("\"" + line + "\": is not known");
}

Result<void> serve(int argc, char** argv) {
  MS_TRY_ASSIGN(const Settings settings, parse(argc, argv));
  MS_TRY_ASSIGN(const std::unique_ptr<Bed> bed, Bed::open(settings));
  std::cout << R"({"ready":true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) MS_TRY(obey(*bed, line));
  return {};
}

}  // namespace
}  // namespace mainspring::cli::bench

int main(int argc, char** argv) {
  const auto served = mainspring::cli::bench::serve(argc, argv);
  if (served) return 0;
  std::cerr << served.error().message << std::endl;
  return 1;
}
