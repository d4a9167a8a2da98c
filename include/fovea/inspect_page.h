#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/export.h"
#include "fovea/inspect.h"

// What inspect() found as one HTML file that needs nothing else: docs/inspect.md shows it.
namespace fovea {

// The tokens of an input as people read them; any bytes. Too few or none: the others are numbers.
struct InspectTokens {
  std::vector<std::string> input;   // of the first sequence
  std::vector<std::string> second;  // of what a decoder reads
  bool spaced = false;              // tokens are words, or parts of them, without the spaces between
};

// A model, or a call, beside others on one page.
struct InspectedModel {
  std::string name;  // "runs/gpt", "softmax"
  InspectRecord record;
  InspectTokens tokens = {};
};

// What a vision model reads: a grid of patches, the last rows * columns tokens of the input.
struct InspectPicture {
  std::int64_t height = 0, width = 0;  // pixels
  std::vector<std::uint8_t> rgb;       // (height, width, 3)
  std::int64_t rows = 0, columns = 0;  // patches
};

struct InspectPage {
  std::string title, sentence;
  std::string command = {};  // that made it
  std::vector<InspectedModel> models;
  std::optional<InspectPicture> picture = {};  // of the first model
  bool paper_curve = false;                    // as the records were made
  std::int64_t bytes = 0;                      // about how large the file may be; 0: 14 MB, and 28 MB for long texts
};

// Weights are kept as bytes on a logarithmic scale, its steps as fine as the size of the file allows; the `top` largest
// of each row in half precision. Throws for a page without models, or records whose sizes do not fit together.
FOVEA_EXPORT std::string inspect_page_html(const InspectPage& page);

// How fine a pyramid a page shows: InspectOptions::cells for maps of n x n tokens, heads of them.
FOVEA_EXPORT std::int64_t inspect_page_cells(std::int64_t n, std::int64_t heads, std::int64_t bytes = 0);

}  // namespace fovea
