#include "models/pipeline.h"

#include <numeric>

#include "autograd/new_slot.h"
#include "models/staged.h"
#include "parallel/conveyor.h"
#include "tensor/views.h"

namespace fovea {
namespace {

// Without the value, which backward does not read.
Var side_of_gradient(const Var& x) { return x.needs_grad() ? Var(Tensor(), x.slot()) : x; }

Tensor room_for_gradient(const Context& context, const Var& x) {
  return x.needs_grad() ? Tensor::empty(context, x.slot()->shape, x.slot()->dtype)
                        : Tensor::empty(context, x.shape(), x.dtype());
}

void add_penalties(Tape& tape, Loss& loss) {
  for (const Var& penalty : tape.take_penalties())
    loss.value = loss.value.defined() ? add(tape, loss.value, penalty) : penalty;
}

Tensor room_for_streams(std::size_t inputs) { return host_tensor({static_cast<std::int64_t>(inputs)}, DType::f64); }

}  // namespace

struct Pipeline::Links {
  explicit Links(const dist::Group& ranks)
      : rows(ranks, divided::Conveyor::Direction::up, "rows"),
        gradients(ranks, divided::Conveyor::Direction::down, "gradients of rows") {}

  divided::Conveyor rows, gradients;
};

Pipeline::Pipeline(const dist::Group& ranks, std::int64_t chunks) : ranks_(ranks) {
  if (ranks.size() == 1) return;
  stage_ = {.chunks = chunks * ranks.size(), .ranks = ranks.size(), .rank = ranks.rank()};
  links_ = std::make_shared<Links>(ranks);
}

std::vector<std::int64_t> Pipeline::chunks() const {
  std::vector<std::int64_t> own;
  for (std::int64_t c = stage_.rank; c < stage_.chunks; c += stage_.ranks) own.push_back(c);
  return own;
}

Pipeline::Pass Pipeline::whole(Tape& tape, const Work& work) const {
  Pass pass;
  if (work.options == nullptr)
    pass.output = work.network.forward(tape, work.batch);
  else
    pass.loss = work.network.loss(tape, work.batch, *work.options);
  add_penalties(tape, pass.loss);
  return pass;
}

// Rows of the rank before this one.
Var Pipeline::take(Tape& tape, const Work& work, const nn::Layout& layout) const {
  const Tensor rows = Tensor::empty(
      tape.context(), {layout.positions.dim(0), layout.positions.dim(1), work.config.width}, work.config.dtype);
  links_->rows.take(rows);
  return tape.recording() ? wanted(rows) : Var(rows);
}

// With the rows travels where their random streams go on: dropout is that of one rank.
Pipeline::Pass Pipeline::forward(Tape& tape, const Work& work, std::int64_t chunk) const {
  if (!divides()) return whole(tape, work);
  const StagedNetwork& network = *work.network.staged();
  const std::vector<const Input*> inputs = network.inputs(work.batch);
  const bool first = chunk == 0, last = chunk + 1 == stage_.chunks;
  Pass pass{.chunk = chunk};
  const Tensor begun = room_for_streams(inputs.size()), ended = room_for_streams(inputs.size());
  if (!first) links_->rows.take(begun);
  const std::vector<double> streams = begun.to_vector<double>();
  std::vector<nn::Source> rows;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    first ? StagedNetwork::start_input(tape, i) : tape.set_stream(static_cast<std::uint64_t>(streams[i]));
    nn::Source x = network.begin(tape, *inputs[i], first);
    if (!first) {
      x.rows = take(tape, work, *x.layout);
      pass.in.push_back(side_of_gradient(x.rows));
    }
    x.rows = network.stack().chunk(tape, x.rows, x.layout, chunk);
    ended.select(0, static_cast<std::int64_t>(i)).fill(static_cast<double>(tape.stream()));
    rows.push_back(std::move(x));
  }
  if (!last) {
    links_->rows.give(ended);
    for (const nn::Source& x : rows) links_->rows.give(x.rows.value()), pass.out.push_back(side_of_gradient(x.rows));
  } else if (work.options == nullptr) {
    pass.output = network.output(tape, rows);
  } else {
    pass.loss = network.end(tape, rows, work.batch, *work.options);
  }
  add_penalties(tape, pass.loss);
  return pass;
}

void Pipeline::backward(Tape& tape, Pass& pass, const Tensor& factor) const {
  const Context& context = tape.context();
  std::vector<Var> outputs;
  std::vector<Tensor> seeds;
  const auto add = [&](const Var& output, const Tensor& seed) {
    if (!output.needs_grad()) return;
    outputs.push_back(output);
    seeds.push_back(seed);
  };
  for (const Var& out : pass.out) {
    const Tensor gradient = room_for_gradient(context, out);
    links_->gradients.take(gradient);
    add(out, gradient);
  }
  if (const Var& loss = pass.loss.value; loss.defined()) add(loss, factor.to(context, loss.dtype()));
  if (!outputs.empty()) tape.backward(outputs, seeds);
  for (const Var& in : pass.in) {
    Tensor gradient = std::exchange(in.slot()->grad, Tensor());
    if (!gradient.defined()) gradient = Tensor::zeros(context, in.slot()->shape, in.slot()->dtype);
    links_->gradients.give(gradient);
  }
}

void Pipeline::settle() const {
  if (!divides()) return;
  links_->rows.settle();
  links_->gradients.settle();
}

void Pipeline::abandon() const noexcept {
  if (!divides()) return;
  links_->rows.abandon();
  links_->gradients.abandon();
}

std::uint64_t Pipeline::given() const {
  std::uint64_t bytes = 0;
  if (!divides()) return bytes;
  for (const divided::Conveyor* way : {&links_->rows, &links_->gradients})
    if (const auto sent = way->out().traffic().find("send"); sent != way->out().traffic().end())
      bytes += sent->second.sent;
  return bytes;
}

// The ranks that have no output learn its type and sizes first.
Var Pipeline::for_all(const Context& context, const Var& output) const {
  if (!divides()) return output;
  std::vector<double> sizes(2 + Shape::kMaxRank, 0.0);
  if (stage_.last()) {
    sizes[0] = static_cast<double>(output.dtype());
    sizes[1] = output.value().rank();
    for (int i = 0; i < output.value().rank(); ++i)
      sizes[static_cast<std::size_t>(i) + 2] = static_cast<double>(output.dim(i));
  }
  sizes = sum(sizes);
  std::vector<std::int64_t> dims(sizes.begin() + 2, sizes.begin() + 2 + static_cast<std::ptrdiff_t>(sizes[1]));
  const Tensor all =
      stage_.last() ? output.value().contiguous(context)
                    : Tensor::empty(context, Shape(std::span<const std::int64_t>(dims)), static_cast<DType>(sizes[0]));
  ranks_.broadcast(all, ranks_.size() - 1);
  return all;
}

std::vector<double> Pipeline::sum(std::span<const double> numbers) const {
  std::vector<double> sums(numbers.begin(), numbers.end());
  if (!divides()) return sums;
  const std::vector<double> all = ranks_.all_gather(numbers);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = 0.0;
    for (std::size_t at = i; at < all.size(); at += sums.size()) sums[i] += all[at];
  }
  return sums;
}

}  // namespace fovea
