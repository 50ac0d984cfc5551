// The shapes of renew, and of saved step results.
#include <fmt/format.h>

#include "api/fields.h"
#include "api/shapes.h"
#include "api/work_fields.h"

namespace mainspring {
namespace {

constexpr JsonField<Progress> kProgressRequest[] = {
    {"value", [](JsonReader& in, Progress& p) { return in.number(p.value, 0, 1); }},
    {"text", [](JsonReader& in,
                Progress& p) { return in.null() || in.text(p.text, kMaxProgressTextBytes); }},
};

// A lease as it is sent.
struct WireRenewal : Renewal {
  std::optional<Error> refused;  // a report over its limit, left out
};

bool read_checkpoint(JsonReader& in, WireRenewal& renewal) {
  if (in.null()) return true;
  std::string& checkpoint = renewal.checkpoint.emplace();
  if (!in.raw(checkpoint)) return false;
  if (checkpoint.size() > kMaxCheckpointBytes) {
    renewal.refused = over_limit(in, "checkpoint", checkpoint.size(), kMaxCheckpointBytes);
    renewal.checkpoint.reset();
  }
  return true;
}

constexpr std::int64_t kMaxSeq = 1LL << 53;  // exact in every JSON reader
constexpr std::int64_t kMaxRemarkCount = 1'000'000'000;

// A message that is too large drops the later ones too: messages stay in order.
bool read_messages(JsonReader& in, WireRenewal& renewal) {
  bool whole = true;
  return in.null() || in.array(kMaxMessages, [&](std::size_t) {
    std::string message;
    if (!in.raw(message, JsonReader::Null::take)) return false;
    if (whole && message.size() > kMaxMessageBytes) {
      renewal.refused = over_limit(in, "message", message.size(), kMaxMessageBytes);
      whole = false;
    }
    if (whole) renewal.messages.push_back(std::move(message));
    return true;
  });
}

constexpr JsonField<Memo> kMemo[] = {
    {"name", &as_string<&Memo::name>},
    {"result", &as_raw<&Memo::result>},
};

bool read_memo(JsonReader& in, WireRenewal& renewal) {
  Memo memo;
  if (!in.object(kMemo, memo)) return false;
  if (memo.name.empty()) return in.missing("name");
  if (auto good = check_memo_name("name", memo.name); !good)
    return in.fail(good.error().code, good.error().message, in.path("name"));
  if (memo.result.empty()) return in.missing("result");
  if (memo.result.size() > kMaxMemoBytes) {
    renewal.refused = over_limit(in, "result", memo.result.size(), kMaxMemoBytes);
    renewal.refused->field = in.path("result");
  } else {
    renewal.memos.push_back(std::move(memo));
  }
  return true;
}

bool read_memos(JsonReader& in, WireRenewal& renewal) {
  return in.null() ||
         in.array(kMaxRenewalMemos, [&](std::size_t) { return read_memo(in, renewal); });
}

void write_memos(JsonWriter& w, const std::vector<Memo>& memos) {
  w.key("memos").begin_array();
  for (const Memo& memo : memos) {
    w.begin_object().key("name").string(memo.name).key("result").raw(memo.result).end_object();
  }
  w.end_array();
}

constexpr JsonField<MemoPage> kMemoPage[] = {
    {"memos",
     [](JsonReader& in, MemoPage& page) {
       return in.array(kMaxMemos,
                       [&](std::size_t) { return in.object(kMemo, page.memos.emplace_back()); });
     }},
    {"next", [](JsonReader& in, MemoPage& page) { return in.string(page.next.emplace()); }},
};

bool read_remark_counts(JsonReader& in, IgnoredRemarks& remarks) {
  return in.members([&](std::string_view name) {
    const auto fault = parse_remark_fault(name);
    if (!fault) return in.fail_here("is not a kind of remark");
    return in.integer(remarks.counts.at(static_cast<std::size_t>(*fault)), std::int64_t{0},
                      kMaxRemarkCount);
  });
}

constexpr JsonField<IgnoredRemarks> kIgnoredRemarks[] = {
    {"text", [](JsonReader& in,
                IgnoredRemarks& remarks) { return in.text(remarks.text, kMaxWarningBytes); }},
    {"counts", &read_remark_counts},
};

void write_ignored_remarks(JsonWriter& w, const IgnoredRemarks& remarks) {
  w.key("warning").begin_object().key("text").string(cut_text(remarks.text, kMaxWarningBytes));
  w.key("counts").begin_object();
  for (std::size_t i = 0; i < kRemarkFaults; ++i) {
    if (remarks.counts[i] == 0) continue;
    w.key(to_string(static_cast<RemarkFault>(i))).number(remarks.counts[i]);
  }
  w.end_object().end_object();
}

constexpr JsonField<WireRenewal> kRenewal[] = {
    {"id", &as_id<&Renewal::id>},
    {"token", &as_id<&Renewal::token>},
    {"progress",
     [](JsonReader& in, WireRenewal& r) {
       return in.null() || in.object(kProgressRequest, r.progress.emplace());
     }},
    {"checkpoint", &read_checkpoint},
    {"messages", &read_messages},
    {"first_seq", [](JsonReader& in,
                     WireRenewal& r) { return in.integer(r.first_seq, std::int64_t{1}, kMaxSeq); }},
    {"memos", &read_memos},
    {"warning",
     [](JsonReader& in, WireRenewal& r) {
       return in.null() || in.object(kIgnoredRemarks, r.warning.emplace());
     }},
};

bool read_renewal(JsonReader& in, RenewRequest& request) {
  WireRenewal renewal;
  if (!in.object(kRenewal, renewal)) return false;
  if (renewal.id == 0) return in.missing("id");
  if (renewal.token == 0) return in.missing("token");
  if (renewal.refused) request.refused.push_back({renewal.id, std::move(*renewal.refused)});
  request.leases.push_back(std::move(renewal));
  return true;
}

bool read_leases(JsonReader& in, RenewRequest& request) {
  return in.array(kMaxRenewLeases, [&](std::size_t) { return read_renewal(in, request); });
}

// The same. A lease with a bad report is renewed without its reports.
bool read_bare_leases(JsonReader& in, RenewRequest& request) {
  return in.array(kMaxRenewLeases, [&](std::size_t place) {
    std::string text;
    if (!in.raw(text)) return false;
    JsonReader one(text, JsonReader::Unknown::refuse);
    const std::size_t before = request.refused.size();
    if (!read_renewal(one, request)) {
      const std::optional<JobOutcome> job = only_ids(text);
      if (!job) return in.missing("id");
      request.refused.push_back({job->id, one.error()});
      request.leases.push_back({.id = job->id, .token = job->token});
    }
    if (request.refused.size() != before)
      put_below(fmt::format("leases[{}]", place), request.refused.back().error);
    return true;
  });
}

bool read_renewed_length(JsonReader& in, RenewRequest& request) {
  return in.null() || read_claim_lease(in, request.lease);
}

bool read_stuck(JsonReader& in, RenewRequest& request) {
  return in.null() || in.integer(request.stuck.emplace(), 0, kMaxWorkerSlots);
}

constexpr JsonField<RenewRequest> kRenewRequest[] = {{"worker", &as_string<&RenewRequest::worker>},
                                                     {"leases", &read_leases},
                                                     {"lease", &read_renewed_length},
                                                     {"stuck", &read_stuck}};
constexpr JsonField<RenewRequest> kBareRenewRequest[] = {
    {"worker", &as_string<&RenewRequest::worker>},
    {"leases", &read_bare_leases},
    {"lease", &read_renewed_length},
    {"stuck", &read_stuck}};

constexpr JsonField<Renewed> kRenewed[] = {
    {"id", &as_id<&Renewed::id>},
    {"lease_expires_in_ms", &as_milliseconds<&Renewed::lease>},
};
constexpr JsonField<RefusedPart> kRefusedPart[] = {
    {"id", &as_id<&RefusedPart::id>},
    {"error", [](JsonReader& in, RefusedPart& p) { return read_part_error(in, p.error); }},
};
constexpr JsonField<RenewResult> kRenewAnswer[] = {
    {"renewed",
     [](JsonReader& in, RenewResult& r) {
       return in.array(kMaxRenewLeases,
                       [&](std::size_t) { return in.object(kRenewed, r.renewed.emplace_back()); });
     }},
    {"lost", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.lost); }},
    {"cancel", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.cancel); }},
    {"memos_full", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.memos_full); }},
    {"quiet", &as_command<WorkerCommand::quiet, RenewResult>},
    {"terminate", &as_command<WorkerCommand::stop, RenewResult>},
    {"refused",
     [](JsonReader& in, RenewResult& r) {
       return in.array(kMaxRenewLeases, [&](std::size_t) {
         return in.object(kRefusedPart, r.refused.emplace_back());
       });
     }},
};

