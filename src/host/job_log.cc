// Writes a job's log: lines into its file, rolling, caps, and followers.
#include "host/job_log.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "env/private_files.h"
#include "host/files.h"
#include "host/log_files.h"

namespace mainspring {
namespace {
// Formatted lines are written when they reach this size, so that a large output() needs no more
// memory than this and a line.
constexpr std::size_t kChunkBytes = 256 << 10;

std::string_view tag_of(LogSource source) {
  switch (source) {
    case LogSource::system_info:
      return "SYS INFO";
    case LogSource::system_warn:
      return "SYS WARN";
    case LogSource::system_error:
      return "SYS ERR ";
    case LogSource::out:
      return "INFO";
    case LogSource::err:
      return "ERR ";
  }
  return "";
}

bool is_output(LogSource source) {
  return source == LogSource::out || source == LogSource::err;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// The longest prefix of `text` within `limit` bytes that does not cut a UTF-8 character.
std::size_t cut_at(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text.size();
  for (std::size_t end = limit; end + 4 > limit; --end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80) return end;
  }
  return limit;  // not UTF-8
}

// Keeps the first error of several steps.
void note(Result<void>& result, Result<void> step) {
  if (result && !step) result = std::move(step);
}

// Output that is not kept because a cap was reached.
struct Unkept {
  bool reached = false;
  std::int64_t lines = 0;
  std::int64_t bytes = 0;
};

// Followers that wait for the log to grow. They have a separate mutex, so that they do not wait for
// the disk.
class Followers {
 public:
  std::int64_t size() const MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return size_;
  }
  bool closed() const MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return closed_;
  }
  // Several writers may call it in another order than they wrote.
  void grew(std::int64_t size) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    size_ = std::max(size_, size);
    call_due();
  }
  void close() MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    call_due();
  }
  std::uint64_t notify(std::int64_t position, std::function<void()> changed) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const std::uint64_t number = ++last_number_;
    waiting_.emplace(number, Waiting{position, std::move(changed)});
    call_due();
    return number;
  }
  void forget(std::uint64_t number) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    waiting_.erase(number);
    for (;;) {
      const auto call = calling_.find(number);
      if (call == calling_.end() || call->second == std::this_thread::get_id()) return;
      called_.wait(mutex_);
    }
  }

 private:
  struct Waiting {
    std::int64_t position;
    std::function<void()> changed;
  };

  // Called without the mutex, as the function may call back.
  void call_due() MS_REQUIRES(mutex_) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!closed_ && it->second.position >= size_) {
        ++it;
        continue;
      }
      const std::uint64_t number = it->first;
      const std::function<void()> changed = std::move(it->second.changed);
      waiting_.erase(it);
      calling_.emplace(number, std::this_thread::get_id());
      mutex_.unlock();
      changed();
      mutex_.lock();
      calling_.erase(number);
      called_.notify_all();
      it = waiting_.upper_bound(number);
    }
  }

  mutable Mutex mutex_;
  CondVar called_;
  std::int64_t size_ MS_GUARDED_BY(mutex_) = 0;
  bool closed_ MS_GUARDED_BY(mutex_) = false;
  std::uint64_t last_number_ MS_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Waiting> waiting_ MS_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::thread::id> calling_ MS_GUARDED_BY(mutex_);
};

}  // namespace

struct JobLog::Impl {
  Impl(JobLogOptions given, const Clock& its_clock)
      : options(std::move(given)), clock(its_clock), roll_at(options.roll_bytes) {}

  const JobLogOptions options;
  const Clock& clock;
  Followers followers;

  // Held during writes, on purpose: it keeps lines whole and in order, and blocks writers that are
  // faster than the disk.
  Mutex mutex;
  log_files::LogFile file MS_GUARDED_BY(mutex);
  std::vector<log_files::IndexEntry> older MS_GUARDED_BY(mutex);
  std::int64_t roll_at MS_GUARDED_BY(mutex);  // size of `file` beyond which it is rolled
  bool closed MS_GUARDED_BY(mutex) = false;
  std::string chunk MS_GUARDED_BY(mutex);                   // formatted lines, on their way
  std::array<std::string, 2> partial MS_GUARDED_BY(mutex);  // of out and err
  std::int64_t prefix_second MS_GUARDED_BY(mutex) = -1;
  std::string prefix MS_GUARDED_BY(mutex);  // "[11/21/2026 10:46:31 > 3f9a1c: "
  std::int64_t lost_lines MS_GUARDED_BY(mutex) = 0;
  std::int64_t run_lines MS_GUARDED_BY(mutex) = 0;  // of output, since begin_run()
  Unkept over_bytes MS_GUARDED_BY(mutex);
  Unkept over_lines MS_GUARDED_BY(mutex);

