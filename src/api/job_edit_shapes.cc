// Edits and clones of jobs, to and from JSON.
#include "api/job_edit_shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/fields.h"
#include "model/callback.h"

namespace mainspring {
namespace {

constexpr std::string_view kClonedFrom = "cloned_from";

template <class T>
bool read_edited_args(JsonReader& in, T& to) {
  return in.raw(to.args.emplace());  // null is JSON too
}
template <class T>
bool read_edited_priority(JsonReader& in, T& to) {
  return in.null() || in.integer(to.priority.emplace(), 0, kLowestPriority);
}
template <class T>
bool read_edited_run_at(JsonReader& in, T& to) {
  return in.null() || in.wall_time(to.run_at.emplace());
}

constexpr JsonField<EditJob> kEdit[] = {
    {"args", &read_edited_args<EditJob>},
    {"priority", &read_edited_priority<EditJob>},
    {"run_at", &read_edited_run_at<EditJob>},
    {"tags",
     [](JsonReader& in, EditJob& edit) {
       return in.null() || read_strings(in, edit.tags.emplace(), kMaxTags);
     }},
    {"version", &as_count<&EditJob::version>},
};
constexpr JsonField<CloneJob> kClone[] = {
    {"args", &read_edited_args<CloneJob>},
    {"queue",
     [](JsonReader& in, CloneJob& clone) { return in.null() || in.string(clone.queue.emplace()); }},
    {"priority", &read_edited_priority<CloneJob>},
    {"run_at", &read_edited_run_at<CloneJob>},
};

// The headers of a job, with cloned_from.
std::string clone_headers(const std::string& headers, JobId id) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  if (!headers.empty()) {
    JsonReader in(headers, JsonReader::Unknown::skip);
    in.members([&](std::string_view name) {
      std::string value;
      if (!in.string(value)) return false;
      if (name == kClonedFrom) return true;
      std::string key;
      append_json_string(key, name);
      w.key(std::string_view(key).substr(1, key.size() - 2)).string(value);
      return true;
    });
  }
  w.key(kClonedFrom).string(fmt::to_string(id)).end_object();
  return out;
}

}  // namespace

Result<EditJob> decode_edit_request(JobId id, std::string_view body) {
  MS_TRY_ASSIGN(EditJob edit, decode_request(body, kEdit, EditJob{.id = id}));
  MS_TRY(validate(edit));
  return edit;
}

void encode_edit_request(const EditJob& edit, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (edit.args) w.key("args").raw(*edit.args);
  if (edit.priority) w.key("priority").number(*edit.priority);
  if (edit.run_at) w.key("run_at").time(*edit.run_at);
  if (edit.tags) {
    w.key("tags").begin_array();
    for (const std::string& tag : *edit.tags) w.string(tag);
    w.end_array();
  }
  if (edit.version != 0) w.key("version").number(edit.version);
  w.end_object();
}

Result<CloneJob> decode_clone_request(JobId id, std::string_view body) {
  if (body.empty()) return CloneJob{.id = id};
  return decode_request(body, kClone, CloneJob{.id = id});
}

void encode_clone_request(const CloneJob& clone, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  if (clone.args) w.key("args").raw(*clone.args);
  if (clone.queue) w.key("queue").string(*clone.queue);
  if (clone.priority) w.key("priority").number(*clone.priority);
  if (clone.run_at) w.key("run_at").time(*clone.run_at);
  w.end_object();
}

Result<NewJob> clone_of(const Job& job, const CloneJob& clone) {
  NewJob made;
  made.queue = clone.queue.value_or(job.queue);
  made.kind = job.kind;
  made.args = clone.args.value_or(job.args);
  made.priority = clone.priority.value_or(job.priority);
  made.run_at = clone.run_at;
  // Retries may have raised it.
  made.max_attempts = std::clamp(job.max_attempts, 1, kMaxMaxAttempts);
  made.timeout = job.timeout;
  made.tags = job.tags;
  made.headers = clone_headers(job.headers, job.id);
  made.correlation_id = job.correlation_id;
  made.reply_to = job.reply_to;
  made.reply_session = job.reply_session;
  made.follow_ups = job.follow_ups;
  std::erase_if(made.follow_ups, &is_callback);  // its receiver knows nothing of this job
  made.session = job.session;
  made.on_dead = job.on_dead;
  made.limit_key = job.limit_key;
  MS_TRY(validate(made));
  return made;
}

std::vector<std::string_view> job_edit_request_fields(std::string_view schema) {
  if (schema == "JobEdit") return field_names(kEdit);
  if (schema == "JobClone") return field_names(kClone);
  return {};
}

}  // namespace mainspring
