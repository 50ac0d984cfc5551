// A callback to and from JSON: a follow-up of the callback queue, with its URL as data.
#include "api/callback_shapes.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "api/follow_ups.h"
#include "model/callback.h"
#include "outgoing/url_check.h"

namespace mainspring {
namespace {

struct Callback {
  std::string url;
  FollowUp ends;  // only `on`
};
constexpr JsonField<Callback> kCallback[] = {
    {"url", &as_optional_string<&Callback::url>},
    {"on", [](JsonReader& in, Callback& callback) { return read_ends(in, callback.ends); }},
};

bool refuse(JsonReader& in, const Error& error, std::string_view field) {
  return in.fail(error.code, error.message, field);
}

}  // namespace

FollowUp make_callback(std::string_view url, std::uint8_t on) {
  FollowUp out{.queue = std::string(kCallbackQueue), .kind = std::string(kCallbackKind), .on = on};
  JsonWriter w(out.data);
  w.begin_object().key("url").string(url).end_object();
  return out;
}

std::string callback_url(const FollowUp& follow_up) {
  if (!is_callback(follow_up)) return "";
  JsonReader in(follow_up.data, JsonReader::Unknown::skip);
  Callback callback;
  return in.object(kCallback, callback) ? callback.url : "";
}

bool read_callback(JsonReader& in, std::vector<FollowUp>& out) {
  if (in.null()) return true;
  const std::string at = in.path();
  Callback callback;
  if (!in.object(kCallback, callback)) return false;
  if (callback.url.empty()) return in.missing("url");
  if (const auto url = read_url(callback.url, Userinfo::refused); !url) {
    return refuse(in, url.error(), at + ".url");
  }
  out.push_back(make_callback(callback.url, callback.ends.on));
  return true;
}

bool read_shown_callback(JsonReader& in, std::vector<FollowUp>& out) {
  if (in.null()) return true;
  Callback callback;
  if (!in.object(kCallback, callback)) return false;
  out.push_back(make_callback(callback.url, callback.ends.on));
  return true;
}

bool read_then(JsonReader& in, std::vector<FollowUp>& out) {
  const std::string at = in.path();
  std::vector<FollowUp> then;
  if (!read_follow_ups(in, then)) return false;
  for (std::size_t i = 0; i < then.size(); ++i) {
    if (auto good = check_not_reserved("queue", then[i].queue); !good) {
      return refuse(in, good.error(), fmt::format("{}[{}].queue", at, i));
    }
    out.push_back(std::move(then[i]));
  }
  return true;
}

void write_follow_up_fields(JsonWriter& w, const std::vector<FollowUp>& all, Payload payload) {
  std::vector<FollowUp> then;
  for (const FollowUp& follow_up : all) {
    if (!is_callback(follow_up)) then.push_back(follow_up);
  }
  if (!then.empty()) write_follow_ups(w.key("then"), then, payload);
  for (const FollowUp& follow_up : all) {
    if (!is_callback(follow_up)) continue;
    const std::string url = callback_url(follow_up);
    w.key("callback").begin_object().key("url");
    payload == Payload::masked || url.empty() ? w.null() : w.string(url);
    write_ends(w, follow_up);
    w.end_object();
    break;  // there is at most one: see validate()
  }
}

std::vector<std::string_view> callback_fields() {
  return field_names(kCallback);
}

}  // namespace mainspring
