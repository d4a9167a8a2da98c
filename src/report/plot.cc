#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/error.h"
#include "report/legend.h"
#include "report/numbers.h"
#include "report/png.h"

namespace fovea {
namespace {

constexpr double kLeastBubble = 4, kMostBubble = 20;                       // radii
constexpr Stroke kThin = {.ink = Ink::muted, .width = 1, .dashed = true};  // guides and levels
constexpr std::size_t kMostMarkers = 40;                                   // a curve of more points is drawn without
constexpr double kReach = 1.0 / 40;                                        // of running means, to both sides

std::vector<SeriesStyle> styles_for(const std::vector<Series>& series) {
  std::vector<std::string_view> names;
  for (const Series& one : series) names.push_back(one.name);
  return styles_of(names);
}

// The mean over the points at most so far away; gaps stay gaps. Places grow.
std::vector<double> running_mean(const std::vector<double>& place, const std::vector<double>& y, double reach) {
  std::vector<double> mean(y);
  double sum = 0;
  std::size_t begin = 0, end = 0, count = 0;
  const auto take = [&](std::size_t i, int sign) {
    if (!std::isfinite(y[i])) return;
    sum += sign * y[i];
    count += static_cast<std::size_t>(sign);
  };
  for (std::size_t i = 0; i < y.size(); ++i) {
    while (end < y.size() && place[end] <= place[i] + reach) take(end++, 1);
    while (place[begin] < place[i] - reach) take(begin++, -1);
    if (std::isfinite(y[i])) mean[i] = sum / static_cast<double>(count);
  }
  return mean;
}

// Room around points that are drawn large and have their names beside them.
Axis padded(Axis axis, const std::vector<double>& values) {
  constexpr double kRoom = 0.15;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return axis;
  if (axis.scale == Scale::linear) {
    const double room = kRoom * (high > low ? high - low : std::abs(high));
    axis.include.insert(axis.include.end(), {low - room, high + room});
  } else {
    const double factor = std::pow(high / low, kRoom) * 1.1;
    axis.include.insert(axis.include.end(), {low / factor, high * factor});
  }
  return axis;
}

// At most four points for every pixel column, first, lowest, highest and last: the drawn curve is the same.
std::vector<Point> thinned(const std::vector<Point>& points) {
  std::vector<Point> out;
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin, low = begin, high = begin;
    for (; end < points.size() && std::floor(points[end].x) == std::floor(points[begin].x); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    std::size_t kept[] = {begin, std::min(low, high), std::max(low, high), end - 1};
    for (auto* i = kept; i != std::unique(std::begin(kept), std::end(kept)); ++i) out.push_back(points[*i]);
    begin = end;
  }
  return out;
}

class Drawing {
 public:
  Drawing(const Plot& plot, Canvas& canvas)
      : plot_(plot),
        canvas_(canvas),
        styles_(styles_for(plot.series)),
        x_(plot.labelled ? padded(plot.x, all(&Series::x)) : plot.x, x_values(), AxisMap::Ends::data),
        y_(plot.labelled ? padded(plot.y, y_values()) : plot.y, y_values(), AxisMap::Ends::round),
        legend_(legend_entries(), {kPad, kPad + kTitleSize + 8}, plot.size.width - kPad) {}

  void draw() {
    canvas_.text({kPad, kPad + kTitleSize * 0.8}, plot_.title, {.size = kTitleSize, .bold = true});
    legend_.draw(canvas_);
    place_frame();
    draw_grid();
    for (const Level& level : plot_.levels) draw_level(level);
    if (plot_.guide) draw_guide(*plot_.guide);
    for (std::size_t i = 0; i < plot_.series.size(); ++i) draw_series(plot_.series[i], styles_[i]);
    if (plot_.labelled) draw_labels();
  }

 private:
  std::vector<double> all(std::vector<double> Series::*member) const {
    std::vector<double> values;
    for (const Series& series : plot_.series)
      values.insert(values.end(), (series.*member).begin(), (series.*member).end());
    return values;
  }

  std::vector<double> x_values() const {
    std::vector<double> values = all(&Series::x);
    for (const Series& series : plot_.series)
      for (const auto& [x, y] : series.behind) values.insert(values.end(), x.begin(), x.end());
    return values;
  }

  std::vector<double> y_values() const {
    std::vector<double> values = all(&Series::y);
    for (const Series& series : plot_.series) {
      for (const auto& [x, y] : series.behind) values.insert(values.end(), y.begin(), y.end());
      for (std::size_t i = 0; i < series.margin.size(); ++i)
        values.insert(values.end(), {series.y[i] - series.margin[i], series.y[i] + series.margin[i]});
    }
    for (const Level& level : plot_.levels) values.push_back(level.y);
    return values;
  }

  std::vector<LegendEntry> legend_entries() const {
    std::vector<LegendEntry> entries;
    for (std::size_t i = 0; i < plot_.series.size() && !plot_.labelled; ++i)
      entries.push_back({plot_.series[i].name, {.ink = styles_[i].ink, .width = 2}, styles_[i].marker});
    if (plot_.guide) entries.push_back({plot_.guide->label, kThin, {}});
    return entries;
  }

