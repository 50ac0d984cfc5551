// Memos: saved results of a job's steps, for later attempts.

#include "base/mutant.h"
#include "store_postgres/reader.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

MemoStatements::MemoStatements(std::string_view s)
    : count(s, "SELECT job, count(*) FROM $schema.memos WHERE job = ANY($1) GROUP BY job"),
      known(s,
            "SELECT m.job, m.name FROM unnest($1::bigint[], $2::text[]) AS u(job, name) JOIN "
            "$schema.memos m ON m.job = u.job AND m.name = u.name"),
      insert(s,
             "INSERT INTO $schema.memos (job, name, result) SELECT * FROM unnest($1::bigint[], "
             "$2::text[], $3::text[]) ON CONFLICT (job, name) DO NOTHING"),
      remove(s, "DELETE FROM $schema.memos WHERE job = ANY($1)"),
      page(s,
           "SELECT name, CASE WHEN total - octet_length(result) < $4::bigint THEN result END FROM "
           "(SELECT name, result, sum(octet_length(result)) OVER (ORDER BY name) AS total FROM "
           "$schema.memos WHERE job = $1 AND name >= $2 ORDER BY name LIMIT $3::bigint) m ORDER BY "
           "name") {}

// Reads the memos of locked jobs in one round trip.
KnownMemos PostgresStore::read_memos(const std::vector<Renewal>& leases) {
  KnownMemos out;
  Ints ids, jobs;
  Texts names;
  for (const Renewal& renewal : leases) {
    if (renewal.memos.empty()) continue;
    ids.push_back(renewal.id);
    for (const Memo& memo : renewal.memos) {
      jobs.push_back(renewal.id);
      names.emplace_back(memo.name);
    }
  }
  if (ids.empty()) return out;
  later(memo_sql_.count, params(ids), [&out](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i)
      out.count[rows.integer(i, 0)] = static_cast<std::size_t>(rows.integer(i, 1));
  });
  later(memo_sql_.known, params(jobs, names), [&out](const Rows& rows) {
    for (int i = 0; i < rows.size(); ++i) out.names.emplace(rows.integer(i, 0), rows.string(i, 1));
  });
  settle();
  return out;
}

bool PostgresStore::keep_memos(JobRow& row, const Renewal& renewal, KnownMemos& known,
                               RenewResult& result) {
  Ints jobs;
  Texts names, results;
  bool full = false;
  for (const Memo& memo : renewal.memos) {
    if (known.names.contains({row.id, memo.name})) continue;
    std::size_t& there = known.count[row.id];
    if (there >= kMaxMemos) {
      full = true;
      continue;
    }
    ++there;
    known.names.emplace(row.id, memo.name);
    jobs.push_back(row.id);
    names.emplace_back(memo.name);
    results.emplace_back(memo.result);
  }
  if (full) result.memos_full.push_back(row.id);
  if (jobs.empty() || MS_MUTANT(memo_lost)) return false;
  write(memo_sql_.insert, params(jobs, names, results));
  row.flags |= kFlagMemos;
  return true;
}

void PostgresStore::drop_memos(JobRow& row) {
  if ((row.flags & kFlagMemos) == 0) return;
  write(memo_sql_.remove, params(Ints{row.id}));
  row.flags &= ~kFlagMemos;
}

Result<MemoPage> PostgresStore::memos(JobId id, const std::string& from, int limit) const {
  MS_TRY_ASSIGN(MemoPage page, with_reader([&](Connection& c) {
                  MemoPage out;
                  const Rows rows =
                      c.run(memo_sql_.page, params(id, from, std::int64_t{limit} + 1,
                                                   static_cast<std::int64_t>(kMemoPageBytes)));
                  for (int i = 0; i < rows.size(); ++i) {
                    if (i == limit || rows.is_null(i, 1)) {
                      out.next = rows.string(i, 0);
                      break;
                    }
                    out.memos.push_back({rows.string(i, 0), rows.string(i, 1)});
                  }
                  return out;
                }));
  if (page.memos.empty()) MS_TRY(get(id));  // returns the error of a missing job
  return page;
}

}  // namespace mainspring::pg
