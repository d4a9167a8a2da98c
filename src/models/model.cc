#include "fovea/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/wide.h"
#include "fovea/mechanism.h"
#include "gemm/narrowed.h"
#include "models/mesh.h"
#include "models/network.h"
#include "models/weight_shares.h"
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
    for (const Parameter& p : parameters) whole.push_back({p.name, p.var.shape(), p.var.dtype(), p.trained()});
  }

  std::unique_ptr<Network> build(const dist::Group& ranks) {
    const nn::Scope root(*context, wide_type(config.dtype), parameters, left, config.frozen);
    return make_network(root.shared_by(ranks).at_stage(pipeline.stage()).placed_in(shares.get()), config);
  }

  // The same model of this rank's parts of the weights, and of its layers.
  void share(const dist::Mesh& mesh) {
    if (mesh.pipeline.size() > 1) check_stages(mesh.shape);
    if (divides_weights(mesh)) {
      check_divided(mesh);
      shares = std::make_unique<WeightShares>(*context, parameters, mesh.same_weights);
    }
    pipeline = Pipeline(mesh.pipeline, mesh.shape.chunks);
    const std::vector<Parameter> before = std::exchange(parameters, {});
    left = std::numeric_limits<std::int64_t>::max();
    network = build(mesh.tensor);
    for (const Parameter& p : parameters) {
      const auto same = [&](const Parameter& other) { return other.name == p.name; };
      const Var& from = std::find_if(before.begin(), before.end(), same)->var;
      divided::copy_part(from.value(), p.cut, mesh.tensor, p.var.value());
    }
    find_stages(mesh.pipeline);
    if (shares) shares->take();
    shared = true;
  }

  static bool divides_weights(const dist::Mesh& mesh) {
    return mesh.shape.divides(dist::Divide::weights) && mesh.same_weights.size() > 1;
  }
  void check_divided(const dist::Mesh& mesh) const;

  void check_stages(const dist::MeshShape& mesh) const;
  void find_stages(const dist::Group& ranks);

  Context* context;
  ModelConfig config;
  std::int64_t left;  // numbers that parameters may still have
  std::vector<Parameter> parameters;
  std::vector<WholeParameter> whole;
  Pipeline pipeline;
  std::unique_ptr<WeightShares> shares;
  std::unique_ptr<Network> network;
  bool shared = false;
};

void Model::Impl::check_stages(const dist::MeshShape& mesh) const {
  const std::string_view task = task_names()[static_cast<std::size_t>(config.task)];
  if (network->staged() == nullptr)
    fail(ErrorCode::unsupported, fmt::format("models for {} are not one stack that ranks could have in stages", task),
         fmt::format("support matrix: {} x pipeline", task), "a mesh without the axis pipeline");
  const std::int64_t layers = std::ssize(config.layers), chunks = mesh.pipeline * mesh.chunks;
  if (layers < chunks)
    fail(ErrorCode::usage, fmt::format("{} layers do not divide into {} stages", layers, chunks), "layers",
         "a smaller axis pipeline, or fewer chunks");
}

void Model::Impl::check_divided(const dist::Mesh& mesh) const {
  constexpr const char* kHint = "--divide gradients";
  const std::string_view task = task_names()[static_cast<std::size_t>(config.task)];
  if (mesh.all_weights.size() > 1)
    fail(ErrorCode::unsupported, "weights are divided among ranks that have all of them",
         fmt::format("support matrix: divided weights x {}", mesh.tensor.size() > 1 ? "tensor" : "pipeline"), kHint);
  if (network->staged() == nullptr)
    fail(ErrorCode::unsupported, fmt::format("models for {} are not one stack of layers", task),
         fmt::format("support matrix: {} x divided weights", task), kHint);
  if (context->device() != Device::cpu)
    fail(ErrorCode::unsupported, "memory of a card does not give back pages of weights",
         "support matrix: divided weights x cuda", kHint);
}

