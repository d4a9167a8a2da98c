#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "bindings.h"
#include "request.h"

namespace fovea::python {
namespace {

// What a causal mechanism remembers of the sequences of one batch, and whose memory it is.
class StepMemory {
 public:
  nb::object step(nb::handle q, nb::handle k, nb::handle v, const Mechanism& mechanism, const nb::dict& options) {
    const Request request = read_request(q, k, v, options);
    const Claim claim(*this);  // other Python threads run while the engine does
    check(request, mechanism);
    const Tensor output = move_on(request, mechanism);
    owner_ = mechanism.text();
    dtype_ = request.q.dtype();
    sizes_ = sizes_of(request);
    place_ = request.home.place;
    return request.array(request.turned(output));
  }

  nb::list lengths() const {
    nb::list lengths;
    for (const DecodeState& state : states_) lengths.append(state.length);
    return lengths;
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const DecodeState& state : states_) sum += state.bytes();
    return sum;
  }
  // These sequences in this order; one may stand there more than once. The tensors are shared until one is moved on.
  StepMemory select(const std::vector<std::size_t>& sequences) const {
    StepMemory other;
    for (const std::size_t s : sequences) {
      if (s >= states_.size())
        fail(ErrorCode::usage, fmt::format("no sequence {}: the state has {}", s, states_.size()), "sequences");
      other.states_.push_back(states_[s]);
    }
    other.owner_ = owner_;
    other.dtype_ = dtype_;
    other.sizes_ = sizes_;
    other.place_ = place_;
    other.context_ = context_;
    return other;
  }

 private:
  struct Claim {
    explicit Claim(StepMemory& memory) : busy(memory.busy_) {
      if (busy) throw std::runtime_error("this state is being moved on by another thread");
      busy = true;
    }
    ~Claim() { busy = false; }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    bool& busy;
  };

  static Shape sizes_of(const Request& r) {
    if (r.q.value().rank() != 4 || r.k.value().rank() != 4 || r.v.value().rank() != 4)
      fail(ErrorCode::shape, "q, k and v must have 4 axes (batch, n, heads, dim)", "attention_step");
    return {r.q.dim(2), r.k.dim(2), r.k.dim(3), r.v.dim(3)};
  }

  void check(const Request& request, const Mechanism& mechanism) const {
    const Shape now = sizes_of(request);
    if (owner_.empty()) return;
    if (owner_ != mechanism.text())
      fail(ErrorCode::usage, fmt::format("a state of \"{}\" cannot be moved on by \"{}\"", owner_, mechanism.text()),
           "state", "a DecodeState for each layer and each sequence");
    const Place& here = request.home.place;
    if (here.device != place_.device || here.index != place_.index)
      fail(ErrorCode::usage, fmt::format("the state is on {}, the step on {}", name_of(place_), name_of(here)), "state",
           "a DecodeState goes on where it began");
    if (now != sizes_ || request.q.dtype() != dtype_)
      fail(ErrorCode::shape,
           fmt::format("the state is of heads, kv_heads, d_k, d_v {} in {}, the step of {} in {}", sizes_.text(),
                       name_of(dtype_), now.text(), name_of(request.q.dtype())),
           "state");
  }

  // A step that fails leaves the states as they were: what it may have written behind their rows is never read.
  Tensor move_on(const Request& request, const Mechanism& mechanism) {
    std::vector<std::pair<std::int64_t, std::int64_t>> counts;
    std::int64_t held = 0;
    for (const DecodeState& state : states_) {
      counts.emplace_back(state.length, state.held);
      held = std::max(held, state.held);
    }
    // On a card the state and the work that moves it on keep the stream of the first step.
    const auto context = context_ != nullptr ? context_ : request.context(held);
    if (request.home.place.device != Device::cpu) context_ = context;
    const Running running;
    Turn turn(context->memory(), request.home.place);
    Tape tape(*context, {.record = false});
    const AttentionOptions options = request.resolved(tape);
    if (owner_.empty()) states_.resize(options.queries.rows(request.q.dim(0), request.q.dim(1), "lengths").size());
    std::vector<DecodeState*> pointers;
    for (DecodeState& state : states_) pointers.push_back(&state);
    try {
      const Tensor output =
          attention_step(tape, request.q.value(), request.k.value(), request.v.value(), mechanism, pointers, options);
      turn.end();
      return output;
    } catch (...) {
      states_.resize(counts.size());
      for (std::size_t s = 0; s < counts.size(); ++s) std::tie(states_[s].length, states_[s].held) = counts[s];
      throw;
    }
  }

  std::vector<DecodeState> states_;
  std::string owner_;  // text of the mechanism
  DType dtype_ = DType::f32;
  Shape sizes_;
  Place place_;
  std::shared_ptr<Context> context_;  // on a card
  bool busy_ = false;
};

Tensor buckets_of(const Context& context, const Tensor& offsets, const Buckets& buckets) {
  buckets.check();
  if (offsets.dtype() != DType::i64 || offsets.rank() != 1)
    fail(ErrorCode::internal, "distances of buckets are a row of i64");
  const Tensor out = Tensor::empty(context, offsets.shape(), DType::i32);
  for (std::int64_t i = 0; i < out.numel(); ++i)
    out.data<std::int32_t>()[i] = t5_bucket(offsets.data<std::int64_t>()[i * offsets.stride(0)], buckets);
  return out;
}

nb::object t5_buckets(nb::handle offsets, std::int64_t count, std::int64_t max_distance, bool bidirectional) {
  const Buckets buckets{.count = count, .max_distance = max_distance, .bidirectional = bidirectional};
  return array_from(buckets_of(*context_for(0.0), tensor_from(offsets, "offset"), buckets), Kind::numpy);
}

}  // namespace

void bind_step(nb::module_& module) {
  nb::class_<StepMemory>(module, "DecodeState")
      .def(nb::init<>())
      .def("step", &StepMemory::step)
      .def("select", &StepMemory::select)
      .def_prop_ro("lengths", &StepMemory::lengths)
      .def_prop_ro("bytes", &StepMemory::bytes);
  module.def("t5_buckets", t5_buckets);
}

}  // namespace fovea::python
