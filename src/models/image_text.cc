#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/wide.h"
#include "models/network.h"
#include "nn/divided.h"
#include "nn/embedding.h"
#include "nn/output.h"
#include "nn/stack.h"
#include "nn/vision.h"

namespace fovea {
namespace {

constexpr double kTemperature = 0.07, kMostScale = 100.0;

void check_pairs(std::int64_t pictures, std::int64_t texts) {
  if (pictures != texts)
    fail(ErrorCode::shape, fmt::format("{} pictures, but {} texts", pictures, texts), "batch.second",
         "one text for each picture");
}

std::int64_t count_texts(const Input& input) {
  if (!input.ids.defined() || input.ids.rank() != 2)
    fail(ErrorCode::shape, "token ids must be i32 of shape (batch, length)", "batch.second.ids");
  return std::ssize(input.rows.rows(input.ids.dim(0), input.ids.dim(1), "batch.second.rows"));
}

std::vector<std::int32_t> count_up(std::int64_t count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Numbers below a limit.
Index index_of(const Context& context, const std::vector<std::int32_t>& numbers, std::int64_t limit) {
  return {Tensor::from<std::int32_t>(context, {std::ssize(numbers)}, numbers), 0, limit};
}

// Rows (b, n, width) of pictures beside packed texts: in one row after another, too.
nn::Source packed(Tape& tape, const nn::Source& pictures) {
  const std::int64_t b = pictures.rows.dim(0), n = pictures.rows.dim(1);
  auto layout = std::make_shared<nn::Layout>();
  for (std::int64_t i = 0; i <= b; ++i) layout->rows.cu_seqlens.push_back(static_cast<std::int32_t>(i * n));
  layout->positions = pictures.layout->positions.reshape({1, b * n});
  layout->longest = pictures.layout->longest;
  return {reshape(tape, pictures.rows, {1, b * n, pictures.rows.dim(2)}), layout};
}

// A stack for texts and one for pictures.
class ImageText : public Network {
 public:
  ImageText(const nn::Scope& root, const ModelConfig& config)
      : ImageText(root, config, stack_spec(config, *config.image_stack, config.image->patches())) {}

 protected:
  // Rows of pictures (b, patches (+ 1), width of their stack).
  nn::Source picture_rows(Tape& tape, const Input& input) const {
    return tape.at("image", [&] { return image_(tape, input.values, sharers()); });
  }
  Var pool_pictures(Tape& tape, const nn::Source& rows) const {
    return cast(tape, nn::pool(tape, rows.rows, *rows.layout, image_pooling_), wide_);
  }
  // One vector for each text (texts, width); `pictures`: what the texts attend to, where they do.
  Var texts(Tape& tape, const Input& input, nn::Source pictures = {}) const {
    return tape.at("text", [&] {
      if (pictures.defined() && !input.rows.cu_seqlens.empty()) pictures = packed(tape, pictures);
      const nn::Arranged batch = arrange(tape, embedding_.spec(), input);
      const Var x = text_(tape, embedding_(tape, batch), batch.layout, pictures);
      return cast(tape, nn::pool(tape, x, *batch.layout, text_pooling_), wide_);
    });
  }

 private:
  // Pictures bring no token that stands for all of them: where rows are not averaged, the model adds one.
  ImageText(const nn::Scope& root, const ModelConfig& config, const StackSpec& image)
      : text_pooling_(config.pooling),
        image_pooling_(config.pooling == Pooling::mean ? Pooling::mean : Pooling::cls),
        wide_(wide_type(config.dtype)),
        embedding_(root / "text" / "embedding", config, nn::EmbeddingSpec::of(config)),
        text_(root / "text", text_spec(config)),
        image_(root / "image", config, image, image_pooling_ == Pooling::cls) {}

  static StackSpec text_spec(const ModelConfig& config) {
    StackSpec spec = config;
    spec.source_width = config.image_stack->width;
    return spec;
  }

  Pooling text_pooling_, image_pooling_;
  DType wide_;
  nn::Embedding embedding_;
  nn::Stack text_;
  nn::VisionStack image_;
};

// Texts and pictures become vectors of length 1 in one space; those that belong together are to be the closest.
class TwoTowers final : public ImageText {
 public:
  TwoTowers(const nn::Scope& root, const ModelConfig& config)
      : ImageText(root, config),
        text_projection_(root / "text_projection", config.width, config.embedding_size, {.bias = false}),
        image_projection_(root / "image_projection", config.image_stack->width, config.embedding_size, {.bias = false}),
        temperature_(root.add("temperature", {1}, Init::constant(std::log(1.0 / kTemperature)))) {}

  Var features(Tape& tape, const Input& input) const override {
    if (input.ids.defined()) return l2_normalize(tape, text_projection_(tape, texts(tape, input)));
    return l2_normalize(tape, image_projection_(tape, pool_pictures(tape, picture_rows(tape, input))));
  }

  Var forward(Tape& tape, const Batch& batch) const override {
    const Var pictures = features(tape, batch.input), words = features(tape, batch.second);
    const Var cosines = matmul(tape, pictures, transpose(tape, words, 0, 1));
    return exp_scale(tape, cosines, temperature_, kMostScale);
  }

  // Every picture asks for its text among all of the batch, and every text for its picture.
  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const override {
    const Var logits = forward(tape, batch);
    check_pairs(logits.dim(0), logits.dim(1));
    const Index own = index_of(tape.context(), count_up(logits.dim(0)), logits.dim(0));
    const CrossEntropy form{.label_smoothing = options.label_smoothing};
    ClassLoss loss = class_loss(tape, logits, own, form);
    const Var other = cross_entropy(tape, transpose(tape, logits, 0, 1), own, form);
    loss.value = scale(tape, add(tape, loss.value, other), 0.5);
    return report_of(tape, loss);
  }

 private:
  nn::Linear text_projection_, image_projection_;
  Var temperature_;  // (1): the logarithm of what cosines are multiplied by
};

// Every text attends to the rows of a picture; the model tells whether they belong together.
class CrossModal final : public ImageText {
 public:
  CrossModal(const nn::Scope& root, const ModelConfig& config)
      : ImageText(root, config), head_(root / "classifier", with_two_classes(config), config.width) {}

  // The vectors of texts that have seen their pictures, or of pictures by themselves.
  Var features(Tape& tape, const Input& input) const override {
    const nn::Source pictures = whole_pictures(tape, input);
    return input.ids.defined() ? texts(tape, input, pictures) : pool_pictures(tape, pictures);
  }

  // How much likelier than not they belong together, as a logarithm: every text with every picture.
  Var forward(Tape& tape, const Batch& batch) const override {
    const nn::Source pictures = whole_pictures(tape, batch.input);
    const auto count = static_cast<std::size_t>(count_texts(batch.second));
    std::vector<Var> rows;
    for (std::int64_t p = 0; p < pictures.rows.dim(0); ++p) {
      const std::vector<std::int32_t> same(count, static_cast<std::int32_t>(p));
      const Var logits = judge(tape, batch.second, pictures, same);
      const Var odds = sub(tape, slice(tape, logits, 1, 1, 2), slice(tape, logits, 1, 0, 1));
      rows.push_back(reshape(tape, odds, {1, odds.dim(0)}));
    }
    return concat(tape, rows, 0);
  }

  // Each text with its own picture, and with that of the next text. A batch of one has no other picture.
  Loss loss(Tape& tape, const Batch& batch, const LossOptions& options) const override {
    const nn::Source pictures = whole_pictures(tape, batch.input);
    check_pairs(pictures.rows.dim(0), count_texts(batch.second));
    std::vector<std::int32_t> order = count_up(pictures.rows.dim(0));
    std::vector<Var> logits = {judge(tape, batch.second, pictures, order)};
    std::vector<std::int32_t> targets(order.size(), 1);
    if (order.size() > 1) {
      std::rotate(order.begin(), order.begin() + 1, order.end());
      logits.push_back(judge(tape, batch.second, pictures, order));
      targets.resize(2 * order.size(), 0);
    }
    return report_of(tape, class_loss(tape, concat(tape, logits, 0), index_of(tape.context(), targets, 2),
                                      {.label_smoothing = options.label_smoothing}));
  }

 private:
  static ModelConfig with_two_classes(ModelConfig config) {
    config.classes = 2;
    return config;
  }

  // Their rows on every rank: texts find theirs by the number of the picture.
  nn::Source whole_pictures(Tape& tape, const Input& input) const {
    const nn::Source own = picture_rows(tape, input);
    const Var rows = nn::whole(tape, own.rows, *own.layout);
    return {rows, nn::full_layout(tape.context(), rows.dim(0), rows.dim(1))};
  }

  // Logits (texts, 2) of each text with the picture at its place in `order`.
  Var judge(Tape& tape, const Input& input, const nn::Source& pictures, const std::vector<std::int32_t>& order) const {
    const Context& context = tape.context();
    const Var rows = gather(tape, pictures.rows, index_of(context, order, pictures.rows.dim(0)));
    return head_(tape, texts(tape, input, {rows, nn::full_layout(context, rows.dim(0), rows.dim(1))}));
  }

  nn::Classifier head_;
};

}  // namespace

std::unique_ptr<Network> make_image_text(const nn::Scope& scope, const ModelConfig& config) {
  if (config.cross.empty()) return std::make_unique<TwoTowers>(scope, config);
  return std::make_unique<CrossModal>(scope, config);
}

}  // namespace fovea
