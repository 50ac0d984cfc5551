// A job's log: its exact lines, without loss.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "base/mutex.h"
#include "host/job_log.h"
#include "host/log_files.h"

using namespace mainspring;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  TempDir() {
    std::string name = (fs::temp_directory_path() / "ms_job_log.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TempDir() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

// 2026-11-21T10:46:31Z
constexpr std::int64_t kStartMs = 1'795'257'991'000;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

JobLogOptions options_for(const std::string& path) {
  JobLogOptions options;
  options.path = path;
  options.instance = "3f9a1c";
  return options;
}

std::unique_ptr<JobLog> open_log(JobLogOptions options, const Clock& clock) {
  auto log = JobLog::open(std::move(options), clock);
  REQUIRE_MESSAGE(log, log.error().message);
  return std::move(*log);
}

LogText read_all(const std::string& path, std::int64_t position = 0,
                 std::size_t max = std::size_t{64} << 20) {
  auto text = read_log(path, position, max);
  REQUIRE_MESSAGE(text, text.error().message);
  return std::move(*text);
}

// The messages after the prefixes, one line each.
std::string messages(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("\r\n", at);
    REQUIRE(end != std::string::npos);
    const std::string line = text.substr(at, end - at);
    out += line.substr(line.find(": ") + 2) + "\n";
    at = end + 2;
  }
  return out;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("lines have the format of WebJobs to the byte") {
  TempDir dir;
  ManualClock clock(WallTime::from_ms(kStartMs));
  const std::string path = dir.file("deep/er/job_log.txt");
  auto log = open_log(options_for(path), clock);
  REQUIRE(log->write(LogSource::system_info, "Status changed to Running"));
  REQUIRE(log->write(LogSource::system_warn, "w"));
  REQUIRE(log->write(LogSource::system_error, "e\r\n"));
  REQUIRE(log->write(LogSource::out, "hello\n"));
  clock.advance(std::chrono::seconds(1));
  REQUIRE(log->write(LogSource::err, ""));
  CHECK(content(path) ==
        "[11/21/2026 10:46:31 > 3f9a1c: SYS INFO] Status changed to Running\r\n"
        "[11/21/2026 10:46:31 > 3f9a1c: SYS WARN] w\r\n"
        "[11/21/2026 10:46:31 > 3f9a1c: SYS ERR ] e\r\n"
        "[11/21/2026 10:46:31 > 3f9a1c: INFO] hello\r\n"
        "[11/21/2026 10:46:32 > 3f9a1c: ERR ] \r\n");
  CHECK(log->size() == static_cast<std::int64_t>(content(path).size()));
  CHECK(log_time(WallTime::from_ms(0)) == "01/01/1970 00:00:00");
}

TEST_CASE("a line that contains line breaks cannot imitate a line of another source") {
  TempDir dir;
  ManualClock clock;
  auto log = open_log(options_for(dir.file("job_log.txt")), clock);
  REQUIRE(log->write(LogSource::out, "a\n[x: SYS INFO] forged\r\nb"));
  CHECK(messages(content(dir.file("job_log.txt"))) ==
        "INFO] a\nINFO] [x: SYS INFO] forged\nINFO] b\n");
}

TEST_CASE("output is split into lines, and an unfinished last line is kept until flush") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  auto log = open_log(options_for(path), clock);
  REQUIRE(log->output(LogSource::out, "one\ntwo\r\nthr"));
  CHECK(messages(content(path)) == "INFO] one\nINFO] two\n");
  REQUIRE(log->output(LogSource::err, "bad"));
  REQUIRE(log->output(LogSource::out, "ee\r"));
  REQUIRE(log->output(LogSource::out, "\n\nfour"));
  CHECK(messages(content(path)) == "INFO] one\nINFO] two\nINFO] three\nINFO] \n");
  REQUIRE(log->flush());
  REQUIRE(log->flush());
  CHECK(messages(content(path)) ==
        "INFO] one\nINFO] two\nINFO] three\nINFO] \nINFO] four\nERR ] bad\n");
}

TEST_CASE("a line over 64 KiB is split between characters, and nothing is missing") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  auto log = open_log(options_for(path), clock);
  std::string line = "x";
  while (line.size() < 3 * JobLog::kMaxLineBytes) line += "\xc3\xa4";  // an ä at odd positions
  for (const std::size_t step : {line.size(), std::size_t{1000}, std::size_t{65'537}}) {
    const std::int64_t before = log->size();
    for (std::size_t at = 0; at < line.size(); at += step) {
      REQUIRE(log->output(LogSource::out, std::string_view(line).substr(at, step)));
    }
    REQUIRE(log->output(LogSource::out, "\n"));
    std::string joined;
    const std::string text = messages(read_all(path, before).text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      const std::string piece = text.substr(at + 6, end - at - 6);
      CHECK(piece.size() <= JobLog::kMaxLineBytes);
      CHECK((static_cast<unsigned char>(piece[0]) & 0xc0) != 0x80);
      joined += piece;
      at = end + 1;
    }
    CHECK(joined == line);
  }
  REQUIRE(log->write(LogSource::out, line));
  CHECK(count_of(read_all(path).text, "INFO] ") == 16);
}

TEST_CASE("a log is rolled into generations, the oldest is removed, and positions stay valid") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.roll_bytes = 300;
  options.generations = 3;
  std::string all;
  std::map<int, std::int64_t> position_of;
  int line = 0;
  for (int start = 0; start < 3; ++start) {  // positions survive restarts
    auto log = open_log(options, clock);
    CHECK(log->size() == static_cast<std::int64_t>(all.size()));
    for (int i = 0; i < 40; ++i, ++line) {
      position_of[line] = log->size();
      REQUIRE(log->write(LogSource::out, fmt::format("line {}", line)));
      all += fmt::format("[{} > 3f9a1c: INFO] line {}\r\n", log_time(clock.now().wall), line);
      CHECK(log->size() == static_cast<std::int64_t>(all.size()));
      const LogText text = read_all(path, position_of[line]);
      CHECK(text.text == all.substr(static_cast<std::size_t>(position_of[line])));
      CHECK(text.next == log->size());
      CHECK(text.at_end);
    }
  }
  CHECK(fs::exists(path));
  CHECK(fs::exists(dir.file("job_prev_log.txt")));
  CHECK(fs::exists(dir.file("job_prev_log.1.txt")));
  CHECK(fs::exists(dir.file("job_prev_log.2.txt")));
  CHECK_FALSE(fs::exists(dir.file("job_prev_log.3.txt")));
  const LogText text = read_all(path, 5);
  CHECK(text.skipped > 0);
  CHECK(text.text == all.substr(static_cast<std::size_t>(5 + text.skipped)));
  CHECK(text.text.size() < 4 * 400);
  CHECK(text.text.size() > 3 * 300);
  CHECK(text.text[0] == '[');
}

TEST_CASE("fewer generations remove the older files; none keeps only the newest file") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.roll_bytes = 100;
  std::int64_t size = 0;
  for (const int generations : {5, 1, 0}) {
    options.generations = generations;
    auto log = open_log(options, clock);
    CHECK(log->size() == size);
    for (int i = 0; i < 30; ++i) REQUIRE(log->write(LogSource::out, "a line of some length"));
    size = log->size();
    const auto files = std::distance(fs::directory_iterator(dir.path), fs::directory_iterator());
    CHECK(files == 1 + generations + 1);  // and the index
    const LogText text = read_all(path);
    CHECK(text.skipped + static_cast<std::int64_t>(text.text.size()) == size);
  }
}

