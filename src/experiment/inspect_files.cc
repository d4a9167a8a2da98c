#include "experiment/inspect_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiment/inspect_worth.h"
#include "experiment/run_folder.h"
#include "inspect_page/head.h"
#include "inspect_page/picture.h"
#include "io/csv.h"
#include "io/npy.h"
#include "report/plot.h"
#include "report/png.h"

namespace fovea {
namespace {

// Calls visit(model, layer) for each.
template <class Visit>
void for_layers(const InspectPage& page, Visit&& visit) {
  for (const InspectedModel& model : page.models)
    for (const LayerRecord& layer : model.record.layers) visit(model, layer);
}

std::string_view class_name(const HeadRecord& head) {
  return viewer::class_texts().at(static_cast<std::size_t>(head.verdict.head_class)).name;
}

// "3 local, 1 diffuse", the most frequent first.
std::string classes_text(const LayerRecord& layer) {
  std::map<std::string_view, int> counts;
  for (const HeadRecord& head : layer.heads) ++counts[class_name(head)];
  std::vector<std::pair<int, std::string_view>> sorted;
  for (const auto& [name, count] : counts) sorted.emplace_back(-count, name);
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (const auto& [count, name] : sorted) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", -count, name);
  return out.empty() ? "no map" : out;
}

template <class Number>
double mean_over(const LayerRecord& layer, Number&& number) {
  double sum = 0.0;
  int count = 0;
  for (const HeadRecord& head : layer.heads)
    if (const double value = number(head); std::isfinite(value)) sum += value, ++count;
  return count > 0 ? sum / count : std::nan("");
}

// "layer 4", of a decoder also what it reads.
std::string layer_name(const InspectPage& page, const InspectedModel& model, const LayerRecord& layer) {
  const bool several = page.models.size() > 1, writes = layer.place.starts_with("model.decoder");
  return fmt::format("{}layer {}{}", several ? model.name + " " : "", layer.index,
                     layer.cross ? " cross"
                     : writes    ? " decoder"
                                 : "");
}

std::string csv_name(const InspectedModel& model, std::int64_t layer, const HeadRecord& head) {
  return csv_line(std::vector<CsvCell>{model.name, static_cast<double>(layer), static_cast<double>(head.head)});
}

// model,layer,head with more cells.
void add_line(std::string& out, const std::string& name, std::span<const double> values) {
  out += name.substr(0, name.find_last_not_of("\r\n") + 1);
  for (const double value : values) out += fmt::format(",{}", value);
  out += "\n";
}

double at_or_nan(const std::vector<float>& values, std::size_t i) {
  return i < values.size() ? static_cast<double>(values[i]) : std::nan("");
}

std::string rows_csv(const InspectPage& page) {
  std::string out = "model,layer,head,row,entropy,effective_keys,largest,largest_key,max_logit,row_sum\n";
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    for (const HeadRecord& head : layer.heads)
      for (std::size_t i = 0; i < head.entropy.size(); ++i)
        add_line(out, csv_name(model, layer.index, head),
                 std::array{static_cast<double>(i), at_or_nan(head.entropy, i), at_or_nan(head.effective_keys, i),
                            at_or_nan(head.largest, i), static_cast<double>(head.largest_key.at(i)),
                            at_or_nan(head.max_logit, i), at_or_nan(head.row_sum, i)});
  });
  return out;
}

// One number for each place of a head's list.
template <class List>
std::string list_csv(const InspectPage& page, const char* columns, std::int64_t shift, List&& list) {
  std::string out = fmt::format("model,layer,head,{}\n", columns);
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    for (const HeadRecord& head : layer.heads) {
      const std::vector<double>& values = list(head);
      const std::int64_t from = shift < 0 ? 1 - layer.n_q : 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        add_line(out, csv_name(model, layer.index, head),
                 std::array{static_cast<double>(static_cast<std::int64_t>(i) + from), values[i]});
    }
  });
  return out;
}

Plot locality_plot(const InspectPage& page) {
  Plot plot{.title = "Which layers are local",
            .x = {.name = "share of the keys, nearest first", .include = {0.0, 1.0}},
            .y = {.name = "mass on them", .include = {0.0, 1.0}},
            .series = {}};
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    std::size_t points = 0;
    for (const HeadRecord& head : layer.heads) points = head.curve.size();
    if (points == 0) return;
    Series series{
        .name = fmt::format("{} {}", layer_name(page, model, layer), layer.mechanism), .x = {0.0}, .y = {0.0}};
    for (std::size_t p = 0; p < points; ++p) {
      const double share = static_cast<double>(p + 1) / static_cast<double>(points);
      const double value = mean_over(layer, [p](const HeadRecord& head) { return head.curve[p]; });
      series.x.push_back(page.paper_curve ? value : share);
      series.y.push_back(page.paper_curve ? share : value);
    }
    plot.series.push_back(std::move(series));
  });
  return plot;
}

