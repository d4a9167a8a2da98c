#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/html_text.h"

namespace fovea {
namespace {

// Tenths of a pixel are finer than anyone sees; a page of curves is half as large without the other digits.
std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string point_list(std::span<const Point> points) {
  std::string list;
  for (const Point& point : points) list += (list.empty() ? "" : " ") + coordinate(point.x) + "," + coordinate(point.y);
  return list;
}

std::string opacity_text(double opacity) { return opacity < 1 ? fmt::format(" opacity=\"{:.2f}\"", opacity) : ""; }

std::string_view anchor_text(Anchor anchor) {
  switch (anchor) {
    case Anchor::middle: return " text-anchor=\"middle\"";
    case Anchor::end: return " text-anchor=\"end\"";
    default: return "";
  }
}

}  // namespace

SvgCanvas::SvgCanvas(Size size, std::string_view title, Style style) {
  const std::string name = escape_html(title);
  const std::string_view space = style == Style::own ? " xmlns=\"http://www.w3.org/2000/svg\"" : "";  // pages know it
  out_ = fmt::format(
      "<svg{0} viewBox=\"0 0 {1} {2}\" width=\"{1}\" height=\"{2}\" role=\"img\" aria-label=\"{3}\" "
      "font-family=\"{4}\">\n",
      space, size.width, size.height, name, kFonts);
  if (style == Style::own) {
    out_ += "<style>" + palette_css() + "</style>\n";
    out_ += fmt::format("<rect class=\"f0\" width=\"{}\" height=\"{}\"/>\n", size.width, size.height);
  }
}

void SvgCanvas::polyline(std::span<const Point> points, const Stroke& stroke) {
  out_ += fmt::format(
      "<polyline class=\"s{}\" fill=\"none\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}{} points=\"{}\"/>\n",
      static_cast<int>(stroke.ink), stroke.width, stroke.dashed ? " stroke-dasharray=\"5 4\"" : "",
      opacity_text(stroke.opacity), point_list(points));
}

void SvgCanvas::polygon(std::span<const Point> points, Ink fill, double opacity) {
  out_ += fmt::format("<polygon class=\"f{}\"{} points=\"{}\"/>\n", static_cast<int>(fill), opacity_text(opacity),
                      point_list(points));
}

void SvgCanvas::circle(Point centre, double radius, Ink fill, double opacity) {
  out_ += fmt::format("<circle class=\"f{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>\n", static_cast<int>(fill),
                      coordinate(centre.x), coordinate(centre.y), coordinate(radius), opacity_text(opacity));
}

void SvgCanvas::text(Point place, std::string_view words, const TextStyle& style) {
  out_ += fmt::format("<text class=\"f{}\" x=\"{}\" y=\"{}\" font-size=\"{}\"{}{}>{}</text>\n",
                      static_cast<int>(style.ink), coordinate(place.x), coordinate(place.y), style.size,
                      style.bold ? " font-weight=\"600\"" : "", anchor_text(style.anchor), escape_html(words));
}

void SvgCanvas::tip(Point centre, double radius, std::string_view words) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"transparent\"><title>{}</title></circle>\n",
                      coordinate(centre.x), coordinate(centre.y), radius, escape_html(words));
}

double drawn_width(std::string_view words, double size) {
  double units = 0;  // of the font size
  for (const char c : words) {
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
    if (std::string_view("iljtfr.,:;'|!()[] -").find(c) != std::string_view::npos)
      units += 0.36;
    else
      units += (c >= 'A' && c <= 'Z') || c == 'm' || c == 'w' || c == 'M' ? 0.78 : 0.61;
  }
  return units * size;
}

}  // namespace fovea
