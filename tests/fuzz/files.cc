// Fuzz targets: files that come from outside or from a disk that is not what it was.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "env/clock.h"
#include "host/deploy.h"
#include "host/zip.h"
#include "store_sqlite/inspect.h"
#include "store_sqlite/sqlite_store.h"
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

// Input: "P" + place (3 bytes) + a count + so many bytes to put there, again and again; "C" + place
// cuts the file off; anything else is the whole file.
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

void use(Store& store) {
  const auto verdict = store.verify();
  (void)store.queues();
  (void)store.list({}, 100, 0);
  for (JobId id = 1; id < 16; ++id) (void)store.get(id);
  (void)store.leases("", 10, now().instant);
  (void)store.schedules("", 10);
  (void)store.agenda();
  // Nothing is promised about changes of a store that is known to be unsound.
  if (!verdict || !verdict->problems.empty()) return;
  Claim claim;
  claim.worker = "w2";
  claim.queues = {"q", "default"};
  claim.max = 10;
  std::vector<Operation> batch{claim};
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
