// The plans of what operators look at: the settings in effect, the size of the store.
#include "api/json.h"
#include "http/plans.h"

namespace mainspring::http {

Plan plan_settings(const Request&, Services& services) {
  Reply reply;
  JsonWriter w(reply.body);
  w.begin_object().key("settings").begin_array();
  for (const ShownSetting& setting : services.options.settings) {
    w.begin_object().key("name").string(setting.name).key("value").string(setting.value);
    w.key("default").string(setting.default_value).key("source").string(setting.source);
    if (!setting.where.empty()) w.key("where").string(setting.where);
    if (setting.secret) w.key("secret").boolean(true);
    w.end_object();
  }
  w.end_array().end_object();
  return reply;
}

// The path is for callers who may change everything.
Plan plan_store(const Request& request, Services& services) {
  return DoRead{[&services, may_know = request.caller->may_all(Verb::admin)] {
    const auto state = services.store_report.get();
    if (!state) return error_reply(state.error());
    const StoreSize& size = (*state)->size;
    Reply reply;
    JsonWriter w(reply.body);
    const auto optional = [&](std::string_view name, std::optional<std::int64_t> value) {
      if (value) w.key(name).number(*value);
    };
    w.begin_object().key("kind").string(size.kind).key("bytes").number(size.bytes);
    optional("wal_bytes", size.wal_bytes);
    optional("free_bytes", size.free_bytes);
    optional("disk_free_bytes", (*state)->disk_free_bytes);
    w.key("jobs").number((*state)->jobs).key("live").number((*state)->live);
    w.key("finished").number((*state)->finished).key("schema").number(size.schema);
    if (may_know && !size.directory.empty()) w.key("path").string(size.directory);
    w.end_object();
    return reply;
  }};
}

}  // namespace mainspring::http
