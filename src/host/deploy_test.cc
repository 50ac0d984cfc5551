// Deployments are atomic, and no entry of a zip escapes its folder.
#include "host/deploy.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "host/files.h"
#include "host/folder_testing.h"
#include "host/zip.h"

using namespace mainspring;
using namespace mainspring::testing;

namespace {

std::vector<ScriptHost> hosts() {
  return {{.name = "BinaryScriptHost"},
          {"BashScriptHost", {".sh"}, {"/usr/bin/bash"}, false},
          {"PythonScriptHost", {".py"}, {"/usr/bin/python3"}, false}};
}

// Created once for all tests, because python3 needs some time for the large ones.
const TemporaryDirectory& zips() {
  static const TemporaryDirectory directory;
  static const bool made = [] {
    const std::string command = fmt::format("python3 '{}/src/host/deploy_test_zips.py' '{}'",
                                            MAINSPRING_SOURCE_DIR, directory.path());
    return std::system(command.c_str()) == 0;
  }();
  REQUIRE_MESSAGE(made, "python3 failed to make the zips of this test");
  return directory;
}

std::string zip(const std::string& name) {
  const std::string path = zips().path(name + ".zip");
  REQUIRE_MESSAGE(fs::exists(path), name);
  return read_text(path);
}

// A folder with one job, and its contents for comparison.
class Jobs {
 public:
  Jobs() {
    root_.write("jobs/triggered/report/run.sh", "echo old", 0755);
    root_.write("jobs/triggered/report/settings.job", R"({"stopping_wait_time":3})");
    root_.write("outside", "as it was");
  }
  std::string directory(const std::string& name = "report") const {
    return root_.path("jobs/triggered/" + name);
  }
  std::string path(const std::string& below) const { return directory() + "/" + below; }
  const TemporaryDirectory& root() const { return root_; }
  Result<JobFolder> put_zip(const std::string& bytes, const DeployLimits& limits = {}) const {
    return deploy_zip(JobType::triggered, directory(), bytes, hosts(), limits);
  }
  std::set<std::string> everything() const {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_.path())) {
      found.insert(entry.path().string() +
                   (entry.is_regular_file() ? " " + read_text(entry.path()) : ""));
    }
    return found;
  }

 private:
  TemporaryDirectory root_;
};

int mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return static_cast<int>(status.st_mode & 07777);
}

struct Bad {
  const char* zip;
  const char* said;
  ErrorCode code = ErrorCode::invalid_argument;
};
constexpr Bad kBad[] = {
    {"up", "\"../outside\": a path must stay in the folder"},
    {"up_inside", "must stay in the folder"},
    {"up_end", "must stay in the folder"},
    {"absolute", "must stay in the folder"},
    {"dot", "must stay in the folder"},
    {"empty_part", "must stay in the folder"},
    {"only_slash", "must stay in the folder"},
    {"backslash", "\"../outside\": a path must stay in the folder"},
    {"backslash_and_slash", "must not hold '\\'"},
    {"second_name", "\"../outside\": a path must stay in the folder"},
    {"no_utf8", "is damaged"},
    {"litter_up", "must stay in the folder"},
    {"litter_link", "is a link"},
    {"control", "\"a?b\": a path must not hold control characters"},
    {"long", "at most 1024 bytes"},
    {"long_name", "at most 255 bytes"},
    {"deep", "more than 64 folders deep"},
    {"twice", "\"run.sh\": occurs twice"},
    {"file_and_folder", "is in a folder that is a file too"},
    {"folder_and_file", "occurs twice"},
    {"nothing_to_run", "No runnable script file was found."},
    {"empty", "zip: has no files in it"},
    {"link", "\"link\": is a link"},
    {"link_and_file", "\"lib\": is a link"},
    {"device", "neither a file nor a folder"},
    {"folder_with_content", "is a folder with content"},
    {"bzip2", "must be stored or deflated"},
    {"encrypted", "is encrypted"},
    {"bomb", "more than 200 times", ErrorCode::too_large},
    {"many", "more than 10000 entries", ErrorCode::too_large},
    {"records", "more than 500000 records", ErrorCode::too_large},
    {"lies", "is longer than its size"},
    {"cut", "not a zip, or its end is cut off"},
    {"text", "not a zip"},
    {"nothing", "not a zip"},
    {"bent", "is damaged"},
    {"checksum", "is damaged"},
    {"two_names", "\"../ab\": a path must stay in the folder"},
};

