#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "bindings.h"
#include "core/nearest.h"
#include "engine.h"
#include "fovea/generate.h"
#include "io/fields.h"
#include "model.h"

namespace fovea::python {
namespace {

// Hands pieces to a Python function. What that raises is kept until the generator has stopped.
class Listener {
 public:
  explicit Listener(nb::object hear) : hear_(std::move(hear)) {}

  template <class Piece>
  void tell(std::int64_t prompt, const Piece& piece) {
    if (hear_.is_none()) return;
    const nb::gil_scoped_acquire gil;
    try {
      hear_(prompt, piece());
    } catch (const nb::python_error& error) {
      if (!raised_) raised_ = std::make_exception_ptr(error);
      stop_ = true;
    }
  }

  const std::atomic<bool>& stop() const { return stop_; }
  void rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  nb::object hear_;
  std::exception_ptr raised_;
  std::atomic<bool> stop_{false};
};

struct Request {
  GenerateOptions options;
  WeightForm weights;
};

Request request_of(const std::string& settings, const std::string& weights) {
  Request request{{}, WeightForm::f32};
  read_fields(request.options, parse_json(settings, "generate"), "generate");
  const auto names = weight_form_names();
  const auto at = std::find(names.begin(), names.end(), weights);
  if (at == names.end())
    fail(ErrorCode::usage, "no weights in \"" + weights + "\"", "weights", name_hint(weights, names));
  request.weights = static_cast<WeightForm>(at - names.begin());
  return request;
}

nb::list results_of(const std::vector<Generated>& results) {
  nb::list out;
  for (const Generated& r : results) {
    nb::dict one;
    const std::string_view end = name_of(r.end);
    one["ids"] = nb::cast(r.ids);
    one["text"] = nb::bytes(r.text.data(), r.text.size());  // a model of bytes may say what is not UTF-8
    one["end"] = nb::str(end.data(), end.size());
    one["score"] = r.score;
    out.append(one);
  }
  return out;
}

nb::list generate_ids(const OwnedModel& owned, const std::vector<Tokens>& prompts, const std::string& settings,
                      const std::string& weights, nb::object hear) {
  const Request request = request_of(settings, weights);
  Listener listener(std::move(hear));
  std::vector<Generated> results;
  {
    const Running running(*owned.context);
    Generator generator(*owned.context, owned.model, request.weights);
    const auto token = [&](std::int64_t prompt, std::int32_t id) {
      listener.tell(prompt, [&] { return nb::int_(id); });
      return true;
    };
    results = generator.run(prompts, request.options, {token, {}}, &listener.stop());
  }
  listener.rethrow();
  return results_of(results);
}

// `tokenizer`: where to load it from; empty: bytes.
nb::list generate_texts(const OwnedModel& owned, const std::vector<std::string>& prompts, const std::string& tokenizer,
                        const std::vector<std::string>& settings, nb::object hear) {
  const Request request = request_of(settings.at(0), settings.at(1));
  Listener listener(std::move(hear));
  std::vector<Generated> results;
  {
    const Running running(*owned.context);
    Generator generator(*owned.context, owned.model, request.weights);
    const auto piece = [&](std::int64_t prompt, std::string_view text) {
      listener.tell(prompt, [&] { return nb::bytes(text.data(), text.size()); });
    };
    results = generate_text(generator, tokenizer.empty() ? Tokenizer::bytes() : Tokenizer::load(tokenizer), prompts,
                            request.options, {piece, {}}, &listener.stop());
  }
  listener.rethrow();
  return results_of(results);
}

}  // namespace

void bind_generation(nb::module_& module) {
  module.def("generate_ids", generate_ids, nb::arg("model"), nb::arg("prompts"), nb::arg("settings"),
             nb::arg("weights"), nb::arg("hear").none());
  module.def("generate_texts", generate_texts, nb::arg("model"), nb::arg("prompts"), nb::arg("tokenizer"),
             nb::arg("settings"), nb::arg("hear").none());
}

}  // namespace fovea::python
