// Running programs: the parent's side. The other side is keeper.cc.
#include "env/processes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "env/fd.h"
#include "env/keeper.h"
#include "env/limits.h"

namespace mainspring {
namespace {

using Steady = std::chrono::steady_clock;
// Time limit for a killed tree to disappear. It takes longer only if the kernel itself hangs.
constexpr auto kKillLimit = std::chrono::seconds(10);
// How long the keeper may kill alone before kill_rest helps.
constexpr auto kKeeperAlone = std::chrono::seconds(1);
constexpr int kLowestFd = 10;  // see keeper::Plan
constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kReadsPerTurn = 16;  // of one pipe, before the other pipes are read

Error os_error(ErrorCode code, std::string what, int number) {
  if (is_shortage(number)) code = ErrorCode::overloaded;
  return Error{.code = code, .message = fmt::format("{}: {}", what, strerror(number))};
}
Error os_error(std::string what) {
  return os_error(ErrorCode::io_error, std::move(what), errno);
}

// The same file under a number that no dup2 of the keeper hits.
Result<Fd> raised(Fd fd, std::string_view what) {
  if (fd.get() >= kLowestFd) return fd;
  Fd high(fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowestFd));
  if (!high) return os_error(fmt::format("making {}", what));
  return high;
}

struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe(std::string_view what) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return os_error(fmt::format("creating the pipe of {}", what));
  Pipe pipe{Fd(fds[0]), Fd(fds[1])};
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  MS_TRY_ASSIGN(pipe.write, raised(std::move(pipe.write), what));
  return pipe;
}

// A descriptor of this process, for a program too.
Result<Fd> copied(int fd) {
  Fd high(fcntl(fd, F_DUPFD_CLOEXEC, kLowestFd));
  if (!high) return os_error(fmt::format("passing on descriptor {}", fd));
  return high;
}

Result<Fd> given(const char* field, int fd) {
  if (fd < 0 || fcntl(fd, F_GETFD) < 0) {
    return invalid(field, fmt::format("{} {}: must be an open descriptor", field, fd));
  }
  return copied(fd);
}

Result<Pipe> own_stream(int fd) {
  Pipe pipe;  // nothing to read
  MS_TRY_ASSIGN(pipe.write, copied(fd));
  return pipe;
}

Result<Fd> make_input(const std::string& text) {
  Fd fd(memfd_create("mainspring-stdin", MFD_CLOEXEC));
  if (!fd) return os_error("creating standard input");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return os_error("writing standard input");
    done += static_cast<std::size_t>(n);
  }
  lseek(fd.get(), 0, SEEK_SET);
  return raised(std::move(fd), "standard input");
}

// Keeps the last bytes of a stream.
class Tail {
 public:
  explicit Tail(std::size_t cap) : cap_(cap) {}
  void add(std::string_view data) {
    bytes_ += static_cast<std::int64_t>(data.size());
    if (data.size() > cap_) data = data.substr(data.size() - cap_);
    text_ += data;
    if (text_.size() > 2 * cap_) text_.erase(0, text_.size() - cap_);
  }
  Captured take() {
    if (text_.size() > cap_) text_.erase(0, text_.size() - cap_);
    return {std::move(text_), bytes_};
  }

 private:
  const std::size_t cap_;
  std::string text_;
  std::int64_t bytes_ = 0;
};

// Cuts a stream into lines; drops those over the cap.
class Lines {
 public:
  Lines(std::size_t cap, const std::function<void(std::string_view)>& line,
        const std::function<void(std::string_view)>& dropped)
      : cap_(cap), line_(line), drop_(dropped) {}
  void add(std::string_view data) {
    while (!data.empty()) {
      const std::size_t end = data.find('\n');
      const std::string_view part = data.substr(0, end);
      if (!skipping_ && text_.size() + part.size() > cap_) {
        skipping_ = true;
        ++dropped_;
        text_ += part.substr(0, cap_ - text_.size());
        if (drop_) drop_(text_);
        text_.clear();
      }
      if (!skipping_) text_ += part;
      if (end == std::string_view::npos) return;
      finish();
      data.remove_prefix(end + 1);
    }
  }
  // The end of the line, or of the stream: a last line needs no '\n'.
  void finish() {
    if (!skipping_ && !text_.empty() && line_) line_(text_);
    text_.clear();
    skipping_ = false;
  }
  std::int64_t dropped() const { return dropped_; }

