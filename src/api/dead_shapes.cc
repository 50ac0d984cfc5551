// The groups of the dead letter in and out of JSON.
#include "api/dead_shapes.h"

#include "api/fields.h"
#include "api/json.h"

namespace mainspring {
namespace {

struct End {
  JobId id = 0;
  WallTime at;
};
constexpr JsonField<End> kEnd[] = {{"id", &as_id<&End::id>}, {"at", &as_time<&End::at>}};

template <auto Id, auto At>
bool as_end(JsonReader& in, DeadGroup& group) {
  End end;
  if (!in.object(kEnd, end)) return false;
  group.*Id = end.id;
  group.*At = end.at;
  return true;
}

constexpr JsonField<DeadGroup> kGroup[] = {
    {"fingerprint", &as_string<&DeadGroup::fingerprint>},
    {"kind", &as_string<&DeadGroup::kind>},
    {"reason", &as_string<&DeadGroup::reason>},
    {"count", &as_count<&DeadGroup::count>},
    {"first", &as_end<&DeadGroup::first, &DeadGroup::first_at>},
    {"last", &as_end<&DeadGroup::last, &DeadGroup::last_at>},
    {"message", [](JsonReader& in, DeadGroup& g) { return in.null() || in.string(g.message); }},
    {"masked", &as_boolean<&DeadGroup::masked>},
};
constexpr JsonField<DeadGroups> kGroups[] = {
    {"groups",
     [](JsonReader& in, DeadGroups& g) {
       return in.array(kMaxResponseEntries,
                       [&](std::size_t) { return in.object(kGroup, g.groups.emplace_back()); });
     }},
    {"jobs", &as_count<&DeadGroups::jobs>},
    {"cut", &as_boolean<&DeadGroups::cut>},
};

void write_end(JsonWriter& w, std::string_view name, JobId id, WallTime at) {
  w.key(name).begin_object().key("id").number(id).key("at").time(at).end_object();
}

}  // namespace

void encode_dead_groups(const DeadGroups& groups, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("groups").begin_array();
  for (const DeadGroup& group : groups.groups) {
    w.begin_object().key("fingerprint").string(group.fingerprint).key("kind").string(group.kind);
    w.key("reason").string(group.reason).key("count").number(group.count);
    write_end(w, "first", group.first, group.first_at);
    write_end(w, "last", group.last, group.last_at);
    w.key("message");
    group.masked ? w.null() : w.string(group.message);
    if (group.masked) w.key("masked").boolean(true);
    w.end_object();
  }
  w.end_array().key("jobs").number(groups.jobs).key("cut").boolean(groups.cut).end_object();
}

Result<DeadGroups> decode_dead_groups(std::string_view body) {
  return decode_response(body, kGroups);
}

}  // namespace mainspring
