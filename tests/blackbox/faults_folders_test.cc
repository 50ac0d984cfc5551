// Directories of job folders that are unmounted, unreadable, half copied, or links to another
// place.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing.h"

using namespace blackbox;
namespace fs = std::filesystem;

namespace {

constexpr unsigned kNobody = 65534;
const std::string kTick = R"({"schedule":"0 0 0 1 1 *"})";

// A server with job folders in `jobs`, a directory of the test case.
struct Folders {
  explicit Folders(std::vector<std::string> more = {}) : extra(std::move(more)) {
    jobs = server.scratch() + "/jobs";
    fs::create_directories(jobs);
    use(jobs);
  }
  void use(const std::string& directory) {
    std::vector<std::string> options = {"--jobs", directory, "--folder-quiet", quiet};
    options.insert(options.end(), extra.begin(), extra.end());
    server.set_options(std::move(options));
  }
  void script(const std::string& folder, const std::string& text) const {
    write_file(jobs + "/" + folder + "/run.sh", text);
  }
  void settings(const std::string& folder, const std::string& json) const {
    write_file(jobs + "/" + folder + "/settings.job", json);
  }
  std::string get(const std::string& path) const {
    HttpClient client(server.port());
    return client.get(path).body;
  }
  int status(const std::string& method, const std::string& path,
             const std::string& body = "") const {
    HttpClient client(server.port());
    return client.request(method, path, body).status;
  }
  std::string job(const std::string& key) const { return get("/v1/host/jobs/" + key); }
  bool is_missing(const std::string& key) const { return has(job(key), "\"missing\":{"); }
  std::string schedule(const std::string& name) const {
    return get("/v1/schedules/host%2F" + name);
  }
  std::string data(const std::string& key) const {
    return server.store() + "/host/data/jobs/" + key;
  }
  // Runs a triggered job and waits for its end. False if it did not succeed.
  bool run(const std::string& name) const {
    const std::string path = "/v1/host/jobs/triggered/" + name + "/run";
    if (!eventually([&] { return status("POST", path, "{}") == 202; })) return false;
    return eventually([&] { return has(job("triggered/" + name), "\"Success\""); });
  }
  int ledger_rows(const std::string& name) const {
    const auto page = parse(get("/v1/schedules/host%2F" + name + "/ledger"));
    return page.IsObject() && page.HasMember("ticks") ? static_cast<int>(page["ticks"].Size()) : -1;
  }

  Served server;
  std::string jobs, quiet = "200ms";
  std::vector<std::string> extra;
};

// A continuous job that counts its starts in its data directory.
std::string counting(const std::string& says = "here") {
  return "echo start >> \"$WEBJOBS_DATA_PATH/starts\"\necho " + says +
         "\ntrap 'exit 0' TERM\nwhile :; do sleep 0.05; done\n";
}

long starts(const Folders& t, const std::string& name) {
  const std::string text = read_file(t.data("continuous/" + name) + "/starts");
  return std::count(text.begin(), text.end(), '\n');
}

void give_to_nobody(const std::string& directory) {
  REQUIRE(chown(directory.c_str(), kNobody, kNobody) == 0);
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    REQUIRE(lchown(entry.path().c_str(), kNobody, kNobody) == 0);
  }
}

}  // namespace

TEST_CASE("a directory of jobs that is empty, absent or another one at a start deletes nothing") {
  Folders t;
  t.script("triggered/report", "echo line >> \"$WEBJOBS_DATA_PATH/ledger.txt\"\n");
  t.settings("triggered/report", kTick);
  REQUIRE(t.server.start());
  REQUIRE(t.run("report"));
  REQUIRE(t.status("POST", "/v1/schedules/host%2Freport/trigger", "{}") < 300);
  REQUIRE(eventually([&] { return t.ledger_rows("report") == 1; }));
  const std::string aside = t.server.scratch() + "/aside";
  const std::string other = t.server.scratch() + "/other";
  fs::create_directories(other + "/triggered");
  const std::string ledger = t.data("triggered/report") + "/ledger.txt";
  REQUIRE(eventually([&] { return read_file(ledger) == "line\nline\n"; }));
  for (const std::string how : {"empty", "absent", "another", "without triggered"}) {
    CAPTURE(how);
    REQUIRE(t.server.stop() == 0);
    if (how == "another") {
      t.use(other);
    } else if (how == "without triggered") {
      fs::rename(t.jobs + "/triggered", aside);
    } else {
      fs::rename(t.jobs, aside);
      if (how == "empty") fs::create_directories(t.jobs);
    }
    REQUIRE(t.server.start());
    CHECK(eventually([&] { return t.is_missing("triggered/report"); }));
    CHECK(eventually([&] { return has(t.schedule("report"), "the folder is missing"); }));
    CHECK(t.status("POST", "/v1/host/jobs/triggered/report/run", "{}") == 404);
    CHECK(t.status("GET", "/v1/host/jobs/triggered/report/history") == 200);
    REQUIRE(t.server.stop() == 0);
    if (how == "another") {
      t.use(t.jobs);
    } else if (how == "without triggered") {
      fs::rename(aside, t.jobs + "/triggered");
    } else {
      fs::remove_all(t.jobs);
      fs::rename(aside, t.jobs);
    }
    REQUIRE(t.server.start());
    CHECK(eventually([&] { return has(t.schedule("report"), "\"paused\":false"); }));
    CHECK_FALSE(t.is_missing("triggered/report"));
    CHECK(read_file(ledger) == "line\nline\n");
    CHECK(t.ledger_rows("report") == 1);
    CHECK(parse(t.get("/v1/host/jobs/triggered/report/history"))["runs"].Size() == 2);
  }
  CHECK(t.server.stop() == 0);
}

