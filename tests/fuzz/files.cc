// Fuzz targets: files that come from outside or from a disk that is not what it was.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/breaker_shapes.h"
#include "api/lease_shapes.h"
#include "api/schedule_shapes.h"
#include "api/session_shapes.h"
#include "api/shapes.h"
#include "api/trigger_shapes.h"
#include "api/workflow_shapes.h"
#include "disk_sqlite/inspect.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "host/deploy.h"
#include "host/zip.h"
#include "targets.h"

namespace fs = std::filesystem;

namespace mainspring::fuzz {
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

// In memory where there is such a file system.
struct Directory {
  Directory() {
    std::string name =
        fs::exists("/dev/shm") ? "/dev/shm/mainspring_fuzz_XXXXXX" : "/tmp/mainspring_fuzz_XXXXXX";
    FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { fs::remove_all(path); }
  fs::path path;
};

SqliteOptions options_of(const fs::path& directory) {
  return {.directory = directory, .reserve_bytes = 1 << 12, .cache_bytes = 1 << 20};
}

// The clock of all runs: they must be the same each time.
Now now() {
  return ManualClock().now();
}

BatchReport apply(Store& store, std::vector<Operation> batch) {
  auto report = store.apply(batch, now());
  FUZZ_CHECK(report);
  return std::move(*report);
}

StepSpec step(std::string name, std::vector<std::string> after) {
  StepSpec out{.name = std::move(name), .after = std::move(after)};
  out.job = NewJob{.queue = "steps", .kind = "k"};
  return out;
}

// Two workflows, one packed and one of more steps than are packed; the first step of each is done.
void fill_workflows(Store& store) {
  WorkflowSpec few{.name = "few", .steps = {step("a", {}), step("b", {"a"})}};
  few.steps[0].undo = NewJob{.queue = "steps", .kind = "undo"};
  few.steps[1].each = R"({"$ref":"a.result"})";
  few.steps.push_back({.name = "s", .signal = "go"});
  WorkflowSpec many{.name = "many", .steps = {step("s0", {})}};
  for (int i = 1; i < 20; ++i)
    many.steps.push_back(step("s" + std::to_string(i), {"s" + std::to_string(i - 1)}));
  apply(store, {StartWorkflow{few}, StartWorkflow{many}});
  const auto claimed =
      apply(store, {Claim{.worker = "w", .queues = {"steps"}, .max = 5}}).results[0];
  Finish finish{.worker = "w"};
  for (const ClaimedJob& job : std::get<ClaimResult>(claimed).jobs)
    finish.results.push_back({job.id, job.token, Complete{.result = "[1,2,3]"}, {}});
  FUZZ_CHECK(finish.results.size() == 2);
  apply(store, {finish});
}

// A session with a state, a queue with limits and a breaker, a trigger.
void fill_rest(Store& store) {
  const SessionKey session{.queue = "lines", .key = "k"};
  NewJob job{.queue = session.queue, .kind = "k"};
  job.session = session.key;
  apply(store, {Enqueue{.jobs = {job, job}}});
  const auto granted = apply(store, {AcceptSession{.worker = "w", .session = session}}).results[0];
  apply(store, {PutSessionState{.session = session,
                                .token = std::get<SessionGrant>(granted).token,
                                .state = R"({"n":1})"},
                PutBreaker{.name = "bank", .settings = {}}});
  apply(store,
        {SetQueueLimits{.queue = "limited", .limits = {.concurrency = 2, .breaker = "bank"}}});
  PutTrigger put{.trigger = {.name = "t", .ended = EndedSource{.queue = "steps"}}};
  put.trigger.job = {.queue = "then", .kind = "k"};
  apply(store, {put});
}

// One of each: jobs in several states, a lease, a schedule, an idempotency key.
void fill(Store& store) {
  Enqueue jobs;
  jobs.idempotency_key = "key";
  for (int i = 0; i < 12; ++i) {
    NewJob job;
    job.kind = i % 2 == 0 ? "a" : "b";
    job.queue = i % 3 == 0 ? "q" : "default";
    job.args = R"({"n":1})";
    if (i % 4 == 0) job.unique = Unique{.key = "u" + std::to_string(i)};
    if (i > 8) job.run_at = now().wall + std::chrono::hours(i);
    jobs.jobs.push_back(std::move(job));
  }
  apply(store, {jobs});
  Claim claim;
  claim.worker = "w";
  claim.queues = {"q", "default"};
  claim.max = 4;
  apply(store, {claim});
  AcquireLease lease;
  lease.name = "l";
  lease.holder = "h";
  lease.ttl = std::chrono::seconds(30);
  apply(store, {lease});
  fill_workflows(store);
  fill_rest(store);
}

const std::string& sound_database() {
  static const std::string bytes = [] {
    const Directory directory;
    NullLog log;
    const fs::path at = directory.path / "data";
    {
      auto store = open_sqlite_store(options_of(at), now(), log);
      FUZZ_CHECK(store);
      fill(**store);
      // A copy is one file, without a log beside it.
      FUZZ_CHECK((*store)->backup(directory.path / "copy"));
    }
    for (const auto& entry : fs::directory_iterator(directory.path / "copy")) {
      std::string text = read_file(entry.path());
      if (text.starts_with("SQLite format 3"))
        return entry.path().filename().string() + "\n" + text;
    }
    FUZZ_CHECK(false);
    return std::string();
  }();
  return bytes;
}

// Input: any number of "P" + offset (3 bytes) + count + `count` bytes to write there; "C" + offset
// truncates the file; anything else is the whole file.
std::string changed_database(std::string_view bytes, std::string& name) {
  const std::string& sound = sound_database();
  name = sound.substr(0, sound.find('\n'));
  std::string out = sound.substr(name.size() + 1);
  Choices choices(bytes);
  while (!choices.empty()) {
    const unsigned what = choices.byte();
    if (what == 'P') {
      std::size_t at = choices.below(out.size());
      for (unsigned n = choices.byte() % 32; n > 0 && at < out.size(); --n) {
        out[at++] = static_cast<char>(choices.byte());
      }
    } else if (what == 'C') {
      out.resize(choices.below(out.size()) + 1);
    } else {
      return std::string(bytes);
    }
  }
  return out;
}

// As people are shown it.
void look(Store& store) {
  std::string out;
  if (const auto queues = store.queues()) encode_queues(*queues, now().wall, false, out);
  if (const auto jobs = store.list({}, 100, 0)) encode_job_page(*jobs, out);
  for (JobId id = 1; id < 24; ++id) {
    if (const auto job = store.get(id)) encode_job(*job, JobDetail::full, out);
  }
  if (const auto leases = store.leases("", 10, now().instant)) encode_leases(*leases, false, out);
  if (const auto schedules = store.schedules("", 10)) encode_schedules(*schedules, false, out);
  if (const auto all = store.workflows({}, 10, 0)) encode_workflow_page(*all, out);
  for (WorkflowId id = 1; id < 4; ++id) {
    if (const auto workflow = store.workflow(id)) encode_workflow_info(*workflow, out);
    if (const auto steps = store.workflow_steps(id, 0, 100)) encode_workflow_steps(*steps, out);
  }
  if (const auto sessions = store.sessions("lines", {}, 10, now().instant))
    encode_sessions(*sessions, out);
  if (const auto breakers = store.breakers(now().wall)) encode_breakers(*breakers, out);
  if (const auto triggers = store.triggers("", 10)) encode_triggers(*triggers, false, out);
  if (const auto events = store.trigger_events("t", 10, 0)) encode_trigger_events(*events, out);
}

void use(Store& store) {
  const auto verdict = store.verify();
  look(store);
  (void)store.agenda();
  // Nothing is promised about changes of a store that is known to be unsound.
  if (!verdict || !verdict->problems.empty()) return;
  Claim claim;
  claim.worker = "w2";
  claim.queues = {"q", "default", "steps"};
  claim.max = 10;
  std::vector<Operation> batch{claim};
  const auto claimed = store.apply(batch, now());
  if (!claimed) return;
  Finish finish{.worker = "w2"};
  if (const auto* given = std::get_if<ClaimResult>(&claimed->results[0])) {
    for (const ClaimedJob& job : given->jobs)
      finish.results.push_back({job.id, job.token, Complete{.result = "[4]"}, {}});
  }
  batch = {finish, SignalWorkflow{.id = 1, .name = "go"}};
  if (!store.apply(batch, now())) return;
  Enqueue more;
  more.jobs.emplace_back().kind = "c";
  batch = {more};
  (void)store.apply(batch, now());
}

}  // namespace

void zip(std::string_view bytes) {
  DeployLimits limits;
  limits.max_entries = 100;
  limits.max_file_bytes = limits.max_total_bytes = 8 << 20;
  std::int64_t total = 0;
  (void)unpack_zip(bytes, limits, [&](const ZipEntry& entry, const UnpackEntry& unpack) {
    FUZZ_CHECK(!entry.path.empty() && entry.path.front() != '/');
    for (const fs::path& part : fs::path(entry.path)) FUZZ_CHECK(part != ".." && part != ".");
    return unpack([&](std::string_view piece) -> Result<void> {
      total += static_cast<std::int64_t>(piece.size());
      FUZZ_CHECK(total <= limits.max_total_bytes);
      return {};
    });
  });
}

void store_file(std::string_view bytes) {
  std::string name;
  const std::string database = changed_database(bytes, name);
  const Directory directory;
  write_file(directory.path / name, database);
  NullLog log;
  auto store = open_sqlite_store(options_of(directory.path), now(), log);
  if (store) use(**store);
}

void backup(std::string_view bytes) {
  std::string name;
  const std::string database = changed_database(bytes, name);
  const Directory directory;
  const fs::path at = directory.path / "data";
  fs::create_directory(at);
  write_file(at / name, database);
  (void)inspect_sqlite_store(at);
  (void)check_sqlite_pages(at);
  if (!backup_sqlite_store(at, directory.path / "copy")) return;
  NullLog log;
  (void)open_sqlite_store(options_of(directory.path / "copy"), now(), log);
}

}  // namespace mainspring::fuzz
