// The conformance suite over the model store: the suite and the model check each other.
#include "conformance/bench.h"
#include "conformance/model_store.h"

namespace mainspring {

StoreFactory store_under_test() {
  auto disk = std::make_shared<std::shared_ptr<ModelDisk>>(make_model_disk());
  return [disk](OpenAs how, const StoreOptions& options, Now now) {
    if (how == OpenAs::fresh) *disk = make_model_disk();
    return open_model_store(*disk, options, now);
  };
}

}  // namespace mainspring