TEST_CASE("positions are right after a crash at any step of a roll") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.roll_bytes = 100;
  options.generations = 2;
  const auto fill = [&] {
    auto log = open_log(options, clock);
    for (int i = 0; i < 12; ++i) REQUIRE(log->write(LogSource::out, "a line of some length"));
    return log->size();
  };
  std::int64_t size = fill();
  const auto check = [&] {
    CHECK(read_all(path, -1'000'000).next == size);
    const LogText text = read_all(path);
    CHECK(text.skipped + static_cast<std::int64_t>(text.text.size()) == size);
    const std::int64_t before = size;
    size = fill();
    CHECK(size - before == 12 * 60);
  };
  SUBCASE("the files were shifted, the new one is missing") {
    REQUIRE(log_files::shift(path, 2));
    check();
  }
  SUBCASE("only the last was shifted") {
    fs::rename(dir.file("job_prev_log.1.txt"), dir.file("job_prev_log.2.txt"));
    check();
  }
  SUBCASE("the index has the new file, which was not renamed") {
    std::vector<log_files::IndexEntry> index = log_files::read_index(path);
    REQUIRE(log_files::shift(path, 2));
    index.push_back({1, size});
    REQUIRE(log_files::write_index(path, index));
    check();
  }
  SUBCASE("a partial new index is beside the old one") {
    std::ofstream(dir.file(".job_log.txt.index.new")) << "mainspring log in";
    check();
  }
  SUBCASE("a line was cut in the middle") {
    std::ofstream(path, std::ios::app) << "[11/21/20";
    size += 9 + 2;
    auto log = open_log(options, clock);
    CHECK(log->size() == size);
    CHECK(read_all(path).text.ends_with("[11/21/20\r\n"));
  }
}

