#pragma once

#include "fovea/inspect_page.h"
#include "report/plot.h"
#include "report/table.h"

namespace fovea {

// What was asked of heads and of other mechanisms, where it was asked for; empty tables elsewhere.

// The heads that matter most and least; all of them where there are few.
Table inspect_importance_table(const InspectPage& page);
// Heads in the order of what they are worth: by gradient, or what the loss grows by without each.
Plot inspect_importance_plot(const InspectPage& page, bool by_ablation);
// The score as heads are taken out.
Table inspect_pruning_table(const InspectPage& page);
Plot inspect_pruning_plot(const InspectPage& page);
// Other mechanisms beside softmax: means over the layers of a model, or a row for each layer.
Table inspect_approximation_table(const InspectPage& page, bool by_layer);
Plot inspect_approximation_plot(const InspectPage& page);

}  // namespace fovea
