// The process that watches a test server.
//
//   tests ── stdin, pid ──▶ watcher ── fork ──▶ server
//   tests ◀── JSON line ── watcher ◀── ready_fd ── server
//
// The watcher has one thread and opens no store, so it can start the server again after a crash.
// If the watcher itself is killed, the server gets SIGTERM from the kernel and removes the
// directory. If both are killed, the next test server removes what they left: the directory's LOCK
// is free then.
#include "cli/serve_test.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "env/fd.h"
#include "env/random.h"

namespace mainspring::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDirectories = "mainspring-test-";
constexpr std::string_view kLockFile = "LOCK";
constexpr std::uint64_t kSeeds = 1'000'000'000;          // drawn seeds are below this
constexpr Duration kStopTime = std::chrono::seconds(3);  // until SIGKILL
constexpr int kMaxQuickCrashes = 5;                      // before the server was ready, in a row

Error system_error(std::string_view what) {
  return {.code = ErrorCode::io_error,
          .message = fmt::format("{}: {}", what, std::strerror(errno))};
}

// Settings of where things are: a test server never takes them from the environment or a file,
// where a developer keeps those of another server.
constexpr std::string_view kOwnPlaces[] = {"data", "store", "store_file"};
constexpr std::string_view kPlaces[] = {
    "listen",    "tls_cert",      "tls_key",           "tls_client_ca",    "jobs",
    "host_data", "require_token", "callback_key_file", "first_token_file", "watch_root"};

Result<Invocation> test_invocation(const Invocation& given) {
  Invocation out = given;
  for (const std::string_view name : kOwnPlaces) {
    if (!is_flag(given, name)) continue;
    return invalid(std::string(name),
                   fmt::format("{}: a test server has a temporary store; leave it out",
                               flag_of(*find_setting(name))));
  }
  if (given.options.webjobs_api && is_flag(given, "webjobs_api"))
    return invalid("webjobs_api", "--webjobs-api: a test server does not have it");
  const Options defaults;
  const auto restore = [&](std::string_view name) {
    if (is_flag(given, name)) return;
    std::visit([&](auto member) { out.options.*member = defaults.*member; },
               find_setting(name)->member);
  };
  for (const std::string_view name : kOwnPlaces) restore(name);
  for (const std::string_view name : kPlaces) restore(name);
  out.options.webjobs_api = false;
  const auto unless_given = [&](std::string_view name, auto& option, auto value) {
    if (given.origins.at(name) == "default") option = std::move(value);
  };
  if (!is_flag(given, "listen")) out.options.listen = "127.0.0.1:0";
  unless_given("log_level", out.options.log_level, std::string("warn"));
  unless_given("stop_timeout", out.options.stop_timeout, Duration(1s));
  out.options.restart_allowance = Duration(0);
  return out;
}

struct Directory {
  std::string path;
  Fd lock;
};

// Creates the lock under another name: one that has its name is locked.
Result<Directory> make_directory() {
  Directory out;
  std::error_code failed;
  std::string pattern =
      (fs::temp_directory_path(failed) / (std::string(kDirectories) + "XXXXXX")).string();
  if (failed || mkdtemp(pattern.data()) == nullptr)
    return system_error(fmt::format("making the temporary directory {}", pattern));
  out.path = pattern;
  const std::string fresh = out.path + "/LOCK.new";
  out.lock = Fd(open(fresh.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!out.lock || flock(out.lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      rename(fresh.c_str(), (out.path + "/" + std::string(kLockFile)).c_str()) != 0)
    return system_error(fmt::format("locking {}", out.path));
  return out;
}

void remove_directory(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Directories whose processes were all killed.
void remove_leftovers() {
  std::error_code failed;
  const fs::path temporary = fs::temp_directory_path(failed);
  for (fs::directory_iterator at(temporary, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string path = at->path().string();
    if (!at->path().filename().string().starts_with(kDirectories)) continue;
    const Fd lock(open((path + "/" + std::string(kLockFile)).c_str(), O_RDWR | O_CLOEXEC));
    if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) == 0) remove_directory(path);
  }
}

// Standard input, if its end says that the tests have ended.
int watched_input() {
  struct stat info {};
  if (fstat(STDIN_FILENO, &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)))
    return -1;
  pollfd at{STDIN_FILENO, POLLIN, 0};
  // One that is at its end already says nothing.
  return poll(&at, 1, 0) == 1 && (at.revents & POLLHUP) != 0 && (at.revents & POLLIN) == 0
             ? -1
             : STDIN_FILENO;
}

bool at_end(int input) {
  std::array<char, 4096> ignored;
  const ssize_t n = read(input, ignored.data(), ignored.size());
  return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

class Watcher {
 public:
  Watcher(const Invocation& invocation, Io& io, Directory directory, std::uint64_t seed)
      : invocation_(invocation), io_(io), directory_(std::move(directory)), seed_(seed) {}

  // In the child: what serve_node returned. In the parent: the exit code.
  Result<int> run();

 private:
  Result<int> serve(int ready);
  Result<void> prepare();
  // False: the child returned from it.
  Result<bool> start();
  // Of the child, once it has ended; nullopt = it was killed and starts again.
  std::optional<Result<int>> reap();
  void on_ready();
  void stop(int signal);

  Invocation invocation_;
  Io& io_;
  const Directory directory_;
  const std::uint64_t seed_;
  const pid_t parent_ = getppid();
  sigset_t before_{};
  Fd signals_, parent_fd_, ready_;
  int input_ = -1;
  pid_t child_ = -1;
  std::string ready_text_;
  bool told_ = false;
  bool stopping_ = false;
  int quick_crashes_ = 0;
  Instant kill_at_ = Instant::never();
  const SystemClock clock_;
};

Result<void> Watcher::prepare() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&taken, signal);
  sigprocmask(SIG_BLOCK, &taken, &before_);
  signals_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return system_error("watching for signals");
  input_ = watched_input();
  if (parent_ > 1) parent_fd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, parent_, 0)));
  return {};
}