TEST_CASE("a log whose files were copied elsewhere keeps its positions") {
  TempDir dir;
  ManualClock clock;
  JobLogOptions options = options_for(dir.file("a/job_log.txt"));
  options.roll_bytes = 200;
  options.generations = 2;
  std::int64_t size = 0;
  {
    auto log = open_log(options, clock);
    for (int i = 0; i < 50; ++i) REQUIRE(log->write(LogSource::out, "a line of some length"));
    size = log->size();
  }
  const std::string text = read_all(options.path).text;
  fs::copy(dir.file("a"), dir.file("b"));
  const LogText copied = read_all(dir.file("b/job_log.txt"));
  CHECK(copied.text == text);
  CHECK(copied.next == size);
}

TEST_CASE("a read returns whole lines, also from the end") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  CHECK(read_log(path, 0, 100).error().code == ErrorCode::not_found);
  auto log = open_log(options_for(path), clock);
  CHECK(read_all(path).at_end);
  for (int i = 0; i < 10; ++i) REQUIRE(log->write(LogSource::out, fmt::format("line {}", i)));
  const auto line = static_cast<std::size_t>(log->size() / 10);
  LogText text = read_all(path, 0, line * 3 - 1);
  CHECK(text.text.size() == 2 * line);
  CHECK(text.next == static_cast<std::int64_t>(2 * line));
  CHECK_FALSE(text.at_end);
  CHECK(messages(read_all(path, text.next, line * 3).text) ==
        "INFO] line 2\nINFO] line 3\nINFO] line 4\n");
  CHECK(read_all(path, 0, 7).text == "[01/01/");
  CHECK(messages(read_all(path, -static_cast<std::int64_t>(line)).text) == "INFO] line 9\n");
  CHECK(messages(read_all(path, 1 - static_cast<std::int64_t>(2 * line)).text) == "INFO] line 9\n");
  CHECK(read_all(path, -1).text.empty());
  CHECK(read_all(path, -1'000'000).text.size() == 10 * line);
  CHECK(read_all(path, std::numeric_limits<std::int64_t>::min()).text.size() == 10 * line);
  text = read_all(path, 1'000'000);
  CHECK(text.text.empty());
  CHECK(text.next == log->size());
  CHECK(text.at_end);
  // A line that is still being written is not shown.
  std::ofstream(path, std::ios::app) << "[11/21/20";
  text = read_all(path, log->size());
  CHECK(text.text.empty());
  CHECK(text.at_end);
}

TEST_CASE("followers are called once, when the log is longer or closed, and not after forget") {
  TempDir dir;
  ManualClock clock;
  auto log = open_log(options_for(dir.file("job_log.txt")), clock);
  int now = 0, longer = 0, far = 0, forgotten = 0;
  REQUIRE(log->write(LogSource::out, "a"));
  log->notify(0, [&] { ++now; });
  CHECK(now == 1);
  log->notify(log->size(), [&] { ++longer; });
  log->notify(log->size() + 1'000'000, [&] { ++far; });
  const std::uint64_t number = log->notify(log->size(), [&] { ++forgotten; });
  log->forget(number);
  log->forget(number);
  CHECK(longer == 0);
  REQUIRE(log->output(LogSource::out, "no end yet"));
  CHECK(longer == 0);
  REQUIRE(log->flush());
  CHECK(longer == 1);
  REQUIRE(log->write(LogSource::out, "b"));
  CHECK(longer == 1);
  CHECK(far == 0);
  CHECK_FALSE(log->closed());
  log->close();
  log->close();
  CHECK(log->closed());
  CHECK(far == 1);
  CHECK(now == 1);
  CHECK(forgotten == 0);
  log->notify(1'000'000, [&] { ++far; });
  CHECK(far == 2);
  CHECK(log->write(LogSource::out, "late").error().code == ErrorCode::conflict);
}