  Result<void> open_files() MS_EXCLUDES(mutex);
  void remove_surplus() const;
  void set_time() MS_REQUIRES(mutex);
  void format(LogSource source, std::string_view piece) MS_REQUIRES(mutex);
  void tell_cap(Unkept& over, const std::string& limit) MS_REQUIRES(mutex);
  void tell_count(Unkept& over) MS_REQUIRES(mutex);
  bool keep(LogSource source, std::size_t bytes) MS_REQUIRES(mutex);
  Result<void> add(LogSource source, std::string_view line) MS_REQUIRES(mutex);
  Result<void> add_output(LogSource source, std::string_view bytes) MS_REQUIRES(mutex);
  Result<void> add_partial() MS_REQUIRES(mutex);
  void roll() MS_REQUIRES(mutex);
  Result<void> roll_files() MS_REQUIRES(mutex);
  Result<void> write_chunk() MS_REQUIRES(mutex);
  // Runs `step` with the mutex and the time set, writes the lines that it formatted, notifies
  // followers.
  template <class F>
  Result<void> write_step(F step) MS_EXCLUDES(mutex);
  Result<void> keep_whole_lines(std::size_t written, int error) MS_REQUIRES(mutex);
  std::int64_t end() const MS_REQUIRES(mutex) { return file.end(); }
  std::int64_t size_at_open() MS_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    return end();
  }
};

