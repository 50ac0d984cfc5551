// Encodes and decodes payloads of NOTIFY as JSON.
#include "api/json.h"
#include "store_postgres/node_channel.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxPayload = 7900;  // the server's limit is 8,000
constexpr std::size_t kMaxNames = 2000;

bool read_names(JsonReader& in, std::vector<std::string>& into) {
  return in.array(kMaxNames, [&](std::size_t) { return in.string(into.emplace_back()); });
}

constexpr JsonField<CancelNotice> kCancelNotice[] = {
    {"job",
     [](JsonReader& in, CancelNotice& cancel) {
       return in.integer(cancel.job, 1, std::numeric_limits<std::int64_t>::max());
     }},
    {"worker", [](JsonReader& in, CancelNotice& cancel) { return in.string(cancel.worker); }},
};

// Of another version: a command that is not known is none.
constexpr JsonField<CommandNotice> kCommandNotice[] = {
    {"worker", [](JsonReader& in, CommandNotice& one) { return in.string(one.worker); }},
    {"command",
     [](JsonReader& in, CommandNotice& one) {
       std::string text;
       if (!in.string(text)) return false;
       one.command = parse_worker_command(text).value_or(WorkerCommand::none);
       return true;
     }},
};

constexpr JsonField<Notice> kNotice[] = {
    {"node",
     [](JsonReader& in, Notice& n) {
       return in.integer(n.node, 0, std::numeric_limits<std::int64_t>::max());
     }},
    {"queues", [](JsonReader& in, Notice& n) { return read_names(in, n.heard.queues); }},
    {"released", [](JsonReader& in, Notice& n) { return read_names(in, n.heard.released); }},
    {"cancels",
     [](JsonReader& in, Notice& n) {
       return in.array(kMaxNames, [&](std::size_t) {
         return in.object(kCancelNotice, n.heard.cancels.emplace_back());
       });
     }},
    {"commands",
     [](JsonReader& in, Notice& n) {
       return in.array(kMaxNames, [&](std::size_t) {
         return in.object(kCommandNotice, n.heard.commands.emplace_back());
       });
     }},
    {"ended",
     [](JsonReader& in, Notice& n) {
       return in.array(kMaxNames, [&](std::size_t) {
         std::int64_t id = 0;
         if (!in.integer(id, 1, std::numeric_limits<std::int64_t>::max())) return false;
         n.heard.ended.push_back(id);
         return true;
       });
     }},
    {"next_due", [](JsonReader& in, Notice& n) { return in.wall_time(n.heard.next_due); }},
    {"catalog", [](JsonReader& in, Notice& n) { return in.boolean(n.heard.catalog); }},
    {"everything", [](JsonReader& in, Notice& n) { return in.boolean(n.heard.everything); }},
    {"joined", [](JsonReader& in, Notice& n) { return in.boolean(n.joined); }},
};

void write_names(JsonWriter& out, std::string_view key, const std::vector<std::string>& names) {
  if (names.empty()) return;
  out.key(key).begin_array();
  for (const std::string& name : names) out.string(name);
  out.end_array();
}

}  // namespace

std::string encode_notice(const ChangeHints& what, std::int64_t node) {
  std::string text;
  JsonWriter out(text);
  out.begin_object().key("node").number(node);
  write_names(out, "queues", what.queues);
  write_names(out, "released", what.released);
  if (!what.cancels.empty()) {
    out.key("cancels").begin_array();
    for (const CancelNotice& cancel : what.cancels) {
      out.begin_object().key("job").number(cancel.job);
      out.key("worker").string(cancel.worker).end_object();
    }
    out.end_array();
  }
  if (!what.commands.empty()) {
    out.key("commands").begin_array();
    for (const CommandNotice& one : what.commands) {
      out.begin_object().key("worker").string(one.worker);
      out.key("command").string(to_string(one.command)).end_object();
    }
    out.end_array();
  }
  if (!what.ended.empty()) {
    out.key("ended").begin_array();
    for (const JobId id : what.ended) out.number(id);
    out.end_array();
  }
  if (what.next_due != WallTime::never())
    out.key("next_due").string(format_wall_time(what.next_due));
  if (what.catalog) out.key("catalog").boolean(true);
  if (what.everything) out.key("everything").boolean(true);
  out.end_object();
  if (text.size() <= kMaxPayload) return text;
  return encode_notice({.next_due = what.next_due, .catalog = true, .everything = true}, node);
}

Result<Notice> decode_notice(std::string_view payload) {
  // The message may come from another version or from a client: unknown members are skipped.
  JsonReader in(payload, JsonReader::Unknown::skip);
  Notice notice;
  if (!in.object(kNotice, notice) || !in.end()) return in.error();
  return notice;
}

}  // namespace mainspring
