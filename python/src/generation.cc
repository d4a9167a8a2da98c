#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "engine.h"
#include "fovea/generate.h"
#include "model.h"
#include "read_arguments.h"

namespace fovea::python {
namespace {

// Hands text to a Python function. What that raises is kept until the generator has stopped.
class Listener {
 public:
  explicit Listener(nb::object hear) : hear_(std::move(hear)) {}

  template <class Text>
  void tell(std::int64_t prompt, const Text& text) {
    if (hear_.is_none()) return;
    const nb::gil_scoped_acquire gil;
    try {
      hear_(prompt, text());
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

struct Wanted {
  GenerateOptions options;
  WeightForm weights = WeightForm::f32;

  void fields(FieldVisitor& v) {
    v("options", options, "how tokens are chosen");
    v("weights", weights, "what weights are kept as", one_of(weight_form_names()));
  }
  static Wanted from(const std::string& json) {
    Wanted request;
    read_arguments(request, json, "fovea.generate");
    return request;
  }
};

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
                      nb::object hear) {
  const Wanted request = Wanted::from(settings);
  Listener listener(std::move(hear));
  std::vector<Generated> results;
  {
    const Running running;
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

// `tokenizer` null: the model's own, else bytes.
nb::list generate_texts(const OwnedModel& owned, const std::vector<nb::bytes>& prompts, const Tokenizer* tokenizer,
                        const std::string& settings, nb::object hear) {
  const Wanted request = Wanted::from(settings);
  std::vector<std::string> texts;
  for (const nb::bytes& prompt : prompts) texts.emplace_back(static_cast<const char*>(prompt.data()), prompt.size());
  const Tokenizer used = tokenizer != nullptr ? *tokenizer : owned.tokenizer ? *owned.tokenizer : Tokenizer::bytes();
  Listener listener(std::move(hear));
  std::vector<Generated> results;
  {
    const Running running;
    Generator generator(*owned.context, owned.model, request.weights);
    const auto piece = [&](std::int64_t prompt, std::string_view text) {
      listener.tell(prompt, [&] { return nb::bytes(text.data(), text.size()); });
    };
    results = generate_text(generator, used, texts, request.options, {piece, {}}, &listener.stop());
  }
  listener.rethrow();
  return results_of(results);
}

}  // namespace

void bind_generation(nb::module_& module) {
  module.def("generate_ids", generate_ids, nb::arg("model"), nb::arg("prompts"), nb::arg("settings"),
             nb::arg("hear").none());
  module.def("generate_texts", generate_texts, nb::arg("model"), nb::arg("prompts"), nb::arg("tokenizer").none(),
             nb::arg("settings"), nb::arg("hear").none());
}

}  // namespace fovea::python
