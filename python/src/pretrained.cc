#include "fovea/pretrained.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "core/nearest.h"
#include "engine.h"
#include "model.h"

namespace fovea::python {
namespace {

std::optional<Pooling> pooling_from(const std::string& name) {
  if (name.empty()) return {};
  return static_cast<Pooling>(place_of_name(name, pooling_names(), "pooling", "pooling"));
}

std::unique_ptr<OwnedModel> import(const std::string& path, const std::vector<std::string>& ignore,
                                   const std::string& pooling, std::uint64_t seed) {
  const auto context = context_of(seed);
  Imported imported = import_model(*context, path, {.ignore = ignore, .pooling = pooling_from(pooling)});
  return std::make_unique<OwnedModel>(context, std::move(imported.model), std::move(imported.tokenizer));
}

void write_model(const OwnedModel& owned, const std::string& folder, const std::string& format) {
  export_model(owned.model, folder, {.format = format, .tokenizer = owned.tokenizer ? &*owned.tokenizer : nullptr});
}

nb::object embed_texts(const OwnedModel& owned, const std::vector<std::string>& texts, bool normalize,
                       std::int64_t batch_tokens) {
  if (!owned.tokenizer)
    fail(ErrorCode::usage, "this model came without a tokeniser", "embed", "import a folder that has tokenizer.json");
  Tensor vectors;
  {
    const Running running;
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    vectors = embed(*owned.context, owned.model, *owned.tokenizer, views,
                    {.batch_tokens = batch_tokens, .normalize = normalize});
  }
  return array_from(vectors, Kind::numpy);
}

}  // namespace

void bind_pretrained(nb::module_& module) {
  module.def("import_model", import);
  module.def("export_model", write_model);
  module.def("embed", embed_texts);
}

}  // namespace fovea::python
