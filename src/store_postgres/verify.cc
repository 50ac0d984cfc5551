// verify(): recounts the whole store in one snapshot and checks its counters and invariants. Other
// nodes continue to write.
#include <fmt/format.h>

#include "store_postgres/audit_reads.h"
#include "store_postgres/reader.h"
#include "store_postgres/verify_statements.h"

namespace mainspring::pg {
namespace {

constexpr Duration kVerifyTimeout = std::chrono::minutes(30);  // maximum per invariant
constexpr std::int64_t kAuditPage = 5000;
constexpr std::size_t kMaxAuditProblems = 20;  // further ones add no information

class Verifier {
 public:
  Verifier(Connection& connection, const ReadStatements& sql, std::string_view schema,
           const VerifyProgress& progress)
      : snapshot_(connection, sql), sql_(sql), schema_(schema), progress_(progress) {}

  VerifyReport report(const AuditMark& known) {
    snapshot_.run(Statement(schema_, kVerifySettings));
    report_.jobs = number("SELECT count(*) FROM $schema.jobs");
    step();
    for (const Invariant& invariant : invariants()) {
      const std::int64_t broken = number(invariant.sql);
      if (broken != 0) report_.problems.push_back(fmt::format("{}: {}", invariant.what, broken));
      step();
    }
    recount();
    step();
    follow_audit(known);
    step();
    snapshot_.end();
    return std::move(report_);
  }

 private:
  void step() {
    constexpr int kOthers = 3;  // count, counters, audit
    if (progress_) progress_(++done_, static_cast<int>(std::size(invariants())) + kOthers);
  }
  std::int64_t number(std::string_view sql) {
    return snapshot_.run(Statement(schema_, sql)).integer(0, 0);
  }

  // Per queue and state: the counter and the number of rows.
  void recount() {
    const Rows rows = snapshot_.run(Statement(schema_, kRecount));
    for (int i = 0; i < rows.size(); ++i) {
      const std::int64_t state = rows.integer(i, 1);
      std::string name = fmt::format("state {}", state);
      if (state == kJobStateCount) name = "expired";
      if (state >= 0 && state < kJobStateCount) name = to_string(static_cast<JobState>(state));
      report_.problems.push_back(fmt::format("queue {}: counter {} is {}, but {} were counted",
                                             rows.text(i, 0), name, rows.integer(i, 2),
                                             rows.integer(i, 3)));
    }
  }

  // `known` is what this process had committed before the snapshot started. Later records may have
  // been added since; none up to `known` may be missing.
  void follow_audit(const AuditMark& known) {
    std::vector<std::string>& problems = report_.problems;
    const std::size_t most = problems.size() + kMaxAuditProblems;
    const AuditState marks = read_audit_marks(snapshot_.run(sql_.audit_marks));
    AuditMark at = marks.base;
    bool met = known.seq <= marks.base.seq;
    // Continues from the row read, not from an expected number: this finds records below the base
    // too.
    std::int64_t last = -1;
    const Statement page(schema_, kAuditPageSql);
    for (;;) {
      const Rows rows = snapshot_.run(page, params(last, kAuditPage));
      for (int i = 0; i < rows.size(); ++i) {
        const AuditRecord record = read_audit_record(rows, i);
        if (auto wrong = follow_chain(at, {record})) problems.push_back(std::move(*wrong));
        at = {record.seq, record.hash};  // check the next record on its own
        last = record.seq;
        met = met || at == known;
        if (problems.size() >= most) return;
      }
      if (rows.size() < kAuditPage) break;
    }
    if (at.seq < marks.head.seq) {
      problems.push_back(fmt::format("audit records {} to {} are missing: they were the newest",
                                     at.seq + 1, marks.head.seq));
    } else if (at != marks.head) {
      problems.push_back(
          fmt::format("audit record {}: it is not the newest that the store wrote, {}", at.seq,
                      marks.head.seq));
    } else if (!met) {
      problems.push_back(fmt::format(
          "audit record {}: it was altered or removed while the store was open", known.seq));
    }
  }

  Snapshot snapshot_;
  const ReadStatements& sql_;
  const std::string_view schema_;
  const VerifyProgress& progress_;
  int done_ = 0;
  VerifyReport report_;
};

bool is_damage(const PgError& error) {
  return error.is("XX001") || error.is("XX002");
}

}  // namespace

Result<VerifyReport> PostgresStore::verify_showing(const VerifyProgress& progress) const {
  reads_.fetch_add(1, std::memory_order_relaxed);
  AuditMark known;
  {
    MutexLock lock(published_mutex_);
    known = published_audit_.head;
  }
  try {
    Connection connection(ConnectionOptions{.url = options_.url,
                                            .connect_timeout = options_.connect_timeout,
                                            .timeout = kVerifyTimeout,
                                            .prepared = false,
                                            .name = "mainspring-verify"},
                          steady_);
    return Verifier(connection, read_sql_, schema_, progress).report(known);
  } catch (const PgError& error) {
    if (!is_damage(error)) return to_error(error);
    VerifyReport report;
    report.problems.push_back(fmt::format("the database is damaged: {}", error.message));
    return report;
  }
}

Result<void> PostgresStore::backup(const std::string& directory) const {
  return Error{
      .code = ErrorCode::invalid_argument,
      .message = fmt::format("backup to {}: the store is the schema {} of a PostgreSQL database: "
                             "copy that with pg_dump --schema, or the server with pg_basebackup",
                             directory, options_.schema)};
}

}  // namespace mainspring::pg
