// Job folders and their run files are found; working copies follow their folder.
#include "host/job_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/files.h"
#include "host/folder_testing.h"

using namespace mainspring;
using namespace mainspring::testing;

namespace {

// All hosts, installed or not.
std::vector<ScriptHost> all_hosts() {
  return {{.name = "BinaryScriptHost"},
          {"PowerShellScriptHost", {".ps1"}, {"/usr/bin/pwsh"}, false},
          {"BashScriptHost", {".sh"}, {"/usr/bin/bash"}, false},
          {"PythonScriptHost", {".py"}, {"/usr/bin/python3"}, false},
          {"PhpScriptHost", {".php"}, {"/usr/bin/php"}, false},
          {"NodeScriptHost", {".js"}, {"/usr/bin/node"}, true},
          {"JavaScriptHost", {".jar"}, {"/usr/bin/java", "-jar"}, false}};
}

struct File {
  std::string name;
  std::string text = "x";
  int mode = 0644;
};

struct Choice {
  std::string what;
  std::vector<File> files;
  std::string run_file;  // "" = none
  std::string host;
};

const std::string kShebang = "#!/bin/sh\n";
const std::string kElf = std::string("\x7f") + "ELF\x02";

void check(const Choice& choice) {
  CAPTURE(choice.what);
  TemporaryDirectory root;
  fs::create_directories(root.path("triggered/job"));
  for (const File& file : choice.files) {
    root.write("triggered/job/" + file.name, file.text, file.mode);
  }
  const auto job = read_job_folder(JobType::triggered, root.path("triggered/job"), all_hosts());
  if (choice.run_file.empty()) {
    REQUIRE_FALSE(job);
    CHECK(job.error().code == ErrorCode::not_found);
    CHECK(job.error().message == "No runnable script file was found.");
    return;
  }
  REQUIRE_MESSAGE(job, job.error().message);
  CHECK(job->run_file == choice.run_file);
  CHECK(job->host.name == choice.host);
}

std::string only_copy(const std::string& copies) {
  const std::vector<std::string> names = names_in(copies);
  REQUIRE(names.size() == 1);
  return copies + "/" + names[0];
}

std::string update(const std::string& source, const std::string& copies,
                   const std::vector<std::string>& keep = {}) {
  auto copy = update_working_copy(source, copies, keep);
  REQUIRE_MESSAGE(copy, copy.error().message);
  return *copy;
}

void touch(const std::string& path, std::int64_t seconds) {
  const timespec times[] = {{seconds, 0}, {seconds, 5}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("the run file: run.* by order of hosts, else the first file of the first host") {
  const std::vector<Choice> choices = {
      {"run.* wins over a host that is asked earlier",
       {{"a.sh"}, {"run.py"}},
       "run.py",
       "PythonScriptHost"},
      {"of several run.* the host that is asked first",
       {{"run.js"}, {"run.py"}, {"run.php"}},
       "run.py",
       "PythonScriptHost"},
      {"RUN.SH", {{"RUN.Sh"}, {"a.ps1"}}, "RUN.Sh", "BashScriptHost"},
      {"no run.*: by host, then name", {{"b.sh"}, {"a.py"}, {"c.sh"}}, "b.sh", "BashScriptHost"},
      {"powershell before bash", {{"a.sh"}, {"z.ps1"}}, "z.ps1", "PowerShellScriptHost"},
      {"python before php before node before java",
       {{"a.jar"}, {"b.js"}, {"c.php"}, {"d.py"}},
       "d.py",
       "PythonScriptHost"},
      {"php before node", {{"a.jar"}, {"b.js"}, {"c.php"}}, "c.php", "PhpScriptHost"},
      {"node before java", {{"a.jar"}, {"b.js"}}, "b.js", "NodeScriptHost"},
      {"java", {{"a.jar"}}, "a.jar", "JavaScriptHost"},
      {"an executable run", {{"run", kElf, 0755}, {"run.sh"}}, "run", "BinaryScriptHost"},
      {"an executable of another name",
       {{"a.sh"}, {"tool", kShebang, 0755}},
       "tool",
       "BinaryScriptHost"},
      {"an executable run.rb", {{"run.rb", kShebang, 0755}}, "run.rb", "BinaryScriptHost"},
      {"run.* before an executable", {{"a", kElf, 0755}, {"run.sh"}}, "run.sh", "BashScriptHost"},
      {"a run.sh with an x bit stays bash's",
       {{"run.sh", kShebang, 0755}},
       "run.sh",
       "BashScriptHost"},
      {"no x bit", {{"run", kShebang, 0644}}, "", ""},
      {"x bit, but no program", {{"run", "echo", 0755}}, "", ""},
      {"an empty file with an x bit", {{"run", "", 0755}}, "", ""},
      {"other names", {{"readme.md"}, {"Makefile"}, {"run.txt"}, {"sh"}}, "", ""},
      {"nothing", {}, "", ""},
      {"never settings.job, disable.job, hidden files",
       {{"settings.job", kShebang, 0755},
        {"disable.job", kShebang, 0755},
        {".run.sh"},
        {".a.py", kShebang, 0755}},
       "",
       ""},
      {"folders are not searched", {{"lib/run.sh"}, {"readme"}}, "", ""},
  };
  for (const Choice& choice : choices) check(choice);
}

TEST_CASE("a folder that contains only a folder is replaced by it") {
  TemporaryDirectory root;
  root.write("continuous/a/app/v1/run.sh", "x");
  root.write("continuous/a/app/v1/settings.job", R"({"is_singleton":true})");
  auto job = read_job_folder(JobType::continuous, root.path("continuous/a"), all_hosts());
  REQUIRE(job);
  CHECK(job->directory == root.path("continuous/a"));
  CHECK(job->script_dir == root.path("continuous/a/app/v1"));
  CHECK(job->settings.is_singleton);
  root.write("continuous/a/other", "x");
  job = read_job_folder(JobType::continuous, root.path("continuous/a"), all_hosts());
  CHECK_FALSE(job);
}

TEST_CASE("a folder with a program for Windows alone says that it does not run here") {
  TemporaryDirectory root;
  root.write("triggered/a/run.CMD", "@echo off");
  const auto job = read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
  REQUIRE_FALSE(job);
  CHECK(job.error().message ==
        "No runnable script file was found. run.CMD is a program for Windows: add run.sh, or "
        "another script.");
}

TEST_CASE("endlessly nested folders are an error") {
  TemporaryDirectory root;
  std::string deep = "triggered/a";
  for (int i = 0; i < 40; ++i) deep += "/d";
  root.write(deep + "/run.sh", "x");
  CHECK_FALSE(read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts()));
  fs::create_directories(root.path("triggered/b"));
  fs::create_directory_symlink(".", root.path("triggered/b/self"));
  CHECK_FALSE(read_job_folder(JobType::triggered, root.path("triggered/b"), all_hosts()));
}

TEST_CASE("settings.job, disable.job and in place") {
  TemporaryDirectory root;
  root.write("triggered/a/run.js", "x");
  auto job = *read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
  CHECK(job.settings_json == "{}");
  CHECK(job.warnings.empty());
  CHECK_FALSE(job.disabled);
  CHECK(job.in_place());
  const std::string text = R"({ "is_in_place": false, "timeout": 5, "other": [1] })";
  root.write("triggered/a/settings.job", text);
  root.write("triggered/a/disable.job", "");
  job = *read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
  CHECK(job.settings_json == text);
  CHECK(job.warnings.size() == 1);
  CHECK(job.readable);
  CHECK(job.error.find("settings.job: timeout 5: must be a time") == 0);
  CHECK(job.error_of(true).empty());
  CHECK(job.disabled);
  CHECK_FALSE(job.in_place());
  root.write("triggered/a/settings.job", "{\"a\":");
  job = *read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
  CHECK(job.settings_json == "{}");
  CHECK(job.warnings.size() == 1);
  CHECK_FALSE(job.readable);
  CHECK(job.error_of(true).find("settings.job: ") == 0);
}

TEST_CASE("Settings.job and Run.sh are found in any case, and two of a name are a problem") {
  TemporaryDirectory root;
  const auto read = [&] {
    return *read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
  };
  root.write("triggered/a/Run.SH", "x");
  root.write("triggered/a/Settings.job", R"({"is_in_place":true})");
  CHECK(read().run_file == "Run.SH");
  CHECK(read().host.name == "BashScriptHost");
  CHECK(read().settings_file == "Settings.job");
  CHECK(read().in_place());
  CHECK(read().error.empty());
  root.write("triggered/a/settings.JOB", R"({"is_in_place":false})");
  CHECK(read().error == "Settings.job and settings.JOB differ only in case: keep one of them");
  CHECK(read().warnings == std::vector<std::string>{read().error});
  CHECK_FALSE(read().error_of(true).empty());  // also with --strict-webjobs
  fs::remove(root.path("triggered/a/settings.JOB"));
  root.write("triggered/a/run.sh", "x");
  CHECK(read().error == "Run.SH and run.sh differ only in case: keep one of them");
  fs::remove(root.path("triggered/a/Run.SH"));
  CHECK(read().error.empty());
  root.write("triggered/a/other.txt", "x");
  root.write("triggered/a/Other.txt", "x");  // of no account
  CHECK(read().error.empty());
}

TEST_CASE("a settings.job that is a pipe, a folder or too large is an error without a wait") {
  TemporaryDirectory root;
  root.write("triggered/a/run.sh", "x");
  const std::string path = root.path("triggered/a/settings.job");
  const auto warnings = [&] {
    const auto job = read_job_folder(JobType::triggered, root.path("triggered/a"), all_hosts());
    REQUIRE(job);
    CHECK(job->settings_json == "{}");
    CHECK_FALSE(job->readable);
    CHECK_FALSE(job->error.empty());
    return job->warnings.size();
  };
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(warnings() == 1);
  fs::remove(path);
  fs::create_directory(path);
  CHECK(warnings() == 1);
  fs::remove(path);
  root.write("triggered/a/settings.job", std::string(kMaxSettingsBytes + 1, ' '));
  CHECK(warnings() == 1);
}

TEST_CASE("job names are validated") {
  for (const char* good : {"a", "A-b_c.d", "7", "x.."}) CHECK_MESSAGE(check_job_name(good), good);
  CHECK(check_job_name(std::string(80, 'a')));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("-a"), std::string("_a"),
        std::string("a/b"), std::string("a b"), std::string("a\0b", 3), std::string("\xc3\xa4"),
        std::string(81, 'a')}) {
    const auto checked = check_job_name(bad);
    REQUIRE_MESSAGE(!checked, bad);
    CHECK(checked.error().code == ErrorCode::invalid_argument);
    CHECK(checked.error().field == "name");
  }
  TemporaryDirectory root;
  CHECK(read_job_folder(JobType::queue, root.path("none"), all_hosts()).error().code ==
        ErrorCode::not_found);
}

