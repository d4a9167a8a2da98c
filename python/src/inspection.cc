#include "inspection.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>

#include "arrays.h"
#include "batch.h"
#include "bindings.h"
#include "engine.h"
#include "fovea/inspect_page.h"
#include "io/fields.h"
#include "model.h"
#include "request.h"

namespace fovea::python {
namespace {

// What was measured, and what was read.
struct Inspection {
  InspectedModel model;
  std::optional<InspectPicture> picture;
  bool paper_curve = false;
};

using Inspected = std::unique_ptr<Inspection>;

InspectOptions options_from(const nb::dict& given) {
  InspectOptions out;
  const auto read = [&](const char* name, auto& value) {
    if (given.contains(name)) value = nb::cast<std::remove_reference_t<decltype(value)>>(given[name]);
  };
  read("layers", out.layers);
  read("sequence", out.sequence);
  read("top", out.top);
  read("cells", out.cells);
  read("curve_points", out.curve_points);
  read("paper_curve", out.paper_curve);
  read("block", out.block);
  read("rollout", out.rollout);
  return out;
}

Inspected inspected(const OwnedModel& owned, const InspectSubject& subject, const nb::dict& given) {
  InspectOptions options = options_from(given);
  options.notes = subject.notes;
  options.second_notes = subject.second_notes;
  const Input& input = subject.batch.input;
  const std::int64_t n = input.ids.defined() ? input.ids.numel() : owned.model.config().max_length;
  if (!given.contains("cells"))
    options.cells = inspect_page_cells(n, std::ssize(owned.model.config().layers) * owned.model.config().heads);
  const auto asks = [&](const char* name) { return given.contains(name) && nb::cast<bool>(given[name]); };
  Batch asked = subject.batch;
  WorthQuestion question{subject.batch, asked, asks("importance"), asks("prune")};
  if (given.contains("approximation")) question.mechanisms = nb::cast<std::vector<std::string>>(given["approximation"]);
  const Running running;
  if (question.importance || question.pruning) ask_next_or_own(*owned.context, owned.model, asked);
  InspectedModel found{"model", inspect(*owned.context, owned.model, subject.batch, options), subject.tokens};
  add_worth(*owned.context, owned.model, question, found);
  return std::make_unique<Inspection>(Inspection{std::move(found), subject.picture, options.paper_curve});
}

const Tokenizer& tokenizer_of(const OwnedModel& owned) {
  if (!owned.tokenizer)
    fail(ErrorCode::usage, "this model came without a tokeniser", "inspect", "ids=... in place of a text");
  return *owned.tokenizer;
}

Inspected inspect_a_tagged_text(const OwnedModel& owned, const std::string& path, std::int64_t most,
                                const nb::dict& options) {
  return inspected(
      owned, inspect_tagged(*owned.context, owned.model, tokenizer_of(owned), read_tagged_text(path), most), options);
}

Inspected inspect_a_text(const OwnedModel& owned, const std::string& text, const std::string& second, std::int64_t most,
                         const nb::dict& options) {
  return inspected(owned, inspect_text(*owned.context, owned.model, tokenizer_of(owned), text, second, most), options);
}

Inspected inspect_a_batch(const OwnedModel& owned, const nb::dict& inputs, const std::vector<std::string>& tokens,
                          const std::vector<std::string>& second, const nb::dict& options) {
  return inspected(owned, {.batch = batch_from(*owned.context, inputs), .tokens = {tokens, second}}, options);
}

Inspected inspect_a_call(nb::handle q, nb::handle k, nb::handle v, const Mechanism& mechanism, const nb::dict& call,
                         const nb::dict& given) {
  const Request request = read_request(q, k, v, call);
  const auto context = request.context();
  InspectOptions options = options_from(given);
  if (!given.contains("cells"))
    options.cells =
        inspect_page_cells(std::max(request.q.value().dim(1), request.k.value().dim(1)), request.q.value().dim(2));
  AttentionOptions resolved;
  {
    Tape tape(*context, {.record = false});
    resolved = request.resolved(tape);
  }
  const Running running;
  LayerRecord layer = inspect_attention(*context, request.q.value(), request.k.value(), request.v.value(), mechanism,
                                        resolved, options);
  InspectedModel model{.name = layer.mechanism, .record = {}};
  model.record.layers.push_back(std::move(layer));
  return std::make_unique<Inspection>(Inspection{std::move(model), {}, options.paper_curve});
}

// A copy of numbers as a NumPy array.
template <class T>
nb::object array_of(const std::vector<T>& values, const Shape& shape) {
  const auto context = context_for(0.0);
  return array_from(Tensor::from<T>(*context, shape, values), Kind::numpy);
}
template <class T>
nb::object array_of(const std::vector<T>& values) {
  return array_of(values, {std::ssize(values)});
}

// None where nothing is known of the tokens.
nb::object compared(const ComparedShare& found) {
  if (std::isnan(found.share)) return nb::none();
  return nb::make_tuple(found.of, found.share, found.baseline);
}

nb::dict verdict_of(const HeadVerdict& v) {
  nb::dict out;
  const std::string_view name = name_of(v.head_class);
  out["head_class"] = nb::str(name.data(), name.size());
  out["offset"] = v.offset;
  out["offset_rate"] = v.offset_rate;
  out["near_mass"] = v.near_mass;
  out["deviation"] = v.deviation;
  out["broadcast_key"] = v.broadcast_key;
  out["broadcast_mass"] = v.broadcast_mass;
  out["block_width"] = v.block_width;
  out["block_mass"] = v.block_mass;
  out["block_by_distance"] = v.block_by_distance;
  out["entropy"] = v.entropy;
  out["delimiters"] = compared(v.delimiters);
  out["relation"] = compared(v.relation);
  out["tag"] = compared(v.tag);
  return out;
}

nb::dict head_of(const InspectedModel& model, const LayerRecord& layer, const HeadRecord& head) {
  nb::dict out;
  for (const HeadImportance& found : model.importance)
    if (found.layer == layer.index && found.head == head.head) {
      out["importance"] = found.by_gradient;
      out["loss_without"] = found.by_ablation;
    }
  const auto rows = std::ssize(head.entropy);
  out["head"] = head.head;
  out["verdict"] = verdict_of(head.verdict);
  out["entropy"] = array_of(head.entropy);
  out["effective_keys"] = array_of(head.effective_keys);
  out["largest"] = array_of(head.largest);
  out["largest_key"] = array_of(head.largest_key);
  out["max_logit"] = array_of(head.max_logit);
  out["row_sum"] = array_of(head.row_sum);
  out["top_keys"] = array_of(head.top_keys, {rows, head.top});
  out["top_weights"] = array_of(head.top_weights, {rows, head.top});
  out["received"] = array_of(head.received);
  out["distance"] = array_of(head.distance);
  out["curve"] = array_of(head.curve);
  out["area"] = head.area;
  out["bad_rows"] = head.bad_rows;
  nb::list levels;
  for (const MapLevel& level : head.pyramid)
    levels.append(nb::make_tuple(level.cell_rows, level.cell_keys, array_of(level.mean, {level.rows, level.columns}),
                                 array_of(level.largest, {level.rows, level.columns})));
  out["pyramid"] = levels;
  return out;
}

nb::dict layer_of(const InspectedModel& model, const LayerRecord& layer) {
  nb::dict out;
  const std::string_view kind = name_of(layer.map.kind);
  out["place"] = layer.place;
  out["mechanism"] = layer.mechanism;
  out["map"] = nb::str(kind.data(), kind.size());
  out["map_text"] = layer.map.text;
  out["causal"] = layer.causal;
  out["cross"] = layer.cross;
  out["n_q"] = layer.n_q;
  out["n_k"] = layer.n_k;
  nb::list heads;
  for (const HeadRecord& head : layer.heads) heads.append(head_of(model, layer, head));
  out["heads"] = heads;
  out["rollout"] = layer.rollout.empty() ? nb::none() : array_of(layer.rollout, {layer.n_q, layer.n_k});
  return out;
}

nb::list layers_of(const Inspection& inspection) {
  nb::list out;
  for (const LayerRecord& layer : inspection.model.record.layers) out.append(layer_of(inspection.model, layer));
  return out;
}

nb::object rollout_of(const Inspection& inspection) {
  const auto& rollout = inspection.model.record.rollout;
  if (!rollout) return nb::none();
  return nb::object(head_of(inspection.model, *rollout, rollout->heads.front()));
}

nb::dict row_of(const ApproximationRow& row) {
  nb::dict out;
  out["mechanism"] = row.mechanism;
  out["length"] = row.length;
  out["output_error"] = row.output_error;
  out["divergence"] = row.divergence;
  out["top_agreement"] = row.top_agreement;
  out["seconds"] = row.seconds;
  out["softmax_seconds"] = row.softmax_seconds;
  out["reason"] = row.reason;
  return out;
}

// What was asked of heads and of other mechanisms.
nb::dict worth_of(const Inspection& inspection) {
  nb::list steps, rows;
  for (const PruningStep& step : inspection.model.pruning.steps)
    steps.append(nb::make_tuple(step.removed, step.loss, step.accuracy));
  for (const LayerApproximation& of : inspection.model.approximation) {
    nb::dict row = row_of(of.row);
    row["layer"] = of.layer;
    rows.append(row);
  }
  nb::dict out;
  out["pruning"] = steps;
  out["approximation"] = rows;
  return out;
}

nb::list approximation_of(nb::handle q, nb::handle k, nb::handle v, const std::vector<std::string>& mechanisms,
                          const std::vector<std::int64_t>& lengths, bool causal) {
  const Request request = read_request(q, k, v, {});
  const auto context = request.context();
  std::vector<ApproximationRow> rows;
  {
    const Running running;  // without Python's lock
    rows =
        approximation(*context, request.q.value(), request.k.value(), request.v.value(), mechanisms, lengths, causal);
  }
  nb::list out;
  for (const ApproximationRow& row : rows) out.append(row_of(row));
  return out;
}

std::string page_of(const std::vector<const Inspection*>& inspections, const std::vector<std::string>& names,
                    const std::string& title, const std::string& sentence) {
  InspectPage page{.title = title, .sentence = sentence};
  for (std::size_t i = 0; i < inspections.size(); ++i) {
    page.models.push_back(inspections[i]->model);
    page.models.back().name = names.at(i);
  }
  page.paper_curve = inspections.at(0)->paper_curve;
  page.picture = inspections.at(0)->picture;
  return inspect_page_html(page);
}

}  // namespace

void bind_inspection(nb::module_& module) {
  nb::class_<Inspection>(module, "Inspection")
      .def("layers", layers_of)
      .def("worth", worth_of)
      .def("rollout", rollout_of);
  module.def("approximation", approximation_of);
  module.def("inspect_text", inspect_a_text);
  module.def("inspect_tagged", inspect_a_tagged_text);
  module.def("inspect_batch", inspect_a_batch);
  module.def("inspect_attention", inspect_a_call);
  module.def("inspect_page", page_of);
}

}  // namespace fovea::python
