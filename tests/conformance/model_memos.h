// The memos of the model store.
#pragma once

#include "conformance/model_state.h"

namespace mainspring {

// True if any is new.
inline bool keep_memos(Record& r, const Renewal& renewal, RenewResult& result) {
  bool any = false, full = false;
  for (const Memo& memo : renewal.memos) {
    if (r.memos.contains(memo.name)) continue;
    const bool fits = r.memos.size() < kMaxMemos;
    if (fits) r.memos.emplace(memo.name, memo.result);
    (fits ? any : full) = true;
  }
  if (full) result.memos_full.push_back(renewal.id);
  return any;
}

inline MemoPage page_of_memos(const Record& r, const std::string& from, int limit) {
  MemoPage page;
  std::size_t bytes = 0;
  for (auto it = r.memos.lower_bound(from); it != r.memos.end(); ++it) {
    if (std::ssize(page.memos) == limit || bytes >= kMemoPageBytes) {
      page.next = it->first;
      break;
    }
    page.memos.push_back({it->first, it->second});
    bytes += it->second.size();
  }
  return page;
}

}  // namespace mainspring
