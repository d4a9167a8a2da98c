#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/bars.h"
#include "report/plot.h"
#include "report/table.h"

namespace fovea {

struct Figure {
  Plot plot;
  std::string caption;            // what to see in it
  std::optional<Bars> bars = {};  // in the plot's place
};
void write_png(const Figure& figure, const Path& path);

// Shown folded, as it is.
struct Detail {
  std::string title, text;
};

struct Download {
  std::string file_name, content;
  std::string media_type = "text/csv";
};

// A further table with a heading.
struct Section {
  std::string title;
  Table table;
};

// A page beside this one.
struct PageLink {
  std::string title, file;
};

// A report: what was run in one sentence, the result, the pictures, and folded below them everything needed to check
// or repeat it.
struct Page {
  std::string title;
  std::string sentence;
  std::string command;  // that made it
  Table table;
  std::string table_note = {};
  std::vector<std::string> warnings = {};  // what makes the numbers less than they seem
  std::vector<Figure> figures = {};
  std::vector<Section> sections = {};
  std::vector<PageLink> links = {};
  std::vector<Detail> details = {};
  std::vector<Download> downloads = {};
};

// One file that needs nothing else: no request leaves the reader's machine, light and dark by preference.
std::string page_html(const Page& page);

}  // namespace fovea
