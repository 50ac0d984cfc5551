// JSON of job folders, runs and logs.
#include "http/host_shapes.h"

namespace mainspring::http {
namespace {

void write_texts(JsonWriter& w, std::string_view key, const std::vector<std::string>& texts) {
  w.key(key).begin_array();
  for (const std::string& text : texts) w.string(text);
  w.end_array();
}

void write_state(JsonWriter& w, const JobView& job) {
  switch (job.folder.type) {
    case JobType::continuous:
      w.key("status").string(to_string(job.status));
      if (!job.detailed_status.empty()) w.key("detailed_status").string(job.detailed_status);
      if (job.port != 0) w.key("port").number(job.port);
      break;
    case JobType::triggered:
      if (job.latest_run) {
        w.key("latest_run");
        write_host_run(w, *job.latest_run);
      }
      break;
    case JobType::queue:
      w.key("children").number(job.children);
      break;
  }
}

}  // namespace

void write_layers(JsonWriter& w, const HostView& host) {
  w.begin_array();
  for (const LayerView& layer : host.layers) {
    w.begin_object().key("name").string(layer.name).key("active").boolean(layer.active);
    w.key("detail").string(layer.detail).end_object();
  }
  w.end_array();
}

void write_host(JsonWriter& w, const HostView& host) {
  w.begin_object().key("instance").string(host.instance).key("directory").string(host.directory);
  w.key("stopped").boolean(host.stopped).key("strict").boolean(host.strict);
  w.key("continuous").number(host.continuous).key("triggered").number(host.triggered);
  w.key("queues").number(host.queues).key("running").number(host.running);
  w.key("missing").number(host.missing).key("layers");
  write_layers(w, host);
  write_texts(w, "problems", host.problems);
  w.end_object();
}

void write_host_run(JsonWriter& w, const RunRecord& run) {
  w.begin_object().key("id").string(run.id).key("status").string(to_string(run.status));
  w.key("trigger").string(run.trigger).key("started").time(run.started);
  if (run.ended) w.key("ended").time(*run.ended);
  if (run.job != 0) w.key("job").number(run.job);
  if (run.exit_code) w.key("exit_code").number(*run.exit_code);
  if (run.peak_memory) w.key("peak_memory").number(*run.peak_memory);
  w.end_object();
}

void write_host_job(JsonWriter& w, const JobView& job) {
  const JobFolder& folder = job.folder;
  w.begin_object().key("type").string(to_string(folder.type)).key("name").string(folder.name);
  w.key("directory").string(folder.directory).key("run_file").string(folder.run_file);
  w.key("host").string(folder.host.name).key("pool").string(job.pool);
  w.key("disabled").boolean(folder.disabled).key("frozen").boolean(job.frozen);
  if (job.missing) {
    w.key("missing").begin_object().key("seen").time(job.missing->seen);
    w.key("kept_until").time(job.missing->kept_until).end_object();
  }
  if (!job.error.empty()) w.key("error").string(job.error);
  write_state(w, job);
  if (job.job != 0) w.key("job").number(job.job);
  const bool good = check_json("settings", folder.settings_json).has_value();
  if (job.masked) {
    w.key("settings").null().key("masked").boolean(true);
  } else {
    w.key("settings").raw(good ? std::string_view(folder.settings_json) : "{}");
  }
  if (!folder.warnings.empty()) write_texts(w, "warnings", folder.warnings);
  w.end_object();
}

void write_host_log(JsonWriter& w, const LogText& log, bool ended, std::string_view run) {
  w.begin_object().key("text").string(log.text).key("next").number(log.next);
  w.key("skipped").number(log.skipped).key("at_end").boolean(log.at_end);
  w.key("ended").boolean(ended);
  if (!run.empty()) w.key("run").string(run);
  w.end_object();
}

}  // namespace mainspring::http
