#include "fovea/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/wide.h"
#include "fovea/mechanism.h"
#include "gemm/narrowed.h"
#include "models/mesh.h"
#include "models/network.h"
#include "ops/numbers.h"
#include "parallel/cut.h"

namespace fovea {
namespace {

bool reads_tokens(const ModelConfig& config) {
  if (config.task == Task::encode) return !config.image;
  return config.task != Task::vision && config.task != Task::forecast;
}
bool has_classes(Task task) { return task == Task::classify || task == Task::match || task == Task::vision; }

ModelConfig checked(ModelConfig config) {
  config.check();
  if (reads_tokens(config) && config.vocabulary < 1)
    fail(ErrorCode::usage, "the size of the vocabulary is not set", "vocabulary");
  if (has_classes(config.task) && config.classes < 1)
    fail(ErrorCode::usage, "the number of classes is not set", "classes");
  if (config.image && (config.image->height < 1 || config.image->width < 1 || config.image->channels < 1))
    fail(ErrorCode::usage, "the size of pictures is not set", "image");
  if (config.series && (config.series->length < 1 || config.series->horizon < 1 || config.series->channels < 1))
    fail(ErrorCode::usage, "rows that are read, rows that are foretold or channels are not set", "series");
  return config;
}

// A name that nothing has would freeze nothing.
void check_frozen(const std::vector<Parameter>& parameters, const std::vector<std::string>& frozen) {
  for (const std::string& part : frozen) {
    const auto fits = [&](const Parameter& p) { return nn::is_part_of(p.name, part); };
    if (std::any_of(parameters.begin(), parameters.end(), fits)) continue;
    std::vector<std::string> parts;
    for (const Parameter& p : parameters)
      if (const std::string first = p.name.substr(0, p.name.find('.')); parts.empty() || parts.back() != first)
        parts.push_back(first);
    fail(ErrorCode::usage, fmt::format("no parameter is called \"{}\", or begins with it", part), "frozen",
         fmt::format("{}, or a part of these", fmt::join(parts, ", ")));
  }
  if (std::none_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.trained(); }))
    fail(ErrorCode::usage, "nothing is left to be trained", "frozen", "fewer parts");
}

std::unique_ptr<Network> make_network(const nn::Scope& root, const ModelConfig& config) {
  switch (config.task) {
    case Task::classify:
    case Task::match:
    case Task::regress: return make_classifier(root, config);
    case Task::lm:
    case Task::mlm: return make_language_model(root, config);
    case Task::seq2seq: return make_seq2seq(root, config);
    case Task::vision: return make_vision(root, config);
    case Task::image_text: return make_image_text(root, config);
    case Task::forecast: return make_forecaster(root, config);
    case Task::encode: return make_encoder(root, config);
  }
  fail(ErrorCode::usage, "no such task", "task");
}

// Blocks of local attention read each other's rows alone.
std::int64_t rows_together(const ModelConfig& config) {
  std::int64_t rows = 1;
  for (const std::string& layer : config.layers)
    if (const Mechanism mechanism = Mechanism::parse(layer); mechanism.name() == "diag")
      rows = std::max(rows, mechanism.integer("block"));
  return rows;
}

}  // namespace

struct Model::Impl {
  Impl(Context& c, ModelConfig settings, std::int64_t most)
      : context(&c), config(checked(std::move(settings))), left(most), network(build({})) {
    check_frozen(parameters, config.frozen);
  }

  std::unique_ptr<Network> build(const dist::Group& ranks) {
    const nn::Scope root(*context, wide_type(config.dtype), parameters, left, config.frozen);
    return make_network(root.shared_by(ranks), config);
  }

  // The same model of this rank's parts of the weights.
  void share(const dist::Group& ranks) {
    const std::vector<Parameter> whole = std::exchange(parameters, {});
    left = std::numeric_limits<std::int64_t>::max();
    network = build(ranks);
    for (std::size_t i = 0; i < whole.size(); ++i)
      divided::copy_part(whole[i].var.value(), parameters[i].cut, ranks, parameters[i].var.value());
    shared = true;
  }

  Context* context;
  ModelConfig config;
  std::int64_t left;  // numbers that parameters may still have
  std::vector<Parameter> parameters;
  std::unique_ptr<Network> network;
  bool shared = false;
};

void set_mesh(Model& model, const dist::Mesh& mesh) {
  Model::Impl& impl = *model.impl_;
  if (impl.shared) fail(ErrorCode::usage, "the weights of this model are shared already", "model", "a new model");
  if (mesh.tensor.size() > 1) nn::within("model", [&] { impl.share(mesh.tensor); });
  impl.network->share_rows({mesh.sequence, rows_together(impl.config)});
  impl.network->share_examples(mesh.same_examples);
}

Model::Model(Context& context, ModelConfig config, std::int64_t most)
    : impl_(nn::within("model", [&] { return std::make_unique<Impl>(context, std::move(config), most); })) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const ModelConfig& Model::config() const { return impl_->config; }
const std::vector<Parameter>& Model::parameters() const { return impl_->parameters; }
const Network& Model::network() const { return *impl_->network; }

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& p : impl_->parameters) count += divided::whole_shape(p.var.shape(), p.cut).numel();
  return count;
}

namespace {

// What products read: matrices that decay, and biases.
std::vector<Tensor> read_by_products(const std::vector<Parameter>& parameters) {
  std::vector<Tensor> read;
  for (const Parameter& p : parameters)
    if (p.decay || p.name.ends_with(".bias")) read.push_back(p.var.value());
  return read;
}

}  // namespace

Var Model::forward(Tape& tape, const Batch& batch) const {
  const gemm::NarrowedWeights narrowed(read_by_products(impl_->parameters));
  return tape.at("model", [&] { return impl_->network->forward(tape, batch); });
}

Var Model::forward(Tape& tape, const Tensor& ids, const Sequences& rows) const {
  return forward(tape, Batch{.input = {.ids = ids, .rows = rows}});
}

Loss::Numbers Loss::read(const Context& context) const {
  const std::vector<double> numbers = read_numbers(context, {value.value(), asked, correct, deviation});
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

Loss Model::loss(Tape& tape, const Batch& batch, const LossOptions& options) const {
  const gemm::NarrowedWeights narrowed(read_by_products(impl_->parameters));
  return tape.at("model", [&] {
    Loss loss = impl_->network->loss(tape, batch, options);
    for (const Var& penalty : tape.take_penalties()) loss.value = add(tape, loss.value, penalty);
    return loss;
  });
}

}  // namespace fovea
