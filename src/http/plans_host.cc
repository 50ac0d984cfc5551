// The plans of /v1/host: job folders, their runs and settings.
#include <fmt/format.h>

#include <algorithm>

#include "api/fields.h"
#include "http/host_plans.h"
#include "http/host_shapes.h"
#include "http/parser.h"

namespace mainspring::http {
namespace {

// The job that a path names.
struct Named {
  JobType type = JobType::triggered;
  std::string name;
};
Result<Named> named(const Request& request) {
  const auto type = parse_job_type(request.param);
  if (!type) {
    return invalid("type", fmt::format("type \"{}\": must be continuous, triggered or queue",
                                       cut_text(request.param, 64)));
  }
  MS_TRY(check_job_name(request.more_params.front()));
  return Named{*type, request.more_params.front()};
}

Result<Named> named_triggered(const Request& request) {
  MS_TRY_ASSIGN(Named job, named(request));
  if (job.type != JobType::triggered) {
    return invalid("type",
                   fmt::format("type \"{}\": only triggered jobs have runs", to_string(job.type)));
  }
  return job;
}

// A plan that reads or changes the host, on a thread that may wait for files.
template <class F>
Plan on_host(Services& services, F work) {
  return DoRead{[&host = *services.host, work = std::move(work)]() -> Reply {
                  Result<Reply> reply = work(host);
                  return reply ? std::move(*reply) : error_reply(reply.error());
                },
                Pool::host};
}

Reply job_reply(const JobView& job) {
  Reply reply;
  JsonWriter w(reply.body);
  write_host_job(w, job);
  return reply;
}

Result<std::string> arguments_of(std::string_view body) {
  struct Run {
    std::string arguments;
  };
  static constexpr JsonField<Run> kFields[] = {
      {"arguments", &as_optional_string<&Run::arguments>},
  };
  Run run;
  if (body.empty()) return run.arguments;
  JsonReader in(body, JsonReader::Unknown::refuse);
  if (!in.object(kFields, run) || !in.end()) return in.error();
  if (run.arguments.size() > kMaxArgumentsBytes) {
    return invalid("arguments", fmt::format("arguments: {} bytes, must be at most {}",
                                            run.arguments.size(), kMaxArgumentsBytes));
  }
  return std::move(run.arguments);
}

}  // namespace

Reply no_host() {
  return error_reply(
      {ErrorCode::not_found, "this server runs no job folders: start it with `serve --jobs DIR`"});
}

Result<void> check_job_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 80;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool good = !name.empty() && name.size() <= kMaxBytes && plain(name.front()) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return {};
  return invalid("name", fmt::format("name \"{}\": must be 1 to {} letters, digits, '.', '_', "
                                     "'-', beginning with a letter or digit",
                                     cut_text(name, 128), kMaxBytes));
}

Result<void> check_run_id(std::string_view id) {
  constexpr std::size_t kMaxDigits = 32;
  const bool digits = !id.empty() && id.size() <= kMaxDigits &&
                      id.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits) return {};
  return Error{ErrorCode::not_found, fmt::format("there is no run \"{}\"", cut_text(id, 64))};
}

std::string disposition_file_name(std::string_view value) {
  std::string plain, extended;
  while (!value.empty()) {
    // A ';' in quotes is part of a name.
    std::size_t end = 0;
    for (bool quoted = false; end < value.size() && (quoted || value[end] != ';'); ++end) {
      if (value[end] == '"') quoted = !quoted;
    }
    std::string_view part = value.substr(0, end);
    value.remove_prefix(std::min(value.size(), end + 1));
    while (part.starts_with(' ') || part.starts_with('\t')) part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\t')) part.remove_suffix(1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = part.substr(0, equals);
    std::string_view text = part.substr(equals + 1);
    if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"')) {
      text = text.substr(1, text.size() - 2);
    }
    if (iequals(key, "filename")) plain = text;
    constexpr std::string_view kUtf8 = "UTF-8''";
    if (iequals(key, "filename*") && iequals(text.substr(0, kUtf8.size()), kUtf8)) {
      extended = percent_decode(text.substr(kUtf8.size()), Plus::plain).value_or("");
    }
  }
  std::string& name = extended.empty() ? plain : extended;
  return name.substr(name.find_last_of("/\\") + 1);  // npos + 1 is 0
}