// Archive readers disagree about the contents of these files; the reading of libarchive counts.
constexpr const char* kOdd[] = {
    "nul",           "pipe",     "folder_by_mode", "link_of_another_system",
    "overlap",       "trailing", "before",         "gap",
    "two_names_too", "two_ends", "long_comment",
};

}  // namespace

TEST_CASE("an invalid zip is refused; the job stays, and nothing is left or written outside") {
  const Jobs jobs;
  const std::set<std::string> before = jobs.everything();
  for (const Bad& bad : kBad) {
    CAPTURE(bad.zip);
    const auto job = jobs.put_zip(zip(bad.zip));
    REQUIRE_FALSE(job);
    CHECK(job.error().code == bad.code);
    CHECK_MESSAGE(job.error().message.find(bad.said) != std::string::npos, job.error().message);
    CHECK(jobs.everything() == before);
  }
  CHECK_FALSE(fs::exists("/tmp/outside"));
}

TEST_CASE("an odd zip is refused, or makes plain files in its folder only") {
  for (const std::string name : kOdd) {
    CAPTURE(name);
    const Jobs jobs;
    const std::set<std::string> before = jobs.everything();
    if (const auto job = jobs.put_zip(zip(name)); !job) {
      CHECK(job.error().code == ErrorCode::invalid_argument);
      CHECK(jobs.everything() == before);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(jobs.directory())) {
      CHECK((entry.symlink_status().type() == fs::file_type::regular ||
             entry.symlink_status().type() == fs::file_type::directory));
    }
    CHECK(fs::exists(jobs.path("run.sh")));
    CHECK(read_text(jobs.root().path("outside")) == "as it was");
    CHECK(names_in(jobs.root().path("")) == std::vector<std::string>{"jobs", "outside"});
    CHECK(names_in(jobs.root().path("jobs")) == std::vector<std::string>{"triggered"});
    CHECK(names_in(jobs.root().path("jobs/triggered")) == std::vector<std::string>{"report"});
  }
  CHECK_FALSE(fs::exists("/tmp/outside"));
}

TEST_CASE("files added by macOS are skipped, and the folder beside them is the job's") {
  const Jobs jobs;
  const auto job = jobs.put_zip(zip("macos"));
  REQUIRE_MESSAGE(job, job.error().message);
  CHECK(job->script_dir == jobs.path("report"));
  CHECK(names_in(jobs.directory()) == std::vector<std::string>{"report"});
  CHECK(names_in(jobs.path("report")) == std::vector<std::string>{"lib", "run.sh"});
  REQUIRE(jobs.put_zip(zip("not_macos")));
  CHECK(names_in(jobs.directory()) ==
        std::vector<std::string>{"__MACOSX.txt", "a.DS_Store", "lib", "run.sh"});
  CHECK(read_text(jobs.path("lib/__MACOSX/a")) == "x");
}

TEST_CASE("a refused zip for a new job creates no job") {
  const Jobs jobs;
  const std::set<std::string> before = jobs.everything();
  CHECK_FALSE(deploy_zip(JobType::triggered, jobs.directory("new"), zip("up"), hosts()));
  CHECK_FALSE(
      deploy_zip(JobType::triggered, jobs.directory("new"), zip("nothing_to_run"), hosts()));
  CHECK_FALSE(deploy_file(JobType::triggered, jobs.directory("new"), "a.txt", "x", hosts()));
  CHECK(jobs.everything() == before);
}

TEST_CASE("each limit is exact: one more is too large") {
  const Jobs jobs;
  const std::string good = zip("good");  // 3 files; 8 + 8 + 3 bytes
  const auto with = [&](auto change) {
    DeployLimits limits;
    change(limits);
    const auto job = jobs.put_zip(good, limits);
    return job ? std::string("good") : std::string(job.error().name());
  };
  CHECK(with([](DeployLimits& l) { l.max_entries = 3; }) == "good");
  CHECK(with([](DeployLimits& l) { l.max_entries = 2; }) == "too_large");
  CHECK(with([](DeployLimits& l) { l.max_file_bytes = 8; }) == "good");
  CHECK(with([](DeployLimits& l) { l.max_file_bytes = 7; }) == "too_large");
  CHECK(with([](DeployLimits& l) { l.max_total_bytes = 19; }) == "good");
  CHECK(with([](DeployLimits& l) { l.max_total_bytes = 18; }) == "too_large");
  CHECK(with([](DeployLimits& l) { l.max_path_bytes = 13; }) == "good");
  CHECK(with([](DeployLimits& l) { l.max_path_bytes = 12; }) == "invalid_argument");
  DeployLimits small;
  small.max_file_bytes = 3;
  CHECK(deploy_file(JobType::triggered, jobs.directory(), "run.sh", "1234", hosts(), small)
            .error()
            .code == ErrorCode::too_large);
  CHECK(deploy_file(JobType::triggered, jobs.directory(), "run.sh", "123", hosts(), small));
}

