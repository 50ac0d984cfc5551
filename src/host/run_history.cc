// The runs of a triggered job, in directories named after the time of their start.
#include "host/run_history.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "api/json.h"
#include "env/private_files.h"
#include "host/files.h"

namespace fs = std::filesystem;

namespace mainspring {
namespace {
constexpr std::size_t kIdDigits = 18;
constexpr std::int64_t kTickUs = 100;  // of run ids
// Ids that are tried, each one tick later, before begin() returns conflict.
constexpr int kMaxIdTries = 10'000;
constexpr std::size_t kMaxStatusBytes = 64 << 10;
constexpr std::size_t kMaxTriggerBytes = 4 << 10;

constexpr std::string_view kGonePrefix = ".gone.";

constexpr std::array<std::string_view, 6> kStatusNames = {"Initializing", "Running", "Success",
                                                          "Failed",       "Aborted", "Stopped"};

using SysTime = std::chrono::sys_time<std::chrono::microseconds>;

struct CivilTime {
  int year;
  unsigned month, day;
  std::int64_t hour, minute, second, us;
};

CivilTime civil(WallTime t) {
  const SysTime time{std::chrono::microseconds(t.us())};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::int64_t us = (time - day).count();
  return {int{date.year()},     unsigned{date.month()}, unsigned{date.day()}, us / 3'600'000'000,
          us / 60'000'000 % 60, us / 1'000'000 % 60,    us % 1'000'000};
}

// A time in .NET format: "2026-11-21T10:46:31.1234567Z", ticks of 100 ns without trailing zeros.
std::string status_time(WallTime t) {
  const CivilTime c = civil(t);
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", c.year, c.month, c.day,
                                 c.hour, c.minute, c.second);
  if (c.us > 0) {
    text += fmt::format(".{:06}", c.us);
    while (text.back() == '0') text.pop_back();
  }
  return text + "Z";
}

// Parses a time with up to seven decimals, as other programs write them; ours has microseconds.
bool read_status_time(JsonReader& in, WallTime& into) {
  std::string text;
  if (!in.string(text)) return false;
  const std::size_t point = text.find('.');
  if (point != std::string::npos) {
    std::size_t end = point + 1;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end - point - 1 > 6) text.erase(point + 7, end - point - 7);
  }
  const Result<WallTime> time = parse_wall_time(text);
  if (!time) return in.fail_here("must be a time");
  into = *time;
  return true;
}

std::string status_json(const RunRecord& run) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  if (!run.trigger.empty()) json.key("Trigger").string(cut_text(run.trigger, kMaxTriggerBytes));
  json.key("Status").string(to_string(run.status));
  json.key("StartTime").string(status_time(run.started));
  if (run.ended) json.key("EndTime").string(status_time(*run.ended));
  if (run.job != 0) json.key("Job").number(run.job);
  if (run.exit_code) json.key("ExitCode").number(*run.exit_code);
  if (run.peak_memory) json.key("PeakMemory").number(*run.peak_memory);
  json.end_object();
  return text;
}

constexpr JsonField<RunRecord> kStatusFields[] = {
    {"Trigger", [](JsonReader& in, RunRecord& run) { return in.null() || in.string(run.trigger); }},
    {"Status",
     [](JsonReader& in, RunRecord& run) {
       std::string text;
       if (!in.string(text)) return false;
       const std::optional<RunStatus> status = parse_run_status(text);
       if (!status) return in.fail_here("must be a status");
       run.status = *status;
       return true;
     }},
    {"StartTime", [](JsonReader& in, RunRecord& run) { return read_status_time(in, run.started); }},
    {"EndTime",
     [](JsonReader& in, RunRecord& run) {
       if (in.null()) return true;
       return read_status_time(in, run.ended.emplace());
     }},
    {"Job",
     [](JsonReader& in, RunRecord& run) {
       return in.integer(run.job, 0, std::numeric_limits<JobId>::max());
     }},
    {"ExitCode",
     [](JsonReader& in, RunRecord& run) {
       return in.integer(run.exit_code.emplace(), std::numeric_limits<int>::min(),
                         std::numeric_limits<int>::max());
     }},
    {"PeakMemory",
     [](JsonReader& in, RunRecord& run) {
       return in.integer(run.peak_memory.emplace(), std::int64_t{0}, INT64_MAX);
     }},
};