bool is_zip_type(std::string_view content_type) {
  std::string_view media = content_type.substr(0, content_type.find(';'));
  while (media.ends_with(' ')) media.remove_suffix(1);
  return iequals(media, "application/zip") || iequals(media, "application/x-zip-compressed");
}

std::string external_trigger(const HeaderFields& headers) {
  constexpr std::size_t kMaxBytes = 512;
  return fmt::format("External - {}", cut_text(header_value(headers, "User-Agent"), kMaxBytes));
}

JobView shown_job(JobView job, const Caller& caller) {
  if (!caller.may(Verb::read_payload, folder_scope(job.folder.name))) job.masked = true;
  return job;
}

std::vector<JobView> shown_jobs(std::vector<JobView> jobs, const Caller& caller) {
  std::vector<JobView> out;
  for (JobView& job : jobs) {
    if (!caller.may(Verb::read, folder_scope(job.folder.name))) continue;
    out.push_back(shown_job(std::move(job), caller));
  }
  return out;
}

Plan plan_host(const Request&, Services& services) {
  if (services.host == nullptr) return no_host();
  return on_host(services, [](HostControl& host) -> Result<Reply> {
    Reply reply;
    JsonWriter w(reply.body);
    write_host(w, host.view());
    return reply;
  });
}

Plan plan_host_jobs(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  std::optional<JobType> type;
  if (const std::string* wanted = query_value(request, "type")) {
    type = parse_job_type(*wanted);
    if (!type) {
      return error_reply(invalid("type", fmt::format("type \"{}\": must be continuous, triggered "
                                                     "or queue",
                                                     cut_text(*wanted, 64))));
    }
  }
  return on_host(services, [type, caller = request.caller](HostControl& host) -> Result<Reply> {
    Reply reply;
    JsonWriter w(reply.body);
    w.begin_object().key("jobs").begin_array();
    for (const JobView& job : shown_jobs(host.list(type), *caller)) write_host_job(w, job);
    w.end_array().end_object();
    return reply;
  });
}

Plan plan_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  return on_host(services,
                 [job = *job, caller = request.caller](HostControl& host) -> Result<Reply> {
                   MS_TRY_ASSIGN(const JobView view, host.find(job.type, job.name));
                   return job_reply(shown_job(view, *caller));
                 });
}

Plan plan_deploy_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  const bool zip = is_zip_type(header_value(request.headers, "Content-Type"));
  std::string file = disposition_file_name(header_value(request.headers, "Content-Disposition"));
  if (!zip && file.empty()) {
    return error_reply(
        invalid("Content-Disposition",
                "Content-Disposition: must be given as attachment; filename=NAME, unless the body "
                "is a zip (Content-Type: application/zip)"));
  }
  return change_host(request, services, folder_object(job->type, job->name), &error_reply,
                     [job = *job, zip, file = std::move(file), upload = request.upload,
                      caller = request.caller](HostControl& host, Audit& audit) -> Result<Reply> {
                       MS_TRY_ASSIGN(
                           const JobView view,
                           zip ? host.deploy_zip(job.type, job.name, upload->bytes)
                               : host.deploy_file(job.type, job.name, file, upload->bytes));
                       audit.after = content_image(upload->bytes);
                       return job_reply(shown_job(view, *caller));
                     });
}

Plan plan_remove_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  return change_host(
      request, services, folder_object(job->type, job->name), &error_reply,
      [job = *job](HostControl& host, Audit& audit) -> Result<Reply> {
        if (host.find(job.type, job.name)) audit.before = R"({"present":true})";
        MS_TRY(host.remove(job.type, job.name));
        Reply reply;
        JsonWriter w(reply.body);
        w.begin_object().key("type").string(to_string(job.type)).key("name").string(job.name);
        w.key("removed").boolean(true).end_object();
        return reply;
      });
}

Plan plan_host_settings(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  return on_host(services, [job = *job](HostControl& host) -> Result<Reply> {
    MS_TRY_ASSIGN(std::string text, host.settings(job.type, job.name));
    if (auto good = check_json("settings", text); !good) {
      return Error{ErrorCode::conflict,
                   fmt::format("settings.job is not JSON: {}", good.error().message)};
    }
    return Reply{.body = std::move(text)};
  });
}

