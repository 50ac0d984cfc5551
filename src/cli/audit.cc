// audit list, verify, head: shows who changed what, and whether the records were altered.
#include <fmt/format.h>

#include <charconv>

#include "api/access_shapes.h"
#include "api/json.h"
#include "cli/handlers.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "client/calls.h"

namespace mainspring::cli {
namespace {

constexpr int kAuditPage = 1000;
constexpr std::int64_t kDefaultRecords = 50;

Result<AuditState> read_state(Client& client) {
  MS_TRY_ASSIGN(const std::string body, client.request("GET", "/v1/audit/head", ""));
  return decode_audit_state(body);
}

Result<AuditPage> read_page(Client& client, const std::string& query, std::int64_t limit,
                            std::int64_t from) {
  std::string path = fmt::format("/v1/audit?limit={}{}", limit, query);
  if (from > 0) path += fmt::format("&from={}", from);
  MS_TRY_ASSIGN(const std::string body, client.request("GET", path, ""));
  return decode_audit_page(body);
}

std::string filter_query(const Invocation& invocation) {
  std::string query;
  for (const char* name : {"who", "action", "object"}) {
    if (const auto value = invocation.flag(name)) {
      query += fmt::format("&{}={}", name, percent_encode(*value));
    }
  }
  return query;
}

// The first record that `query` selects at `since` or later; nullopt = there is none.
Result<std::optional<std::int64_t>> first_since(Client& client, const std::string& query,
                                                WallTime since) {
  std::optional<std::int64_t> first;
  for (std::optional<std::int64_t> from = 0; from;) {
    MS_TRY_ASSIGN(const AuditPage page, read_page(client, query, kAuditPage, *from));
    for (const AuditRecord& record : page.records) {
      if (record.at < since) return first;
      first = record.seq;
    }
    from = page.next;
  }
  return first;
}

// "{"paused":false} -> {"paused":true}"; one side may be empty.
std::string change_text(const AuditRecord& record) {
  if (record.before.empty()) return record.after;
  return fmt::format("{} -> {}", record.before, record.after.empty() ? "-" : record.after);
}

// "1742:9f2c…", the whole hash. Errors: invalid_argument.
Result<AuditMark> parse_mark(const std::string& text) {
  AuditMark mark;
  const std::size_t colon = text.find(':');
  const auto digest = digest_from_hex(
      colon == std::string::npos ? std::string_view() : std::string_view(text).substr(colon + 1));
  const char* const end = text.data() + std::min(colon, text.size());
  const auto [last, problem] = std::from_chars(text.data(), end, mark.seq);
  if (problem != std::errc() || last != end || mark.seq < 1 || !digest) {
    return invalid("expect", fmt::format("--expect \"{}\": must be SEQ:HASH, as `mainspring audit "
                                         "head` prints it",
                                         text));
  }
  mark.hash = *digest;
  return mark;
}

std::string mark_text(const AuditMark& mark) {
  return fmt::format("{}:{}", mark.seq, to_hex(mark.hash));
}

// Verifies the whole chain; returns the problem, or "".
Result<std::string> follow(Client& client, const AuditState& state,
                           const std::optional<AuditMark>& expected, std::int64_t& count) {
  AuditMark mark = state.base;
  bool met = !expected || *expected == mark;
  if (expected && expected->seq < state.base.seq) {
    return fmt::format("record {} has been pruned: records begin with {}", expected->seq,
                       state.base.seq + 1);
  }
  while (mark.seq < state.head.seq) {
    MS_TRY_ASSIGN(AuditPage page,
                  read_page(client, "&order=oldest_first", kAuditPage, mark.seq + 1));
    if (page.records.empty()) return fmt::format("records after {} are missing", mark.seq);
    for (AuditRecord& record : page.records) {
      if (auto problem = follow_chain(mark, {std::move(record)})) return *problem;
      ++count;
      if (!expected || mark.seq != expected->seq) continue;
      met = mark.hash == expected->hash;
      if (!met) return fmt::format("record {} is not the one that was expected", mark.seq);
    }
  }
  // The pages include records that were added meanwhile.
  if (mark.seq == state.head.seq && mark.hash != state.head.hash) {
    return fmt::format("the server reports head {}, but the records end with {}",
                       mark_text(state.head), mark_text(mark));
  }
  if (!met) return fmt::format("record {} is missing: the chain ends before it", expected->seq);
  return std::string();
}

}  // namespace

Result<int> run_audit_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto limit, invocation.number("limit", 1, 1'000'000'000));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const auto since, past_time(invocation, io, "since"));
  const bool oldest_first = invocation.has("oldest-first");
  std::string query = filter_query(invocation);
  std::optional<std::int64_t> from = 0;
  if (since && oldest_first) {
    MS_TRY_ASSIGN(from, first_since(*connection->client, query, *since));
  }
  if (oldest_first) query += "&order=oldest_first";
  std::int64_t left = limit.value_or(invocation.has("all") ? INT64_MAX : kDefaultRecords);
  Table table({{"SEQ", Align::right},
               {.title = "AT", .whole = true},
               {.title = "WHO", .keep = true},
               {.title = "FROM", .drop = 1},
               {.title = "ACTION", .keep = true},
               {"OBJECT"},
               {.title = "CHANGE", .least = 40, .below = true}});
  while (from && left > 0) {
    MS_TRY_ASSIGN(AuditPage page, read_page(*connection->client, query,
                                            std::min<std::int64_t>(left, kAuditPage), *from));
    for (const AuditRecord& record : page.records) {
      if (since && !oldest_first && record.at < *since) {
        page.next = std::nullopt;
        break;
      }
      --left;
      if (invocation.json) {
        std::string line;
        encode_audit_record(record, line);
        print_line(io, line);
        continue;
      }
      table.add({{fmt::to_string(record.seq)},
                 {shown_time(io, record.at)},
                 {record.who},
                 {record.from},
                 {record.action},
                 {record.object},
                 {change_text(record)}});
    }
    table.flush(io);
    from = page.next;
  }
  if (!invocation.json && table.empty()) io.out("no records\n");
  if (!invocation.json && from && left == 0) {
    io.err(fmt::format("Showing the {} {}; use --limit N or --all for more.\n",
                       oldest_first ? "oldest" : "newest", limit.value_or(kDefaultRecords)));
  }
  return kExitOk;
}

Result<int> run_audit_verify(const Invocation& invocation, Io& io) {
  std::optional<AuditMark> expected;
  if (const auto text = invocation.flag("expect")) {
    MS_TRY_ASSIGN(expected, parse_mark(*text));
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const AuditState state, read_state(*connection->client));
  std::int64_t count = 0;
  MS_TRY_ASSIGN(const std::string problem, follow(*connection->client, state, expected, count));
  if (invocation.json) {
    std::string line;
    JsonWriter(line)
        .begin_object()
        .key("records")
        .number(count)
        .key("head")
        .string(mark_text(state.head))
        .key("sound")
        .boolean(problem.empty())
        .key("problem")
        .string(problem)
        .end_object();
    print_line(io, line);
  } else if (problem.empty()) {
    print_line(io, fmt::format("{}: {}, head {}", counted(count, "record"),
                               coloured(io, "sound", Colour::green), mark_text(state.head)));
  } else {
    print_line(io, coloured(io, printable(problem), Colour::red));
  }
  return problem.empty() ? kExitOk : kExitProblems;
}

Result<int> run_audit_head(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const AuditState state, read_state(*connection->client));
  if (invocation.json) {
    std::string line;
    encode_audit_state(state, line);
    print_line(io, line);
  } else {
    print_line(io, mark_text(state.head));
  }
  return kExitOk;
}

}  // namespace mainspring::cli