TEST_CASE("a good zip replaces all old files") {
  const Jobs jobs;
  const auto job = jobs.put_zip(zip("good"));
  REQUIRE_MESSAGE(job, job.error().message);
  CHECK(job->name == "report");
  CHECK(job->directory == jobs.directory());
  CHECK(job->run_file == "run.sh");
  CHECK_FALSE(job->settings.stopping_wait_time);
  CHECK(names_in(jobs.directory()) == std::vector<std::string>{"lib", "pair.txt", "run.sh"});
  CHECK(read_text(jobs.path("run.sh")) == "echo new");
  CHECK(read_text(jobs.path("lib/deep/a.py")) == "print(1)");
  CHECK(mode_of(jobs.directory()) == 0755);
  CHECK(mode_of(jobs.path("lib/deep")) == 0755);
  CHECK(names_in(jobs.root().path("jobs/triggered")) == std::vector<std::string>{"report"});
}

TEST_CASE("a new job is created with its parent folders") {
  const TemporaryDirectory root;
  const std::string directory = root.path("jobs/continuous/new");
  const auto job = deploy_zip(JobType::continuous, directory, zip("nested"), hosts());
  REQUIRE_MESSAGE(job, job.error().message);
  CHECK(job->script_dir == directory + "/app");
  CHECK(read_text(directory + "/app/lib/a.txt") == "y");
  CHECK(names_in(root.path("jobs/continuous")) == std::vector<std::string>{"new"});
}

TEST_CASE("zips of many tools are read") {
  const Jobs jobs;
  REQUIRE(jobs.put_zip(zip("folders")));
  CHECK(names_in(jobs.directory()) == std::vector<std::string>{"empty", "lib", "run.sh"});
  CHECK(mode_of(jobs.path("empty")) == 0755);
  REQUIRE(jobs.put_zip(zip("stored")));
  CHECK(read_text(jobs.path("run.sh")) == "echo stored");
  CHECK(read_text(jobs.path("empty")).empty());
  REQUIRE(jobs.put_zip(zip("names")));
  CHECK(read_text(jobs.path("\u00fcber/\u65e5\u672c.txt")) == "x");
  CHECK(read_text(jobs.path(".env")) == "x");
  REQUIRE(jobs.put_zip(zip("comment")));
  REQUIRE(jobs.put_zip(zip("backslashes")));
  CHECK(read_text(jobs.path("lib/a.py")) == "x");
  REQUIRE(jobs.put_zip(zip("streamed")));
  CHECK(read_text(jobs.path("run.sh")) == "echo streamed");
}

TEST_CASE("modes: those of the zip without unsafe bits; run.* is always executable") {
  const Jobs jobs;
  REQUIRE(jobs.put_zip(zip("modes")));
  CHECK(mode_of(jobs.path("run.sh")) == 0755);
  CHECK(mode_of(jobs.path("tool")) == 0644);
  CHECK(mode_of(jobs.path("secret")) == 0645);
  REQUIRE(jobs.put_zip(zip("no_modes")));
  CHECK(mode_of(jobs.path("run.sh")) == 0755);
  CHECK(mode_of(jobs.path("Run.PY")) == 0755);
  CHECK(mode_of(jobs.path("lib/run.sh")) == 0755);
  CHECK(mode_of(jobs.path("tool.sh")) == 0644);
}

