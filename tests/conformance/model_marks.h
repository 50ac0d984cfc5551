// The marks and saved views of the model store.
#pragma once

#include <algorithm>
#include <type_traits>

#include "conformance/model_state.h"

namespace mainspring {

template <class T>
concept MarkOperation = std::is_same_v<T, AddMark> || std::is_same_v<T, RemoveMark> ||
    std::is_same_v<T, PutView> || std::is_same_v<T, RemoveView>;

struct MarkAnswer {
  OperationResult result;
  bool wrote = false;
};

inline MarkAnswer run_mark(ModelDisk& disk, const AddMark& op, WallTime now) {
  const WallTime at = op.at.value_or(now);
  if (auto good = check_mark_time(at, now); !good) return {good.error()};
  for (const Mark& mark : disk.marks) {
    if (op.source == MarkSource::worker && mark.source == op.source && mark.text == op.text)
      return {mark};
  }
  const Mark made{
      .id = ++disk.last_mark, .at = at, .text = op.text, .by = op.by, .source = op.source};
  disk.marks.push_back(made);
  if (std::ssize(disk.marks) > kMaxMarks) {
    disk.marks.erase(
        std::min_element(disk.marks.begin(), disk.marks.end(), [](const Mark& a, const Mark& b) {
          return MarkPlace(a.at, a.id) < MarkPlace(b.at, b.id);
        }));
  }
  return {made, true};
}

inline MarkAnswer run_mark(ModelDisk& disk, const RemoveMark& op, WallTime) {
  const auto gone = std::erase_if(disk.marks, [&](const Mark& mark) { return mark.id == op.id; });
  if (gone == 0) return {no_mark(op.id)};
  return {Done{}, true};
}

inline MarkAnswer run_mark(ModelDisk& disk, const PutView& op, WallTime now) {
  if (!disk.views.contains(op.view.name) && std::ssize(disk.views) >= kMaxViews)
    return {too_many_views()};
  SavedView& view = disk.views[op.view.name];
  view = op.view;
  view.updated_at = now;
  return {view, true};
}

inline MarkAnswer run_mark(ModelDisk& disk, const RemoveView& op, WallTime) {
  if (disk.views.erase(op.name) == 0) return {no_view(op.name)};
  return {Done{}, true};
}

}  // namespace mainspring