TEST_CASE("forget waits for a running call, except from inside that call") {
  TempDir dir;
  ManualClock clock;
  auto log = open_log(options_for(dir.file("job_log.txt")), clock);
  Mutex mutex;
  CondVar changed;
  bool inside = false, go_on = false;
  std::atomic<bool> ended{false};
  const std::uint64_t number = log->notify(0, [&] {
    MutexLock lock(mutex);
    inside = true;
    changed.notify_all();
    while (!go_on) changed.wait(mutex);
    ended = true;
  });
  std::thread writer([&] { CHECK(log->write(LogSource::out, "a")); });
  {
    MutexLock lock(mutex);
    while (!inside) changed.wait(mutex);
    go_on = true;
  }
  changed.notify_all();
  log->forget(number);
  CHECK(ended);
  writer.join();
  // From inside the call, which may also write to the log.
  std::uint64_t own = 0;
  bool called = false;
  own = log->notify(log->size(), [&] {
    log->forget(own);
    called = true;
    CHECK(log->write(LogSource::out, "from inside"));
  });
  REQUIRE(log->write(LogSource::out, "b"));
  CHECK(called);
}

namespace {

// Follows a log by its notifications until it is closed.
struct Reader {
  std::string text;
  std::int64_t next = 0;
  std::int64_t skipped = 0;

  void follow(JobLog& log, const std::string& path) {
    for (;;) {
      Mutex mutex;
      CondVar changed;
      bool called = false;
      const std::uint64_t number = log.notify(next, [&] {
        MutexLock lock(mutex);
        called = true;
        changed.notify_all();
      });
      {
        MutexLock lock(mutex);
        while (!called) changed.wait(mutex);
      }
      log.forget(number);
      const bool closed = log.closed();
      LogText more = read_all(path, next, 100'000);
      text += more.text;
      next = more.next;
      skipped += more.skipped;
      if (closed && more.at_end) return;
    }
  }
};

}  // namespace

TEST_CASE("four threads write 200,000 lines, it rolls, and a follower sees every one in order") {
  TempDir dir;
  const SystemClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.roll_bytes = 256 << 10;
  options.generations = 100;
  auto log = open_log(options, clock);
  constexpr int kThreads = 4, kLines = 50'000;
  Reader reader;
  std::thread following([&] { reader.follow(*log, path); });
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < kLines; ++i) {
        if (!log->write(LogSource::out, fmt::format("{} {}", t, i))) return;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  log->close();
  following.join();
  CHECK(reader.skipped == 0);
  CHECK(reader.next == log->size());
  CHECK(reader.text == read_all(path).text);
  CHECK(fs::exists(dir.file("job_prev_log.30.txt")));
  std::array<int, kThreads> next{};
  int wrong = 0;
  const std::string lines = messages(reader.text);
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    int t = 0, i = 0;
    if (sscanf(lines.c_str() + at, "INFO] %d %d", &t, &i) != 2) ++wrong;
    if (next[static_cast<std::size_t>(t)]++ != i) ++wrong;
  }
  CHECK(wrong == 0);
  for (const int count : next) CHECK(count == kLines);
}

TEST_CASE("a follower that is too slow learns how much it missed, to the byte") {
  TempDir dir;
  const SystemClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.roll_bytes = 20 << 10;
  options.generations = 2;
  auto log = open_log(options, clock);
  Reader reader;
  std::thread following([&] { reader.follow(*log, path); });
  for (int i = 0; i < 50'000; ++i) {
    if (!log->write(LogSource::out, "a line like others")) break;
  }
  log->close();
  following.join();
  CHECK(reader.next == log->size());
  CHECK(reader.skipped + static_cast<std::int64_t>(reader.text.size()) == log->size());
  CHECK(reader.text.size() % 57 == 0);
  CHECK(count_of(reader.text, "] a line like others\r\n[") == reader.text.size() / 57 - 1);
}

