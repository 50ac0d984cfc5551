// The disk, the state that survives a model store: made and copied.
#include "conformance/model_state.h"
#include "conformance/model_store.h"

namespace mainspring {

std::shared_ptr<ModelDisk> make_model_disk() {
  return std::make_shared<ModelDisk>();
}

std::shared_ptr<ModelDisk> copy_of(const ModelDisk& disk) {
  return std::make_shared<ModelDisk>(disk);
}

}  // namespace mainspring
