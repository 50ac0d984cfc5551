// The store's files: empty, cut, of another program, unreadable, readable by others, on a full
// disk.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "testing.h"

using namespace blackbox;
namespace fs = std::filesystem;

namespace {

constexpr int kConflict = 65, kDiskError = 74;

std::string database_of(const Served& server) {
  return server.store() + "/mainspring.db";
}

// Starts a server that must refuse its directory, and returns its exit code.
int refused(Served& server) {
  REQUIRE(server.launch());
  return server.process().wait(60'000) ? server.process().exit_code() : -1;
}

// A store with one job, closed cleanly.
void fill(Served& server) {
  REQUIRE_MESSAGE(server.start(), server.log());
  HttpClient http(server.port());
  REQUIRE(http.post("/v1/jobs", R"({"queue":"q","kind":"k","args":{"secret":1}})").status == 201);
  REQUIRE(server.stop() == 0);
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

// Every file below the directory that others than its owner may access. Working copies have the
// modes of the folders that they copy.
std::string open_to_others(const std::string& directory) {
  std::string out;
  std::error_code gone, ignored;
  do {  // again if a directory goes away meanwhile: that of a run that ends
    out.clear();
    fs::recursive_directory_iterator at(directory, gone);
    for (; !gone && at != fs::recursive_directory_iterator(); at.increment(gone)) {
      const fs::path& path = at->path();
      if (has(path, "/host/tmp/jobs/")) continue;
      if (at->is_regular_file(ignored) && (mode_of(path) & 077) != 0)
        out += fmt::format("{} {:o}\n", path.string(), mode_of(path));
    }
  } while (gone);
  return out;
}

// SQLite's names of errors.
bool has_words_of_sqlite(const std::string& text) {
  for (const char* word : {"PRAGMA", "SQLite", "SELECT", "malformed", "unable to open", "disk I/O"})
    if (has(text, word)) return true;
  return false;
}

std::string job_of(std::size_t bytes) {
  return R"({"queue":"q","kind":"k","args":")" + std::string(bytes, 'a') + "\"}";
}

// Claims and completes up to `max` jobs, and returns how many; -1 after an error, in `error`.
int finish_some(HttpClient& http, int max, std::string& error) {
  const Answer claimed = http.post(
      "/v1/claim", fmt::format(R"({{"worker":"w","queues":["q"],"max":{},"wait":"0s"}})", max));
  error = claimed.body.substr(0, 300);
  if (claimed.status != 200) return -1;
  const rapidjson::Document document = parse(claimed.body);
  std::string results;
  for (const auto& job : document["jobs"].GetArray()) {
    results +=
        fmt::format(R"({}{{"id":{},"token":{},"outcome":"complete"}})", results.empty() ? "" : ",",
                    job["id"].GetInt64(), job["token"].GetInt64());
  }
  if (results.empty()) return 0;
  const Answer finished =
      http.post("/v1/finish", fmt::format(R"({{"worker":"w","results":[{}]}})", results));
  error = finished.body.substr(0, 300);
  if (finished.status != 200) return -1;
  int ok = 0;
  const rapidjson::Document answer = parse(finished.body);
  for (const auto& one : answer["results"].GetArray()) ok += has(one["status"].GetString(), "ok");
  return ok;
}

const std::string kHundredJobs = [] {
  std::string batch = R"({"jobs":[)";
  for (int i = 0; i < 100; ++i) batch += (i == 0 ? "" : ",") + job_of(100);
  return batch + "]}";
}();

// Returns how many jobs were accepted.
int enqueue_until_full(HttpClient& http) {
  int jobs = 0;
  Answer answer;
  for (; jobs < 200'000; jobs += 100) {
    answer = http.post("/v1/jobs", kHundredJobs);
    if (answer.status != 201) break;
  }
  CHECK_MESSAGE(answer.status == 507, answer.body.substr(0, 300));
  CHECK_FALSE_MESSAGE(has_words_of_sqlite(answer.body), answer.body.substr(0, 300));
  return jobs;
}

void fill_disk(const std::string& directory) {
  std::ofstream filler(directory + "/filler", std::ios::binary);
  const std::string block(4096, 'x');
  while (filler.write(block.data(), 4096).flush()) {
  }
}

}  // namespace

TEST_CASE("an empty database file beside the marker of a store is refused, and its log is kept") {
  Served server;
  REQUIRE(server.start());
  HttpClient http(server.port());
  REQUIRE(http.post("/v1/jobs", job_of(10)).status == 201);
  server.kill();
  const std::string log = read_file(database_of(server) + "-wal");
  REQUIRE_FALSE(log.empty());
  fs::resize_file(database_of(server), 0);
  CHECK(refused(server) == kConflict);
  CHECK_MESSAGE(has(server.log(), "mainspring.db is empty (0 bytes)"), server.log());
  CHECK(has(server.log(), "INITIALISED"));
  CHECK(read_file(database_of(server) + "-wal") == log);

  // The log alone says that there was a store.
  fs::remove(server.store() + "/INITIALISED");
  CHECK(refused(server) == kConflict);
  CHECK(read_file(database_of(server) + "-wal") == log);
  fs::remove(database_of(server));
  CHECK(refused(server) == kConflict);
  CHECK(read_file(database_of(server) + "-wal") == log);
}

TEST_CASE("a database that is cut off, of another program or without our tables is refused") {
  Served server;
  fill(server);
  const std::string good = read_file(database_of(server));
  const auto with = [&](const std::string& content) {
    write_file(database_of(server), content);
    const int code = refused(server);
    CHECK(read_file(database_of(server)) == content);  // unchanged
    CHECK_FALSE_MESSAGE(has_words_of_sqlite(server.log()), server.log());
    return code;
  };
  CHECK(with(good.substr(0, good.size() / 2 / 4096 * 4096)) == kDiskError);
  CHECK(with(good.substr(0, 1000)) == kDiskError);
  CHECK(with(std::string(8192, 'x')) == kDiskError);
  CHECK_MESSAGE(has(server.log(), "restore it from a backup"), server.log());

  std::string other = good;
  other.replace(68, 4, "XXXX");  // the application's number in the header
  CHECK(with(other) == kConflict);
  CHECK_MESSAGE(has(server.log(), "not a Mainspring store"), server.log());
  std::string bare = good;
  bare.replace(60, 4, std::string(4, '\0')).replace(68, 4, std::string(4, '\0'));
  CHECK(with(bare) == kConflict);

  write_file(database_of(server), good);
  REQUIRE_MESSAGE(server.start(), server.log());
  CHECK(server.stop() == 0);
}

TEST_CASE("a pipe or a directory in the place of a file of the store is refused") {
  Served server;
  fill(server);
  for (const char* name : {"RESERVE", "OWNER", "INITIALISED", "mainspring.db-shm"}) {
    const std::string path = server.store() + "/" + name;
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK(refused(server) == kDiskError);
    CHECK_MESSAGE(has(server.log(), path + ": must be a regular file"), server.log());
    fs::remove(path);
    fs::create_directory(path);
    CHECK(refused(server) == kDiskError);
    fs::remove(path);
    write_file(path, "");
  }
  REQUIRE_MESSAGE(server.start(), server.log());
  CHECK(server.stop() == 0);
}

TEST_CASE("files of the store and of backups are private, with any directory mode and umask") {
  Served server;
  fs::create_directory(server.store());
  fs::permissions(server.store(), fs::perms(0755));
  server.wrapper = {"/bin/sh", "-c", "umask 0; exec \"$@\"", "sh"};
  fill(server);
  const std::string jobs = server.scratch() + "/jobs";
  write_file(jobs + "/continuous/steady/run.sh", "#!/bin/sh\necho hello\nexec sleep 60\n");
  write_file(jobs + "/triggered/now/run.sh", "#!/bin/sh\necho hello\n");
  server.set_options({"--jobs", jobs});
  REQUIRE_MESSAGE(server.start(), server.log());
  HttpClient http(server.port());
  REQUIRE(http.post("/v1/jobs", job_of(10)).status == 201);
  CHECK(eventually(
      [&] { return http.post("/v1/host/jobs/triggered/now/run", "{}").status / 100 == 2; }));
  const std::string data = server.store() + "/host/data/jobs/";
  CHECK(eventually([&] {
    return has(read_file(data + "continuous/steady/job_log.txt"), "hello") &&
           fs::exists(data + "triggered/now");
  }));
  CHECK(open_to_others(server.store()) == "");
  const std::string copy = server.scratch() + "/copies/copy";
  const Finished backup = run({"/bin/sh", "-c", "umask 0; exec \"$@\"", "sh", server_binary(),
                               "store", "backup", "--data", server.store(), copy},
                              30'000);
  CHECK_MESSAGE(backup.exit_code == 0, backup.output);
  CHECK(open_to_others(copy) == "");
  CHECK(mode_of(copy) == 0700);
  CHECK(mode_of(server.scratch() + "/copies") == 0700);
  CHECK(server.stop() == 0);
}

TEST_CASE("files of a store that others could read become private, and the log says so") {
  Served server;
  fill(server);
  fs::permissions(database_of(server), fs::perms(0644));
  REQUIRE_MESSAGE(server.start(), server.log());
  CHECK(mode_of(database_of(server)) == 0600);
  CHECK_MESSAGE(has(server.log(), "mainspring.db (0644)"), server.log());
  CHECK(server.stop() == 0);
}

TEST_CASE("a data directory that cannot be read is refused with its owner and its mode") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can serve as another user");
    return;
  }
  constexpr unsigned kNobody = 65'534;
  Served server;
  fill(server);
  REQUIRE(chmod(server.scratch().c_str(), 0755) == 0);
  REQUIRE(chown(server.scratch().c_str(), kNobody, kNobody) == 0);
  server.uid = kNobody;
  CHECK(refused(server) == kDiskError);
  const std::string said = server.log();
  CHECK_MESSAGE(has(said, server.store() + " belongs to root and has mode 0700"), said);
  CHECK(has(said, "this process runs as nobody"));
  CHECK_FALSE(has(said, "terminate called"));