void write_ids(JsonWriter& w, std::string_view key, const std::vector<JobId>& ids) {
  w.key(key).begin_array();
  for (const JobId id : ids) w.number(id);
  w.end_array();
}

}  // namespace

Result<RenewRequest> decode_renew_request(std::string_view body) {
  const auto read = [&](const auto& fields) -> Result<RenewRequest> {
    JsonReader in(body, JsonReader::Unknown::refuse);
    RenewRequest request;
    request.lease = Duration(0);  // not given: as long as the worker asked for before
    if (in.object(fields, request) && check_worker(in, request.worker) && in.end()) return request;
    return in.error();
  };
  Result<RenewRequest> whole = read(kRenewRequest);
  if (whole) return whole;
  Result<RenewRequest> bare = read(kBareRenewRequest);
  return bare ? std::move(bare) : std::move(whole);
}

void encode_renew_request(const Renew& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("worker").string(request.worker).key("leases").begin_array();
  for (const Renewal& renewal : request.leases) {
    w.begin_object().key("id").number(renewal.id).key("token").number(renewal.token);
    if (renewal.progress) {
      w.key("progress").begin_object().key("value").real(renewal.progress->value);
      w.key("text").string(cut_text(renewal.progress->text, kMaxProgressTextBytes)).end_object();
    }
    if (renewal.checkpoint) w.key("checkpoint").raw(*renewal.checkpoint);
    if (!renewal.messages.empty()) {
      w.key("messages").begin_array();
      for (const std::string& message : renewal.messages) w.raw(message);
      w.end_array();
      if (renewal.first_seq != 0) w.key("first_seq").number(renewal.first_seq);
    }
    if (!renewal.memos.empty()) write_memos(w, renewal.memos);
    if (renewal.warning) write_ignored_remarks(w, *renewal.warning);
    w.end_object();
  }
  w.end_array();
  if (request.lease > Duration(0)) w.key("lease").duration(request.lease);
  if (request.stuck) w.key("stuck").number(*request.stuck);
  w.end_object();
}

