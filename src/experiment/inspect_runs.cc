#include "experiment/inspect_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiment/run_folder.h"
#include "fovea/inspect_page.h"

namespace fovea {
namespace {

constexpr std::int64_t kBytes = 8'000'000;  // of the page: it lies beside every report

std::int64_t tokens_of(const Batch& batch, const ModelConfig& config) {
  if (batch.input.ids.defined()) return batch.input.ids.numel();
  return config.image ? config.image->patches() : config.max_length;
}

}  // namespace

void write_inspect_page(const std::vector<FinishedRun>& runs, const Dataset& data, const ContextOptions& machine,
                        const Path& file) {
  const Split& split = empty(data.test) ? *data.validation : *data.test;
  InspectPage page{.title = fmt::format("What the models of {} read", data.name), .bytes = kBytes};
  std::vector<std::string> names;
  for (const FinishedRun& run : runs) {
    Context context(machine);
    const Model model = load_model(context, checkpoint_of(run.folder, "inspect").string());
    const InspectSubject subject = inspect_example(context, model, data, split, 0);
    const ModelConfig& config = model.config();
    const auto heads = std::ssize(config.layers) * config.heads * std::ssize(runs);
    InspectOptions options{.notes = subject.notes, .second_notes = subject.second_notes};
    options.cells = inspect_page_cells(tokens_of(subject.batch, config), heads, kBytes);
    page.models.push_back({run.name, inspect(context, model, subject.batch, options), subject.tokens});
    if (!page.picture) page.picture = subject.picture;
    names.push_back(run.name);
  }
  page.sentence = fmt::format("{}, each trained on {}, reading the first example of its test part.",
                              fmt::join(names, " and "), data.name);
  write_file(file, inspect_page_html(page));
}

}  // namespace fovea
