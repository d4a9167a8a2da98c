#include "report/html.h"

#include <fmt/format.h>

#include "fovea/version.h"
#include "io/html_text.h"
#include "report/png.h"

namespace fovea {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--paper:#fff;--card:#fff;--text:#1c1e22;--muted:#626872;--line:#e2e5ea;--link:#0068b2;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--paper:#101216;--card:#16181d;--text:#e8eaee;--muted:#9aa1ac;--line:#30353d;--link:#5bb0f0;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--text);font:16px/1.55 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
main{max-width:960px;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
h2{font-size:1.15rem;margin:2.5rem 0 -1rem}
p{margin:.5rem 0}
.lead{font-size:1.05rem}
.note,figcaption,footer{color:var(--muted);font-size:.9rem}
code,pre{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.85rem}
pre{overflow-x:auto;margin:.5rem 0 0;padding:.75rem 1rem;border:1px solid var(--line);border-radius:8px;background:var(--card)}
main>pre{white-space:pre-wrap;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:1.75rem 0 .25rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.5rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child{text-align:left;padding-left:0}
thead th{color:var(--muted);font-weight:500;font-size:.9rem;white-space:normal;vertical-align:bottom}
tbody th{font-weight:500}
td.long,th.long{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:14rem;vertical-align:top}
.best{font-weight:700}
.missed{color:var(--bad)}
figure{margin:2rem 0 0;padding:1rem;border:1px solid var(--line);border-radius:12px;background:var(--card)}
figure svg{display:block;width:100%;height:auto}
figcaption{margin-top:.25rem;padding:0 1rem}
.phone{display:none}
.warning{border-left:4px solid var(--bad);padding:.25rem .75rem;font-size:.95rem}
@media(max-width:560px){.screen{display:none}.phone{display:block}main{padding:1.25rem 1rem 3rem}h1{font-size:1.35rem}figure{padding:.5rem .25rem}figcaption{padding:0 .5rem}th,td{padding:.45rem .5rem}th:first-child{position:sticky;left:0;background:var(--paper);max-width:40vw;overflow:hidden;text-overflow:ellipsis}
/* long texts stand below the numbers of their row, over the whole width */
.texts,.texts thead,.texts tbody{display:block}.texts tr{display:flex;flex-wrap:wrap;padding:.3rem 0;border-bottom:1px solid var(--line)}
.texts th,.texts td,.texts th:first-child{flex:1 1 0;border:0;padding:.15rem .25rem;white-space:normal;max-width:none;position:static}
.texts td.long,.texts th.long,.texts th.long:first-child{flex-basis:100%;min-width:0}}
details{margin-top:.75rem;border-top:1px solid var(--line);padding-top:.75rem}
details:first-of-type{margin-top:2.5rem}
summary{cursor:pointer;font-weight:500}
a{color:var(--link)}
footer{margin-top:3rem}
)css";

// Nothing may be fetched, whatever ends up in the texts.
constexpr std::string_view kPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

std::string figure_svg(const Figure& figure, SvgCanvas::Style style) {
  if (!figure.bars) return plot_svg(figure.plot, style);
  SvgCanvas canvas(figure.bars->size(), figure.bars->title, style);
  draw(*figure.bars, canvas);
  return canvas.svg();
}

// Drawn once for screens and once for phones: what is drawn smaller cannot be read there.
std::string figure_html(const Figure& figure) {
  constexpr Size kPhone{360, 340};
  Figure narrow = figure;
  narrow.plot.size = kPhone;
  if (narrow.bars) narrow.bars->width = kPhone.width;
  return fmt::format(
      "<figure>\n<div class=\"screen\">{}</div><div class=\"phone\">{}</div><figcaption>{}</figcaption>\n</figure>\n",
      figure_svg(figure, SvgCanvas::Style::of_page), figure_svg(narrow, SvgCanvas::Style::of_page),
      escape_html(figure.caption));
}

std::string detail_html(const std::string& title, const std::string& inner) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escape_html(title), inner);
}

std::string downloads_html(const std::vector<Download>& downloads) {
  std::string list = "<ul>\n";
  for (const Download& file : downloads)
    list += fmt::format("<li><a download=\"{0}\" href=\"data:{1};base64,{2}\">{0}</a></li>\n",
                        escape_html(file.file_name), escape_html(file.media_type), base64(file.content));
  return list + "</ul>";
}

std::string links_html(const std::vector<PageLink>& links) {
  std::string list = "<ul>\n";
  for (const PageLink& link : links)
    list += fmt::format("<li><a href=\"{}\">{}</a></li>\n", escape_html(link.file), escape_html(link.title));
  return list + "</ul>\n";
}

}  // namespace

void write_png(const Figure& figure, const Path& path) {
  if (!figure.bars || !PngCanvas::works()) {
    const Path svg = Path(path).replace_extension(".svg");
    return figure.bars ? write_file(svg, figure_svg(figure, SvgCanvas::Style::own)) : write_png(figure.plot, path);
  }
  PngCanvas canvas(figure.bars->size(), Theme::light);
  draw(*figure.bars, canvas);
  write_file(path, canvas.png());
}

std::string page_html(const Page& page) {
  std::string body =
      fmt::format("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape_html(page.title), escape_html(page.sentence));
  if (!page.command.empty()) body += "<pre>" + escape_html(page.command) + "</pre>\n";
  if (!page.table.empty()) body += page.table.html();
  if (!page.table_note.empty()) body += fmt::format("<p class=\"note\">{}</p>\n", escape_html(page.table_note));
  for (const std::string& warning : page.warnings)
    body += fmt::format("<p class=\"warning\">{}</p>\n", escape_html(warning));
  if (!page.links.empty()) body += links_html(page.links);
  for (const Figure& figure : page.figures) body += figure_html(figure);
  for (const Section& section : page.sections)
    body += fmt::format("<h2>{}</h2>\n", escape_html(section.title)) + section.table.html();
  for (const Detail& detail : page.details)
    body += detail_html(detail.title, "<pre>" + escape_html(detail.text) + "</pre>");
  if (!page.downloads.empty()) body += detail_html("Data", downloads_html(page.downloads));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n{}<footer>Made by fovea {}.</footer>\n</main>\n"
      "</body>\n</html>\n",
      kPolicy, escape_html(page.title), kStyle, palette_css(), body, FOVEA_VERSION);
}

}  // namespace fovea