Result<int> Watcher::serve(int ready) {
  const pid_t watcher = getppid();
  const TestMode mode{.directory = directory_.path, .seed = seed_, .ready_fd = ready};
  Io quiet = io_;
  quiet.out = [](std::string_view) {};
  Result<int> ended = serve_node(invocation_, quiet, &mode);
  if (getppid() != watcher) remove_directory(directory_.path);
  return ended;
}

Result<bool> Watcher::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("making a pipe");
  ready_text_.clear();
  const pid_t self = getpid();
  child_ = fork();
  if (child_ < 0) return system_error("forking");
  if (child_ > 0) {
    close(ends[1]);
    ready_ = Fd(ends[0]);
    return true;
  }
  close(ends[0]);
  ready_ = Fd(ends[1]);
  signals_.reset();
  parent_fd_.reset();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != self) _exit(0);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  return false;
}

void Watcher::on_ready() {
  std::array<char, 512> text;
  const ssize_t n = read(ready_.get(), text.data(), text.size());
  if (n <= 0) return ready_.reset();
  ready_text_.append(text.data(), static_cast<std::size_t>(n));
  const std::size_t end = ready_text_.find('\n');
  if (end == std::string::npos) return;
  quick_crashes_ = 0;
  ready_.reset();
  const std::string url = ready_text_.substr(0, end);
  // The next one, after a crash, has the same address.
  if (const std::size_t scheme = url.find("://"); scheme != std::string::npos)
    invocation_.options.listen = url.substr(scheme + 3);
  if (std::exchange(told_, true)) return;
  std::string line;
  JsonWriter(line)
      .begin_object()
      .key("url")
      .string(url)
      .key("token")
      .string(kTestToken)
      .key("seed")
      .number(static_cast<std::int64_t>(seed_))
      .end_object();
  print_line(io_, line);
}

void Watcher::stop(int signal) {
  if (child_ <= 0) return;
  kill(child_, stopping_ ? SIGKILL : signal);
  stopping_ = true;
  kill_at_ = clock_.now().instant + kStopTime;
}

std::optional<Result<int>> Watcher::reap() {
  int status = 0;
  if (waitpid(child_, &status, WNOHANG) != child_) return std::nullopt;
  child_ = -1;
  if (WIFEXITED(status)) return Result<int>(WEXITSTATUS(status));
  if (stopping_) return Result<int>(kExitOk);
  const bool killed = WTERMSIG(status) == SIGKILL;
  if (killed && ++quick_crashes_ <= kMaxQuickCrashes) return std::nullopt;
  return Result<int>(Error{.code = ErrorCode::internal,
                           .message = fmt::format("the test server ended by signal {} ({})",
                                                  WTERMSIG(status), strsignal(WTERMSIG(status)))});
}

Result<int> Watcher::run() {
  MS_TRY(prepare());
  for (;;) {
    if (child_ < 0) {
      MS_TRY_ASSIGN(const bool parent, start());
      if (!parent) return serve(ready_.get());
    }
    std::array<pollfd, 4> wait{pollfd{signals_.get(), POLLIN, 0}, pollfd{ready_.get(), POLLIN, 0},
                               pollfd{input_, POLLIN, 0}, pollfd{parent_fd_.get(), POLLIN, 0}};
    constexpr int kLookMs = 1000;
    (void)poll(wait.data(), wait.size(), kLookMs);
    if (wait[1].revents != 0) on_ready();
    if (wait[2].revents != 0 && at_end(input_)) {
      input_ = -1;
      stop(SIGKILL);
    }
    if (wait[3].revents != 0) {
      parent_fd_.reset();
      stop(SIGKILL);
    }
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) stop(SIGTERM);
    }
    if (clock_.now().instant >= kill_at_) stop(SIGKILL);
    if (child_ > 0) {
      if (auto ended = reap()) {
        remove_directory(directory_.path);
        return std::move(*ended);
      }
    }
  }
}

}  // namespace

Result<int> run_test_server(const Invocation& given, Io& io) {
  MS_TRY_ASSIGN(const Invocation invocation, test_invocation(given));
  MS_TRY_ASSIGN(const auto seed, given.number("seed", 0, INT64_MAX));
  remove_leftovers();
  MS_TRY_ASSIGN(Directory directory, make_directory());
  SystemRandom random;
  Watcher watcher(invocation, io, std::move(directory),
                  seed ? static_cast<std::uint64_t>(*seed) : random.below(kSeeds));
  return watcher.run();
}

}  // namespace mainspring::cli
