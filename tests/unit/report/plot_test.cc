#include "report/plot.h"

#include <cairo.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "io/html_text.h"
#include "report/html.h"
#include "report/png.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace fovea {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Plot growth() {
  Plot plot{.title = "Forward time by length",
            .x = {.name = "length", .scale = Scale::log2},
            .y = {.name = "time", .unit = "ms", .scale = Scale::log},
            .series = {{"softmax", {512, 1024, 2048, 4096}, {1, 4, 16, 64}},
                       {"norm", {512, 1024, 2048, 4096}, {1, 2, 4, 8}}}};
  plot.guide = Guide{1, "linear growth"};
  return plot;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Axis, LinearTicksAreRoundAndCoverTheData) {
  const AxisMap map({.name = "loss"}, {1.53, 2.31}, AxisMap::Ends::round);
  EXPECT_EQ(map.ticks().front().label, "1.4");
  EXPECT_EQ(map.ticks().back().label, "2.4");
  EXPECT_NEAR(map.position(1.4), 0, 1e-12);
  EXPECT_NEAR(map.position(2.4), 1, 1e-12);
  EXPECT_NEAR(map.value(map.position(1.9)), 1.9, 1e-12);
}

TEST(Axis, EndsWithTheDataWhenAsked) {
  const AxisMap map({.name = "width"}, {1010, 1630}, AxisMap::Ends::data);
  EXPECT_EQ(map.position(1010), 0.0);
  EXPECT_EQ(map.position(1630), 1.0);
  EXPECT_EQ(map.ticks().front().label, "1200");
  EXPECT_EQ(map.ticks().back().label, "1600");
}

TEST(Axis, StartsAtZeroWhenNearIt) {
  const AxisMap map({.name = "step"}, {10, 1630}, AxisMap::Ends::data);
  EXPECT_EQ(map.position(0), 0.0);
  EXPECT_EQ(map.ticks().front().label, "0");
}

TEST(Axis, LogTicksLabelPowers) {
  const AxisMap map({.name = "time", .scale = Scale::log}, {0.5, 5000}, AxisMap::Ends::round);
  std::set<std::string> labels;
  for (const Tick& tick : map.ticks()) labels.insert(tick.label);
  EXPECT_EQ(labels, (std::set<std::string>{"1", "10", "100", "1000"}));
  EXPECT_FALSE(map.shows(0));
  EXPECT_FALSE(map.shows(-1));
  EXPECT_FALSE(map.shows(kNone));
  EXPECT_NEAR(map.value(map.position(70)), 70, 1e-9);
}

TEST(Axis, Log2TicksAreThePowersOfTwo) {
  const AxisMap map({.name = "length", .scale = Scale::log2}, {512, 65536}, AxisMap::Ends::round);
  ASSERT_EQ(map.ticks().size(), 8u);
  EXPECT_EQ(map.ticks()[1].label, "1024");
}

TEST(Axis, SurvivesOneValueNoneAndNonsense) {
  for (const Scale scale : {Scale::linear, Scale::log, Scale::log2})
    for (const std::vector<double>& values :
         {std::vector<double>{}, {0}, {7}, {-3}, {kNone, INFINITY}, {1e-300, 1e300}, {1e15, 1e15 + 1}}) {
      const AxisMap map({.name = "x", .scale = scale}, values, AxisMap::Ends::data);
      EXPECT_LT(map.ticks().size(), 1000u);
      for (const double value : values)
        if (map.shows(value)) {
          EXPECT_GE(map.position(value), -1e-6);
          EXPECT_LE(map.position(value), 1 + 1e-6);
        }
    }
}

TEST(Axis, LogWhenADecadeIsSpanned) {
  EXPECT_EQ(scale_for({1, 10}), Scale::log);
  EXPECT_EQ(scale_for({1, 9}), Scale::linear);
  EXPECT_EQ(scale_for({0, 100}), Scale::linear);
  EXPECT_EQ(scale_for({}), Scale::linear);
}