void encode_renew_response(const RenewResult& result, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("renewed").begin_array();
  for (const Renewed& renewed : result.renewed) {
    w.begin_object().key("id").number(renewed.id);
    w.key("lease_expires_in_ms").milliseconds(renewed.lease).end_object();
  }
  w.end_array();
  write_ids(w, "lost", result.lost);
  write_ids(w, "cancel", result.cancel);
  if (!result.memos_full.empty()) write_ids(w, "memos_full", result.memos_full);
  if (!result.refused.empty()) {
    w.key("refused").begin_array();
    for (const RefusedPart& part : result.refused) {
      w.begin_object().key("id").number(part.id);
      write_part_error(w, part.error);
      w.end_object();
    }
    w.end_array();
  }
  w.key("quiet").boolean(result.command != WorkerCommand::none);
  w.key("terminate").boolean(result.command == WorkerCommand::stop).end_object();
}

Result<RenewResult> decode_renew_response(std::string_view body) {
  return decode_response(body, kRenewAnswer);
}

void encode_memo_page(const MemoPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_memos(w, page.memos);
  if (page.next) w.key("next").string(*page.next);
  w.end_object();
}

Result<MemoPage> decode_memo_page(std::string_view body) {
  return decode_response(body, kMemoPage);
}

std::vector<std::string_view> renew_request_fields(std::string_view schema) {
  if (schema == "RenewRequest") return field_names(kRenewRequest);
  if (schema == "Lease") return field_names(kRenewal);
  if (schema == "Memo") return field_names(kMemo);
  if (schema == "Progress") return field_names(kProgressRequest);
  return {};
}

}  // namespace mainspring