Plot entropy_plot(const InspectPage& page) {
  Plot plot{.title = "How spread out layers read",
            .x = {.name = "layer"},
            .y = {.name = "entropy, as a share of its most", .include = {0.0, 1.0}},
            .series = {}};
  for (const InspectedModel& model : page.models) plot.series.push_back({.name = model.name});
  std::size_t index = 0;
  const InspectedModel* last = &page.models.front();
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    if (&model != last) ++index, last = &model;
    plot.series[index].x.push_back(static_cast<double>(layer.index));
    plot.series[index].y.push_back(mean_over(layer, [](const HeadRecord& head) { return head.verdict.entropy; }));
  });
  return plot;
}

// White to dark blue in square-root steps, at least 256 pixels wide.
std::string map_png(const MapLevel& level) {
  float top = 0.0f;
  for (const float value : level.largest)
    if (value > top) top = value;
  const std::int64_t scale = std::max<std::int64_t>(1, 256 / std::max(level.rows, level.columns));
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < level.rows * scale; ++y)
    for (std::int64_t x = 0; x < level.columns * scale; ++x) {
      const float value = level.mean[static_cast<std::size_t>(y / scale * level.columns + x / scale)];
      const double t = top > 0.0f ? std::sqrt(std::min(1.0, std::abs(static_cast<double>(value / top)))) : 0.0;
      const auto mix = [&](double ink) { return static_cast<std::uint8_t>(std::lround(255.0 + t * (ink - 255.0))); };
      if (!std::isfinite(value)) {
        rgb.insert(rgb.end(), {230, 0, 120});
      } else if (value < 0.0f) {
        rgb.insert(rgb.end(), {mix(168), mix(56), mix(0)});
      } else {
        rgb.insert(rgb.end(), {mix(8), mix(40), mix(104)});
      }
    }
  return viewer::png_bytes(level.rows * scale, level.columns * scale, rgb);
}

bool has_single_weights(const LayerRecord& layer) {
  return !layer.heads.empty() && std::all_of(layer.heads.begin(), layer.heads.end(), [](const HeadRecord& head) {
    return !head.pyramid.empty() && head.pyramid.front().cell_rows == 1 && head.pyramid.front().cell_keys == 1;
  });
}

// Writes the weights of all heads of some layers as one array.
void write_weights(const Context& context, const std::vector<const LayerRecord*>& layers, bool single,
                   const Path& path) {
  const LayerRecord& first = *layers.front();
  const std::int64_t heads = std::ssize(first.heads), rows = first.n_q, keys = first.n_k;
  std::vector<float> values;
  for (const LayerRecord* layer : layers)
    for (const HeadRecord& head : layer->heads)
      values.insert(values.end(), head.pyramid.front().mean.begin(), head.pyramid.front().mean.end());
  const Shape shape = single ? Shape{heads, rows, keys} : Shape{std::ssize(layers), heads, rows, keys};
  write_npy(path, Tensor::from<float>(context, shape, values));
}

// The names of the files, and how they are written.
class Files {
 public:
  explicit Files(Path folder) : folder_(std::move(folder)) { make_folder(folder_); }

  Path add(const std::string& name) {
    names_.push_back(name);
    return folder_ / name;
  }
  void text(const std::string& name, std::string_view content) { write_file(add(name), content); }
  void plot(const std::string& name, const Plot& plot) {
    text(name + ".svg", plot_svg(plot));
    if (PngCanvas::works()) write_png(plot, add(name + ".png"));
  }
  std::vector<std::string> names() const { return names_; }

 private:
  Path folder_;
  std::vector<std::string> names_;
};

void add_worth_files(const InspectPage& page, Files& files) {
  const auto any = [&](auto&& has) { return std::any_of(page.models.begin(), page.models.end(), has); };
  for (const bool by_ablation : {false, true})
    if (const Plot plot = inspect_importance_plot(page, by_ablation); !plot.series.empty())
      files.plot(by_ablation ? "loss-without" : "importance", plot);
  if (any([](const InspectedModel& model) { return !model.pruning.steps.empty(); })) {
    files.text("pruning.csv", inspect_pruning_table(page).csv());
    files.plot("pruning", inspect_pruning_plot(page));
  }
  if (any([](const InspectedModel& model) { return !model.approximation.empty(); })) {
    files.text("approximation.csv", inspect_approximation_table(page, true).csv());
    files.plot("approximation", inspect_approximation_plot(page));
  }
}

