// The plans of the WebJobs API.
#include <fmt/format.h>

#include "api/fields.h"
#include "http/host_plans.h"
#include "http/parser.h"
#include "http/webjobs_routes.h"
#include "http/webjobs_shapes.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kMaxDataFileBytes = 64 << 20;

// Common to the plans of this API: reads or changes the host on a thread that may wait for files;
// errors have the format of this API.
template <class F>
Plan on_webjobs_host(Services& services, F work) {
  return DoRead{[&host = *services.host, work = std::move(work)]() -> Reply {
                  Result<Reply> reply = work(host);
                  return reply ? std::move(*reply) : webjobs_error(reply.error());
                },
                Pool::host};
}

Reply empty(int status) {
  return Reply{.status = status, .content_type = {}};
}

// The URL of this server as the client called it; the header has been checked.
std::string base_url(const Request& request) {
  const std::string_view host = header_value(request.headers, "Host");
  return fmt::format("http://{}", host.empty() ? "localhost" : host);
}

// An invalid job name is answered like an unknown job.
Result<void> check_name_of(const Request& request) {
  if (auto good = check_job_name(request.param); !good) {
    return Error{ErrorCode::not_found, good.error().message};
  }
  return {};
}

// -- ETags: of the host's version and of this start of the server, as versions restart with it

std::string etag_of(const Services& services, std::uint64_t version) {
  return fmt::format("\"{:x}-{:x}\"", services.host_epoch, version);
}

bool is_etag_listed(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

// A list with its ETag, or 304 if the client has it. `write` writes the body.
template <class F>
Plan with_etag(const Request& request, Services& services, F write) {
  const std::string known(header_value(request.headers, "If-None-Match"));
  return on_webjobs_host(
      services, [&services, known, write = std::move(write)](HostControl& host) -> Result<Reply> {
        // Read before the list: if the host changes between the two, the list is newer than its
        // ETag.
        const std::string etag = etag_of(services, host.version());
        Reply reply;
        if (!known.empty() && is_etag_listed(known, etag)) {
          reply.status = 304;
        } else {
          MS_TRY_ASSIGN(reply.body, write(host));
        }
        add_header(reply, "ETag", etag);
        return reply;
      });
}

// In Azure, a job without a folder does not exist.
std::vector<JobView> present_jobs(std::vector<JobView> jobs, const Caller& caller) {
  std::erase_if(jobs, [](const JobView& job) { return job.missing.has_value(); });
  return shown_jobs(std::move(jobs), caller);
}

Plan list_of(const Request& request, Services& services, std::vector<JobType> types) {
  return with_etag(request, services,
                   [types = std::move(types), base = base_url(request), caller = request.caller,
                    &clock = services.clock](HostControl& host) -> Result<std::string> {
                     std::string body;
                     JsonWriter w(body);
                     w.begin_array();
                     for (const JobType type : types) {
                       for (const JobView& job : present_jobs(host.list(type), *caller)) {
                         write_webjob(w, job, base, clock.now().wall);
                       }
                     }
                     w.end_array();
                     return body;
                   });
}

Reply webjob_reply(const JobView& job, const std::string& base, WallTime now) {
  Reply reply;
  JsonWriter w(reply.body);
  write_webjob(w, job, base, now);
  return reply;
}

}  // namespace

Plan plan_all_webjobs(const Request& request, Services& services) {
  return list_of(request, services, {JobType::triggered, JobType::continuous});
}

template <JobType Type>
Plan plan_webjobs(const Request& request, Services& services) {
  return list_of(request, services, {Type});
}

template <JobType Type>
Plan plan_webjob(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  return on_webjobs_host(services,
                         [name = request.param, base = base_url(request), caller = request.caller,
                          &clock = services.clock](HostControl& host) -> Result<Reply> {
                           MS_TRY_ASSIGN(const JobView job, host.find(Type, name));
                           if (job.missing) return Error{ErrorCode::not_found, job.error};
                           return webjob_reply(shown_job(job, *caller), base, clock.now().wall);
                         });
}

