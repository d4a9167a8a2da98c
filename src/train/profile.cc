#include "train/profile.h"

#include <algorithm>

#include "io/field_visitor.h"

namespace fovea {

void ProfileRow::fields(FieldVisitor& v) {
  v("place", place, "layer");
  v("operation", operation, "what ran there");
  v("calls", calls, "how often, forward", at_least(0));
  v("forward_seconds", forward_seconds, "all calls together", at_least(0));
  v("backward_seconds", backward_seconds, "the same, with what is recomputed", at_least(0));
  v("memory", memory, "bytes kept for backward, all calls together");
}

void ProfileReport::fields(FieldVisitor& v) {
  v("steps", steps, "that were measured", at_least(0));
  v("seconds", seconds, "these took", at_least(0));
  v("input_seconds", input_seconds, "of these, waiting for batches", at_least(0));
  v("update_seconds", update_seconds, "of these, clipping, optimiser and the like", at_least(0));
  v("rows", rows, "of these, what layers did");
}

double Profile::lap() {
  const Clock::time_point now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
}

double Profile::grown_memory() {
  const std::size_t now = context_.allocator()->use(Lifetime::step).now;
  return static_cast<double>(now) - static_cast<double>(std::exchange(in_use_, now));
}

ProfileRow& Profile::row(const Tape& tape, const Op& op) {
  const auto [known, is_new] = known_.try_emplace({tape.place(), &op});
  if (is_new) {
    const auto [entry, first] = index_.try_emplace({tape.path(tape.place()), op.name}, report_.rows.size());
    if (first) {
      report_.rows.emplace_back();
      report_.rows.back().place = entry->first.first;
      report_.rows.back().operation = op.name;
    }
    known->second = entry->second;
  }
  return report_.rows[known->second];
}

void Profile::on_begin(const Tape&) {
  known_.clear();
  grown_memory();
  lap();
}

void Profile::on_values(const Tape& tape, const Op& op, std::span<const Tensor>) {
  ProfileRow& at = row(tape, op);
  const double seconds = lap(), bytes = grown_memory();
  (tape.replaying() ? at.backward_seconds : at.forward_seconds) += seconds;
  if (tape.replaying()) return;
  at.memory += bytes;
  ++at.calls;
}

void Profile::on_gradients(const Tape& tape, const Node& node) {
  row(tape, *node.op).backward_seconds += lap();
  grown_memory();
}

void Profile::on_step(const StepReport& report) {
  ++report_.steps;
  report_.seconds += report.seconds;
  report_.input_seconds += report.input_seconds;
}

ProfileReport Profile::report() const {
  ProfileReport report = report_;
  double on_tapes = 0.0;
  for (const ProfileRow& r : report.rows) on_tapes += r.forward_seconds + r.backward_seconds;
  report.update_seconds = std::max(0.0, report.seconds - report.input_seconds - on_tapes);
  return report;
}

}  // namespace fovea