Plan plan_put_host_settings(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  return change_host(request, services, folder_object(job->type, job->name), &error_reply,
                     [job = *job, json = std::string(request.body)](HostControl& host,
                                                                    Audit& audit) -> Result<Reply> {
                       if (auto old = host.settings(job.type, job.name))
                         audit.before = content_image(*old);
                       MS_TRY(host.put_settings(job.type, job.name, json));
                       audit.after = content_image(json);
                       return Reply{.body = json};
                     });
}

Plan plan_run_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named_triggered(request);
  if (!job) return error_reply(job.error());
  auto arguments = arguments_of(request.body);
  if (!arguments) return error_reply(arguments.error());
  return change_host(request, services, folder_object(JobType::triggered, job->name), &error_reply,
                     [name = job->name, arguments = std::move(*arguments),
                      trigger = external_trigger(request.headers)](HostControl& host,
                                                                   Audit& audit) -> Result<Reply> {
                       MS_TRY_ASSIGN(const std::string run, host.run(name, arguments, trigger));
                       audit.after = fmt::format(R"({{"run":"{}"}})", run);
                       Reply reply{.status = 202};
                       JsonWriter w(reply.body);
                       w.begin_object().key("run").string(run);
                       const auto record = host.run_of(name, run);
                       if (record && record->job != 0) w.key("job").number(record->job);
                       w.end_object();
                       add_header(reply, "Location",
                                  fmt::format("/v1/host/jobs/triggered/{}/history/{}", name, run));
                       return reply;
                     });
}

namespace {

Error queues_are_paused(const std::string& name) {
  return invalid("type", fmt::format("type \"queue\": a queue folder is stopped by pausing its "
                                     "queue, POST /v1/queues/{}/pause",
                                     name));
}

}  // namespace

Plan plan_stop_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  if (job->type == JobType::queue) return error_reply(queues_are_paused(job->name));
  return change_host(
      request, services, folder_object(job->type, job->name), &error_reply,
      [job = *job, caller = request.caller](HostControl& host, Audit& audit) -> Result<Reply> {
        MS_TRY(job.type == JobType::triggered ? host.cancel_run(job.name)
                                              : host.stop_job(job.name));
        audit.after = R"({"stopped":true})";
        MS_TRY_ASSIGN(const JobView view, host.find(job.type, job.name));
        return job_reply(shown_job(view, *caller));
      });
}

Plan plan_start_host_job(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named(request);
  if (!job) return error_reply(job.error());
  if (job->type == JobType::queue) return error_reply(queues_are_paused(job->name));
  if (job->type == JobType::triggered) {
    return error_reply(invalid("type", "type \"triggered\": is started by …/run"));
  }
  return change_host(
      request, services, folder_object(job->type, job->name), &error_reply,
      [job = *job, caller = request.caller](HostControl& host, Audit& audit) -> Result<Reply> {
        MS_TRY(host.start_job(job.name));
        audit.after = R"({"stopped":false})";
        MS_TRY_ASSIGN(const JobView view, host.find(job.type, job.name));
        return job_reply(shown_job(view, *caller));
      });
}

Plan plan_host_history(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named_triggered(request);
  if (!job) return error_reply(job.error());
  return on_host(services, [name = job->name](HostControl& host) -> Result<Reply> {
    MS_TRY_ASSIGN(const std::vector<RunRecord> runs, host.history(name));
    Reply reply;
    JsonWriter w(reply.body);
    w.begin_object().key("runs").begin_array();
    for (const RunRecord& run : runs) write_host_run(w, run);
    w.end_array().end_object();
    return reply;
  });
}

Plan plan_host_run(const Request& request, Services& services) {
  if (services.host == nullptr) return no_host();
  auto job = named_triggered(request);
  if (!job) return error_reply(job.error());
  if (auto good = check_run_id(request.more_params.back()); !good) return error_reply(good.error());
  return on_host(
      services,
      [name = job->name, id = request.more_params.back()](HostControl& host) -> Result<Reply> {
        MS_TRY_ASSIGN(const RunRecord run, host.run_of(name, id));
        Reply reply;
        JsonWriter w(reply.body);
        write_host_run(w, run);
        return reply;
      });
}

}  // namespace mainspring::http
