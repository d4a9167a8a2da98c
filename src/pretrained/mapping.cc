#include "pretrained/mapping.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea::pretrained {
namespace {

bool names_a_layer(Kind kind) { return kind != Kind::tensor && kind != Kind::framed; }

// "layers.3.attention.qkv" -> "layers.*.attention.qkv" and "3".
struct Numbered {
  std::string pattern, number;
};

Numbered numbered(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t layers = name.find(kLayers);
  if (layers == std::string_view::npos) return {std::string(name), {}};
  const std::size_t begin = layers + kLayers.size(), end = name.find('.', begin);
  return {fmt::format("{}*{}", name.substr(0, begin), name.substr(end)), std::string(name.substr(begin, end - begin))};
}

std::string with_number(std::string_view pattern, std::string_view number) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, star), number, pattern.substr(star + 1));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "a.{q,k}.b" -> "a.q.b", "a.k.b"
std::vector<std::string> layers_in(std::string_view name) {
  const std::size_t open = name.find('{'), close = name.find('}');
  if (open == std::string_view::npos) return {std::string(name)};
  std::vector<std::string> out;
  for (const std::string& part : split(name.substr(open + 1, close - open - 1), ','))
    out.push_back(fmt::format("{}{}{}", name.substr(0, open), part, name.substr(close + 1)));
  return out;
}

// Columns (in, heads * d), or (heads * d) of a bias, with the pairs of rope as neighbours -> (heads, 2, d / 2, in):
// first halves, then second ones.
Tensor halves_of(const Tensor& columns, std::int64_t heads) {
  const bool matrix = columns.rank() == 2;
  const std::int64_t width = columns.dim(-1) / heads, step = columns.stride(-1);
  const std::int64_t strides[] = {width * step, step, 2 * step, matrix ? columns.stride(0) : 0};
  return Tensor::wrap(columns.raw(), {heads, 2, width / 2, matrix ? columns.dim(0) : 1}, strides, columns.dtype());
}

// Convolution (out, channels, height, width) of our weight (height * width * channels, out).
Tensor as_convolution(const Tensor& weight, const ImageConfig& image) {
  return weight.reshape({image.patch, image.patch, image.channels, weight.dim(1)})
      .transpose(0, 3)   // (out, width, channels, height)
      .transpose(1, 2)   // (out, channels, width, height)
      .transpose(2, 3);  // (out, channels, height, width)
}

class Mapper {
 public:
  Mapper(const Model& model, const Naming& naming) : config_(model.config()), naming_(naming) {}

  void add(const Parameter& parameter, std::vector<MappedTensor>& tensors) const {
    const auto [full, number] = numbered(parameter.name);
    const std::size_t dot = full.rfind('.');
    const std::string layer = full.substr(0, dot), leaf = full.substr(dot + 1);
    const Found found = find(full, layer);
    const NamePair& pair = *found.pair;
    const std::string theirs = with_number(pair.theirs, number);
    const Tensor tensor = parameter.var.value();
    if (!names_a_layer(pair.kind)) {
      std::vector<std::string> names = split(theirs, '|');
      for (std::string& name : names) name.insert(0, found.prefix);
      const Shape shape = pair.kind == Kind::framed ? Shape{1, tensor.dim(0), tensor.dim(1)} : tensor.shape();
      tensors.push_back({std::move(names), tensor, shape});
      return;
    }
    const std::vector<std::string> layers = layers_in(theirs);
    const std::vector<std::int64_t> ends = column_ends(layer, tensor.dim(-1), layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Tensor columns = tensor.slice(tensor.rank() - 1, i == 0 ? 0 : ends[i - 1], ends[i]);
      const std::string name = fmt::format("{}{}.{}", found.prefix, layers[i], leaf == "bias" ? "bias" : "weight");
      tensors.push_back(mapped(name, columns, pair.kind, reordered_heads(layer, i)));
    }
  }

 private:
  struct Found {
    const NamePair* pair;
    std::string prefix;
  };

  Found find(const std::string& full, const std::string& layer) const {
    const auto in = [&](std::span<const NamePair> names) -> const NamePair* {
      for (const NamePair& pair : names)
        if (pair.ours == (names_a_layer(pair.kind) ? layer : full) && (pair.when == nullptr || pair.when(config_)))
          return &pair;
      return nullptr;
    };
    if (const NamePair* pair = in(naming_.variant.names)) return {pair, ""};
    if (const NamePair* pair = in(naming_.architecture.names))
      return {pair, naming_.prefixed ? std::string(naming_.architecture.prefix) : ""};
    fail(ErrorCode::unsupported, fmt::format("{} has no place for \"{}\"", naming_.variant.name, full), "format");
  }

  const StackConfig& stack_of(const std::string& layer) const {
    return layer.starts_with("decoder.") ? *config_.decoder : static_cast<const StackConfig&>(config_);
  }

  // Where each of the layers that stand side by side ends: q has its heads, k and v have theirs; others are equal.
  std::vector<std::int64_t> column_ends(const std::string& layer, std::int64_t columns, std::size_t count) const {
    constexpr std::size_t kQkv = 3;
    const StackConfig& stack = stack_of(layer);
    std::int64_t first = columns / static_cast<std::int64_t>(count);
    if (count == kQkv) first = columns / (stack.heads + 2 * stack.key_heads()) * stack.heads;
    std::vector<std::int64_t> ends = {first};
    for (std::size_t i = 1; i < count; ++i)
      ends.push_back(ends.back() + (columns - first) / static_cast<std::int64_t>(count - 1));
    return ends;
  }

  // Heads of q or k whose pairs have to be reordered; 0: as they are.
  std::int64_t reordered_heads(const std::string& layer, std::size_t part) const {
    if (!naming_.reorder_pairs || !layer.ends_with(".attention.qkv") || part > 1) return 0;
    return part == 0 ? stack_of(layer).heads : stack_of(layer).key_heads();
  }

  MappedTensor mapped(const std::string& name, const Tensor& columns, Kind kind, std::int64_t reordered) const {
    const bool matrix = columns.rank() == 2;
    if (kind == Kind::patches && matrix) {
      const Tensor view = as_convolution(columns, *config_.image);
      return {{name}, view, view.shape()};
    }
    const Tensor view = matrix && kind == Kind::linear ? columns.transpose(0, 1) : columns;
    if (reordered == 0) return {{name}, view, view.shape()};
    return {{name}, halves_of(columns, reordered), view.shape()};
  }

  const ModelConfig& config_;
  const Naming& naming_;
};

}  // namespace

std::vector<MappedTensor> mapped_tensors(const Model& model, const Naming& naming) {
  std::vector<MappedTensor> tensors;
  const Mapper mapper(model, naming);
  for (const Parameter& parameter : model.parameters()) mapper.add(parameter, tensors);
  return tensors;
}

bool fits(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skip = star; skip <= name.size(); ++skip)
    if (fits(name.substr(skip), rest)) return true;
  return false;
}

}  // namespace fovea::pretrained