// Writes the status to a hidden file in `directory`; returns its name.
Result<std::string> prepare_status(const std::string& directory, const RunRecord& run) {
  std::string name = directory + "/.status.XXXXXX";
  const Fd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return file_error("make", name, errno);
  Result<std::string> result = name;
  const std::string text = status_json(run);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written < 0) {
    result = file_error("write", name, errno);
  } else if (static_cast<std::size_t>(written) != text.size()) {
    result = file_error("write", name, ENOSPC);
  } else if (::fdatasync(fd.get()) != 0) {
    // Without the sync a rename that is on disk before the content would leave an empty status
    // after a power cut.
    result = file_error("sync", name, errno);
  }
  if (!result) ::unlink(name.c_str());
  return result;
}

bool is_run_id(std::string_view name) {
  return name.size() == kIdDigits &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Oldest first.
Result<std::vector<std::string>> ids_in(const std::string& directory) {
  std::vector<std::string> ids;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return ids;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (is_run_id(name) && entries->is_directory(ignored)) ids.push_back(std::move(name));
  }
  if (error) {
    return Error{ErrorCode::io_error, fmt::format("read {}: {}", directory, error.message())};
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Removes a run; atomic for readers that list the runs.
void remove_run(const std::string& directory, const std::string& id) {
  const std::string gone = directory + "/" + std::string(kGonePrefix) + id;
  if (::rename((directory + "/" + id).c_str(), gone.c_str()) != 0) return;
  std::error_code ignored;
  fs::remove_all(gone, ignored);
}

// Removes remains of an interrupted removal.
void remove_gone(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> gone;
  for (fs::directory_iterator entries(directory, error);
       !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().filename().string().starts_with(kGonePrefix)) {
      gone.push_back(entries->path());
    }
  }
  for (const fs::path& path : gone) fs::remove_all(path, error);
}

// nullopt = no file, or not in our format.
std::optional<RunRecord> read_status(const std::string& path) {
  const auto text = read_whole_file(path, kMaxStatusBytes);
  if (!text || !*text) return std::nullopt;
  RunRecord run;
  run.started = WallTime::never();  // not given
  JsonReader in(**text, JsonReader::Unknown::skip);
  if (!in.object(kStatusFields, run) || !in.end()) return std::nullopt;
  return run;
}

}  // namespace

