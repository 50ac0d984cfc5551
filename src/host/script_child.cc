// A child of a pool: its pipe, its thread and its mail.
#include "host/script_child.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/assert.h"

namespace mainspring {

ScriptChild::~ScriptChild() {
  MS_ASSERT(!thread_.joinable(), "a child that was started has been waited for");
}

// Both ends stay open here, so that unread lines can be given to another child, and no write raises
// a signal.
Result<void> ScriptChild::start(Processes& processes, ProcessSpec spec,
                                std::function<void(const Result<ProcessEnd>&)> at_end,
                                std::function<void(const SaidFault&)> at_remark) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::io_error, fmt::format("creating a child's input: {}", strerror(errno))};
  }
  read_ = Fd(ends[0]);
  write_ = Fd(ends[1]);
  fcntl(write_.get(), F_SETFL, O_NONBLOCK);
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) {
    return Error{ErrorCode::io_error,
                 fmt::format("creating an event descriptor: {}", strerror(errno))};
  }
  spec.input_fd = read_.get();
  spec.started = [this, told = std::move(spec.started)](ProcessIds ids) {
    ran = true;
    if (told) told(ids);
  };
  at_remark_ = std::move(at_remark);
  spec.message_cap_bytes = kMaxLineBytes;
  spec.message_dropped = [this](std::string_view beginning) {
    take_line({std::string(beginning), true});
  };
  try {
    thread_ = std::thread([this, &processes, spec = std::move(spec), at_end = std::move(at_end)] {
      Result<ProcessEnd> end = processes.run(
          spec,
          [this](std::string_view line) {
            take_line({std::string(line), false});
          },
          stop_.get_token());
      at_end(end);
      take_end(std::move(end));
    });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::io_error, fmt::format("starting a child's thread: {}", error.what())};
  }
  return {};
}

ProgramSaid ScriptChild::Line::said() const {
  return cut ? parse_cut(text, Speaker::child) : parse_said(text, Speaker::child);
}

void ScriptChild::take_line(Line line) {
  if (line.text.find_first_not_of(" \t\r") == std::string::npos) return;
  bool unasked = false;
  {
    MutexLock lock(shared_.mutex);
    const auto full = [this] {
      return mail_.lines.size() >= kMaxInbox || mail_.bytes >= kMaxInboxBytes;
    };
    while (busy && full() && !stop_.stop_requested()) shared_.changed.wait(shared_.mutex);
    unasked = !busy;
    if (busy && !full()) {
      mail_.bytes += line.text.size();
      mail_.lines.push_back(std::move(line));
    }
  }
  if (unasked) speaks_up(line);
  shared_.changed.notify_all();
}

// An answer without a job means that the child is out of step. Other lines are ignored: "ready", or
// shell traces.
void ScriptChild::speaks_up(const Line& line) {
  const ProgramSaid said = line.said();
  if (is_answer(said)) {
    {
      MutexLock lock(shared_.mutex);
      spoke_up = retired = true;
    }
    stop_.request_stop();
  } else if (const auto tell = std::exchange(at_remark_, nullptr)) {
    tell(said.faults.empty() ? SaidFault{RemarkFault::unasked, "a line without a job"}
                             : said.faults.front());
  }
}

bool ScriptChild::drop_mail() {
  const Mail left = std::exchange(mail_, {});
  const bool answers = std::any_of(left.lines.begin(), left.lines.end(),
                                   [](const Line& line) { return is_answer(line.said()); });
  mail_.end = left.end;
  return answers;
}

void ScriptChild::take_end(Result<ProcessEnd> end) {
  {
    MutexLock lock(shared_.mutex);
    mail_.end = std::move(end);
    ended = true;
  }
  wake();
  shared_.changed.notify_all();
}

void ScriptChild::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
}

bool ScriptChild::write_line(std::string_view line, const std::stop_token& token) {
  while (!line.empty()) {
    if (token.stop_requested()) return false;
    {
      MutexLock lock(shared_.mutex);
      if (ended) return false;
    }
    const ssize_t n = write(write_.get(), line.data(), line.size());
    if (n > 0) line.remove_prefix(static_cast<std::size_t>(n));
    if (n < 0 && errno == EAGAIN) {
      pollfd fds[] = {{write_.get(), POLLOUT, 0}, {wake_.get(), POLLIN, 0}};
      poll(fds, 2, -1);
      std::uint64_t count = 0;
      if (fds[1].revents != 0) {
        [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof count);
      }
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

ScriptChild::Mail ScriptChild::wait(const std::stop_token& token) {
  Mail mail;
  {
    MutexLock lock(shared_.mutex);
    while (mail_.lines.empty() && !mail_.end && !token.stop_requested()) {
      shared_.changed.wait(shared_.mutex);
    }
    mail.lines.swap(mail_.lines);
    mail_.bytes = 0;
    mail.end = mail_.end;
  }
  shared_.changed.notify_all();  // there is room again
  return mail;
}

bool ScriptChild::unread(std::size_t size) const {
  int waiting = 0;
  return ioctl(read_.get(), FIONREAD, &waiting) == 0 && static_cast<std::size_t>(waiting) >= size;
}

Result<ProcessEnd> ScriptChild::end_now() {
  stop_.request_stop();
  shared_.changed.notify_all();
  MutexLock lock(shared_.mutex);
  while (!ended) shared_.changed.wait(shared_.mutex);
  return *mail_.end;
}

void ScriptChild::close_input() {
  write_.reset();
}

}  // namespace mainspring
