// Jobs and hooks in the format of Azure WebJobs.
#include "http/webjobs_shapes.h"

#include <fmt/format.h>

namespace mainspring::http {
namespace {

void text_or_null(JsonWriter& w, std::string_view key, std::string_view text) {
  w.key(key);
  if (text.empty()) {
    w.null();
  } else {
    w.string(text);
  }
}

}  // namespace

Reply webjobs_message(int status, std::string_view message) {
  Reply reply{.status = status};
  JsonWriter w(reply.body);
  w.begin_object().key("Message").string(message).end_object();
  if (status == 503) reply.retry_after_s = 1;
  return reply;
}

Reply webjobs_error(const Error& error) {
  return webjobs_message(info(error.code).http_status, error.message);
}

void write_webjob(JsonWriter& w, const JobView& job, const std::string& base_url, WallTime now) {
  const JobFolder& folder = job.folder;
  const std::string_view type = to_string(folder.type);
  const std::string& name = folder.name;
  const std::string url = fmt::format("{}/api/{}webjobs/{}", base_url, type, name);
  w.begin_object().key("name").string(name).key("run_command").string(folder.run_command());
  w.key("url").string(url);
  w.key("extra_info_url").string(fmt::format("{}/v1/host/jobs/{}/{}", base_url, type, name));
  w.key("type").string(type);
  text_or_null(w, "error", job.error);
  w.key("using_sdk").boolean(false);
  const bool good = !job.masked && check_json("settings", folder.settings_json).has_value();
  w.key("settings").raw(good ? std::string_view(folder.settings_json) : "{}");
  if (folder.type == JobType::triggered) {
    w.key("latest_run");
    if (job.latest_run) {
      w.raw(run_json(*job.latest_run, name, base_url, now));
    } else {
      w.null();
    }
    w.key("history_url").string(url + "/history");
    w.key("scheduler_logs_url");
    w.string(fmt::format("{}/vfs/data/jobs/triggered/{}/job_scheduler.log", base_url, name));
  } else {
    w.key("status").string(to_string(job.status));
    w.key("detailed_status").string(job.detailed_status).key("log_url");
    w.string(fmt::format("{}/vfs/data/jobs/continuous/{}/job_log.txt", base_url, name));
  }
  w.end_object();
}

void write_hook(JsonWriter& w, const HookView& hook) {
  w.begin_object().key("id").string(hook.id).key("url").string(hook.url);
  w.key("event").string(hook.event).key("insecure_ssl").boolean(hook.insecure_ssl);
  text_or_null(w, "last_status", hook.last_status);
  text_or_null(w, "last_reason", hook.last_reason);
  text_or_null(w, "last_datetime", hook.last_datetime);
  text_or_null(w, "last_context", hook.last_context);
  w.end_object();
}

std::string encode_data_directory(std::string_view path, const std::vector<DataEntry>& entries,
                                  const std::string& base_url) {
  std::string out;
  JsonWriter w(out);
  w.begin_array();
  for (const DataEntry& entry : entries) {
    const bool text = entry.name.ends_with(".txt") || entry.name.ends_with(".log");
    std::string href = fmt::format("{}/vfs/data/", base_url);
    for (const char c : std::string(path) + entry.name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         std::string_view("0123456789-._~/").find(c) != std::string_view::npos;
      href += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    if (entry.directory) href += '/';
    w.begin_object().key("name").string(entry.name);
    w.key("size").number(static_cast<std::int64_t>(entry.bytes));
    w.key("mtime").time(entry.changed_at);
    w.key("mime").string(entry.directory ? "inode/directory"
                         : text          ? "text/plain"
                                         : "application/octet-stream");
    w.key("href").string(href).end_object();
  }
  w.end_array();
  return out;
}

std::string webjobs_swagger(const std::vector<JobView>& triggered, std::string_view host) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("swagger").string("2.0");
  w.key("info").begin_object().key("version").string("v1").key("title").string("WebJobs");
  w.end_object().key("host").string(host);
  w.key("schemes").begin_array().string("http").end_array().key("paths").begin_object();
  for (const JobView& job : triggered) {
    const std::string& name = job.folder.name;
    w.key(fmt::format("/api/triggeredwebjobs/{}/run", name)).begin_object();
    w.key("post").begin_object().key("deprecated").boolean(false).key("operationId").string(name);
    w.key("consumes").begin_array().end_array().key("produces").begin_array().end_array();
    w.key("responses");
    w.raw(R"({"200":{"description":"Success"},"default":{"description":"Success"}})");
    w.key("parameters");
    w.raw(R"([{"name":"arguments","in":"query","description":"Web Job Arguments",)"
          R"("required":false,"type":"string"}])");
    w.end_object().end_object();
  }
  w.end_object().end_object();
  return out;
}

}  // namespace mainspring::http