TEST_CASE("at every moment the job is the old one or the new one, never a mix") {
  const Jobs jobs;
  const std::string one = zip("versions_1"), two = zip("versions_2");
  REQUIRE(jobs.put_zip(one));
  Mutex mutex;
  CondVar changed;
  int whole = 0, cut_off = 0;
  std::string wrong;
  bool stop = false;
  std::thread reader([&] {
    for (bool done = false; !done;) {
      const Fd folder(::open(jobs.directory().c_str(), O_RDONLY | O_DIRECTORY));
      std::string problem = folder ? "" : "there is no job";
      std::string texts[2];
      bool removed = false;  // the opened folder is being removed, after a new one has replaced it
      for (const int i : {0, 1}) {
        const Fd file(::openat(folder.get(), i == 0 ? "run.sh" : "other.txt", O_RDONLY));
        char buffer[8192];
        const ssize_t count = file ? ::read(file.get(), buffer, sizeof buffer) : -1;
        removed = removed || !file;
        texts[i].assign(buffer, count < 0 ? 0 : static_cast<std::size_t>(count));
      }
      if (!removed && (texts[0] != texts[1] || texts[0].size() != 5000)) problem = "a mix";
      MutexLock lock(mutex);
      if (wrong.empty()) wrong = problem;
      ++(removed ? cut_off : whole);
      done = stop;
      changed.notify_all();
    }
  });
  for (int i = 0; i < 200; ++i) {
    CHECK(jobs.put_zip(i % 2 == 0 ? two : one));
  }
  {
    MutexLock lock(mutex);
    const int enough = whole + 10;
    while (whole < enough) changed.wait_for(mutex, std::chrono::seconds(30));
    stop = true;
  }
  reader.join();
  CHECK(wrong == "");
  CHECK(whole > 10);
}

TEST_CASE("a single file replaces all old files and is executable") {
  const Jobs jobs;
  const auto job = deploy_file(JobType::triggered, jobs.directory(), "work it.py", "x", hosts());
  REQUIRE_MESSAGE(job, job.error().message);
  CHECK(job->run_file == "work it.py");
  CHECK(names_in(jobs.directory()) == std::vector<std::string>{"work it.py"});
  CHECK(mode_of(jobs.path("work it.py")) == 0755);
  CHECK(deploy_file(JobType::triggered, jobs.directory(), "run", "#!/bin/sh\n", hosts()));
}

TEST_CASE("unsafe names of files and jobs are refused") {
  const Jobs jobs;
  const std::set<std::string> before = jobs.everything();
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../run.sh"),
        std::string("/tmp/run.sh"), std::string("a\\run.sh"), std::string("a\0.sh", 5),
        std::string(".run.sh"), std::string("a\n.sh"), std::string(256, 'a') + ".sh"}) {
    const auto job = deploy_file(JobType::triggered, jobs.directory(), name, "x", hosts());
    REQUIRE_MESSAGE(!job, name);
    CHECK(job.error().code == ErrorCode::invalid_argument);
    CHECK(job.error().field == "filename");
  }
  for (const char* name : {"..", ".hidden", "-a", "a b"}) {
    CHECK(
        deploy_zip(JobType::triggered, jobs.directory(name), zip("good"), hosts()).error().field ==
        "name");
  }
  const auto none = deploy_file(JobType::triggered, jobs.directory(), "a.txt", "x", hosts());
  CHECK(none.error().code == ErrorCode::invalid_argument);
  CHECK(none.error().message == "No runnable script file was found.");
  CHECK(jobs.everything() == before);
}