TEST_CASE("output over cap_bytes is counted; one line reports the limit, the last line the count") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("output_log.txt");
  JobLogOptions options = options_for(path);
  options.cap_bytes = 100;
  options.roll_bytes = 0;
  auto log = open_log(options, clock);
  REQUIRE(log->output(LogSource::out, "123456789\n1234567890\n1\n2\n3\n"));
  REQUIRE(log->write(LogSource::err, "4"));
  REQUIRE(log->write(LogSource::system_info, "Status changed to Success"));
  REQUIRE(log->output(LogSource::out, "last"));
  log->close();
  CHECK(messages(content(path)) ==
        "INFO] 123456789\nINFO] 1234567890\n"
        "SYS WARN] Reached the limit of 100 bytes: more output is counted, not kept\n"
        "SYS INFO] Status changed to Success\n"
        "SYS WARN] 5 lines of output (8 bytes) were not kept\n");
}

TEST_CASE("lines over cap_lines are dropped too, and a new run starts the count from zero") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  JobLogOptions options = options_for(path);
  options.cap_lines = 2;
  auto log = open_log(options, clock);
  REQUIRE(log->output(LogSource::out, "1\n2\n3\n4\n"));
  log->begin_run();
  REQUIRE(log->output(LogSource::out, "5\n6\n"));
  log->close();
  CHECK(messages(content(path)) ==
        "INFO] 1\nINFO] 2\n"
        "SYS WARN] Reached the limit of 2 lines of output: more output is counted, not kept\n"
        "SYS WARN] 2 lines of output (2 bytes) were not kept\nINFO] 5\nINFO] 6\n");
}

TEST_CASE("a full disk loses lines and the log says so; it continues when there is space") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto log = JobLog::open(options_for(path), clock);
    if (!log) _exit(1);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t all = limit.rlim_cur;
    if (!(*log)->write(LogSource::out, "one")) _exit(2);
    const std::int64_t size = (*log)->size();
    limit.rlim_cur = static_cast<rlim_t>(size) + 70;
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto lost = (*log)->output(LogSource::out, "two\nthree\nfour\n");
    if (lost || lost.error().code != ErrorCode::storage_full) _exit(3);
    if ((*log)->size() != 2 * size) _exit(4);
    const auto lost_too = (*log)->write(LogSource::out, "five");
    if (lost_too || lost_too.error().code != ErrorCode::storage_full) _exit(5);
    limit.rlim_cur = all;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (!(*log)->write(LogSource::out, "six")) _exit(6);
    (*log)->close();
    _exit((*log)->size() == static_cast<std::int64_t>(content(path).size()) ? 0 : 7);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(messages(content(path)) ==
        "INFO] one\nINFO] two\nSYS WARN] 3 lines could not be written and are lost\nINFO] six\n");
}

TEST_CASE("a log that cannot be rolled continues and says so") {
  TempDir dir;
  ManualClock clock;
  const std::string path = dir.file("job_log.txt");
  fs::create_directories(dir.file("job_prev_log.txt/in_the_way"));
  JobLogOptions options = options_for(path);
  options.roll_bytes = 100;
  options.generations = 1;
  auto log = open_log(options, clock);
  for (int i = 0; i < 9; ++i) REQUIRE(log->write(LogSource::out, fmt::format("line {}", i)));
  const std::string text = messages(content(path));
  CHECK(count_of(text, "INFO] line ") == 9);
  CHECK(count_of(text, "The log could not be rolled: cannot rename ") > 0);
  CHECK(log->size() == static_cast<std::int64_t>(content(path).size()));
}

TEST_CASE("invalid options and positions are refused") {
  TempDir dir;
  ManualClock clock;
  JobLogOptions options = options_for(dir.file("job_log.txt"));
  options.generations = 101;
  CHECK(JobLog::open(options, clock).error().message == "generations 101: must be 0 to 100");
  options.generations = 10;
  std::ofstream(dir.file("file")) << "x";
  options.path = dir.file("file/job_log.txt");
  CHECK(JobLog::open(options, clock).error().code == ErrorCode::io_error);
  CHECK(log_files::name_of("/a/log", 1) == "/a/prev_log");
  CHECK(log_files::name_of("output_log.txt", 2) == "output_prev_log.1.txt");
  CHECK(log_files::name_of("/a.b/messages", 3) == "/a.b/messages_prev.2");
}