void add_maps(const Context& context, const InspectPage& page, Files& files) {
  for (const InspectedModel& model : page.models) {
    const std::string before = page.models.size() > 1 ? folder_name(model.name) + "-" : "";
    std::vector<const LayerRecord*> layers;
    bool alike = true;
    for (const LayerRecord& layer : model.record.layers) {
      for (const HeadRecord& head : layer.heads)
        files.text(fmt::format("{}layer-{}-head-{}.png", before, layer.index, head.head),
                   map_png(head.pyramid.front()));
      if (has_single_weights(layer)) {
        write_weights(context, {&layer}, true, files.add(fmt::format("{}layer-{}.npy", before, layer.index)));
        layers.push_back(&layer);
        alike = alike && layer.n_q == layers[0]->n_q && layer.n_k == layers[0]->n_k &&
                layer.heads.size() == layers[0]->heads.size();
      } else {
        alike = false;
      }
    }
    if (alike && !layers.empty()) write_weights(context, layers, false, files.add(before + "weights.npy"));
    if (const auto& rollout = model.record.rollout) {
      files.text(before + "rollout.png", map_png(rollout->heads.front().pyramid.front()));
      if (has_single_weights(*rollout)) write_weights(context, {&*rollout}, true, files.add(before + "rollout.npy"));
    }
  }
}

}  // namespace

Table inspect_table(const InspectPage& page) {
  Table table({{"mechanism", Quantity::text},
               {"heads", Quantity::text},
               {"entropy", Quantity::percent},
               {"nearest tenth", Quantity::percent},
               {"locality", Quantity::number},
               {"largest weight", Quantity::percent}},
              "layer");
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    const auto largest = [&](const HeadRecord& head) { return viewer::numbers_of(layer, head)[2]; };
    table.add(
        layer_name(page, model, layer),
        {layer.mechanism, classes_text(layer), mean_over(layer, [](const HeadRecord& h) { return h.verdict.entropy; }),
         viewer::near_mass(layer, page.paper_curve), mean_over(layer, [](const HeadRecord& h) { return h.area; }),
         mean_over(layer, largest)});
  });
  return table;
}

Table inspect_heads_table(const InspectPage& page) {
  std::vector<TableColumn> columns{{"place", Quantity::text}, {"mechanism", Quantity::text}, {"class", Quantity::text}};
  for (const viewer::Column& c : viewer::columns()) columns.push_back({std::string(c.key), Quantity::number});
  for (const char* name : {"relation", "tag"}) columns.push_back({name, Quantity::text});
  const bool weighed = std::any_of(page.models.begin(), page.models.end(),
                                   [](const InspectedModel& model) { return !model.importance.empty(); });
  if (weighed)
    for (const viewer::Column& c : viewer::worth_columns()) columns.push_back({std::string(c.key), Quantity::number});
  Table table(columns, "head");
  for_layers(page, [&](const InspectedModel& model, const LayerRecord& layer) {
    for (const HeadRecord& head : layer.heads) {
      std::vector<TableCell> cells{layer.place, layer.mechanism, std::string(class_name(head))};
      for (const double value : viewer::numbers_of(layer, head)) cells.emplace_back(value);
      for (const ComparedShare* found : {&head.verdict.relation, &head.verdict.tag}) cells.emplace_back(found->of);
      if (weighed)
        for (const double value : viewer::worth_of(model, layer, head)) cells.emplace_back(value);
      table.add(fmt::format("{} head {}", layer_name(page, model, layer), head.head), std::move(cells));
    }
  });
  return table;
}

std::vector<std::string> write_inspect_files(const Context& context, const InspectPage& page, const Path& folder) {
  Files files(folder);
  files.text("heads.csv", inspect_heads_table(page).csv());
  files.text("rows.csv", rows_csv(page));
  const auto received = [](const HeadRecord& h) -> const std::vector<double>& { return h.received; };
  const auto distance = [](const HeadRecord& h) -> const std::vector<double>& { return h.distance; };
  const auto curve = [](const HeadRecord& h) -> const std::vector<double>& { return h.curve; };
  files.text("keys.csv", list_csv(page, "key,received", 0, received));
  files.text("distance.csv", list_csv(page, "distance,mass", -1, distance));
  files.text("locality.csv", list_csv(page, "point,value", 0, curve));
  files.plot("locality", locality_plot(page));
  files.plot("entropy", entropy_plot(page));
  add_worth_files(page, files);
  add_maps(context, page, files);
  return files.names();
}

}  // namespace fovea
