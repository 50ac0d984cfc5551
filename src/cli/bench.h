// The parts of `mainspring bench`: measurements and their report.
//
// Every measurement creates stores below one directory on a real disk, and removes them. Each
// figure is compared with the bare disk in the same run: a write of the same bytes in place and an
// fdatasync, as the store's log does it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "env/clock.h"
#include "mainspring/result.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::cli::bench {

struct Plan {
  std::string directory;  // created and removed by run_bench
  // Uses this database instead of a directory, in process, in its own schema.
  std::optional<PostgresOptions> postgres;
  bool quick = false;
  int repeats = 3;           // of every throughput figure; the median counts
  Duration warm_up = 400ms;  // before each
  Duration run_for = 1500ms;
  int samples = 2000;  // of latencies
  std::vector<int> clients = {1, 16, 256};
  std::vector<int> batches = {1, 10, 100, 1000};
  std::vector<int> payloads = {200, 4096};
  std::int64_t preload = 1'000'000;
  Duration idle_for = 10s;
};
Plan quick_plan();

// Jobs in flight per client; heavier combinations are left out.
inline constexpr std::int64_t kMaxJobsUnderWay = 30'000;
inline constexpr std::int64_t kMaxBytesUnderWay = 80 << 20;

struct Figure {
  std::string name;   // "lifecycle"
  std::string setup;  // "in process, 16 clients, batch 100, 200 B"
  double value = 0;
  std::string unit;  // "jobs/s", "us", "MB", "s", "%", "x"
  double disk = 0;   // multiple of the bare disk's time for the same bytes and syncs; 0 = none
  std::string target = {};                  // "at least 75,000"; "" = none
  std::optional<bool> met = {};             // of the target
  std::map<std::string, double> more = {};  // further numbers for the JSON: p99_us, …
  std::string note = {};
  int clients = 0;  // of grids; 0 = not in a grid
  int batch = 0;
  int payload = 0;
};

// Prints figures as they are measured, and keeps them.
class Report {
 public:
  Report(Io& io, bool json) : io_(io), json_(json), progress_(io) {}
  void section(const std::string& title);
  void doing(const std::string& what) { progress_.show(what + " …"); }
  void add(Figure figure);
  const std::vector<Figure>& figures() const { return figures_; }

 private:
  Io& io_;
  bool json_;
  ProgressLine progress_;
  std::vector<Figure> figures_;
};

// -- the disk and the machine (bench_disk.cc) -----------------------------------------------------

// Median microseconds of writing `bytes` in place and fdatasync. Sizes are rounded up to 4 KiB, and
// above that to one of two steps per doubling. Measured once per size.
class Disk {
 public:
  explicit Disk(std::string directory) : directory_(std::move(directory)) {}
  Result<double> sync_us(std::int64_t bytes);
  // `seconds` divided by the time of `commits` bare syncs of `bytes` in total. 0 without commits.
  Result<double> ratio(double seconds, std::int64_t commits, std::int64_t bytes);
  const std::map<std::int64_t, double>& measured() const { return measured_; }

 private:
  std::string directory_;
  std::map<std::int64_t, double> measured_;
};

// "processor", "cores", "memory", "kernel", "file_system".
std::vector<std::pair<std::string, std::string>> machine_facts(const std::string& directory);
bool is_memory_file_system(const std::string& directory);
Result<void> make_directory(const std::string& path);
void remove_directory(const std::string& path);  // recursively

// What this process has written to disks so far, in bytes.
std::int64_t bytes_written();

double median(std::vector<double> values);
double percentile(std::vector<double> values, double share);  // 0.5, 0.99
double microseconds(Duration d);

// -- the measurements -----------------------------------------------------------------------------

struct Context {
  const Plan& plan;
  Report& report;
  Disk& disk;
  std::string program;  // this program, to start servers with
  std::vector<std::pair<std::string, std::string>> machine;
};

Result<void> measure_alone(Context& context);           // bench_local.cc
Result<void> measure_enqueue(Context& context);         // bench_local.cc
Result<void> measure_lifecycle(Context& context);       // bench_local.cc
Result<void> measure_queues(Context& context);          // bench_local.cc
Result<void> measure_sessions(Context& context);        // bench_local.cc
Result<void> measure_workflows(Context& context);       // bench_answers.cc
Result<void> measure_answers(Context& context);         // bench_answers.cc
Result<void> measure_http_alone(Context& context);      // bench_http.cc
Result<void> measure_http_enqueue(Context& context);    // bench_http.cc
Result<void> measure_http_lifecycle(Context& context);  // bench_http.cc
Result<void> measure_wake(Context& context);            // bench_server.cc
Result<void> measure_million(Context& context);         // bench_server.cc
Result<void> measure_idle(Context& context);            // bench_server.cc
Result<void> measure_lateness(Context& context);        // bench_time.cc
Result<void> measure_due(Context& context);             // bench_time.cc

// The latency figure of one caller: p50, and p99 as its note. `bytes` on disk for all samples.
Result<Figure> alone_figure(Context& context, std::string setup,
                            const std::vector<double>& times_us, std::int64_t bytes);

// Writes the figures as Markdown between the markers of `file` (created if missing), and keeps its
// other text. Errors: io_error, invalid_argument (a file without the markers).
Result<void> write_report(const std::string& file, const Context& context);
std::string format_value(const Figure& figure);
Result<void> write_file(const std::string& file, const std::string& text);

// A JSON text of the given payload size: {"data":"…"}.
std::string payload_of(int bytes);
std::string combination(std::string_view where, int clients, int batch, int payload);

}  // namespace mainspring::cli::bench
