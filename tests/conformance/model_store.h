// ModelStore: the simplest store that fulfils the contract, in memory; the reference for real ones.
//
// Written from src/store/*.h alone: a std::map of jobs, and every read walks through all of it. It
// has no index and no counter that could drift. The differential test runs the same operations on
// it and on a real store and compares every answer.
#pragma once

#include <memory>

#include "store/store.h"

namespace mainspring {

// The state that survives when a ModelStore is closed.
struct ModelDisk;
std::shared_ptr<ModelDisk> make_model_disk();
std::shared_ptr<ModelDisk> copy_of(const ModelDisk& disk);

enum class ModelOpening {
  process,  // a new one: the leadership is forgotten
  reread,   // the same one read its disk again, after a write that failed
};
// Opens over `disk`, empty or used before; `now` is the time of opening. Without `now` no lease
// restarts: as if the store had never been closed.
std::unique_ptr<Store> open_model_store(std::shared_ptr<ModelDisk> disk, StoreOptions options,
                                        std::optional<Now> now,
                                        ModelOpening how = ModelOpening::process);

}  // namespace mainspring
