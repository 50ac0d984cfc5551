// step run: runs a command of a job's program and saves its result, so that later attempts of the
// job do not run it again. Communicates with the worker: see worker/step_channel.h.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/processes.h"
#include "env/signals.h"

namespace mainspring::cli {
namespace {

constexpr Duration kStepRunGrace = 5s;  // between TERM and KILL after a signal
constexpr std::size_t kMaxAnswer = kMaxMemoBytes + (64 << 10);

struct StepAnswer {
  std::string ask, error, code;
  bool found = false;
  std::string result;
};
constexpr JsonField<StepAnswer> kAnswer[] = {
    {"ask", [](JsonReader& in, StepAnswer& a) { return in.string(a.ask); }},
    {"found", [](JsonReader& in, StepAnswer& a) { return in.boolean(a.found); }},
    {"result",
     [](JsonReader& in, StepAnswer& a) { return in.raw(a.result, JsonReader::Null::take); }},
    {"error", [](JsonReader& in, StepAnswer& a) { return in.string(a.error); }},
    {"code", [](JsonReader& in, StepAnswer& a) { return in.string(a.code); }},
};

Error no_worker() {
  return Error{.code = ErrorCode::unavailable,
               .message = "the worker of this job no longer answers"};
}

// The two file descriptors of a job's program.
class Worker {
 public:
  static Result<Worker> find(Io& io) {
    const auto say = descriptor(io, "MAINSPRING_RESULT_FD");
    const auto hear = descriptor(io, "MAINSPRING_ANSWER_FD");
    if (say && hear) return Worker(*say, *hear);
    return invalid("",
                   "step run: must be run by the program of a job, with file descriptors 3 and "
                   "4 as it has them (mainspring work --exec, or the script of a queue folder)");
  }

  // Asks the worker for the saved result of the step; with `result`, asks it to save that.
  Result<StepAnswer> ask(const std::string& name, const std::string* result) {
    const std::string id = fmt::format("{}-{}", getpid(), ++asked_);
    std::string line;
    JsonWriter w(line);
    w.begin_object().key("step").begin_object().key("name").string(name).key("ask").string(id);
    if (result != nullptr) w.key("result").raw(*result);
    w.end_object().end_object();
    line += '\n';
    const Alone alone(say_);
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t n = write(say_, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return no_worker();
      done += static_cast<std::size_t>(n);
    }
    for (;;) {
      MS_TRY_ASSIGN(const std::string text, read_line());
      StepAnswer answer;
      JsonReader in(text, JsonReader::Unknown::skip);
      // The answer to a process that died before reading it.
      if (!in.object(kAnswer, answer) || answer.ask != id) continue;
      return answer;
    }
  }

 private:
  // A lock: one process of the job at a time asks and reads.
  class Alone {
   public:
    explicit Alone(int fd) : fd_(fd) { set(F_WRLCK); }
    ~Alone() { set(F_UNLCK); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    void set(short type) const {
      struct flock lock {};
      lock.l_type = type;
      while (fcntl(fd_, F_SETLKW, &lock) != 0 && errno == EINTR) {
      }
    }
    int fd_;
  };

  Worker(int say, int hear) : say_(say), hear_(hear) {}

  static std::optional<int> descriptor(Io& io, const char* name) {
    const std::string text = io.env(name).value_or("");
    int fd = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), fd);
    const bool open =
        !text.empty() && problem == std::errc() && *end == 0 && fd > 2 && fcntl(fd, F_GETFD) >= 0;
    return open ? std::optional<int>(fd) : std::nullopt;
  }

  // Reads no byte after the line: later bytes belong to other processes.
  Result<std::string> read_line() const {
    std::string line;
    for (char part[4096]; line.size() <= kMaxAnswer;) {
      ssize_t n = recv(hear_, part, sizeof part, MSG_PEEK);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return no_worker();
      const char* const end = std::find(part, part + n, '\n');
      const bool whole = end != part + n;
      n = recv(hear_, part, static_cast<std::size_t>(end - part) + (whole ? 1 : 0), 0);
      if (n <= 0) return no_worker();
      line.append(part, static_cast<std::size_t>(n));
      if (whole) return line;
    }
    return no_worker();
  }

  int say_, hear_;
  int asked_ = 0;
};

// The same format at first and later: JSON unchanged, a text without quotes, null as nothing.
void print(const std::string& result, Io& io) {
  std::string text;
  JsonReader in(result, JsonReader::Unknown::skip);
  const bool is_text = in.peek() == JsonType::string && in.string(text);
  if (io.out_is_terminal) text = printable_lines(text);
  if (result != "null") io.out((is_text ? text : result) + "\n");
}

Result<std::string> result_of(const std::string& output) {
  const std::size_t end = output.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return std::string("null");
  return json_or_text("result", output.substr(0, end + 1));
}

Result<ProcessEnd> run_program(const Invocation& invocation, Io& io, std::stop_token stop) {
  ProcessSpec spec;
  spec.argv = invocation.all_arguments("COMMAND");
  spec.environment = inherited_environment("MAINSPRING_ANSWER_FD=");
  spec.input_fd = 0;
  spec.output_cap_bytes = kMaxMemoBytes;
  spec.kill_grace = kStepRunGrace;
  spec.output = [&io](OutputStream stream, std::string_view text) {
    if (stream == OutputStream::err) io.err(text);
  };
  const auto pass_on = [&io](std::string_view message) {
    const std::string line = std::string(message) + "\n";
    [[maybe_unused]] const ssize_t n =
        write(atoi(io.env("MAINSPRING_RESULT_FD")->c_str()), line.data(), line.size());
  };
  SystemProcesses processes;
  return processes.run(spec, pass_on, stop);
}

// Converts the worker's refusal to an exit code that makes a script fail.
Result<int> refused(const StepAnswer& answer, const std::string& name, Io& io) {
  io.err(fmt::format("mainspring: step {}: {}\n", name, printable(answer.error)));
  return 75;  // try again later
}

}  // namespace

Result<int> run_step_run(const Invocation& invocation, Io& io) {
  const std::string name = *invocation.argument("NAME");
  MS_TRY(check_memo_name("NAME", name));
  MS_TRY_ASSIGN(Worker worker, Worker::find(io));
  MS_TRY_ASSIGN(const StepAnswer kept, worker.ask(name, nullptr));
  if (!kept.error.empty()) return refused(kept, name, io);
  if (kept.found) {
    print(kept.result, io);
    return 0;
  }
  StopSignals signals;
  MS_TRY_ASSIGN(const ProcessEnd end, run_program(invocation, io, signals.stop()));
  if (end.signal != 0) return 128 + end.signal;
  if (end.exit_code != 0) return end.exit_code;
  MS_TRY_ASSIGN(const std::string result, result_of(end.out.tail));
  if (end.out.cut() || result.size() > kMaxMemoBytes) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("step {}: its output has {} bytes: must be at most {}",
                                        name, end.out.bytes, kMaxMemoBytes),
                 .field = "COMMAND"};
  }
  MS_TRY_ASSIGN(const StepAnswer stored, worker.ask(name, &result));
  if (!stored.error.empty()) return refused(stored, name, io);
  print(result, io);
  return 0;
}

}  // namespace mainspring::cli