Result<void> JobLog::Impl::open_files() {
  MutexLock lock(mutex);
  const std::filesystem::path directory = std::filesystem::path(options.path).parent_path();
  if (const int problem = directory.empty() ? 0 : make_private_directories(directory);
      problem != 0) {
    return file_error("make", directory.string(), problem);
  }
  remove_surplus();
  MS_TRY_ASSIGN(std::vector<log_files::LogFile> files, log_files::open_all(options.path, -1));
  for (const log_files::LogFile& old : files) older.push_back({old.inode, old.begin});
  struct stat status {};
  const bool other = ::lstat(options.path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (other && S_ISDIR(status.st_mode)) return file_error("open", options.path, EISDIR);
  // Anything other than a file is replaced: a pipe would block.
  const int fd = other ? -1 : ::open(options.path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (fd < 0 && !other && errno != ENOENT) return file_error("open", options.path, errno);
  if (fd < 0) {
    const std::int64_t begin = files.empty() ? 0 : files.back().end();
    MS_TRY_ASSIGN(file, log_files::create(options.path, begin, older));
    return {};
  }
  file = std::move(files.back());
  file.fd = Fd(fd);
  older.pop_back();
  // Completes a line that a crash or a full disk cut.
  char last = '\n';
  if (file.size > 0 && ::pread(fd, &last, 1, file.size - 1) == 1 && last != '\n') {
    if (::write(fd, "\r\n", 2) != 2) return file_error("write", options.path, errno);
    file.size += 2;
  }
  return {};
}

// Removes generations beyond the current limit.
void JobLog::Impl::remove_surplus() const {
  int missing = 0;
  for (int i = options.generations + 1; i <= log_files::kMaxGenerations && missing < 3; ++i) {
    if (::unlink(log_files::name_of(options.path, i).c_str()) != 0) ++missing;
  }
}

void JobLog::Impl::set_time() {
  const WallTime now = clock.now().wall;
  if (now.us() / 1'000'000 == prefix_second) return;
  prefix_second = now.us() / 1'000'000;
  prefix = fmt::format("[{} > {}: ", log_time(now), options.instance);
}

void JobLog::Impl::format(LogSource source, std::string_view piece) {
  chunk += prefix;
  chunk += tag_of(source);
  chunk += "] ";
  chunk += piece;
  chunk += "\r\n";
}

void JobLog::Impl::tell_cap(Unkept& over, const std::string& limit) {
  if (!over.reached) {
    format(LogSource::system_warn,
           fmt::format("Reached the limit of {}: more output is counted, not kept", limit));
  }
  over.reached = true;
}

void JobLog::Impl::tell_count(Unkept& over) {
  if (over.lines > 0) {
    format(LogSource::system_warn,
           fmt::format("{} lines of output ({} bytes) were not kept", over.lines, over.bytes));
  }
  over.lines = over.bytes = 0;
}

// Returns whether a line of output is within the caps. If not, counts it.
bool JobLog::Impl::keep(LogSource source, std::size_t bytes) {
  if (!is_output(source)) return true;
  const std::int64_t size = end() + static_cast<std::int64_t>(chunk.size());
  const auto added = static_cast<std::int64_t>(prefix.size() + bytes + 8);
  Unkept* over = nullptr;
  if (options.cap_bytes > 0 && (over_bytes.reached || size + added > options.cap_bytes)) {
    over = &over_bytes;
    tell_cap(*over, fmt::format("{} bytes", options.cap_bytes));
  } else if (options.cap_lines > 0 && run_lines >= options.cap_lines) {
    over = &over_lines;
    tell_cap(*over, fmt::format("{} lines of output", options.cap_lines));
  }
  if (over == nullptr) {
    ++run_lines;
    return true;
  }
  ++over->lines;
  over->bytes += static_cast<std::int64_t>(bytes);
  return false;
}

// Adds one line without its end.
Result<void> JobLog::Impl::add(LogSource source, std::string_view line) {
  do {
    const std::size_t length = cut_at(line, kMaxLineBytes);
    if (keep(source, length)) format(source, line.substr(0, length));
    line.remove_prefix(length);
  } while (!line.empty());
  if (chunk.size() >= kChunkBytes) return write_chunk();
  return {};
}

Result<void> JobLog::Impl::add_output(LogSource source, std::string_view bytes) {
  std::string& kept = partial[source == LogSource::err ? 1 : 0];
  Result<void> result;
  while (!bytes.empty()) {
    const std::string_view head = bytes.substr(0, kMaxLineBytes);
    const std::size_t line_end = head.find('\n');
    const bool whole = line_end != std::string_view::npos;
    const std::string_view line = head.substr(0, whole ? line_end + 1 : line_end);
    bytes.remove_prefix(line.size());
    if (whole && kept.empty()) {
      note(result, add(source, without_line_end(line)));
      continue;
    }
    kept += line;
    if (whole) {
      note(result, add(source, without_line_end(kept)));
      kept.clear();
    } else if (kept.size() > kMaxLineBytes) {
      // At most a line's limit is buffered, however long the line is.
      const std::size_t length = cut_at(kept, kMaxLineBytes);
      note(result, add(source, std::string_view(kept).substr(0, length)));
      kept.erase(0, length);
    }
  }
  return result;
}

Result<void> JobLog::Impl::add_partial() {
  Result<void> result;
  for (std::size_t i = 0; i < partial.size(); ++i) {
    if (partial[i].empty()) continue;
    const std::string line = std::exchange(partial[i], {});
    note(result, add(i == 0 ? LogSource::out : LogSource::err, without_line_end(line)));
  }
  return result;
}

// If a log cannot be rolled, it continues in its file, reports that, and tries again when it has
// grown by the same size again.
void JobLog::Impl::roll() {
  Result<void> rolled = roll_files();
  if (rolled) {
    roll_at = options.roll_bytes;
    return;
  }
  roll_at = file.size + options.roll_bytes;
  const std::string lines = std::exchange(chunk, {});
  format(LogSource::system_warn, "The log could not be rolled: " + rolled.error().message);
  chunk += lines;
}

Result<void> JobLog::Impl::roll_files() {
  MS_TRY(log_files::shift(options.path, options.generations));
  std::vector<log_files::IndexEntry> stay = older;
  stay.push_back({file.inode, file.begin});
  // Without generations the file stays until the new one has replaced it.
  const auto most = static_cast<std::size_t>(std::max(options.generations, 1));
  if (stay.size() > most) stay.erase(stay.begin(), stay.end() - static_cast<std::ptrdiff_t>(most));
  MS_TRY_ASSIGN(file, log_files::create(options.path, end(), stay));
  older = std::move(stay);
  return {};
}

Result<void> JobLog::Impl::write_chunk() {
  if (chunk.empty() && lost_lines == 0) return {};
  if (lost_lines > 0) {
    const std::string lines = std::exchange(chunk, {});
    format(LogSource::system_warn,
           fmt::format("{} lines could not be written and are lost", lost_lines));
    chunk += lines;
  }
  if (options.roll_bytes > 0 && file.size > roll_at) roll();
  std::size_t written = 0;
  int error = 0;
  while (written < chunk.size() && error == 0) {
    const ssize_t n = ::write(file.fd.get(), chunk.data() + written, chunk.size() - written);
    if (n > 0) {
      written += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      error = n == 0 ? ENOSPC : errno;
    }
  }
  Result<void> result = keep_whole_lines(written, error);
  chunk.clear();
  return result;
}

// Counts what is in the file now. Keeps only the whole lines of a partial write; others are lost.
Result<void> JobLog::Impl::keep_whole_lines(std::size_t written, int error) {
  if (error == 0) {
    file.size += static_cast<std::int64_t>(written);
    lost_lines = 0;
    return {};
  }
  const std::string_view in_file = std::string_view(chunk).substr(0, written);
  const std::size_t last = in_file.rfind('\n');
  const std::size_t whole = last == std::string_view::npos ? 0 : last + 1;
  const std::string_view lost = std::string_view(chunk).substr(whole);
  file.size += static_cast<std::int64_t>(whole);
  // The line that reports lost lines is the first, and is not itself one of them.
  const bool told = lost_lines > 0;
  std::int64_t lines = std::count(lost.begin(), lost.end(), '\n');
  if (told && whole > 0) lost_lines = 0;
  if (told && whole == 0) --lines;
  lost_lines += lines;
  if (whole != written && ::ftruncate(file.fd.get(), file.size) != 0) {
    // The partial line stays then, as a line of its own.
    file.size += static_cast<std::int64_t>(written - whole);
  }
  return file_error("write", options.path, error);
}

template <class F>
Result<void> JobLog::Impl::write_step(F step) {
  std::int64_t size = 0;
  Result<void> result;
  {
    MutexLock lock(mutex);
    if (closed) return Error{ErrorCode::conflict, "the log " + options.path + " is closed"};
    set_time();
    note(result, step());
    note(result, write_chunk());
    size = end();
  }
  followers.grew(size);
  return result;
}

JobLog::JobLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

JobLog::~JobLog() {
  close();
}

Result<std::unique_ptr<JobLog>> JobLog::open(JobLogOptions options, const Clock& clock) {
  if (options.generations < 0 || options.generations > log_files::kMaxGenerations) {
    return invalid("generations", fmt::format("generations {}: must be 0 to {}",
                                              options.generations, log_files::kMaxGenerations));
  }
  auto impl = std::make_unique<Impl>(std::move(options), clock);
  MS_TRY(impl->open_files());
  impl->followers.grew(impl->size_at_open());
  return std::unique_ptr<JobLog>(new JobLog(std::move(impl)));
}

Result<void> JobLog::write(LogSource source, std::string_view line) {
  return impl_->write_step([&]() MS_NO_THREAD_SAFETY_ANALYSIS {
    Result<void> result;
    // Foreign text cannot imitate a line of another source.
    std::string_view rest = without_line_end(line);
    for (std::size_t end = 0; end != std::string_view::npos;) {
      end = rest.find('\n');
      note(result, impl_->add(source, without_line_end(rest.substr(0, end))));
      if (end != std::string_view::npos) rest.remove_prefix(end + 1);
    }
    return result;
  });
}

Result<void> JobLog::output(LogSource source, std::string_view bytes) {
  return impl_->write_step(
      [&]() MS_NO_THREAD_SAFETY_ANALYSIS { return impl_->add_output(source, bytes); });
}

Result<void> JobLog::flush() {
  return impl_->write_step([&]() MS_NO_THREAD_SAFETY_ANALYSIS { return impl_->add_partial(); });
}

void JobLog::begin_run() {
  // Lines that cannot be written now are reported with the next line.
  [[maybe_unused]] const Result<void> told =
      impl_->write_step([&]() MS_NO_THREAD_SAFETY_ANALYSIS -> Result<void> {
        impl_->tell_count(impl_->over_lines);
        impl_->over_lines.reached = false;
        impl_->run_lines = 0;
        return {};
      });
}

void JobLog::close() {
  [[maybe_unused]] const Result<void> ended = impl_->write_step([&]() MS_NO_THREAD_SAFETY_ANALYSIS {
    Result<void> result = impl_->add_partial();
    impl_->tell_count(impl_->over_bytes);
    impl_->tell_count(impl_->over_lines);
    note(result, impl_->write_chunk());
    impl_->closed = true;
    return result;
  });
  impl_->followers.close();
}

std::int64_t JobLog::size() const {
  return impl_->followers.size();
}

std::uint64_t JobLog::notify(std::int64_t position, std::function<void()> changed) {
  return impl_->followers.notify(position, std::move(changed));
}

void JobLog::forget(std::uint64_t number) {
  impl_->followers.forget(number);
}

bool JobLog::closed() const {
  return impl_->followers.closed();
}

std::string log_time(WallTime t) {
  const std::chrono::sys_time<std::chrono::microseconds> time{std::chrono::microseconds(t.us())};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  return fmt::format("{:02}/{:02}/{:04} {:02}:{:02}:{:02}", unsigned{date.month()},
                     unsigned{date.day()}, int{date.year()}, clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

}  // namespace mainspring
