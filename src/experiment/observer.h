#pragma once

#include <string>
#include <string_view>

#include "fovea/train.h"

namespace fovea {

// Watches runs: their training, and what comes before and after it. Called on the thread of the run.
class RunObserver : public TrainObserver {
 public:
  virtual void on_training(const std::string& /*name*/, Task) {}  // begins
  virtual void on_trained() {}
  virtual void on_testing(const std::string& /*name*/, std::string_view /*split*/) {}  // begins
  virtual void on_test_progress(std::int64_t /*done*/, std::int64_t /*all*/) {}        // examples
  virtual void on_tested() {}
  virtual void on_note(std::string_view /*text*/) {}    // what people should know
  virtual void on_detail(std::string_view /*text*/) {}  // what they may want to know
};

}  // namespace fovea