TEST(Palette, ANameKeepsItsStyleAndTheKnownOnesDiffer) {
  EXPECT_EQ(style_of("performer"), style_of("performer"));
  EXPECT_EQ(style_of("softmax"), style_of("transformer"));
  std::set<Ink> inks;
  for (const char* name : {"softmax", "transnormer-t2", "transnormer-t1", "norm", "linear", "diag", "rela"})
    inks.insert(style_of(name).ink);
  EXPECT_EQ(inks.size(), 7u);
}

TEST(Palette, NoTwoSeriesOfAPlotLookTheSame) {
  std::vector<std::string> words;
  for (int i = 0; i < 40; ++i) words.push_back("mechanism " + std::to_string(i));
  std::vector<std::string_view> names(words.begin(), words.end());
  names.push_back("softmax");
  names.push_back("transformer");
  const std::vector<SeriesStyle> styles = styles_of(names);
  for (std::size_t i = 0; i < styles.size(); ++i)
    EXPECT_EQ(std::count(styles.begin(), styles.end(), styles[i]), 1) << names[i];
  EXPECT_EQ(styles[40].ink, Ink::blue);
  const std::vector<SeriesStyle> few =
      styles_of(std::vector<std::string_view>{"a", "b", "c", "d", "e", "norm", "softmax", "f"});
  std::set<Ink> inks;
  for (const SeriesStyle& style : few) inks.insert(style.ink);
  EXPECT_EQ(inks.size(), 8u);
}