TEST_CASE("discovery: by type and name; the first root wins; skipped folders are reported") {
  TemporaryDirectory root;
  root.write("a/triggered/report/run.sh", "first");
  root.write("a/continuous/zeta/run.sh", "x");
  root.write("a/queues/photos/run.js", "x");
  root.write("a/triggered/.deploy-1/run.sh", "x");
  root.write("a/triggered/a_file", "x");
  root.write("a/triggered/empty/readme", "x");
  root.write("a/triggered/bad name/run.sh", "x");
  root.write("b/triggered/report/run.py", "second");
  root.write("b/triggered/empty/run.sh", "x");
  root.write("b/continuous/alpha/run.py", "x");
  const Found found = discover({root.path("a"), root.path("b"), root.path("none")}, all_hosts());
  std::vector<std::string> names;
  for (const JobFolder& job : found.jobs) {
    names.push_back(std::string(to_string(job.type)) + " " + job.name + " " + job.run_file);
  }
  CHECK(names == std::vector<std::string>{"continuous alpha run.py", "continuous zeta run.sh",
                                          "triggered report run.sh", "queue photos run.js"});
  REQUIRE(found.left_out.size() == 2);
  CHECK(found.left_out[0].why.find("bad name") != std::string::npos);
  CHECK(found.left_out[1].why ==
        root.path("a/triggered/empty") + ": No runnable script file was found.");
  CHECK_FALSE(found.left_out[1].unknown);
  CHECK(found.unlisted.empty());
}

