#include "fovea/data.h"

namespace fovea {

std::vector<std::string_view> task_names() {
  return {"classify", "match", "regress", "lm", "mlm", "seq2seq", "vision", "image_text", "forecast", "encode"};
}

bool empty(const std::shared_ptr<const Split>& split) { return split == nullptr || split->size() == 0; }

}  // namespace fovea
