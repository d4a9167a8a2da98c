#include "cli/kit/run_progress.h"

#include <fmt/format.h>

#include "cli/kit/progress.h"

namespace fovea::cli {

void RunProgress::on_training(const std::string& name, Task task) {
  training_.emplace(console_, task, name, TrainProgress::Form{name_width_, json_lines_});
}

void RunProgress::on_trained() {
  training_->finish();
  training_.reset();
}

void RunProgress::on_testing(const std::string& name, std::string_view split) {
  test_ = eval_progress(console_, fmt::format("{} on {}", name, split));
}

}  // namespace fovea::cli
