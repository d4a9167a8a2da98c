#pragma once

#include "fovea/inspect_page.h"
#include "io/file.h"
#include "report/table.h"

namespace fovea {

// A row for each layer: its mechanism, the classes of its heads, and what they do on the mean.
Table inspect_table(const InspectPage& page);
// A row for each head, with all its numbers.
Table inspect_heads_table(const InspectPage& page);

// For other programs, into a folder: heads.csv, rows.csv, keys.csv, distance.csv, locality.csv; locality and entropy as
// SVG and PNG, each map as PNG; and where the pyramid holds single weights, these as .npy: (heads, n_q, n_k) of each
// layer, and (layers, heads, n_q, n_k) where all layers are alike. pruning.csv and approximation.csv (by layer) with a
// plot, where these were asked for. Gives the names of the files.
std::vector<std::string> write_inspect_files(const Context& context, const InspectPage& page, const Path& folder);

}  // namespace fovea