template <JobType Type>
Plan plan_put_webjob(const Request& request, Services& services) {
  if (auto good = check_job_name(request.param); !good) return webjobs_error(good.error());
  std::string file = disposition_file_name(header_value(request.headers, "Content-Disposition"));
  if (file.empty()) return webjobs_message(400, "Missing Content-Disposition header.");
  const bool zip = is_zip_type(header_value(request.headers, "Content-Type"));
  return change_host(request, services, folder_object(Type, request.param), &webjobs_error,
                     [name = request.param, base = base_url(request), zip, file = std::move(file),
                      upload = request.upload, caller = request.caller,
                      &clock = services.clock](HostControl& host, Audit& audit) -> Result<Reply> {
                       MS_TRY_ASSIGN(const JobView job,
                                     zip ? host.deploy_zip(Type, name, upload->bytes)
                                         : host.deploy_file(Type, name, file, upload->bytes));
                       audit.after = content_image(upload->bytes);
                       return webjob_reply(shown_job(job, *caller), base, clock.now().wall);
                     });
}

template <JobType Type>
Plan plan_remove_webjob(const Request& request, Services& services) {
  // No job can have this name, so the job is already absent, as requested.
  if (!check_job_name(request.param)) return empty(200);
  return change_host(request, services, folder_object(Type, request.param), &webjobs_error,
                     [name = request.param](HostControl& host, Audit& audit) -> Result<Reply> {
                       if (host.find(Type, name)) audit.before = R"({"present":true})";
                       MS_TRY(host.remove(Type, name));
                       return empty(200);
                     });
}

// An unknown job and an unreadable file give {}, as in Azure.
template <JobType Type>
Plan plan_webjob_settings(const Request& request, Services& services) {
  if (!check_job_name(request.param)) return Reply{.body = "{}"};
  return on_webjobs_host(services, [name = request.param](HostControl& host) -> Result<Reply> {
    auto text = host.settings(Type, name);
    if (!text || !check_json("settings", *text)) return Reply{.body = "{}"};
    return Reply{.body = std::move(*text)};
  });
}

template <JobType Type>
Plan plan_put_webjob_settings(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  return change_host(request, services, folder_object(Type, request.param), &webjobs_error,
                     [name = request.param, upload = request.upload](
                         HostControl& host, Audit& audit) -> Result<Reply> {
                       MS_TRY(check_json("settings", upload->bytes));
                       if (auto old = host.settings(Type, name)) audit.before = content_image(*old);
                       MS_TRY(host.put_settings(Type, name, upload->bytes));
                       audit.after = content_image(upload->bytes);
                       return empty(200);
                     });
}

Plan plan_run_webjob(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  const std::string* given = query_value(request, "arguments");
  std::string arguments = given == nullptr ? std::string() : *given;  // bounded like heads
  return change_host(
      request, services, folder_object(JobType::triggered, request.param), &webjobs_error,
      [name = request.param, base = base_url(request), arguments = std::move(arguments),
       trigger = external_trigger(request.headers)](HostControl& host,
                                                    Audit& audit) -> Result<Reply> {
        MS_TRY_ASSIGN(const std::string run, host.run(name, arguments, trigger));
        audit.after = fmt::format(R"({{"run":"{}"}})", run);
        Reply reply = empty(202);
        add_header(reply, "Location",
                   fmt::format("{}/api/triggeredwebjobs/{}/history/{}", base, name, run));
        return reply;
      });
}

Plan plan_webjob_history(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  return with_etag(request, services,
                   [name = request.param, base = base_url(request),
                    &clock = services.clock](HostControl& host) -> Result<std::string> {
                     MS_TRY_ASSIGN(const std::vector<RunRecord> runs, host.history(name));
                     std::string body;
                     JsonWriter w(body);
                     w.begin_object().key("runs").begin_array();
                     const WallTime now = clock.now().wall;
                     for (const RunRecord& run : runs) w.raw(run_json(run, name, base, now));
                     w.end_array().end_object();
                     return body;
                   });
}

