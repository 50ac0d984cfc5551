// support-bundle: collects what a problem report needs in one file. No args, results, errors or
// secrets: only the answers to kRequests, queues and schedules, the settings and the findings of
// the doctor.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "api/json.h"
#include "api/schedule_shapes.h"
#include "api/shapes.h"
#include "cli/doctor.h"
#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/support.h"
#include "cli/version.h"
#include "client/calls.h"
#include "disk_sqlite/inspect.h"
#include "env/clock.h"
#include "env/fd.h"
#include "env/private_files.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMostSystemBytes = 64 << 10;  // of a system file
constexpr std::size_t kMostAnswerBytes = 8 << 20;
constexpr Duration kBundleTimeout = 10s;
constexpr std::int64_t kMostSchedules = 10'000;
constexpr std::int64_t kMostQueues = 100'000;

struct BundleRequest {
  std::string_view file, path;
};
constexpr BundleRequest kRequests[] = {
    {"server/version.json", "/v1/version"},
    {"server/health.json", "/healthz?verbose=true"},
    {"server/ready.json", "/readyz"},
    {"server/workers.json", "/v1/workers"},
    {"server/metrics.txt", "/metrics"},
    {"server/breakers.json", "/v1/breakers"},
    {"server/audit_head.json", "/v1/audit/head"},
};
constexpr std::string_view kSystemFiles[] = {"/etc/os-release",      "/proc/meminfo",
                                             "/proc/loadavg",        "/proc/self/limits",
                                             "/proc/self/mountinfo", "/proc/self/cgroup"};

using Entries = std::vector<std::pair<std::string, std::string>>;  // by name in the bundle

// Removes the password of a URL.
std::string safe_value(const Setting& setting, const Options& options) {
  const std::string text = format_setting(setting, options);
  return text.find("://") == std::string::npos ? text : shown_url(text);
}

std::string settings_text(const Invocation& invocation) {
  std::string out;
  for (const Setting& setting : settings()) {
    std::string line;
    JsonWriter w(line);
    w.begin_object().key("name").string(setting.name);
    w.key("value").string(safe_value(setting, invocation.options));
    w.key("from").string(invocation.origins.at(setting.name)).end_object();
    out += line + '\n';
  }
  return out;
}

void add_system(Entries& out) {
  utsname name{};
  if (uname(&name) == 0)
    out.emplace_back("system/uname.txt", fmt::format("{} {} {} {}\n", name.sysname, name.release,
                                                     name.version, name.machine));
  for (const std::string_view file : kSystemFiles) {
    const auto text = read_file(std::string(file), kMostSystemBytes);
    const std::string shown(file.substr(file.rfind('/') + 1));
    out.emplace_back("system/" + shown + ".txt",
                     text ? *text : "not read: " + text.error().message + "\n");
  }
}

void add_store(const Options& options, Entries& out) {
  if (has_shared_store(options)) return;  // the doctor reports on it
  const auto info = inspect_sqlite_store(options.data);
  if (!info) {
    out.emplace_back("store.txt", info.error().message + "\n");
    return;
  }
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("schema").number(info->schema).key("owner_pid").number(info->owner_pid);
  w.key("database_bytes").number(info->database_bytes).key("log_bytes").number(info->log_bytes);
  w.key("reserve_bytes").number(info->reserve_bytes).key("jobs").number(info->jobs);
  w.key("queues").number(info->queues).key("schedules").number(info->schedules);
  w.key("sessions").number(info->sessions).key("leases").number(info->leases).end_object();
  out.emplace_back("store.json", text + "\n");
}

// The last line of a list that is not complete.
std::string cut_line(std::int64_t shown) {
  return fmt::format("{{\"cut\":\"only the first {} are listed\"}}\n", shown);
}

// Limit keys name customers, and people write pause reasons: both may be personal data.
QueueStats masked(QueueStats queue) {
  decltype(queue.limits.per_key.weights) weights;
  for (const auto& [key, weight] : queue.limits.per_key.weights)
    weights.emplace(fmt::format("key {}", weights.size() + 1), weight);
  queue.limits.per_key.weights = std::move(weights);
  if (queue.pause && !queue.pause->reason.empty()) queue.pause->reason = "***";
  return queue;
}

std::string queues_text(Client& client) {
  std::string out, after;
  const WallTime now = SystemClock().now().wall;
  constexpr int kPage = 1000;
  for (std::int64_t left = kMostQueues; left > 0;) {
    const auto body = client.request("GET", list_path("/v1/queues", after, kPage), "");
    const auto page = body ? decode_queues(*body) : Result<NamePage<QueueStats>>(body.error());
    if (!page) return out + "not read: " + page.error().message + "\n";
    for (const QueueStats& queue : page->items) {
      encode_queue(masked(queue), now, out);
      out += '\n';
    }
    if (page->next.empty()) return out;
    left -= std::max<std::int64_t>(std::ssize(page->items), 1);
    after = page->next;
  }
  return out + cut_line(kMostQueues);
}