// Who has which parameter.
void Model::Impl::find_stages(const dist::Group& ranks) {
  std::string own = "\n";
  for (const Parameter& p : parameters) own += p.name + "\n";
  const std::vector<std::string> all = ranks.all_gather(own);
  const auto stages_of = [&](const std::string& name) {
    std::vector<int> stages;
    for (int r = 0; r < ranks.size(); ++r)
      if (all[static_cast<std::size_t>(r)].find("\n" + name + "\n") != std::string::npos) stages.push_back(r);
    return stages;
  };
  for (WholeParameter& p : whole) p.stage = stages_of(p.name).front();
  for (Parameter& p : parameters)
    if (std::vector<int> stages = stages_of(p.name); stages.size() > 1) p.stages = std::move(stages);
}

void set_mesh(Model& model, const dist::Mesh& mesh) {
  Model::Impl& impl = *model.impl_;
  if (impl.shared) fail(ErrorCode::usage, "the weights of this model are shared already", "model", "a new model");
  if (mesh.all_weights.size() > 1 || Model::Impl::divides_weights(mesh)) nn::within("model", [&] { impl.share(mesh); });
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
  for (const WholeParameter& p : impl_->whole) count += p.shape.numel();
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

// Every chunk of this rank, on a tape that keeps nothing; what the last one gives is nobody else's yet.
Pipeline::Pass every_chunk(const Model& model, Tape& tape, const Batch& batch, const LossOptions* options) {
  const Pipeline& pipeline = pipeline_of(model);
  if (pipeline.divides() && tape.recording())
    fail(ErrorCode::unsupported, "ranks have this model in stages: each step of training is theirs together", "model",
         "fovea train, or a tape that records nothing");
  Pipeline::Pass last;
  Var penalties;
  for (const std::int64_t chunk : pipeline.chunks()) {
    last = forward_chunk(model, tape, batch, options, chunk);
    Var& value = last.loss.value;
    if (penalties.defined()) value = value.defined() ? add(tape, value, penalties) : penalties;
    penalties = value;
  }
  pipeline.settle();
  return last;
}

}  // namespace

WeightShares* weight_shares_of(const Model& model) { return model.impl_->shares.get(); }
const Pipeline& pipeline_of(const Model& model) { return model.impl_->pipeline; }
const std::vector<WholeParameter>& whole_parameters(const Model& model) { return model.impl_->whole; }

Pipeline::Pass forward_chunk(const Model& model, Tape& tape, const Batch& batch, const LossOptions* options,
                             std::int64_t chunk) {
  const gemm::NarrowedWeights narrowed(read_by_products(model.parameters()));
  return tape.at("model", [&] {
    return pipeline_of(model).forward(tape, {model.config(), model.network(), batch, options}, chunk);
  });
}

Var Model::forward(Tape& tape, const Batch& batch) const {
  return impl_->pipeline.for_all(tape.context(), every_chunk(*this, tape, batch, nullptr).output);
}

Var Model::forward(Tape& tape, const Tensor& ids, const Sequences& rows) const {
  return forward(tape, Batch{.input = {.ids = ids, .rows = rows}});
}

Loss::Numbers Loss::read(const Context& context) const {
  const std::vector<double> numbers = read_numbers(context, {value.value(), asked, correct, deviation});
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

Loss Model::loss(Tape& tape, const Batch& batch, const LossOptions& options) const {
  Loss loss = every_chunk(*this, tape, batch, &options).loss;
  if (!impl_->pipeline.divides()) return loss;
  const Context& context = tape.context();
  const std::vector<double> all =
      impl_->pipeline.sum(read_numbers(context, {loss.value.value(), loss.asked, loss.correct, loss.deviation}));
  const auto number = [&](std::size_t i) { return Tensor::from<double>(context, {}, std::span(&all[i], 1)); };
  return {.value = number(0), .asked = number(1), .correct = number(2), .deviation = number(3)};
}

}  // namespace fovea