TEST_CASE("concurrent deploys and removals leave a whole job or none, and nothing else") {
  const Jobs jobs;
  const std::string one = zip("versions_1"), two = zip("versions_2");
  std::atomic<int> problems = 0;
  std::vector<std::thread> threads;
  for (int who = 0; who < 3; ++who) {
    threads.emplace_back([&, who] {
      for (int i = 0; i < 40; ++i) {
        if (who == 2) {
          problems += remove_folder(jobs.directory()) ? 0 : 1;
          continue;
        }
        // The job may already be removed when it is read for the answer.
        const auto job = jobs.put_zip(who == 0 ? one : two);
        problems += job || job.error().code == ErrorCode::not_found ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(problems == 0);
  CHECK(jobs.put_zip(one));
  CHECK(names_in(jobs.root().path("jobs/triggered")) == std::vector<std::string>{"report"});
  CHECK(read_text(jobs.path("run.sh")) == read_text(jobs.path("other.txt")));
}

TEST_CASE("a full disk is reported as storage_full") {
  const Fd full(::open("/dev/full", O_WRONLY));
  REQUIRE(full);
  CHECK(write_all(full.get(), "x", "x").error().code == ErrorCode::storage_full);
}

TEST_CASE("a job is removed at once, and a second removal succeeds too") {
  const Jobs jobs;
  CHECK(remove_folder(jobs.directory()));
  CHECK(names_in(jobs.root().path("jobs/triggered")).empty());
  CHECK(remove_folder(jobs.directory()));
  CHECK(remove_folder(jobs.root().path("none/none")));
  CHECK_FALSE(fs::exists(jobs.root().path("none")));
}

TEST_CASE("removing or replacing a job that is a link keeps the target of the link") {
  const Jobs jobs;
  fs::create_directory_symlink(jobs.directory(), jobs.directory("linked"));
  CHECK(deploy_zip(JobType::triggered, jobs.directory("linked"), zip("good"), hosts()));
  CHECK(read_text(jobs.directory("linked") + "/run.sh") == "echo new");
  CHECK(read_text(jobs.path("run.sh")) == "echo old");
  fs::create_directory_symlink(jobs.directory(), jobs.directory("again"));
  CHECK(remove_folder(jobs.directory("again")));
  CHECK(read_text(jobs.path("run.sh")) == "echo old");
}

TEST_CASE("a file is replaced in one step, its mode is kept") {
  const TemporaryDirectory root;
  const std::string path = root.path("settings.job");
  CHECK(write_file_atomically(path, "{}"));
  CHECK(mode_of(path) == 0644);
  fs::permissions(path, static_cast<fs::perms>(0600));
  CHECK(write_file_atomically(path, "{\"a\":1}"));
  CHECK(read_text(path) == "{\"a\":1}");
  CHECK(mode_of(path) == 0600);
  CHECK(names_in(root.path()) == std::vector<std::string>{"settings.job"});
  CHECK(write_file_atomically(root.path("none/file"), "x").error().code == ErrorCode::io_error);
  fs::create_directory(root.path("folder"));
  CHECK_FALSE(write_file_atomically(root.path("folder"), "x"));
  CHECK(names_in(root.path()) == std::vector<std::string>{"folder", "settings.job"});
}

TEST_CASE("leftovers of a crash are removed; current deployments and jobs are not") {
  const Jobs jobs;
  jobs.root().write("jobs/triggered/.deploy-abc/report/run.sh", "x");
  jobs.root().write("jobs/continuous/.deploy-def/report/lib/run.sh", "x");
  jobs.root().write("jobs/triggered/report/.deploy-tmp", "x");
  jobs.root().write("jobs/triggered/.other/x", "x");
  jobs.root().write("jobs/queues/.deploy-busy/photos/run.sh", "x");
  const Fd busy(::open(jobs.root().path("jobs/queues/.deploy-busy").c_str(), O_RDONLY));
  REQUIRE(::flock(busy.get(), LOCK_EX) == 0);
  remove_deployment_leftovers(jobs.root().path("jobs"));
  CHECK(names_in(jobs.root().path("jobs/triggered")) ==
        std::vector<std::string>{".other", "report"});
  CHECK(names_in(jobs.root().path("jobs/continuous")).empty());
  CHECK(names_in(jobs.directory()) == std::vector<std::string>{"run.sh", "settings.job"});
  CHECK(names_in(jobs.root().path("jobs/queues")) == std::vector<std::string>{".deploy-busy"});
}

TEST_CASE("a zip that is cut or damaged anywhere makes only an error") {
  const std::string good = zip("good");
  const auto read = [](std::string_view bytes) {
    return unpack_zip(bytes, {}, [](const ZipEntry& entry, const UnpackEntry& unpack) {
      CHECK(entry.path.find("..") == std::string::npos);
      if (entry.directory) return Result<void>();
      std::uint64_t made = 0;
      const Result<void> unpacked = unpack([&](std::string_view piece) -> Result<void> {
        made += piece.size();
        return {};
      });
      CHECK((unpacked ? made == entry.bytes : made <= entry.bytes));
      return unpacked;
    });
  };
  CHECK(read(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(read(std::string_view(good).substr(0, size)));
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      std::string bent = good;
      bent[at] = static_cast<char>(static_cast<unsigned char>(bent[at]) ^ flip);
      (void)read(bent);
    }
  }
}