 private:
  const std::size_t cap_;
  const std::function<void(std::string_view)>& line_;
  const std::function<void(std::string_view)>& drop_;
  std::string text_;
  bool skipping_ = false;
  std::int64_t dropped_ = 0;
};

Result<void> check_spec(const ProcessSpec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty()) {
    return invalid("argv", "argv: must name a program");
  }
  const auto has_nul = [](const std::string& s) { return s.find('\0') != std::string::npos; };
  for (const auto* list : {&spec.argv, &spec.environment}) {
    if (std::any_of(list->begin(), list->end(), has_nul)) {
      return invalid("argv", "arguments and environment: must not contain a NUL byte");
    }
  }
  if (has_nul(spec.directory))
    return invalid("directory", "directory: must not contain a NUL byte");
  if (spec.output && spec.inherit_streams) {
    return invalid("output", "output: must be empty with inherit_streams, where none is read");
  }
  return {};
}

// The program's path: argv[0] itself if it has a slash, else found along PATH.
Result<std::string> find_program(const ProcessSpec& spec) {
  const std::string& name = spec.argv[0];
  if (name.find('/') != std::string::npos) return name;
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : spec.environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  bool seen = false;
  for (std::string_view rest = path;;) {
    const std::size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    std::string candidate = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    seen = seen || errno == EACCES;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return Error{.code = seen ? ErrorCode::forbidden : ErrorCode::not_found,
               .message = fmt::format("program \"{}\": {} in PATH ({})", name,
                                      seen ? "not executable" : "not found", path)};
}

// The interpreter in a script's first line; "" = not a script, or it cannot be read.
std::string interpreter_of(const ProcessSpec& spec) {
  const auto found = find_program(spec);
  if (!found) return "";
  const bool relative = !found->starts_with('/') && !spec.directory.empty();
  const std::string path = relative ? spec.directory + "/" + *found : *found;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char bytes[256];
  const ssize_t count = fd ? pread(fd.get(), bytes, sizeof bytes, 0) : -1;
  std::string_view line(bytes, count < 0 ? 0 : static_cast<std::size_t>(count));
  if (!line.starts_with("#!")) return "";
  line = line.substr(2, line.find('\n', 2) - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

std::vector<char*> c_strings(const std::vector<std::string>& list) {
  std::vector<char*> out;
  for (const std::string& text : list) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Returns whether the program catches TERM; true if that is not known.
bool handles_term(pid_t program) {
  const Fd status(open(fmt::format("/proc/{}/status", program).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t n = status ? read(status.get(), text.data(), text.size() - 1) : 0;
  const std::string_view lines(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  constexpr std::string_view kCaught = "\nSigCgt:\t";
  const std::size_t at = lines.find(kCaught);
  if (at == std::string_view::npos) return true;
  const std::uint64_t caught = std::strtoull(lines.data() + at + kCaught.size(), nullptr, 16);
  return ((caught >> (SIGTERM - 1)) & 1) != 0;
}

// One run, on the thread that called.
class Run {
 public:
  Run(const ProcessSpec& spec, const std::function<void(std::string_view)>& message)
      : spec_(spec),
        out_tail_(spec.output_cap_bytes),
        err_tail_(spec.output_cap_bytes),
        lines_(spec.message_cap_bytes, message, spec.message_dropped) {}

  Result<void> start();
  Result<ProcessEnd> finish(std::stop_token stop);

 private:
  void order(char what) {
    [[maybe_unused]] const ssize_t n = send(link_.get(), &what, 1, MSG_NOSIGNAL);
  }
  bool pipes_open() const { return out_ || err_ || messages_ || exec_; }
  Result<Fd> input() const;
  Result<void> fork_keeper(const std::string& path, const int (&fds)[6]);
  int turn();  // waits for anything to happen, at most until deadline_
  template <class Sink>
  void drain(Fd& fd, Sink&& sink);
  void take(OutputStream stream, std::string_view data);
  void drain_what_is_left();
  void exec_ended();
  bool read_link();  // false: nothing there
  void tree_is_killed();
  void stop_requested();
  bool deadline_passed();  // true: give up waiting
  Result<ProcessEnd> result();
  Error start_error() const;
  Error exec_error() const;

  const ProcessSpec& spec_;
  Tail out_tail_, err_tail_;
  Lines lines_;
  Fd out_, err_, messages_, link_, stop_event_;
  Fd exec_;  // ends when the program runs, or nothing will
  PreparedLimits limits_;
  ProcessIds ids_;
  std::optional<std::int64_t> peak_memory_;
  pid_t keeper_ = -1;
  std::optional<keeper::Record> failed_;
  std::optional<int> status_;
  bool link_ended_ = false;
  bool stopped_ = false;
  bool killed_ = false;
  bool rest_killed_ = false;
  std::optional<Steady::time_point> deadline_;
};

Result<Fd> Run::input() const {
  if (spec_.inherit_streams) return copied(0);
  return spec_.input_fd != -1 ? given("input_fd", spec_.input_fd) : make_input(spec_.input);
}

Result<void> Run::start() {
  MS_TRY(check_spec(spec_));
  MS_TRY_ASSIGN(limits_, PreparedLimits::make(spec_.limits));
  MS_TRY_ASSIGN(const std::string path, find_program(spec_));
  const bool own = spec_.inherit_streams;
  MS_TRY_ASSIGN(const Fd in, input());
  MS_TRY_ASSIGN(Pipe out, own ? own_stream(1) : make_pipe("standard output"));
  MS_TRY_ASSIGN(Pipe err, own ? own_stream(2) : make_pipe("standard error"));
  MS_TRY_ASSIGN(Pipe messages, make_pipe("messages"));
  MS_TRY_ASSIGN(Pipe exec, make_pipe("the start"));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return os_error("creating the link to a program");
  }
  link_ = Fd(ends[0]);
  MS_TRY_ASSIGN(const Fd link, raised(Fd(ends[1]), "the link to a program"));
  stop_event_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_) return os_error("creating an event descriptor");
  Fd answers;
  if (spec_.answer_fd != -1) {
    MS_TRY_ASSIGN(answers, given("answer_fd", spec_.answer_fd));
  }
  MS_TRY(fork_keeper(path, {in.get(), out.write.get(), err.write.get(), messages.write.get(),
                            link.get(), answers.get()}));
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  messages_ = std::move(messages.read);
  exec_ = std::move(exec.read);
  return {};
}

Result<void> Run::fork_keeper(const std::string& path, const int (&fds)[6]) {
  const std::vector<char*> argv = c_strings(spec_.argv);
  const std::vector<char*> environment = c_strings(spec_.environment);
  const keeper::Plan plan{path.c_str(),
                          argv.data(),
                          environment.data(),
                          spec_.directory.empty() ? nullptr : spec_.directory.c_str(),
                          fds[0],
                          fds[1],
                          fds[2],
                          fds[3],
                          fds[4],
                          fds[5],
                          limits_.plan()};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours may run in the child
  keeper_ = fork();
  if (keeper_ == 0) keeper::keep(plan);
  const int fork_errno = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (keeper_ < 0) {
    return os_error(ErrorCode::io_error, fmt::format("starting \"{}\"", spec_.argv[0]), fork_errno);
  }
  ids_.keeper = keeper_;
  return {};
}

void Run::take(OutputStream stream, std::string_view data) {
  Tail& tail = stream == OutputStream::out ? out_tail_ : err_tail_;
  tail.add(data);
  if (spec_.output) spec_.output(stream, data);
}

// A sink may block, so other events are checked after every piece.
template <class Sink>
void Run::drain(Fd& fd, Sink&& sink) {
  std::array<char, kReadBytes> buffer;
  const int reads = spec_.output ? 1 : kReadsPerTurn;
  for (int i = 0; i < reads; ++i) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return fd.reset();
    sink(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
  }
}

// A process outside the tree holds a pipe end, or the sink was slow: reads what is in the pipes
// now, and ignores later output.
void Run::drain_what_is_left() {
  const auto rest = [](Fd& fd, auto&& sink) {
    int waiting = 0;
    if (!fd || ioctl(fd.get(), FIONREAD, &waiting) != 0 || waiting <= 0) return;
    std::string data(static_cast<std::size_t>(waiting), '\0');
    const ssize_t n = read(fd.get(), data.data(), data.size());
    if (n > 0) sink(std::string_view(data).substr(0, static_cast<std::size_t>(n)));
  };
  rest(out_, [this](std::string_view data) { take(OutputStream::out, data); });
  rest(err_, [this](std::string_view data) { take(OutputStream::err, data); });
  rest(messages_, [this](std::string_view data) { lines_.add(data); });
}

void Run::exec_ended() {
  exec_.reset();
  while (!status_ && !link_ended_ && read_link()) {
  }
  if (spec_.started && !failed_ && ids_.program != 0) spec_.started(ids_);
}

bool Run::read_link() {
  keeper::Record record{};
  const ssize_t n = recv(link_.get(), &record, sizeof record, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n != sizeof record) {
    link_ended_ = true;
    if (spec_.kill_rest && !failed_) spec_.kill_rest();  // the keeper does not do it any more
  } else if (record.report == keeper::Report::ended) {
    status_ = record.value;
  } else if (record.report == keeper::Report::peak_memory) {
    peak_memory_ = std::int64_t{record.value} * 1024;
  } else if (record.report == keeper::Report::forked) {
    ids_.program = record.value;
  } else if (record.report == keeper::Report::killing) {
    if (!killed_) tree_is_killed();
  } else {
    failed_ = record;
  }
  if (link_ended_ || status_) deadline_ = Steady::now() + Processes::kDrain;
  return true;
}

void Run::tree_is_killed() {
  killed_ = true;
  if (spec_.kill_rest) {
    deadline_ = Steady::now() + kKeeperAlone;
  } else {
    deadline_ = Steady::now() + kKillLimit;
  }
}

void Run::stop_requested() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(stop_event_.get(), &count, sizeof count);
  if (stopped_ || killed_ || status_ || link_ended_) return;
  stopped_ = true;
  const bool polite = !spec_.no_term && (!spec_.term_if_handled || handles_term(ids_.program));
  if (polite) order(keeper::kTerm);
  deadline_ =
      Steady::now() + (spec_.kill_grace_at_stop ? spec_.kill_grace_at_stop() : spec_.kill_grace);
}

bool Run::deadline_passed() {
  if (!deadline_ || Steady::now() < *deadline_) return false;
  if (status_ || link_ended_) return true;
  if (!killed_) {
    order(keeper::kKill);
    tree_is_killed();
    return false;
  }
  if (rest_killed_ || !spec_.kill_rest) return true;
  rest_killed_ = true;
  spec_.kill_rest();
  deadline_ = Steady::now() + kKillLimit;
  return false;
}

int Run::turn() {
  int timeout_ms = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Steady::now());
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  }
  // poll ignores negative descriptors.
  pollfd fds[] = {
      {out_.get(), POLLIN, 0},        {err_.get(), POLLIN, 0},
      {messages_.get(), POLLIN, 0},   {status_ || link_ended_ ? -1 : link_.get(), POLLIN, 0},
      {stop_event_.get(), POLLIN, 0}, {exec_.get(), POLLIN, 0}};
  const int ready = poll(fds, std::size(fds), timeout_ms);
  if (ready < 0) return errno == EINTR ? 0 : errno;
  // A program that writes is running, although the keeper may still hold its copy of exec_.
  const bool writes = ((fds[0].revents | fds[1].revents | fds[2].revents) & POLLIN) != 0;
  if (exec_ && (writes || fds[5].revents != 0)) exec_ended();
  if (fds[0].revents != 0) {
    drain(out_, [this](std::string_view data) { take(OutputStream::out, data); });
  }
  if (fds[1].revents != 0) {
    drain(err_, [this](std::string_view data) { take(OutputStream::err, data); });
  }
  if (fds[2].revents != 0) drain(messages_, [this](std::string_view data) { lines_.add(data); });
  if (fds[3].revents != 0 && !status_ && !link_ended_) read_link();
  if (fds[4].revents != 0) stop_requested();
  return 0;
}

Result<ProcessEnd> Run::finish(std::stop_token stop) {
  {
    const int event = stop_event_.get();
    std::stop_callback on_stop(stop, [event] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = write(event, &one, sizeof one);
    });
    while (!((status_ || link_ended_) && !pipes_open()) && !deadline_passed()) {
      if (const int error = turn(); error != 0) {
        order(keeper::kKill);
        return Error{.code = ErrorCode::io_error,  // also for a shortage: the program has run
                     .message = fmt::format("waiting for a program: {}", strerror(error))};
      }
    }
  }
  link_.reset();  // the keeper kills all remaining processes now
  if (!status_ && !link_ended_) kill(keeper_, SIGKILL);
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (spec_.kill_rest && !failed_) spec_.kill_rest();
  drain_what_is_left();
  lines_.finish();
  return result();
}

Error Run::start_error() const {
  switch (failed_->report) {
    case keeper::Report::fork_failed:
      return os_error(ErrorCode::io_error, fmt::format("starting \"{}\"", spec_.argv[0]),
                      failed_->value);
    case keeper::Report::chdir_failed: {
      Error error = os_error(ErrorCode::invalid_argument,
                             fmt::format("directory \"{}\"", spec_.directory), failed_->value);
      if (!spec_.limits.user.empty() && failed_->value == EACCES) {
        error.message += fmt::format(
            "; user \"{}\" must be able to enter it and its parent directories", spec_.limits.user);
      }
      return error;
    }
    case keeper::Report::exec_failed:
      return exec_error();
    default:
      return limits_.error(spec_.limits, *failed_);
  }
}

Error Run::exec_error() const {
  ErrorCode code = ErrorCode::io_error;
  std::string hint;
  if (failed_->value == ENOENT || failed_->value == ENOTDIR) code = ErrorCode::not_found;
  if (failed_->value == EACCES || failed_->value == EPERM) code = ErrorCode::forbidden;
  if (failed_->value == ENOEXEC) {
    code = ErrorCode::forbidden;
    hint = " (a script needs a first line like #!/bin/sh)";
  }
  if (failed_->value == E2BIG) code = ErrorCode::too_large;
  // The kernel reports a missing interpreter as if the script were missing.
  if (failed_->value == ENOENT) {
    std::string interpreter = interpreter_of(spec_);
    if (interpreter.ends_with('\r')) {
      return Error{.code = code,
                   .message = fmt::format("program \"{}\": its first line ends with CR LF; convert "
                                          "the file to Unix line ends",
                                          spec_.argv[0])};
    }
    if (!interpreter.empty()) {
      return Error{
          .code = code,
          .message = fmt::format("program \"{}\": the interpreter \"{}\" of its first line "
                                 "does not exist",
                                 spec_.argv[0], interpreter)};
    }
  }
  Error error = os_error(code, fmt::format("program \"{}\"", spec_.argv[0]), failed_->value);
  error.message += hint;
  return error;
}

Result<ProcessEnd> Run::result() {
  if (failed_) return start_error();
  if (!status_) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format(
                     "program \"{}\": {}", spec_.argv[0],
                     link_ended_ ? "its keeper process was killed" : "it does not end after KILL")};
  }
  ProcessEnd end;
  end.stopped = stopped_;
  if (WIFEXITED(*status_)) end.exit_code = WEXITSTATUS(*status_);
  if (WIFSIGNALED(*status_)) end.signal = WTERMSIG(*status_);
  end.out = out_tail_.take();
  end.err = err_tail_.take();
  end.messages_dropped = lines_.dropped();
  end.peak_memory = peak_memory_;
  if (spec_.ended) spec_.ended(end);
  return end;
}

}  // namespace