TEST_CASE("a folder that goes away while the server runs ends its process and keeps its data") {
  Folders t;
  t.script("continuous/c", counting());
  REQUIRE(t.server.start());
  REQUIRE(eventually([&] { return starts(t, "c") == 1; }));
  fs::rename(t.jobs + "/continuous", t.server.scratch() + "/aside");
  CHECK(eventually([&] { return t.is_missing("continuous/c"); }));
  CHECK(has(t.get("/v1/host"), "\"missing\":1"));
  CHECK(has(t.get("/readyz"), "\"missing\":1"));
  const Finished list =
      run({server_binary(), "jobs-host", "list", "--server", t.server.url()}, 60'000);
  CHECK(has(list.output, "missing"));
  fs::rename(t.server.scratch() + "/aside", t.jobs + "/continuous");
  CHECK(eventually([&] { return starts(t, "c") == 2; }));
  CHECK(t.server.stop() == 0);
}

TEST_CASE("the data of a missing folder goes after the retention, or by the command") {
  Folders t({"--folder-retention", "2s"});
  for (const std::string name : {"old", "kept"}) {
    t.script("triggered/" + name, "echo line >> \"$WEBJOBS_DATA_PATH/ledger.txt\"\n");
    t.settings("triggered/" + name, kTick);
  }
  REQUIRE(t.server.start());
  REQUIRE(t.run("old"));
  REQUIRE(t.run("kept"));
  fs::remove_all(t.jobs + "/triggered/old");
  CHECK(eventually([&] { return !fs::exists(t.data("triggered/old")); }));
  CHECK(eventually([&] { return t.status("GET", "/v1/schedules/host%2Fold") == 404; }));
  CHECK(eventually([&] { return t.status("GET", "/v1/host/jobs/triggered/old") == 404; }));
  CHECK(fs::exists(t.data("triggered/kept")));
  REQUIRE(t.server.stop() == 0);
  // By the command, with the default retention.
  t.extra.clear();
  t.use(t.jobs);
  fs::remove_all(t.jobs + "/triggered/kept");
  REQUIRE(t.server.start());
  CHECK(eventually([&] { return t.is_missing("triggered/kept"); }));
  CHECK(fs::exists(t.data("triggered/kept")));
  const Finished removed =
      run({server_binary(), "jobs-host", "remove", "kept", "--server", t.server.url()}, 60'000);
  CHECK(removed.exit_code == 0);
  CHECK_FALSE(fs::exists(t.data("triggered/kept")));
  CHECK(t.status("GET", "/v1/schedules/host%2Fkept") == 404);
  CHECK(t.get("/v1/host/jobs") == R"({"jobs":[]})");
  CHECK(t.server.stop() == 0);
}

TEST_CASE("a directory that cannot be read changes nothing, and is a problem that is shown") {
  if (geteuid() != 0) {
    MESSAGE("skipped: only root can start the server as another user");
    return;
  }
  Folders t;
  t.script("continuous/c", counting());
  t.script("triggered/b", "echo line >> \"$WEBJOBS_DATA_PATH/ledger.txt\"\n");
  t.settings("triggered/b", kTick);
  give_to_nobody(t.server.scratch());
  t.server.uid = kNobody;
  REQUIRE(t.server.start());
  REQUIRE(eventually([&] { return starts(t, "c") == 1; }));
  REQUIRE(t.run("b"));
  const std::string schedule = t.schedule("b");
  const auto hide = [&](const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
      REQUIRE(chmod((t.jobs + "/" + directory).c_str(), 0) == 0);
    }
    CHECK(eventually([&] { return has(t.get("/v1/host"), "Permission denied"); }));
    CHECK(eventually([&] { return has(t.get("/readyz"), "Permission denied"); }));
  };
  const auto show = [&](const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
      REQUIRE(chmod((t.jobs + "/" + directory).c_str(), 0755) == 0);
    }
    CHECK(eventually([&] { return has(t.get("/v1/host"), "\"problems\":[]"); }));
  };
  const auto is_as_before = [&] {
    CHECK(starts(t, "c") == 1);
    CHECK_FALSE(t.is_missing("continuous/c"));
    CHECK_FALSE(t.is_missing("triggered/b"));
    CHECK(t.schedule("b") == schedule);
  };
  const std::vector<std::vector<std::string>> cases = {
      {"continuous", "triggered"}, {"continuous/c", "triggered/b"}, {"."}};
  for (const auto& directories : cases) {
    CAPTURE(directories.front());
    hide(directories);
    is_as_before();
    show(directories);
    is_as_before();
  }
  // A single file: the job continues with the copy that it has.
  REQUIRE(chmod((t.jobs + "/continuous/c/run.sh").c_str(), 0) == 0);
  CHECK(eventually([&] { return has(t.job("continuous/c"), "cannot read"); }));
  is_as_before();
  REQUIRE(chmod((t.jobs + "/continuous/c/run.sh").c_str(), 0644) == 0);
  CHECK(eventually([&] { return !has(t.job("continuous/c"), "cannot read"); }));
  is_as_before();
  // A start meanwhile deletes nothing.
  hide({"continuous", "triggered"});
  REQUIRE(t.server.stop() == 0);
  REQUIRE(t.server.start());
  CHECK(eventually([&] { return has(t.get("/v1/host"), "Permission denied"); }));
  CHECK(t.schedule("b") == schedule);
  show({"continuous", "triggered"});
  CHECK(eventually([&] { return starts(t, "c") == 2; }));
  CHECK(read_file(t.data("triggered/b") + "/ledger.txt") == "line\n");
  CHECK(t.schedule("b") == schedule);
  CHECK(t.server.stop() == 0);
}

