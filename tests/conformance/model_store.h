// ModelStore: the simplest store that keeps the contract, in memory; the measure for real ones.
//
// Written from src/store/*.h alone: a std::map of jobs, every question answered by walking through
// all of it, no index, no counter that could drift. The differential test runs the same operations
// on it and on a real store and compares every answer.
#pragma once

#include <memory>

#include "store/store.h"

namespace mainspring {

// What survives when a ModelStore is closed: its disk.
struct ModelDisk;
std::shared_ptr<ModelDisk> make_model_disk();
std::shared_ptr<ModelDisk> copy_of(const ModelDisk& disk);

enum class ModelOpening {
  process,  // a new one: the leadership is forgotten
  reread,   // the same one read its disk anew, after a write that failed
};
// Opens over `disk`, empty or used before; `now` is the time of opening. Without it nothing begins
// anew: as if it had never been closed.
std::unique_ptr<Store> open_model_store(std::shared_ptr<ModelDisk> disk, StoreOptions options,
                                        std::optional<Now> now,
                                        ModelOpening how = ModelOpening::process);

}  // namespace mainspring