Result<ProcessEnd> SystemProcesses::run(const ProcessSpec& spec,
                                        const std::function<void(std::string_view)>& message,
                                        std::stop_token stop) {
  Run run(spec, message);
  MS_TRY(run.start());
  return run.finish(std::move(stop));
}

bool is_shortage(int number) {
  return number == EMFILE || number == ENFILE || number == EAGAIN || number == ENOMEM ||
         number == ENOSPC;
}

std::vector<std::string> inherited_environment(std::string_view without_prefix) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (without_prefix.empty() || !text.starts_with(without_prefix)) out.emplace_back(text);
  }
  return out;
}

std::string process_name() {
  std::array<char, 65> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  std::string name = host.data();
  const auto bad = [](char c) { return isalnum(static_cast<unsigned char>(c)) == 0 && c != '-'; };
  std::replace_if(name.begin(), name.end(), bad, '.');
  return fmt::format("{}:{}", name, getpid());
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  if (name != nullptr) return fmt::format("SIG{}", name);
  const bool real_time = signal >= SIGRTMIN && signal <= SIGRTMAX;
  return real_time ? fmt::format("SIGRTMIN+{}", signal - SIGRTMIN)
                   : fmt::format("signal {}", signal);
}

int parse_signal_name(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal_name(signal) == name) return signal;
  }
  return 0;
}

}  // namespace mainspring