// Without the job template of a schedule: its args are a payload.
std::string schedules_text(Client& client) {
  std::string out, after;
  for (std::int64_t left = kMostSchedules; left > 0;) {
    constexpr int kPage = 1000;
    const auto page = static_cast<Jobs&>(client).schedules(after, kPage);
    if (!page) return out + "not read: " + page.error().message + "\n";
    for (const ScheduleInfo& info : *page) {
      std::string line;
      JsonWriter w(line);
      w.begin_object().key("name").string(info.schedule.name);
      w.key("queue").string(info.schedule.job.queue).key("paused").boolean(info.paused);
      w.key("fired").number(info.fired).key("next");
      info.next == WallTime::never() ? w.null() : w.time(info.next);
      w.end_object();
      out += line + '\n';
    }
    left -= std::ssize(*page);
    if (page->size() < kPage) return out;
    after = page->back().schedule.name;
  }
  return out + cut_line(kMostSchedules);
}

void add_server(const Invocation& invocation, Entries& out) {
  auto options = client_options(invocation);
  if (!options) {
    out.emplace_back("server/not_asked.txt", options.error().message + "\n");
    return;
  }
  options->connect_timeout = options->read_timeout = kBundleTimeout;
  options->retry_for = Duration(0);
  SystemRandom random;
  const auto client = Client::open(std::move(*options), random);
  if (!client) {
    out.emplace_back("server/not_asked.txt", client.error().message + "\n");
    return;
  }
  for (const BundleRequest& request : kRequests) {
    auto answer = (*client)->request("GET", request.path, "");
    if (!answer) {
      out.emplace_back(request.file, "not read: " + answer.error().message + "\n");
      if (answer.error().code == ErrorCode::unavailable && request.path == "/v1/version") return;
      continue;
    }
    if (answer->size() > kMostAnswerBytes) {
      answer->resize(kMostAnswerBytes);
      *answer += fmt::format("\ncut: only the first {} bytes are kept\n", kMostAnswerBytes);
    }
    out.emplace_back(request.file, std::move(*answer));
  }
  out.emplace_back("server/queues.jsonl", queues_text(**client));
  out.emplace_back("server/schedules.jsonl", schedules_text(**client));
}

Error bundle_error(const std::string& file, std::string_view why) {
  return Error{.code = ErrorCode::io_error, .message = fmt::format("{}: {}", file, why)};
}

Result<void> write_bundle(const std::string& file, const std::string& top, const Entries& entries) {
  const Fd out(open_private(file, O_WRONLY | O_CREAT | O_EXCL));
  if (!out) return bundle_error(file, std::strerror(errno));
  const std::unique_ptr<archive, decltype(&archive_write_free)> tar(archive_write_new(),
                                                                    archive_write_free);
  archive_write_set_format_pax_restricted(tar.get());
  archive_write_add_filter_gzip(tar.get());
  if (archive_write_open_fd(tar.get(), out.get()) != ARCHIVE_OK)
    return bundle_error(file, archive_error_string(tar.get()));
  const std::time_t now = static_cast<std::time_t>(SystemClock().now().wall.us() / 1'000'000);
  for (const auto& [name, text] : entries) {
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                              archive_entry_free);
    archive_entry_set_pathname(entry.get(), (top + "/" + name).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0600);
    archive_entry_set_mtime(entry.get(), now, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(text.size()));
    const bool good = archive_write_header(tar.get(), entry.get()) == ARCHIVE_OK &&
                      archive_write_data(tar.get(), text.data(), text.size()) ==
                          static_cast<la_ssize_t>(text.size());
    if (!good) return bundle_error(file, archive_error_string(tar.get()));
  }
  if (archive_write_close(tar.get()) != ARCHIVE_OK || fsync(out.get()) != 0)
    return bundle_error(file, std::strerror(errno));
  return {};
}

}  // namespace

Result<int> run_support_bundle(const Invocation& invocation, Io& io) {
  std::string stamp = format_wall_time(SystemClock().now().wall).substr(0, 19);
  std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
  const std::string top = "mainspring-support-" + stamp;
  const std::string file = invocation.flag("output").value_or(top + ".tar.gz");
  if (file.empty()) return invalid("output", "--output: must not be empty");
  Entries entries;
  entries.emplace_back("version.txt", fmt::format("mainspring {}\n", kVersion));
  entries.emplace_back("settings.jsonl", settings_text(invocation));
  if (!invocation.mistakes.empty()) {
    entries.emplace_back("settings_errors.txt",
                         fmt::format("{}\n", fmt::join(invocation.mistakes, "\n")));
  }
  std::string findings;
  for (const Finding& found : examine(invocation)) findings += finding_json(found) + '\n';
  entries.emplace_back("doctor.jsonl", std::move(findings));
  add_system(entries);
  add_store(invocation.options, entries);
  add_server(invocation, entries);
  MS_TRY(write_bundle(file, top, entries));
  if (invocation.json) {
    std::string line;
    JsonWriter w(line);
    w.begin_object().key("file").string(file).key("entries");
    w.number(static_cast<std::int64_t>(entries.size())).end_object();
    print_line(io, line);
  } else {
    print_line(io,
               fmt::format("{}: {} entries. Review it before you send it.", file, entries.size()));
  }
  return kExitOk;
}

}  // namespace mainspring::cli
