#pragma once

#include <string>
#include <vector>

#include "fovea/inspect_page.h"
#include "inspect_page/block.h"

namespace fovea::viewer {

// What a number of a head is called on the page and in files.
struct Column {
  std::string_view key, name, help;
  bool percent = false;
};
std::vector<Column> columns();
std::vector<double> numbers_of(const LayerRecord& layer, const HeadRecord& head);  // one for each column

// The same of what a head is worth, where it was asked for.
std::vector<Column> worth_columns();
std::vector<double> worth_of(const InspectedModel& model, const LayerRecord& layer, const HeadRecord& head);

struct ClassText {
  HeadClass head_class;
  std::string_view name, help, ink;
};
const std::vector<ClassText>& class_texts();  // one for each HeadClass, in its order

// Why a head has its class, in words: "91% of rows read the token before most".
std::string why(const HeadRecord& head, const std::vector<std::string>& keys);

// The mass on the tenth of the keys nearest to the row, the mean over the heads of a layer: a tenth where near and far
// are alike. NaN without curves.
double near_mass(const LayerRecord& layer, bool paper_curve);

// "local", "global" or "mixed", by the mean area below the curves: where near and far are alike it is 1/2, in a causal
// map 0.6. Empty without curves.
std::string reach(const LayerRecord& layer, bool paper_curve);

// Puts what is kept of a head into a block, and says in `json` how to read it.
struct HeadShare {
  double bytes = 0;      // for the map, deflated
  std::int64_t top = 0;  // keys of each row
};
void pack_head(const LayerRecord& layer, const HeadRecord& head, const HeadShare& share, Block& block, Json& json);

// A small picture of the map: 0 .. 254 for the strength of a cell, 255 for rows without numbers. Gives its size.
struct Thumbnail {
  std::int64_t rows = 0, columns = 0;
  std::string shades;
};
Thumbnail thumbnail(const LayerRecord& layer, const HeadRecord& head);

}  // namespace fovea::viewer
