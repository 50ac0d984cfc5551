// Parses answers of /v1/host; zips directories for uploads.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "api/fields.h"
#include "cli/host.h"

namespace mainspring::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJobs = 100'000;
constexpr std::size_t kMaxWarnings = 1'000;

constexpr JsonField<HostJob> kJobFields[] = {
    {"type", &as_string<&HostJob::type>},
    {"name", &as_string<&HostJob::name>},
    {"directory", &as_string<&HostJob::directory>},
    {"run_file", &as_string<&HostJob::run_file>},
    {"host", &as_string<&HostJob::host>},
    {"pool", &as_string<&HostJob::pool>},
    {"disabled", &as_boolean<&HostJob::disabled>},
    {"frozen", &as_boolean<&HostJob::frozen>},
    {"error", &as_string<&HostJob::error>},
    {"missing",
     [](JsonReader& in, HostJob& job) {
       job.missing = true;
       return in.skip();
     }},
    {"status", &as_string<&HostJob::status>},
    {"port", &as_count<&HostJob::port>},
    {"children", &as_count<&HostJob::children>},
    {"job", &as_count<&HostJob::job>},
    {"latest_run", &as_raw<&HostJob::latest_run>},
    {"settings", &as_raw<&HostJob::settings>},
    {"warnings",
     [](JsonReader& in, HostJob& job) {
       return in.array(kMaxWarnings,
                       [&](std::size_t) { return in.string(job.warnings.emplace_back()); });
     }},
};

constexpr JsonField<HostRun> kRunFields[] = {
    {"id", &as_string<&HostRun::id>},
    {"status", &as_string<&HostRun::status>},
    {"trigger", &as_string<&HostRun::trigger>},
    {"started", &as_string<&HostRun::started>},
    {"ended", &as_string<&HostRun::ended>},
    {"job", &as_count<&HostRun::job>},
    {"exit_code",
     [](JsonReader& in, HostRun& run) { return in.integer(run.exit_code.emplace(), 0, 255); }},
    {"peak_memory",
     [](JsonReader& in, HostRun& run) {
       return in.integer(run.peak_memory.emplace(), std::int64_t{0}, INT64_MAX);
     }},
};

// The elements of the array that is member `name` of an object.
Result<std::vector<std::string>> elements(std::string_view json, std::string_view name) {
  std::vector<std::string> out;
  JsonReader in(json, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view member) {
    if (member != name) return in.skip();
    return in.array(kMaxJobs, [&](std::size_t) { return in.raw(out.emplace_back()); });
  });
  if (!good || !in.end()) return in.error();
  return out;
}

template <class T>
Result<std::vector<T>> decode_all(std::string_view json, std::string_view name,
                                  Result<T> (*decode)(std::string)) {
  MS_TRY_ASSIGN(std::vector<std::string> texts, elements(json, name));
  std::vector<T> out;
  for (std::string& text : texts) {
    MS_TRY_ASSIGN(T one, decode(std::move(text)));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Result<HostJob> decode_host_job(std::string json) {
  HostJob job;
  JsonReader in(json, JsonReader::Unknown::skip);
  if (!in.object(kJobFields, job) || !in.end()) return in.error();
  job.json = std::move(json);
  return job;
}

Result<HostRun> decode_host_run(std::string json) {
  HostRun run;
  JsonReader in(json, JsonReader::Unknown::skip);
  if (!in.object(kRunFields, run) || !in.end()) return in.error();
  run.json = std::move(json);
  return run;
}

Result<std::vector<HostJob>> decode_host_jobs(std::string_view json) {
  return decode_all<HostJob>(json, "jobs", &decode_host_job);
}

Result<std::vector<HostRun>> decode_host_runs(std::string_view json) {
  return decode_all<HostRun>(json, "runs", &decode_host_run);
}

std::string host_job_path(const HostJob& job) {
  return fmt::format("/v1/host/jobs/{}/{}", job.type, job.name);
}

Result<HostJob> find_host_job(Connection& connection, const std::string& name,
                              std::string_view type) {
  MS_TRY_ASSIGN(const std::string body, connection.client->request("GET", "/v1/host/jobs", ""));
  MS_TRY_ASSIGN(std::vector<HostJob> jobs, decode_host_jobs(body));
  std::vector<HostJob> found;
  for (HostJob& job : jobs) {
    if (!type.empty() && job.type != type) continue;
    if (job.name == name || fmt::format("{}/{}", job.type, job.name) == name) {
      found.push_back(std::move(job));
    }
  }
  if (found.empty()) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format(
                     "{}job \"{}\": does not exist; `mainspring jobs-host list` lists job folders",
                     type.empty() ? "" : fmt::format("{} ", type), name)};
  }
  if (found.size() > 1) {
    std::string all;
    for (const HostJob& job : found) all += fmt::format(" {}/{}", job.type, job.name);
    return invalid("NAME",
                   fmt::format("NAME \"{}\": exists more than once; give one of{}", name, all));
  }
  return std::move(found.front());
}

namespace {

using Writer = std::unique_ptr<archive, decltype(&archive_write_free)>;

Result<void> add_file(archive* zip, const fs::path& file, const std::string& name) {
  std::ifstream in(file, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(in), {});
  if (!in.good() && !in.eof()) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("file \"{}\": cannot be read", file.string())};
  }
  std::error_code ignored;
  const bool runs =
      (fs::status(file, ignored).permissions() & fs::perms::owner_exec) != fs::perms::none;
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                            archive_entry_free);
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), runs ? 0755 : 0644);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  const bool good = archive_write_header(zip, entry.get()) == ARCHIVE_OK &&
                    archive_write_data(zip, content.data(), content.size()) ==
                        static_cast<la_ssize_t>(content.size());
  if (good) return {};
  return Error{
      .code = ErrorCode::io_error,
      .message = fmt::format("zip of \"{}\": {}", file.string(), archive_error_string(zip))};
}

la_ssize_t append_to(archive*, void* out, const void* bytes, std::size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

}  // namespace

Result<std::string> zip_directory(const std::string& directory, std::size_t limit) {
  std::vector<fs::path> files;
  std::uintmax_t bytes = 0;
  std::error_code problem;
  for (fs::recursive_directory_iterator it(directory, problem), end; !problem && it != end;
       it.increment(problem)) {
    if (!it->is_regular_file(problem)) continue;
    files.push_back(it->path());
    bytes += it->file_size(problem);
  }
  if (problem) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("directory \"{}\": {}", directory, problem.message())};
  }
  if (bytes > limit) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("directory \"{}\" has {} bytes: must be at most {}",
                                        directory, bytes, limit)};
  }
  if (files.empty()) {
    return invalid("SOURCE", fmt::format("directory \"{}\": has no files to deploy", directory));
  }
  std::sort(files.begin(), files.end());
  std::string out;
  const Writer zip(archive_write_new(), archive_write_free);
  archive_write_set_format_zip(zip.get());
  archive_write_set_bytes_in_last_block(zip.get(), 1);  // no padding after the end
  archive_write_open(zip.get(), &out, nullptr, append_to, nullptr);
  for (const fs::path& file : files) {
    MS_TRY(add_file(zip.get(), file, file.lexically_relative(directory).generic_string()));
  }
  if (archive_write_close(zip.get()) != ARCHIVE_OK) {
    return Error{.code = ErrorCode::io_error, .message = archive_error_string(zip.get())};
  }
  return out;
}

}  // namespace mainspring::cli