  // The directory is ours, the files are not.
  REQUIRE(chown(server.store().c_str(), kNobody, kNobody) == 0);
  CHECK(refused(server) == kDiskError);
  CHECK_MESSAGE(has(server.log(), "OWNER belongs to root and has mode 0600"), server.log());
  REQUIRE(chown((server.store() + "/OWNER").c_str(), kNobody, kNobody) == 0);
  CHECK(refused(server) == kDiskError);
  CHECK_MESSAGE(has(server.log(), "mainspring.db belongs to root and has mode 0600"), server.log());
  CHECK_FALSE_MESSAGE(has_words_of_sqlite(server.log()), server.log());

  // An unreadable directory is not an empty one.
  REQUIRE(chown(server.store().c_str(), 0, 0) == 0);
  Process other;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"store", "info"}, {"verify"}, {"callbacks", "key"}}) {
    Command command{
        .args = {server_binary()}, .output = server.scratch() + "/other.log", .uid = kNobody};
    command.args.insert(command.args.end(), words.begin(), words.end());
    command.args.insert(command.args.end(), {"--data", server.store()});
    REQUIRE(other.start(command));
    REQUIRE(other.wait(60'000));
    CHECK_MESSAGE(other.exit_code() == kDiskError, words[0]);
  }
  const std::string others = read_file(server.scratch() + "/other.log");
  CHECK_FALSE_MESSAGE(has(others, "no store"), others);
  CHECK_FALSE(has_words_of_sqlite(others));
}

TEST_CASE("a backup that finds no space says so, leaves nothing, and can be repeated") {
  const SmallDisk disk("size=1m");
  if (!disk.ok()) {
    MESSAGE("skipped: mounting a tmpfs is not permitted here: ", disk.error());
    return;
  }
  Served server;
  REQUIRE_MESSAGE(server.start(), server.log());
  HttpClient http(server.port());
  for (int i = 0; i < 20; ++i) REQUIRE(http.post("/v1/jobs", job_of(100'000)).status == 201);
  const std::string copy = disk.path() + "/copy";
  const auto backup = [&] {
    return run({server_binary(), "store", "backup", "--data", server.store(), copy}, 30'000);
  };
  for (int i = 0; i < 2; ++i) {
    const Finished refused = backup();
    CHECK_MESSAGE(refused.exit_code == 75, refused.output);
    CHECK(has(refused.output, "mainspring.db.partial: the disk is full"));
    CHECK(fs::is_empty(copy));
  }
  REQUIRE(mount("", disk.path().c_str(), "", MS_REMOUNT, "size=8m") == 0);
  const Finished whole = backup();
  CHECK_MESSAGE(whole.exit_code == 0, whole.output);
  CHECK(server.stop() == 0);
  const Finished verify = run({server_binary(), "verify", "--data", copy}, 30'000);
  CHECK_MESSAGE(verify.exit_code == 0, verify.output);
}

TEST_CASE("on a small full disk all jobs can be worked off, also after a restart") {
  const SmallDisk disk("size=40m");
  if (!disk.ok()) {
    MESSAGE("skipped: mounting a tmpfs is not permitted here: ", disk.error());
    return;
  }
  Served server({}, disk.path() + "/store");
  REQUIRE_MESSAGE(server.start(), server.log());
  HttpClient http(server.port());
  CHECK_FALSE(has(http.get("/readyz").body, "warning"));

  REQUIRE(http.post("/v1/jobs", kHundredJobs).status == 201);

  // Readers never see fewer queues than there are.
  std::atomic<bool> ends = false;
  std::atomic<int> wrong = 0, reads = 0;
  std::thread reader([&] {
    HttpClient polls(server.port());
    while (!ends) {
      const Answer answer = polls.get("/v1/queues/q");
      if (answer.status != 200 && answer.status != 503) ++wrong;
      ++reads;
    }
  });
  const int jobs = 100 + enqueue_until_full(http);
  fill_disk(disk.path());  // another program takes the rest
  const Answer ready = http.get("/readyz");
  CHECK(ready.status == 200);
  CHECK_MESSAGE(has(ready.body, "new jobs are refused until"), ready.body);
  std::string error;
  for (int i = 0; i < 1000; ++i) REQUIRE_MESSAGE(finish_some(http, 1, error) == 1, error);
  CHECK(http.post("/v1/jobs", job_of(10)).status == 507);
  ends = true;
  reader.join();
  CHECK(wrong == 0);
  CHECK(reads > 0);

  // Killed on the full disk, and started there.
  server.kill();
  REQUIRE_MESSAGE(server.start(), server.log());
  CHECK_MESSAGE(has(http.get("/readyz").body, "new jobs are refused until"), server.log());
  CHECK(http.post("/v1/jobs", job_of(10)).status == 507);
  CHECK(server.stop() == 0);
  // What is removed makes room in the database, whose file does not shrink.
  server.set_options({"--retention-completed", "1s", "--prune-interval", "100ms"});
  REQUIRE_MESSAGE(server.start(), server.log());
  int finished = 1000;
  for (int some = 1; some > 0; finished += some) {
    some = finish_some(http, 40, error);
    REQUIRE_MESSAGE(some >= 0, error);
  }
  CHECK(finished == jobs);

  CHECK(eventually([&] { return http.post("/v1/jobs", job_of(10)).status == 201; }));
  CHECK_FALSE(has(http.get("/readyz").body, "warning"));
  CHECK(server.stop() == 0);
  const Finished verify = run({server_binary(), "verify", "--data", server.store()}, 30'000);
  CHECK_MESSAGE(verify.exit_code == 0, verify.output);
}
