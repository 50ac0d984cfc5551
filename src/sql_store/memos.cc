// Memos: saved results of a job's steps, for later attempts.
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

MemoStatements::MemoStatements(Connection& db)
    : insert(db, queries::memos::insert),
      overwrite(db, queries::memos::overwrite),
      known(db, queries::memos::known),
      count(db, queries::memos::count),
      remove(db, queries::memos::remove) {}

MemoReads::MemoReads(Connection& db) : page(db, queries::memos::page) {}

bool SqlStore::keep_memos(const Renewal& renewal, Lease& lease, RenewResult& result) {
  if (renewal.memos.empty() || MS_MUTANT(memo_lost)) return false;
  std::size_t there = 0;
  {
    Statement& row = memo_sql_->count.bind(renewal.id);
    ResetGuard guard(row);
    if (row.step()) there = static_cast<std::size_t>(row.integer(0));
  }
  bool any = false, full = false;
  for (const Memo& memo : renewal.memos) {
    bool known = false;
    {
      Statement& row = memo_sql_->known.bind(renewal.id, memo.name);
      ResetGuard guard(row);
      known = row.step();
    }
    if (known && !MS_MUTANT(memo_overwritten)) continue;
    if (!known && there >= kMaxMemos) {
      full = true;
      continue;
    }
    if (!known) ++there;
    begin_write();
    (known ? memo_sql_->overwrite : memo_sql_->insert)
        .bind(renewal.id, memo.name, memo.result)
        .run();
    any = true;
  }
  if (full) result.memos_full.push_back(renewal.id);
  if (any) lease.flags |= kFlagMemos;
  return any;
}

void SqlStore::drop_memos(JobId id, int& flags) {
  if ((flags & kFlagMemos) == 0 || MS_MUTANT(memos_outlive_success)) return;
  memo_sql_->remove.bind(id).run();
  flags &= ~kFlagMemos;
}

Result<MemoPage> SqlStore::memos(JobId id, const std::string& from, int limit) const {
  try {
    auto reader = take_reader();
    MemoPage page;
    {
      Snapshot snapshot(*reader->db);
      Statement& rows = reader->memos.page.bind(id, from, limit + 1);
      ResetGuard guard(rows);
      std::size_t bytes = 0;
      while (rows.step()) {
        if (std::ssize(page.memos) == limit || bytes >= kMemoPageBytes) {
          page.next = rows.text(0);
          break;
        }
        page.memos.push_back({std::string(rows.text(0)), std::string(rows.text(1))});
        bytes += page.memos.back().result.size();
      }
    }
    give_back(std::move(reader));
    if (!page.memos.empty()) return page;
  } catch (const DiskError& error) {
    return to_error(error);
  }
  MS_TRY(get(id));  // returns the error of a missing job
  return MemoPage{};
}

}  // namespace mainspring::sql
