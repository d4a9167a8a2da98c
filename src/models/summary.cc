#include <fmt/format.h>

#include <algorithm>

#include "fovea/model.h"

namespace fovea {
namespace {

// The part of a name that a summary shows as one line: "embedding", "layers.0.attention", "classifier".
std::string_view group_of(std::string_view name) {
  std::size_t dots = name.starts_with("layers.") ? 3 : 1;
  std::size_t end = 0;
  for (; end < name.size(); ++end)
    if (name[end] == '.' && --dots == 0) break;
  return name.substr(0, end);
}

struct Line {
  std::string_view group;
  std::string tensors;
  std::int64_t count = 0;
};

std::string describe(const Parameter& p, std::string_view group) {
  std::string dims;
  for (const std::int64_t d : p.var.shape().dims()) dims += (dims.empty() ? "" : "x") + std::to_string(d);
  const std::string_view rest = std::string_view(p.name).substr(group.size());
  return fmt::format("{} {}", rest.empty() ? p.name : rest.substr(1), dims);
}

}  // namespace

std::string Model::text() const {
  std::vector<Line> lines;
  std::size_t width = 0;
  for (const Parameter& p : parameters()) {
    const std::string_view group = group_of(p.name);
    if (lines.empty() || lines.back().group != group) lines.push_back({group, {}, 0});
    Line& line = lines.back();
    line.tensors += (line.tensors.empty() ? "" : ", ") + describe(p, group);
    line.count += p.var.value().numel();
    width = std::max(width, group.size());
  }
  std::string text;
  for (std::size_t i = 0; i < config().layers.size(); ++i)
    text += fmt::format("{:<{}}  {}\n", fmt::format("layer {}", i), width, config().layers[i]);
  for (const Line& line : lines)
    text += fmt::format("{:<{}}  {:>10}  {}\n", line.group, width, line.count, line.tensors);
  return text + fmt::format("{:<{}}  {:>10}\n", "total", width, parameter_count());
}

}  // namespace fovea