TEST_CASE("a file system that is mounted over a directory of jobs is noticed") {
  SmallDisk disk("size=1m");
  if (!disk.ok()) {
    MESSAGE("skipped: no file system can be mounted: ", disk.error());
    return;
  }
  Folders t;
  fs::create_directories(t.jobs + "/continuous");
  REQUIRE(t.server.start());
  write_file(disk.path() + "/c/run.sh", counting());
  const std::string mounted = t.jobs + "/continuous";
  REQUIRE(mount(disk.path().c_str(), mounted.c_str(), nullptr, MS_BIND, nullptr) == 0);
  CHECK(eventually([&] { return starts(t, "c") == 1; }));
  write_file(mounted + "/d/run.sh", counting());
  CHECK(eventually([&] { return starts(t, "d") == 1; }));
  REQUIRE(umount2(mounted.c_str(), MNT_DETACH) == 0);
  CHECK(eventually([&] { return t.is_missing("continuous/c"); }));
  CHECK(fs::exists(t.data("continuous/c")));
  CHECK(t.server.stop() == 0);
}

TEST_CASE("without inotify watches changes are still noticed, and the lack is a problem") {
  const std::string limit = "echo 0 > /proc/sys/user/max_inotify_watches && exec \"$@\"";
  const std::vector<std::string> wrapper = {
      "/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh", "-c", limit, "sh"};
  std::vector<std::string> probe = wrapper;
  probe.emplace_back("true");
  if (run(probe, 60'000).exit_code != 0) {
    MESSAGE("skipped: this user may not limit inotify in a user namespace");
    return;
  }
  Folders t;
  t.script("continuous/c", counting());
  t.server.wrapper = wrapper;
  REQUIRE(t.server.start());
  CHECK(eventually([&] { return has(t.get("/v1/host"), "fs.inotify.max_user_watches"); }));
  REQUIRE(eventually([&] { return starts(t, "c") == 1; }));
  t.script("continuous/c", counting("another text"));
  CHECK(eventually([&] { return starts(t, "c") == 2; }));
  t.script("continuous/d", counting());
  CHECK(eventually([&] { return starts(t, "d") == 1; }));
  CHECK(t.server.stop() == 0);
}

TEST_CASE("an operation on one job leaves the others to their quiet period") {
  Folders t;
  t.script("triggered/other", "true\n");
  t.script("triggered/b", "true\n");
  t.settings("triggered/b", kTick);
  t.script("continuous/d", counting());
  t.quiet = "1h";
  t.use(t.jobs);
  REQUIRE(t.server.start());
  REQUIRE(eventually([&] { return starts(t, "d") == 1; }));
  const std::string schedule = t.schedule("b");
  REQUIRE(has(schedule, "host/b"));
  t.script("continuous/a", counting("half"));                      // is being copied
  fs::rename(t.jobs + "/triggered/b", t.server.scratch() + "/b");  // is being replaced
  write_file(t.jobs + "/continuous/d/.env", "A=1\n");
  CHECK(t.status("PUT", "/v1/host/jobs/triggered/other/settings", "{}") == 200);
  CHECK(t.status("POST", "/v1/host/jobs/continuous/d/start", "") == 200);
  HttpClient client(t.server.port());
  CHECK(client
            .request("PUT", "/v1/host/jobs/triggered/c", "true\n",
                     {"Content-Disposition: attachment; filename=run.sh"})
            .status == 200);
  CHECK(t.status("GET", "/v1/host/jobs/continuous/a") == 404);
  CHECK_FALSE(t.is_missing("triggered/b"));
  CHECK(t.schedule("b") == schedule);
  CHECK(starts(t, "d") == 1);
  CHECK(starts(t, "a") == 0);
  CHECK(t.server.stop() == 0);
}

TEST_CASE("a link changed to another release is noticed, with any file times") {
  Folders t;
  const std::string scratch = t.server.scratch();
  const auto release = [&](const std::string& name) {
    const std::string directory = scratch + "/releases/" + name + "/jobs/continuous/c";
    for (const auto& [file, text] :
         {std::pair{"/run.sh", counting(name)}, std::pair{"/settings.job", std::string("{}")}}) {
      write_file(directory + file, text);
      const timespec times[2] = {{1, 0}, {1, 0}};
      REQUIRE(utimensat(AT_FDCWD, (directory + file).c_str(), times, 0) == 0);
    }
  };
  const auto point = [&](const std::string& link, const std::string& target) {
    fs::remove(link + ".new");
    fs::create_symlink(target, link + ".new");
    fs::rename(link + ".new", link);
  };
  const auto logged = [&](const std::string& text) {
    return eventually(
        [&] { return has(t.get("/v1/host/jobs/continuous/c/log"), "INFO] " + text + "\\r\\n"); });
  };
  release("v1");
  release("v2");
  point(scratch + "/current", "releases/v1");
  t.use(scratch + "/current/jobs");
  REQUIRE(t.server.start());
  REQUIRE(logged("v1"));
  point(scratch + "/current", "releases/v2");
  CHECK(logged("v2"));
  CHECK(starts(t, "c") == 2);
  // The new release is watched.
  write_file(scratch + "/releases/v2/jobs/continuous/c/run.sh", counting("v3"));
  CHECK(logged("v3"));
  // A script that is a link.
  const std::string folder = scratch + "/releases/v2/jobs/continuous/c/";
  write_file(scratch + "/one.sh", counting("link to one"));
  write_file(scratch + "/two.sh", counting("link to two"));
  point(folder + "run.sh", scratch + "/one.sh");
  CHECK(logged("link to one"));
  point(folder + "run.sh", scratch + "/two.sh");
  CHECK(logged("link to two"));
  write_file(scratch + "/two.sh", counting("another two"));
  CHECK(logged("another two"));
  CHECK(t.server.stop() == 0);
}

TEST_CASE("a pipe in the place of a file blocks nothing") {
  Folders t;
  t.script("continuous/c", counting());
  t.script("triggered/piped", "true\n");
  REQUIRE(mkfifo((t.jobs + "/triggered/piped/settings.job").c_str(), 0644) == 0);
  fs::create_directories(t.data("continuous/c"));
  REQUIRE(mkfifo((t.data("continuous/c") + "/job_log.txt").c_str(), 0644) == 0);
  REQUIRE(mkfifo((t.data("continuous/c") + "/status_abcdef").c_str(), 0644) == 0);
  t.server.environment = {{"WEBSITE_INSTANCE_ID", "fedcba"}};
  REQUIRE(t.server.start());
  CHECK(eventually([&] { return starts(t, "c") == 1; }));
  CHECK(has(t.job("triggered/piped"), "not a regular file"));
  REQUIRE(mkfifo((t.jobs + "/host.json").c_str(), 0644) == 0);
  CHECK(eventually([&] { return has(t.get("/v1/host"), "host.json: not a regular file"); }));
  CHECK(starts(t, "c") == 1);
  CHECK(t.server.stop() == 0);
  // Also at the start: unknown limits hold the jobs back, and the server runs.
  REQUIRE(t.server.start());
  CHECK(eventually([&] { return has(t.get("/v1/host"), "host.json: not a regular file"); }));
  fs::remove(t.jobs + "/host.json");
  CHECK(eventually([&] { return starts(t, "c") == 2; }));
  CHECK(t.server.stop() == 0);
}