Plan plan_webjob_run(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  if (auto good = check_run_id(request.more_params[0]); !good) return webjobs_error(good.error());
  return on_webjobs_host(
      services,
      [name = request.param, id = request.more_params[0], base = base_url(request),
       &clock = services.clock](HostControl& host) -> Result<Reply> {
        MS_TRY_ASSIGN(const RunRecord run, host.run_of(name, id));
        return Reply{.body = run_json(run, name, base, clock.now().wall)};
      });
}

Plan plan_webjobs_swagger(const Request& request, Services& services) {
  return on_webjobs_host(
      services,
      [host_name = std::string(header_value(request.headers, "Host")),
       caller = request.caller](HostControl& host) -> Result<Reply> {
        return Reply{.body = webjobs_swagger(present_jobs(host.list(JobType::triggered), *caller),
                                             host_name)};
      });
}

namespace {

// This API reports a file that could not be written or removed as a conflict.
Reply switch_reply(const Result<void>& result) {
  if (result) return empty(200);
  if (result.error().code == ErrorCode::io_error) {
    return webjobs_message(409, result.error().message);
  }
  return webjobs_error(result.error());
}

}  // namespace

Plan plan_stop_webjob(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  return change_host(request, services, folder_object(JobType::continuous, request.param),
                     &webjobs_error,
                     [name = request.param](HostControl& host, Audit& audit) -> Result<Reply> {
                       audit.after = R"({"stopped":true})";
                       return switch_reply(host.stop_job(name));
                     });
}

Plan plan_start_webjob(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  return change_host(request, services, folder_object(JobType::continuous, request.param),
                     &webjobs_error,
                     [name = request.param](HostControl& host, Audit& audit) -> Result<Reply> {
                       audit.after = R"({"stopped":false})";
                       return switch_reply(host.start_job(name));
                     });
}

Plan plan_passthrough(const Request& request, Services& services) {
  if (auto good = check_name_of(request); !good) return webjobs_error(good.error());
  DoProxy proxy;
  proxy.port = [&host = *services.host, name = request.param] { return host.port(name); };
  proxy.method = request.method;
  const std::string_view path =
      request.more_params.empty() ? std::string_view() : request.more_params[0];
  proxy.target =
      fmt::format("/{}{}{}", path, request.raw_query.empty() ? "" : "?", request.raw_query);
  proxy.headers = request.headers;
  proxy.body = request.upload;
  proxy.refusal = &webjobs_message;
  return proxy;
}

// -- hooks

Plan plan_add_hook(const Request& request, Services& services) {
  struct NewHook {
    std::string url, event;
    bool insecure_ssl = false;
  };
  static constexpr JsonField<NewHook> kFields[] = {
      {"url", &as_string<&NewHook::url>},
      {"event", &as_string<&NewHook::event>},
      {"insecure_ssl", &as_boolean<&NewHook::insecure_ssl>},
  };
  NewHook hook;
  JsonReader in(request.upload->bytes, JsonReader::Unknown::skip);
  if (!in.object(kFields, hook) || !in.end()) return webjobs_error(in.error());
  return change_host(
      request, services, "hook", &webjobs_error,
      [hook = std::move(hook)](HostControl& host, Audit& audit) -> Result<Reply> {
        MS_TRY_ASSIGN(const auto added, host.add_hook(hook.url, hook.event, hook.insecure_ssl));
        audit.object += "/" + added.first.id;
        JsonWriter(audit.after).begin_object().key("event").string(hook.event).end_object();
        Reply reply{.status = 201};
        JsonWriter w(reply.body);
        write_hook(w, added.first);
        return reply;
      });
}

Plan plan_hooks(const Request&, Services& services) {
  return on_webjobs_host(services, [](HostControl& host) -> Result<Reply> {
    Reply reply;
    JsonWriter w(reply.body);
    w.begin_array();
    for (const HookView& hook : host.hooks()) write_hook(w, hook);
    w.end_array();
    return reply;
  });
}

Plan plan_webjobs_hook(const Request& request, Services& services) {
  return on_webjobs_host(services, [id = request.param](HostControl& host) -> Result<Reply> {
    for (const HookView& hook : host.hooks()) {
      if (hook.id != id) continue;
      Reply reply;
      JsonWriter w(reply.body);
      write_hook(w, hook);
      return reply;
    }
    return Error{ErrorCode::not_found, fmt::format("There is no hook \"{}\".", cut_text(id, 64))};
  });
}

