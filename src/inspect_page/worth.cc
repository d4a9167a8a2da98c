#include <algorithm>

#include "fovea/error.h"
#include "fovea/inspect_page.h"

namespace fovea {
namespace {

// The token after each; none after the last.
Tensor next_tokens(const Context& context, const Tensor& ids) {
  std::vector<std::int32_t> next = ids.to_vector<std::int32_t>();
  std::rotate(next.begin(), next.begin() + 1, next.end());
  next.back() = -1;
  return Tensor::from<std::int32_t>(context, ids.shape(), next);
}

// The most likely class of each row.
Tensor own_answer(Context& context, const Model& model, const Batch& batch) {
  Tape tape(context, {.record = false});
  const Tensor logits = model.forward(tape, batch).value();
  const std::int64_t classes = logits.dim(logits.rank() - 1);
  const std::vector<float> values = logits.to_vector<float>();
  std::vector<std::int32_t> best;
  for (auto row = values.begin(); row != values.end(); row += classes)
    best.push_back(static_cast<std::int32_t>(std::max_element(row, row + classes) - row));
  const bool tokens = logits.rank() == 3;
  return Tensor::from<std::int32_t>(context, tokens ? batch.input.ids.shape() : Shape{std::ssize(best)}, best);
}

}  // namespace

void ask_next_or_own(Context& context, const Model& model, Batch& batch) {
  if (batch.targets.defined()) return;
  switch (model.config().task) {
    case Task::lm: batch.targets = next_tokens(context, batch.input.ids); break;
    case Task::seq2seq: batch.targets = next_tokens(context, batch.second.ids); break;
    case Task::mlm:
    case Task::classify:
    case Task::match:
    case Task::vision: batch.targets = own_answer(context, model, batch); break;
    default:
      fail(ErrorCode::unsupported, "the model has no loss: nothing tells what a head is worth to it",
           std::string(task_names()[static_cast<std::size_t>(model.config().task)]),
           "a model that was trained for an answer; or an example of the data of its run");
  }
}

void add_worth(Context& context, const Model& model, const WorthQuestion& question, InspectedModel& inspected) {
  constexpr int kShorter = 3;  // an eighth, a quarter and a half of the tokens, before all of them
  if (question.importance || question.pruning)
    inspected.importance = head_importance(context, model, question.asked, question.importance);
  if (question.pruning) inspected.pruning = head_pruning(context, model, question.asked, inspected.importance);
  if (question.mechanisms.empty()) return;
  std::vector<std::int64_t> lengths;
  if (const Tensor& ids = question.read.input.ids; ids.defined())
    for (int k = kShorter; k > 0; --k) lengths.push_back(ids.numel() >> k);
  inspected.approximation = approximation(context, model, question.read, question.mechanisms, lengths);
}

}  // namespace fovea
