#include "dist/mesh.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace fovea::dist {
namespace {

constexpr const char* kWhere = "--mesh";
constexpr const char* kExample = "--mesh data=2,sequence=2";
constexpr const char* kAxes = "the axes data, sequence, tensor and pipeline";

std::int64_t size_of_axis(std::string_view text, const std::string& item) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1 || size > 1'000'000)
    fail(ErrorCode::usage, fmt::format("\"{}\" gives no number of ranks", item), kWhere, kExample);
  return size;
}

void set_axis(const std::string& item, MeshShape& shape, std::set<std::string>& seen) {
  const std::size_t equals = item.find('=');
  const std::string axis = item.substr(0, equals);
  if (equals == std::string::npos)
    fail(ErrorCode::usage, fmt::format("\"{}\" is no axis=ranks", item), kWhere, kExample);
  if (!seen.insert(axis).second) fail(ErrorCode::usage, fmt::format("axis {} is given twice", axis), kWhere, kExample);
  const std::int64_t size = size_of_axis(std::string_view(item).substr(equals + 1), item);
  if (axis == "data") {
    shape.data = size;
  } else if (axis == "sequence") {
    shape.sequence = size;
  } else if (axis == "tensor") {
    shape.tensor = size;
  } else if (axis == "pipeline") {
    shape.pipeline = size;
  } else {
    fail(ErrorCode::usage, fmt::format("unknown axis \"{}\"", axis), kWhere, kAxes);
  }
}

}  // namespace

std::string MeshShape::text() const {
  return fmt::format("data={},sequence={},tensor={},pipeline={}", data, sequence, tensor, pipeline);
}

MeshShape MeshShape::parse(const std::string& text, std::int64_t ranks) {
  MeshShape shape;
  if (text.empty()) {
    shape.data = ranks;
    return shape;
  }
  std::set<std::string> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    set_axis(text.substr(begin, end - begin), shape, seen);
    begin = end + 1;
  }
  if (shape.ranks() != ranks)
    fail(ErrorCode::usage,
         fmt::format("a mesh of {} x {} x {} x {} = {} ranks, but there {} {}", shape.data, shape.sequence,
                     shape.tensor, shape.pipeline, shape.ranks(), ranks == 1 ? "is" : "are", ranks),
         kWhere, fmt::format("mpirun -n {} fovea ... --mesh {}", shape.ranks(), text));
  return shape;
}

Mesh::Mesh(const Group& ranks, const MeshShape& s) : shape(s), all(ranks) {
  const auto rank = static_cast<std::int64_t>(ranks.rank());
  const std::int64_t rows = s.sequence * s.tensor, layers = s.data * rows;
  const std::int64_t part = rank % s.tensor, row = rank % rows / s.tensor, stage = rank / layers;
  const std::int64_t example = rank % layers / rows;
  const auto along = [&](std::int64_t colour, const char* name) { return ranks.split(static_cast<int>(colour), name); };
  data = along(rank - example * rows, "data");
  sequence = along(rank - row * s.tensor, "sequence");
  tensor = along(rank - part, "tensor");
  pipeline = along(rank % layers, "pipeline");
  same_weights = along(stage * s.tensor + part, "same weights");
  same_examples = along(rank / rows, "same examples");
  same_layers = along(stage, "same layers");
  all_weights = along(rank % layers - part, "all weights");
}

}  // namespace fovea::dist
