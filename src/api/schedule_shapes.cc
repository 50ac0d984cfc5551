// The shape of a schedule's definition.
#include "api/schedule_shapes.h"

#include "api/schedule_fields.h"

namespace mainspring {
namespace {

constexpr JsonField<Continuous> kContinuous[] = {
    {"timeout", &as_duration<&Continuous::timeout>},
    {"margin", &as_duration<&Continuous::margin>},
    {"handoff", &as_duration<&Continuous::handoff>},
};

}  // namespace

bool read_misfire(JsonReader& in, Schedule& schedule) {
  std::string text;
  if (!in.string(text)) return false;
  const auto policy = parse_misfire(text);
  if (!policy) return in.fail_value("must be \"skip\", \"once\" or \"all\"");
  schedule.misfire = *policy;
  return true;
}

bool read_overlap_word(JsonReader& in, Overlap& out) {
  std::string text;
  if (!in.string(text)) return false;
  const auto policy = parse_overlap(text);
  if (!policy) {
    return in.fail_value(
        "must be \"skip\", \"buffer_one\", \"buffer_all\", \"cancel_other\", \"terminate_other\" "
        "or \"allow\"");
  }
  out = *policy;
  return true;
}

bool read_repeated_hour(JsonReader& in, Schedule& schedule) {
  std::string word;
  if (in.null()) return true;
  if (!in.string(word)) return false;
  const auto rule = parse_repeated_hour(word);
  if (!rule) return in.fail_value("must be once or twice");
  schedule.repeated_hour = *rule;
  return true;
}

bool read_overlap(JsonReader& in, Schedule& schedule) {
  return read_overlap_word(in, schedule.overlap);
}

bool read_continuous(JsonReader& in, Schedule& schedule) {
  return in.null() || in.object(kContinuous, schedule.continuous.emplace());
}

void write_definition(JsonWriter& w, const Schedule& schedule) {
  if (!schedule.name.empty()) w.key("name").string(schedule.name);
  if (!schedule.cron.empty()) w.key("cron").string(schedule.cron);
  if (schedule.every.count() != 0) w.key("every").duration(schedule.every);
  if (schedule.at) w.key("at").time(*schedule.at);
  w.key("time_zone").string(schedule.time_zone);
  if (schedule.repeated_hour != RepeatedHour::once) {
    w.key("repeated_hour").string(to_string(schedule.repeated_hour));
  }
  w.key("job");
  write_new_job(w, schedule.job);
  w.key("misfire").string(to_string(schedule.misfire));
  w.key("misfire_window").duration(schedule.misfire_window);
  w.key("misfire_cap").number(schedule.misfire_cap);
  w.key("overlap").string(to_string(schedule.overlap));
  w.key("jitter").duration(schedule.jitter);
  if (schedule.start_at) w.key("start_at").time(*schedule.start_at);
  if (schedule.end_at) w.key("end_at").time(*schedule.end_at);
  if (schedule.max_runs != 0) w.key("max_runs").number(schedule.max_runs);
  w.key("pause_on_failure").boolean(schedule.pause_on_failure);
  if (!schedule.continuous) return;
  w.key("continuous").begin_object().key("timeout").duration(schedule.continuous->timeout);
  w.key("margin").duration(schedule.continuous->margin);
  w.key("handoff").duration(schedule.continuous->handoff).end_object();
}

void encode_schedule(const Schedule& schedule, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_definition(w, schedule);
  w.end_object();
}

Result<Schedule> decode_schedule(std::string_view body) {
  return decode_request(body, kScheduleFields);
}

std::vector<std::string_view> schedule_request_fields(std::string_view schema) {
  if (schema == "ScheduleDefinition") return field_names(kScheduleFields);
  if (schema == "Continuous") return field_names(kContinuous);
  return {};
}

}  // namespace mainspring