double luminance(Rgb c) {
  const auto part = [](std::uint8_t v) {
    const double s = v / 255.0;
    return s <= 0.03928 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(c.red) + 0.7152 * part(c.green) + 0.0722 * part(c.blue);
}

TEST(Palette, EveryLineIsVisibleOnItsPaper) {
  for (const Theme theme : {Theme::light, Theme::dark})
    for (int ink = static_cast<int>(Ink::text); ink < kInks; ++ink) {
      if (static_cast<Ink>(ink) == Ink::grid) continue;
      const double a = luminance(colour(static_cast<Ink>(ink), theme)), b = luminance(colour(Ink::paper, theme));
      EXPECT_GE((std::max(a, b) + 0.05) / (std::min(a, b) + 0.05), 3.0) << "ink " << ink;
    }
}

TEST(Plot, SvgNamesAxesUnitsAndSeries) {
  const std::string svg = plot_svg(growth());
  for (const char* text :
       {">Forward time by length<", ">length<", ">time (ms)<", ">softmax<", ">norm<", ">linear growth<", ">4096<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(count(svg, "<title>"), 8u);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(plot_svg(growth(), SvgCanvas::Style::of_page).find("<style>"), std::string::npos);
}

TEST(Plot, TextFromOutsideIsEscaped) {
  Plot plot = growth();
  plot.title = "<script>alert(\"1\")</script>";
  plot.series[0].name = "a&b<c>";
  const std::string svg = plot_svg(plot);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b&lt;c&gt;"), std::string::npos);
}

TEST(Plot, GapsAndBadValuesDoNotReachThePicture) {
  Plot plot = growth();
  plot.series[0].y = {1, kNone, 16, 0};  // 0 has no place on a log axis
  plot.series.push_back({"empty", {}, {}});
  const std::string svg = plot_svg(plot);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf\""), std::string::npos);
  EXPECT_EQ(count(svg, "<title>"), 6u);
}

TEST(Plot, LongCurvesStaySmall) {
  Plot plot{.title = "t", .x = {.name = "step"}, .y = {.name = "loss"}, .series = {{.name = "a", .smooth = true}}};
  for (int i = 0; i < 200000; ++i) {
    plot.series[0].x.push_back(i);
    plot.series[0].y.push_back(std::sin(i));
  }
  EXPECT_LT(plot_svg(plot).size(), 80000u);
}

TEST(Plot, CurvesOfFewAndOfManyPointsAreSmoothedAlike) {
  Plot plot{.title = "t", .x = {.name = "s"}, .y = {.name = "loss"}, .series = {}};
  plot.series = {{.name = "fast", .smooth = true}, {.name = "slow", .smooth = true}};
  for (int i = 0; i <= 400; ++i) {
    plot.series[0].x.push_back(i);
    plot.series[0].y.push_back(i % 2 == 0 ? 1.0 : 3.0);
    if (i % 20 != 0) continue;
    plot.series[1].x.push_back(i);
    plot.series[1].y.push_back(2.0);
  }
  const std::string svg = plot_svg(plot);
  EXPECT_EQ(count(svg, "opacity=\"0.25\""), 2u);  // what was measured lies faintly behind each
  EXPECT_EQ(count(svg, "<title>"), 0u);           // and none has markers
}

TEST(Plot, PointsHaveMarginsSizesAndNames) {
  Plot plot{
      .title = "t", .x = {.name = "speed"}, .y = {.name = "accuracy", .unit = "%"}, .series = {}, .labelled = true};
  plot.series = {{.name = "a", .x = {10}, .y = {40}, .margin = {2}, .size = {400}, .note = "400 MB"},
                 {.name = "b", .x = {20}, .y = {50}, .margin = {2}, .size = {100}}};
  const std::string svg = plot_svg(plot);
  EXPECT_NE(svg.find(">a, 400 MB<"), std::string::npos);
  EXPECT_NE(svg.find(">b<"), std::string::npos);
  EXPECT_EQ(count(svg, ">b<"), 1u);  // beside its point, and in no legend
  EXPECT_NE(svg.find("r=\"20\""), std::string::npos);
  EXPECT_NE(svg.find("r=\"10\""), std::string::npos);  // a quarter of the area
  EXPECT_EQ(count(svg, "opacity=\"0.70\""), 6u);       // two upright lines, each with its ends
}

TEST(Plot, NamesThatWouldLieOnEachOtherMoveApart) {
  Plot plot{.title = "t", .x = {.name = "x"}, .y = {.name = "y"}, .series = {}, .labelled = true};
  for (const char* name : {"first", "second", "third"}) plot.series.push_back({.name = name, .x = {1}, .y = {1}});
  const std::string svg = plot_svg(plot);
  std::set<std::string> places;
  for (const char* name : {">first<", ">second<", ">third<"}) {
    const std::size_t begin = svg.rfind("<text", svg.find(name));
    const std::string text = svg.substr(begin, svg.find(" font-size", begin) - begin);
    places.insert(text.substr(text.find(" x=")));
  }
  EXPECT_EQ(places.size(), 3u);
}

TEST(Bars, HavePiecesOfTheirOwnColours) {
  Bars bars{.title = "time",
            .axis = {"time", "ms"},
            .bars = {{"fast", {{"attention", 1.0}, {"gemm", 3.0}}},
                     {"slow", {{"gemm", 3.0}, {"attention", 9.0}, {"dust", 0.001}}}}};
  const Size size = bars.size();
  SvgCanvas canvas(size, bars.title, SvgCanvas::Style::own);
  draw(bars, canvas);
  const std::string svg = canvas.svg();
  for (const char* text :
       {">fast<", ">slow<", ">attention<", ">gemm<", ">4.00 ms<", ">12.0 ms<", "attention: 9.00 ms (75%)"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("dust"), std::string::npos);
  EXPECT_EQ(count(svg, "<polygon"), 4u);
  bars.bars.push_back({"third", {{"gemm", 1.0}}});
  EXPECT_GT(bars.size().height, size.height);
}

TEST(Plot, RefusesSeriesOfUnequalLength) {
  Plot plot = growth();
  plot.series[0].y.pop_back();
  EXPECT_ERROR(plot_svg(plot), ErrorCode::internal, "\"softmax\" has 4 x and 3 y", "", "");
  plot = growth();
  plot.x.scale = Scale::linear;
  EXPECT_ERROR(plot_svg(plot), ErrorCode::internal, "two log axes", "Forward time", "");
}

struct Feed {
  std::string bytes;
  std::size_t at = 0;
};

cairo_status_t feed(void* from, unsigned char* data, unsigned int length) {
  Feed& source = *static_cast<Feed*>(from);
  if (source.at + length > source.bytes.size()) return CAIRO_STATUS_READ_ERROR;
  std::memcpy(data, source.bytes.data() + source.at, length);
  source.at += length;
  return CAIRO_STATUS_SUCCESS;
}

// Pixels of a PNG by colour.
std::map<std::uint32_t, int> colours(const std::string& png, int& width, int& height) {
  Feed source{png};
  cairo_surface_t* image = cairo_image_surface_create_from_png_stream(feed, &source);
  width = cairo_image_surface_get_width(image);
  height = cairo_image_surface_get_height(image);
  std::map<std::uint32_t, int> found;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      std::uint32_t pixel = 0;
      std::memcpy(&pixel, cairo_image_surface_get_data(image) + y * cairo_image_surface_get_stride(image) + 4 * x, 4);
      ++found[pixel & 0xffffff];
    }
  cairo_surface_destroy(image);
  return found;
}

std::uint32_t packed(Rgb c) { return static_cast<std::uint32_t>(c.red << 16 | c.green << 8 | c.blue); }

TEST(Plot, PngShowsPaperTextAndEverySeries) {
  for (const Theme theme : {Theme::light, Theme::dark}) {
    int width = 0, height = 0;
    const std::map<std::uint32_t, int> found = colours(plot_png(growth(), theme), width, height);
    EXPECT_EQ(width, 1440);
    EXPECT_EQ(height, 840);
    for (const Ink ink : {Ink::paper, Ink::text, Ink::grid, Ink::blue, Ink::violet})
      EXPECT_TRUE(found.contains(packed(colour(ink, theme)))) << static_cast<int>(ink);
    EXPECT_FALSE(found.contains(packed(colour(Ink::vermilion, theme))));
  }
}

TEST(Plot, WritesPngFiles) {
  const TemporaryFolder folder;
  write_png(growth(), folder / "p.png");
  EXPECT_EQ(get(folder / "p.png").substr(1, 3), "PNG");
  EXPECT_ERROR(PngCanvas({0, 10}, Theme::light), ErrorCode::usage, "between 1 and 8000", "", "");
  EXPECT_ERROR(PngCanvas({kNone, 10}, Theme::light), ErrorCode::usage, "between 1 and 8000", "", "");
}

TEST(Html, Base64KnownAnswers) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar\xff"), "Zm9vYmFy/w==");
}