Plan plan_remove_hook(const Request& request, Services& services) {
  return change_host(request, services, "hook/" + request.param, &webjobs_error,
                     [id = request.param](HostControl& host, Audit& audit) -> Result<Reply> {
                       auto removed = host.remove_hook(id);
                       if (!removed && removed.error().code != ErrorCode::not_found)
                         return removed.error();
                       if (removed) audit.before = R"({"present":true})";
                       return empty(200);
                     });
}

Plan plan_publish_hook(const Request& request, Services& services) {
  const std::string& body = request.upload->bytes;
  if (auto good = check_json("body", body); !good) return webjobs_error(good.error());
  return change_host(
      request, services, "hook", &webjobs_error,
      [event = request.param, upload = request.upload](HostControl& host,
                                                       Audit& audit) -> Result<Reply> {
        host.publish(event, upload->bytes);
        JsonWriter(audit.after).begin_object().key("event").string(event).end_object();
        return empty(200);
      });
}

// -- files

namespace {

// The job that owns the file: of jobs/TYPE/NAME/…. "" = none.
std::string_view job_of_file(std::string_view path) {
  for (const std::string_view prefix : {"jobs/triggered/", "jobs/continuous/", "jobs/queue/"}) {
    if (!path.starts_with(prefix)) continue;
    const std::string_view rest = path.substr(prefix.size());
    const std::size_t slash = rest.find('/');
    if (slash != std::string_view::npos) return rest.substr(0, slash);
  }
  return {};
}

}  // namespace

Plan plan_data_file(const Request& request, Services& services) {
  auto path = percent_decode(request.param, Plus::plain);
  if (!path) return webjobs_message(404, "There is no such file.");
  const std::string_view job = job_of_file(*path);
  // The host finds files by their names on disk: a path that it would read differently than
  // job_of_file() belongs to no job.
  const bool plain = check_job_name(job) && path->find("//") == std::string::npos &&
                     path->find("..") == std::string::npos;
  auto may = plain ? check_may(*request.caller, Verb::read_payload, folder_scope(job))
                   : check_may_all(*request.caller, Verb::read_payload);
  if (!may) return webjobs_error(may.error());
  return on_webjobs_host(
      services,
      [path = std::move(*path), base = base_url(request)](HostControl& host) -> Result<Reply> {
        if (path.ends_with('/')) {
          MS_TRY_ASSIGN(const std::vector<DataEntry> entries, host.data_directory(path));
          return Reply{.body = encode_data_directory(path, entries, base)};
        }
        MS_TRY_ASSIGN(std::string content, host.data_file(path, kMaxDataFileBytes));
        // Never a type that a browser would run: a job wrote the content of the file.
        const bool text = path.ends_with(".txt") || path.ends_with(".log");
        return Reply{
            .body = std::move(content),
            .content_type = text ? "text/plain; charset=utf-8" : "application/octet-stream"};
      });
}

template Plan plan_webjobs<JobType::triggered>(const Request&, Services&);
template Plan plan_webjobs<JobType::continuous>(const Request&, Services&);
template Plan plan_webjob<JobType::triggered>(const Request&, Services&);
template Plan plan_webjob<JobType::continuous>(const Request&, Services&);
template Plan plan_put_webjob<JobType::triggered>(const Request&, Services&);
template Plan plan_put_webjob<JobType::continuous>(const Request&, Services&);
template Plan plan_remove_webjob<JobType::triggered>(const Request&, Services&);
template Plan plan_remove_webjob<JobType::continuous>(const Request&, Services&);
template Plan plan_webjob_settings<JobType::triggered>(const Request&, Services&);
template Plan plan_webjob_settings<JobType::continuous>(const Request&, Services&);
template Plan plan_put_webjob_settings<JobType::triggered>(const Request&, Services&);
template Plan plan_put_webjob_settings<JobType::continuous>(const Request&, Services&);

}  // namespace mainspring::http
