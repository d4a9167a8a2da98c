#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/error.h"
#include "report/numbers.h"
#include "report/png.h"

namespace fovea {
namespace {

constexpr double kPad = 16, kTitleSize = 15, kTextSize = 12, kMarkerRadius = 3.6;
constexpr double kLegendRow = 20, kLegendSample = 26, kLegendGap = 18;
constexpr Stroke kThin = {.ink = Ink::muted, .width = 1, .dashed = true};  // guides and levels
constexpr std::size_t kMostMarkers = 40;                                   // a curve of more points is drawn without

void draw_marker(Canvas& canvas, Marker marker, Point at, Ink ink) {
  constexpr double r = kMarkerRadius;
  const auto shape = [&](std::vector<Point> corners) {
    for (Point& corner : corners) corner = {at.x + corner.x * r, at.y + corner.y * r};
    canvas.polygon(corners, ink);
  };
  switch (marker) {
    case Marker::circle: return canvas.circle(at, r, ink);
    case Marker::square: return shape({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
    case Marker::triangle: return shape({{0, -1.25}, {1.1, 0.85}, {-1.1, 0.85}});
    case Marker::inverted: return shape({{0, 1.25}, {1.1, -0.85}, {-1.1, -0.85}});
    case Marker::diamond: return shape({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
    case Marker::plus:
      return shape({{-0.4, -1.2},
                    {0.4, -1.2},
                    {0.4, -0.4},
                    {1.2, -0.4},
                    {1.2, 0.4},
                    {0.4, 0.4},
                    {0.4, 1.2},
                    {-0.4, 1.2},
                    {-0.4, 0.4},
                    {-1.2, 0.4},
                    {-1.2, -0.4},
                    {-0.4, -0.4}});
  }
}

std::vector<SeriesStyle> styles_for(const std::vector<Series>& series) {
  std::vector<std::string_view> names;
  for (const Series& one : series) names.push_back(one.name);
  return styles_of(names);
}

// The mean over a twentieth of the curve, or what is left of that at the ends; gaps stay gaps.
std::vector<double> running_mean(const std::vector<double>& y) {
  const std::size_t reach = std::max<std::size_t>(1, y.size() / 40);
  std::vector<double> sum(y.size() + 1), count(y.size() + 1), mean(y);  // of the finite values before each place
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool finite = std::isfinite(y[i]);
    sum[i + 1] = sum[i] + (finite ? y[i] : 0);
    count[i + 1] = count[i] + (finite ? 1 : 0);
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!std::isfinite(y[i])) continue;
    const std::size_t begin = i - std::min(i, reach), end = std::min(y.size(), i + reach + 1);
    mean[i] = (sum[end] - sum[begin]) / (count[end] - count[begin]);
  }
  return mean;
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
        x_(plot.x, all(&Series::x), AxisMap::Ends::data),
        y_(plot.y, y_values(), AxisMap::Ends::round) {}

  void draw() {
    canvas_.text({kPad, kPad + kTitleSize * 0.8}, plot_.title, {.size = kTitleSize, .bold = true});
    draw_legend();
    place_frame();
    draw_grid();
    for (const Level& level : plot_.levels) draw_level(level);
    if (plot_.guide) draw_guide(*plot_.guide);
    for (std::size_t i = 0; i < plot_.series.size(); ++i) draw_series(plot_.series[i], styles_[i]);
  }

 private:
  std::vector<double> all(std::vector<double> Series::*member) const {
    std::vector<double> values;
    for (const Series& series : plot_.series)
      values.insert(values.end(), (series.*member).begin(), (series.*member).end());
    return values;
  }

  std::vector<double> y_values() const {
    std::vector<double> values = all(&Series::y);
    for (const Level& level : plot_.levels) values.push_back(level.y);
    return values;
  }

  // A row of samples under the title, continued below when it is full.
  void draw_legend() {
    legend_ = {kPad, kPad + kTitleSize + 8 + kLegendRow / 2};
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const Point sample = draw_legend_entry(plot_.series[i].name, {.ink = styles_[i].ink, .width = 2});
      draw_marker(canvas_, styles_[i].marker, sample, styles_[i].ink);
    }
    if (plot_.guide) draw_legend_entry(plot_.guide->label, kThin);
  }

  // Returns the middle of the sample.
  Point draw_legend_entry(const std::string& name, const Stroke& stroke) {
    const double width = kLegendSample + 6 + drawn_width(name, kTextSize) + kLegendGap;
    if (legend_.x > kPad && legend_.x + width > plot_.size.width - kPad) legend_ = {kPad, legend_.y + kLegendRow};
    const Point start = legend_;
    line(start, {start.x + kLegendSample, start.y}, stroke);
    canvas_.text({start.x + kLegendSample + 6, start.y + kTextSize * 0.36}, name, {.size = kTextSize});
    legend_.x += width;
    return {start.x + kLegendSample / 2, start.y};
  }

  // Leaves room for the names of the axes and the widest number on the left.
  void place_frame() {
    double widest = 0;
    for (const Tick& tick : y_.ticks()) widest = std::max(widest, drawn_width(tick.label, kTextSize));
    left_ = kPad + widest + 8;
    right_ = plot_.size.width - kPad - 8;
    top_ = legend_.y + kLegendRow / 2 + 30;
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
    if (series.smooth && series.x.size() > kMostMarkers) {
      draw_curve(series.x, series.y, {.ink = style.ink, .width = 1, .opacity = 0.25});
      draw_curve(series.x, running_mean(series.y), {.ink = style.ink, .width = 2});
      return;
    }
    draw_curve(series.x, series.y, {.ink = style.ink, .width = 2});
    if (series.x.size() > kMostMarkers) return;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!x_.shows(series.x[i]) || !y_.shows(series.y[i])) continue;
      const Point at = {place_x(series.x[i]), place_y(series.y[i])};
      draw_marker(canvas_, style.marker, at, style.ink);
      canvas_.tip(at, 9, tip_text(series, i));
    }
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
  Point legend_{};  // where the next entry goes
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

void write_png(const Plot& plot, const Path& path, Theme theme) { write_file(path, plot_png(plot, theme)); }

}  // namespace fovea