TEST_CASE("discovery names what looks like a job at the wrong place") {
  TemporaryDirectory root;
  root.write("queue/photos/run.sh", "x");
  root.write("trigered/report/run.sh", "x");
  root.write("triggered/top.sh", "x");
  root.write("triggered/notes.txt", "x");
  root.write("src/main.cc", "x");
  const Found found = discover({root.path(".")}, all_hosts());
  const std::string at = root.path(".");
  CHECK(found.jobs.empty());
  CHECK(
      found.misplaced ==
      std::vector<std::string>{
          at + "/queue: jobs are not read from here; did you mean " + at + "/queues?",
          at + "/trigered: jobs are not read from here; did you mean " + at + "/triggered?",
          at + "/triggered/top.sh: a job is a folder; move it to " + at + "/triggered/top/run.sh"});
}

TEST_CASE("script hosts are those whose interpreters are in the path") {
  TemporaryDirectory bin;
  bin.write("one/python3", kShebang, 0755);
  bin.write("two/bash", kShebang, 0755);
  bin.write("two/python3", kShebang, 0755);
  bin.write("two/node", kShebang, 0644);
  fs::create_directories(bin.path("two/php"));
  const auto hosts = find_script_hosts(bin.path("one") + "::relative:" + bin.path("two"));
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].name == "BinaryScriptHost");
  CHECK(hosts[0].command.empty());
  CHECK(hosts[1].command == std::vector<std::string>{bin.path("two/bash")});
  CHECK(hosts[2].name == "PythonScriptHost");
  CHECK(hosts[2].command == std::vector<std::string>{bin.path("one/python3"), "-u"});
  CHECK(find_script_hosts("").size() == 1);
}