TEST(Html, PageIsWholeAndFetchesNothing) {
  Table table({{"accuracy", Quantity::percent, Best::highest}});
  table.add("softmax", {0.3});
  table.add("norm", {0.4});
  const Page page{.title = "ListOps <1>",
                  .sentence = "Two models.",
                  .command = "fovea lra listops",
                  .table = table,
                  .table_note = "majority 17%",
                  .warnings = {"a busy <machine>"},
                  .figures = {{growth(), "Lower is better."}},
                  .details = {{"Configuration", "{\"a\": \"</pre><script>\"}"}},
                  .downloads = {{"m.csv", "a,b\n1,2\n"}}};
  const std::string html = page_html(page);
  for (const char* part :
       {"<h1>ListOps &lt;1&gt;</h1>", "Two models.", "<pre>fovea lra listops</pre>", "class=\"best\">40.0<",
        "majority 17%", "a busy &lt;machine&gt;", "class=\"phone\"", "<svg", "Lower is better.",
        "<summary>Configuration</summary>", "download=\"m.csv\" href=\"data:text/csv;base64,YSxiCjEsMgo=\"",
        "prefers-color-scheme:dark", "default-src 'none'"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(count(html, "http://") + count(html, "https://"), 0u);
  EXPECT_EQ(html.find("src="), std::string::npos);
}

}  // namespace
}  // namespace fovea