  // Leaves room for the names of the axes and the widest number on the left.
  void place_frame() {
    double widest = 0;
    for (const Tick& tick : y_.ticks()) widest = std::max(widest, drawn_width(tick.label, kTextSize));
    left_ = kPad + widest + 8;
    right_ = plot_.size.width - kPad - 8;
    top_ = legend_.bottom() + 30;
    bottom_ = plot_.size.height - 48;
    canvas_.text({kPad, top_ - 13}, plot_.y.title(), {.ink = Ink::muted, .size = kTextSize});
    canvas_.text({(left_ + right_) / 2, plot_.size.height - 14}, plot_.x.title(),
                 {.ink = Ink::muted, .size = kTextSize, .anchor = Anchor::middle});
  }

  void draw_grid() {
    for (const Tick& tick : y_.ticks()) {
      const double y = place_y(tick.value);
      line({left_, y}, {right_, y}, {.ink = Ink::grid, .width = tick.label.empty() ? 0.5 : 1.0});
      if (!tick.label.empty())
        canvas_.text({left_ - 8, y + kTextSize * 0.35}, tick.label,
                     {.ink = Ink::muted, .size = kTextSize, .anchor = Anchor::end});
    }
    for (const Tick& tick : x_.ticks()) {
      const double x = place_x(tick.value);
      line({x, bottom_}, {x, bottom_ + (tick.label.empty() ? 3.0 : 5.0)}, {.ink = Ink::muted});
      if (!tick.label.empty())
        canvas_.text({x, bottom_ + 19}, tick.label, {.ink = Ink::muted, .size = kTextSize, .anchor = Anchor::middle});
    }
    line({left_, bottom_}, {right_, bottom_}, {.ink = Ink::muted});
  }

  void draw_level(const Level& level) {
    if (!y_.shows(level.y)) return;
    const double y = place_y(level.y);
    line({left_, y}, {right_, y}, kThin);
    canvas_.text({right_, y - 5}, level.label, {.ink = Ink::muted, .size = kTextSize - 1, .anchor = Anchor::end});
  }

  // From the lower left corner of the frame as far as the frame goes. On two log axes it is straight.
  void draw_guide(const Guide& guide) {
    if (plot_.x.scale == Scale::linear || plot_.y.scale == Scale::linear)
      fail(ErrorCode::internal, "a slope guide needs two log axes", plot_.title);
    const auto position = [&](double share) {
      return y_.position(y_.value(0) * std::pow(x_.value(share) / x_.value(0), guide.slope));
    };
    const double end = std::min(1.0, 1 / std::max(position(1), 1e-9));
    line({left_, bottom_}, {left_ + end * (right_ - left_), bottom_ - position(end) * (bottom_ - top_)}, kThin);
  }

  void draw_series(const Series& series, const SeriesStyle& style) {
    if (series.x.size() != series.y.size())
      fail(ErrorCode::internal,
           fmt::format("series \"{}\" has {} x and {} y", series.name, series.x.size(), series.y.size()));
    for (const auto& [x, y] : series.behind) draw_curve(x, y, {.ink = style.ink, .width = 1, .opacity = 0.35});
    if (series.smooth && smooths()) {  // all of a plot alike, however many points they have
      draw_curve(series.x, series.y, {.ink = style.ink, .width = 1, .opacity = 0.25});
      draw_curve(series.x, running_mean(places(series.x), series.y, kReach), {.ink = style.ink, .width = 2});
      return;
    }
    draw_curve(series.x, series.y, {.ink = style.ink, .width = 2});
    for (std::size_t i = 0; i < series.margin.size(); ++i) draw_margin(series, i, style);
    if (series.x.size() > kMostMarkers) return;
    for (std::size_t i = 0; i < series.x.size(); ++i) draw_point(series, i, style);
  }

  bool smooths() const {
    return std::any_of(plot_.series.begin(), plot_.series.end(),
                       [](const Series& s) { return s.smooth && s.x.size() > kMostMarkers; });
  }

  std::vector<double> places(const std::vector<double>& x) const {
    std::vector<double> out;
    for (const double value : x) out.push_back(x_.position(value));
    return out;
  }

  void draw_point(const Series& series, std::size_t i, const SeriesStyle& style) {
    if (!x_.shows(series.x[i]) || !y_.shows(series.y[i])) return;
    const Point at = {place_x(series.x[i]), place_y(series.y[i])};
    double radius = 0;
    if (i < series.size.size()) {
      radius = bubble(series.size[i]);
      canvas_.circle(at, radius, style.ink, 0.3);
    }
    draw_marker(canvas_, style.marker, at, style.ink);
    canvas_.tip(at, std::max(9.0, radius), tip_text(series, i));
  }

  // Areas are as the sizes.
  double bubble(double size) const {
    double largest = 0;
    for (const Series& series : plot_.series)
      for (const double one : series.size) largest = std::max(largest, one);
    return std::max(kLeastBubble, kMostBubble * std::sqrt(size / std::max(largest, 1e-300)));
  }