std::string_view to_string(RunStatus status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::optional<RunStatus> parse_run_status(std::string_view text) {
  const auto found = std::find(kStatusNames.begin(), kStatusNames.end(), text);
  if (found == kStatusNames.end()) return std::nullopt;
  return static_cast<RunStatus>(found - kStatusNames.begin());
}

RunHistory::RunHistory(std::string directory) : directory_(std::move(directory)) {}

std::string RunHistory::directory_of(const std::string& id) const {
  return directory_ + "/" + id;
}

std::string RunHistory::log_path(const std::string& id) const {
  return directory_of(id) + "/output_log.txt";
}

Result<std::string> RunHistory::begin(RunRecord record, int keep,
                                      const std::vector<std::string>& active) {
  const bool chosen = record.id.empty();
  if (!chosen) MS_TRY(time_of_run_id(record.id));
  if (const int problem = make_private_directories(directory_); problem != 0)
    return file_error("make", directory_, problem);
  MS_TRY_ASSIGN(const std::string status, prepare_status(directory_, record));
  WallTime time = record.started;
  if (chosen) record.id = run_id_of(time);
  int made = ::mkdir(directory_of(record.id).c_str(), 0700);
  for (int i = 1; chosen && made != 0 && errno == EEXIST && i < kMaxIdTries; ++i) {
    time = time + Duration(kTickUs);
    record.id = run_id_of(time);
    made = ::mkdir(directory_of(record.id).c_str(), 0700);
  }
  Result<std::string> result = record.id;
  if (made != 0) {
    result = errno == EEXIST
                 ? Error{ErrorCode::conflict, "there is a run " + directory_of(record.id)}
                 : file_error("make", directory_of(record.id), errno);
  } else if (::rename(status.c_str(), (directory_of(record.id) + "/status").c_str()) != 0) {
    result = file_error("rename", status, errno);
    ::rmdir(directory_of(record.id).c_str());
  }
  if (!result) {
    ::unlink(status.c_str());
    return result;
  }
  std::vector<std::string> stay = active;
  stay.push_back(record.id);
  trim(keep, [&stay](const std::string& id) {
    return std::find(stay.begin(), stay.end(), id) != stay.end();
  });
  return result;
}

void RunHistory::trim(int keep, const std::function<bool(const std::string& id)>& spare) {
  remove_gone(directory_);
  const Result<std::vector<std::string>> ids = ids_in(directory_);
  if (!ids) return;  // the next run trims
  auto surplus = static_cast<std::ptrdiff_t>(ids->size()) - std::max(keep, 1);
  for (const std::string& id : *ids) {
    if (surplus <= 0) return;
    if (spare(id)) continue;
    remove_run(directory_, id);
    --surplus;
  }
}

Result<void> RunHistory::update(const RunRecord& record) {
  const std::string directory = directory_of(record.id);
  std::error_code ignored;
  if (!is_run_id(record.id) || !fs::is_directory(directory, ignored)) {
    return Error{ErrorCode::not_found, fmt::format("there is no run \"{}\"", record.id)};
  }
  MS_TRY_ASSIGN(const std::string status, prepare_status(directory, record));
  if (::rename(status.c_str(), (directory + "/status").c_str()) != 0) {
    const Error error = file_error("rename", status, errno);
    ::unlink(status.c_str());
    return error;
  }
  return {};
}

Result<RunRecord> RunHistory::get(const std::string& id) const {
  std::error_code ignored;
  if (!is_run_id(id) || !fs::is_directory(directory_of(id), ignored)) {
    return Error{ErrorCode::not_found, fmt::format("there is no run \"{}\"", id)};
  }
  std::optional<RunRecord> run = read_status(directory_of(id) + "/status");
  if (!run) {
    run.emplace();
    run->status = RunStatus::aborted;
    run->started = WallTime::never();
  }
  run->id = id;
  if (run->started == WallTime::never()) {
    const Result<WallTime> time = time_of_run_id(id);
    run->started = time ? *time : WallTime();
  }
  return std::move(*run);
}

Result<std::vector<RunRecord>> RunHistory::list() const {
  MS_TRY_ASSIGN(const std::vector<std::string> ids, ids_in(directory_));
  std::vector<RunRecord> runs;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    Result<RunRecord> run = get(*id);
    if (run) runs.push_back(std::move(*run));
    // Else it was trimmed meanwhile.
  }
  return runs;
}

std::optional<std::string> RunHistory::latest() const {
  const Result<std::vector<std::string>> ids = ids_in(directory_);
  if (!ids || ids->empty()) return std::nullopt;
  return ids->back();
}

std::string run_id_of(WallTime t) {
  const CivilTime c = civil(t);
  return fmt::format("{:04}{:02}{:02}{:02}{:02}{:02}{:04}", c.year, c.month, c.day, c.hour,
                     c.minute, c.second, c.us / kTickUs);
}

Result<WallTime> time_of_run_id(std::string_view id) {
  const auto refuse = [&] {
    return invalid("run", fmt::format("run \"{}\": must be 18 digits, yyyyMMddHHmmss and four of "
                                      "0.1 ms",
                                      cut_text(id, 80)));
  };
  if (!is_run_id(id)) return refuse();
  const auto time = parse_wall_time(
      fmt::format("{}-{}-{}T{}:{}:{}.{}Z", id.substr(0, 4), id.substr(4, 2), id.substr(6, 2),
                  id.substr(8, 2), id.substr(10, 2), id.substr(12, 2), id.substr(14, 4)));
  if (!time) return refuse();
  return *time;
}

}  // namespace mainspring
