#pragma once

#include <functional>
#include <optional>

#include "cli/kit/train_progress.h"
#include "experiment/observer.h"

namespace fovea::cli {

// Shows runs on the console: bars of the training and of the test, and what is said on the way.
class RunProgress : public RunObserver {
 public:
  // `name_width`: columns for names, so that bars of several models line up.
  explicit RunProgress(const Console& console, std::size_t name_width = 0, bool json_lines = false)
      : console_(console), name_width_(name_width), json_lines_(json_lines) {}

  void on_training(const std::string& name, Task task) override;
  void on_step(const StepReport& report) override { training_->on_step(report); }
  void on_eval_progress(std::int64_t done, std::int64_t all) override { training_->on_eval_progress(done, all); }
  void on_eval(const EvalReport& report) override { training_->on_eval(report); }
  void on_trained() override;
  void on_testing(const std::string& name, std::string_view split) override;
  void on_test_progress(std::int64_t done, std::int64_t all) override { test_(done, all); }
  void on_tested() override { test_ = {}; }
  void set_warning(std::string_view text) { training_->set_warning(text); }  // shown with the steps of now
  void on_note(std::string_view text) override { console_.note(text); }
  void on_detail(std::string_view text) override { console_.detail(text); }

 private:
  const Console& console_;
  std::size_t name_width_;
  bool json_lines_;
  std::optional<TrainProgress> training_;  // while it lasts
  std::function<void(std::int64_t done, std::int64_t all)> test_;
};

}  // namespace fovea::cli