  void draw_margin(const Series& series, std::size_t i, const SeriesStyle& style) {
    const double low = series.y[i] - series.margin[i], high = series.y[i] + series.margin[i];
    if (!x_.shows(series.x[i]) || !y_.shows(low) || !y_.shows(high)) return;
    const double x = place_x(series.x[i]);
    const Stroke stroke{.ink = style.ink, .width = 1.5, .opacity = 0.7};
    line({x, place_y(low)}, {x, place_y(high)}, stroke);
    for (const double y : {place_y(low), place_y(high)}) line({x - 4, y}, {x + 4, y}, stroke);
  }

  // Names beside the first points: the first place around each that is free.
  void draw_labels() {
    std::vector<Box> taken;
    for (const Series& series : plot_.series)
      if (shows(series)) taken.push_back(around({place_x(series.x[0]), place_y(series.y[0])}, radius_of(series)));
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const Series& series = plot_.series[s];
      if (!shows(series)) continue;
      const std::string words = series.note.empty() ? series.name : series.name + ", " + series.note;
      const Box box = free_place(series, drawn_width(words, kTextSize), taken);
      taken.push_back(box);
      canvas_.text({box.left, box.bottom - 3}, words, {.ink = styles_[s].ink, .size = kTextSize});
    }
  }

  struct Box {
    double left, right, top, bottom;

    bool meets(const Box& other) const {
      return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
  };
  static Box around(Point at, double radius) { return {at.x - radius, at.x + radius, at.y - radius, at.y + radius}; }

  bool shows(const Series& series) const { return !series.x.empty() && x_.shows(series.x[0]) && y_.shows(series.y[0]); }
  double radius_of(const Series& series) const { return series.size.empty() ? 6 : bubble(series.size[0]); }

  // Right, left, above, below, and further away.
  Box free_place(const Series& series, double width, const std::vector<Box>& taken) const {
    constexpr double kHeight = kTextSize + 3, kSpace = 5;
    constexpr int kRings = 12;
    const Point at{place_x(series.x[0]), place_y(series.y[0])};
    const double away = radius_of(series) + kSpace;
    Box first{};
    for (int ring = 0; ring < kRings; ++ring) {
      const double shift = ring * kHeight;
      const Point places[] = {{at.x + away, at.y - shift},
                              {at.x - away - width, at.y - shift},
                              {at.x - width / 2, at.y - away - kHeight / 2 - shift},
                              {at.x - width / 2, at.y + away + kHeight / 2 + shift},
                              {at.x + away, at.y + shift},
                              {at.x - away - width, at.y + shift}};
      for (const Point& place : places) {
        const double x = std::clamp(place.x, 2.0, std::max(2.0, plot_.size.width - 2 - width));
        const Box box{x, x + width, place.y - kHeight / 2, place.y + kHeight / 2};
        if (ring == 0 && &place == places) first = box;
        const bool inside = box.top > top_ - 8 && box.bottom < bottom_;
        if (inside && std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return other.meets(box); }))
          return box;
      }
    }
    return first;
  }

  std::string tip_text(const Series& series, std::size_t i) const {
    return fmt::format("{}\n{}: {} {}\n{}: {} {}", series.name, plot_.x.name, number_text(series.x[i]), plot_.x.unit,
                       plot_.y.name, number_text(series.y[i]), plot_.y.unit);
  }

  // One line for each stretch without gaps.
  void draw_curve(const std::vector<double>& x, const std::vector<double>& y, const Stroke& stroke) {
    std::vector<Point> stretch;
    const auto flush = [&] {
      if (stretch.size() > 1) canvas_.polyline(thinned(stretch), stroke);
      stretch.clear();
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x_.shows(x[i]) && y_.shows(y[i]))
        stretch.push_back({place_x(x[i]), place_y(y[i])});
      else
        flush();
    }
    flush();
  }

  void line(Point a, Point b, const Stroke& stroke) {
    const Point ends[] = {a, b};
    canvas_.polyline(ends, stroke);
  }

  double place_x(double value) const { return left_ + x_.position(value) * (right_ - left_); }
  double place_y(double value) const { return bottom_ - y_.position(value) * (bottom_ - top_); }

  const Plot& plot_;
  Canvas& canvas_;
  std::vector<SeriesStyle> styles_;
  AxisMap x_, y_;
  Legend legend_;
  double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
};

}  // namespace

void draw(const Plot& plot, Canvas& canvas) { Drawing(plot, canvas).draw(); }

std::string plot_svg(const Plot& plot, SvgCanvas::Style style) {
  SvgCanvas canvas(plot.size, plot.title, style);
  draw(plot, canvas);
  return canvas.svg();
}

std::string plot_png(const Plot& plot, Theme theme) {
  PngCanvas canvas(plot.size, theme);
  draw(plot, canvas);
  return canvas.png();
}

void write_png(const Plot& plot, const Path& path, Theme theme) {
  if (PngCanvas::works()) return write_file(path, plot_png(plot, theme));
  write_file(Path(path).replace_extension(".svg"), plot_svg(plot));  // a picture to look at, too
}

}  // namespace fovea