TEST_CASE("a file of a host that is not installed is ignored") {
  TemporaryDirectory root;
  root.write("triggered/a/run.php", "x");
  root.write("triggered/a/work.sh", "x");
  const std::vector<ScriptHost> hosts = {{.name = "BinaryScriptHost"},
                                         {"BashScriptHost", {".sh"}, {"/usr/bin/bash"}, false}};
  CHECK(read_job_folder(JobType::triggered, root.path("triggered/a"), hosts)->run_file ==
        "work.sh");
}

TEST_CASE("a working copy equals the folder: bytes, modes, times, links") {
  TemporaryDirectory root;
  root.write("job/run.sh", "echo", 0755);
  root.write("job/lib/deep/data.bin", std::string(700'000, '\7'), 0640);
  root.write("job/.env", "A=1", 0600);
  root.write("job/disable.job", "");
  fs::create_symlink("lib/deep/data.bin", root.path("job/link"));
  fs::create_symlink("/nowhere", root.path("job/broken"));
  fs::permissions(root.path("job"), static_cast<fs::perms>(0755));
  touch(root.path("job/run.sh"), 1'700'000'000);
  const std::string copy = update(root.path("job"), root.path("copies"));
  CHECK(copy == only_copy(root.path("copies")));
  CHECK(names_in(copy) == std::vector<std::string>{".env", "broken", "lib", "link", "run.sh"});
  CHECK(read_text(copy + "/run.sh") == "echo");
  CHECK(read_text(copy + "/link") == std::string(700'000, '\7'));
  CHECK(fs::read_symlink(copy + "/broken") == "/nowhere");
  struct stat status {};
  REQUIRE(::stat((copy + "/run.sh").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0755);
  CHECK(status.st_mtim.tv_sec == 1'700'000'000);
  REQUIRE(::stat((copy + "/lib/deep/data.bin").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
  REQUIRE(::stat(copy.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0755);
}

TEST_CASE("a working copy is rebuilt only when a file of the folder is new or changed") {
  TemporaryDirectory root;
  root.write("job/run.sh", "1", 0755);
  root.write("job/lib/a.txt", "1");
  const std::string job = root.path("job"), copies = root.path("copies");
  std::string copy = update(job, copies);
  const auto same = [&] {
    const std::string next = update(job, copies);
    CHECK(next == only_copy(copies));
    return std::exchange(copy, next) == next;
  };
  CHECK(same());
  root.write("copies/" + base_name(copy) + "/written_by_the_job", "x");
  CHECK(same());
  fs::remove(root.path("job/lib/a.txt"));
  CHECK_FALSE(same());
  CHECK(names_in(copy + "/lib").empty());
  fs::rename(root.path("job/lib"), root.path("job/lib2"));
  CHECK_FALSE(same());
  fs::rename(root.path("job/lib2"), root.path("job/lib"));
  CHECK_FALSE(same());
  CHECK(same());
  root.write("job/disable.job", "");
  CHECK(same());
  root.write("job/lib/b.txt", "1");
  CHECK_FALSE(same());
  CHECK(names_in(copy) == std::vector<std::string>{"lib", "run.sh"});
  CHECK(same());
  touch(root.path("job/run.sh"), 1'600'000'000);
  CHECK_FALSE(same());
  touch(root.path("job/run.sh"), 1'600'000'001);
  CHECK_FALSE(same());
  CHECK(same());
  root.write("job/run.sh", "22", 0755);
  touch(root.path("job/run.sh"), 1'600'000'001);
  CHECK_FALSE(same());
  fs::permissions(root.path("job/run.sh"), static_cast<fs::perms>(0700));
  CHECK_FALSE(same());
  fs::remove(copy + "/lib/b.txt");
  CHECK_FALSE(same());
  fs::create_symlink("a", root.path("job/link"));
  CHECK_FALSE(same());
  fs::remove(root.path("job/link"));
  fs::create_symlink("b", root.path("job/link"));
  CHECK_FALSE(same());
  CHECK(same());
}

TEST_CASE("a copy in use by a run stays; the others and leftovers of a crash are removed") {
  TemporaryDirectory root;
  const std::string job = root.path("job"), copies = root.path("copies");
  root.write("job/run.sh", "1");
  const std::string first = update(job, copies);
  root.write("job/run.sh", "22");
  root.write("copies/.copy-cutoff/run.sh", "2");
  const std::string second = update(job, copies, {first});
  CHECK(first != second);
  CHECK(read_text(first + "/run.sh") == "1");
  CHECK(names_in(copies).size() == 2);
  root.write("job/run.sh", "333");
  const std::string third = update(job, copies);
  CHECK(only_copy(copies) == third);
  CHECK(read_text(third + "/run.sh") == "333");
}

TEST_CASE("a folder that cannot be copied is refused, and no partial copy is left") {
  TemporaryDirectory root;
  root.write("job/run.sh", "1");
  REQUIRE(::mkfifo(root.path("job/pipe").c_str(), 0600) == 0);
  const auto copy = update_working_copy(root.path("job"), root.path("copies"), {});
  REQUIRE_FALSE(copy);
  CHECK(copy.error().code == ErrorCode::invalid_argument);
  CHECK(copy.error().message.find("pipe") != std::string::npos);
  CHECK(names_in(root.path("copies")).empty());
  CHECK(update_working_copy(root.path("none"), root.path("copies"), {}).error().code ==
        ErrorCode::io_error);
}

TEST_CASE("removing a tree removes links, not their targets") {
  TemporaryDirectory root;
  root.write("outside/file", "x");
  root.write("tree/a/b/c", "x");
  fs::create_directory_symlink(root.path("outside"), root.path("tree/a/link"));
  CHECK(remove_tree(root.path("tree")));
  CHECK_FALSE(fs::exists(root.path("tree")));
  CHECK(read_text(root.path("outside/file")) == "x");
  CHECK(remove_tree(root.path("tree")));
}
