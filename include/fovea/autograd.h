#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/error.h"
#include "fovea/export.h"
#include "fovea/tensor.h"

namespace fovea {

class Tape;
class PlaceTree;
struct Node;

// Where in a model something happens, of those a tape has been at; Tape::path() tells its name. 0: no place at all.
using PlaceId = std::uint32_t;

// A tensor whose slices are the gradients of several values: parts of one that was split.
struct SplitGrad {
  Shape shape;
  Tensor whole;  // made when the first part is
};

// The gradient side of a value. Lives as long as somebody may still add to it; does not keep the value alive.
struct Slot {
  Shape shape;
  DType dtype = DType::f32;
  Tensor grad;  // undefined until the first contribution
  // A parameter: its gradient is persistent, f32 (f64 for f64 values) and survives backward.
  bool leaf = false;
  // Where its gradient may be made in place: slice [begin, end) of an axis of the whole. Null: nowhere in particular.
  std::shared_ptr<SplitGrad> split;
  int axis = 0;
  std::int64_t begin = 0, end = 0;
};

// A value and, when a gradient is wanted, the slot that collects it. Cheap to copy.
class FOVEA_EXPORT Var {
 public:
  Var() = default;
  Var(Tensor value) : value_(std::move(value)) {}  // a constant (implicit: constants appear everywhere)
  Var(Tensor value, std::shared_ptr<Slot> slot) : value_(std::move(value)), slot_(std::move(slot)) {}

  // A leaf whose gradient is kept: a parameter, or an input under test.
  static Var leaf(Tensor value);

  bool defined() const { return value_.defined(); }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t dim(int i) const { return value_.dim(i); }
  DType dtype() const { return value_.dtype(); }
  bool needs_grad() const { return slot_ != nullptr; }
  const std::shared_ptr<Slot>& slot() const { return slot_; }
  const Tensor& grad() const;  // undefined when nothing flowed here

 private:
  Tensor value_;
  std::shared_ptr<Slot> slot_;
};

// What the tape knows about a kind of operation.
struct Op {
  const char* name;
  void (*backward)(Tape& tape, Node& node);
  bool composite = false;  // made of operations that observers see one by one, in its place
};

// One recorded operation: plain data, so that it can be printed, counted and freed early.
struct FOVEA_EXPORT Node {
  const Op* op = nullptr;
  std::vector<std::shared_ptr<Slot>> inputs;   // null where no gradient is wanted
  std::vector<std::shared_ptr<Slot>> outputs;  // their grads are this node's input in backward
  std::vector<Tensor> saved;
  std::any attributes;  // the operation's own small struct
  PlaceId place = 0;    // where it ran

  bool wants(std::size_t input) const { return inputs[input] != nullptr; }
  // Gradient of an output; undefined when nothing flowed into it.
  const Tensor& grad(std::size_t output = 0) const { return outputs[output]->grad; }
};

namespace gemm {
class PackedWeights;
}

// Sees what a tape does, on the thread that runs it, also inside recompute segments: there tape.replaying() tells the
// second run of an operation from the first. May throw an Error to stop, and must not change what it is shown.
class FOVEA_EXPORT TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  virtual void on_begin(const Tape&) {}  // a tape was made; not those of recompute segments
  // An operation ran at tape.place(); its values.
  virtual void on_values(const Tape&, const Op&, std::span<const Tensor> /*values*/) {}
  // The node has given gradients to its inputs. Those of its outputs are complete and shown this once; those of its
  // inputs may still grow.
  virtual void on_gradients(const Tape&, const Node&) {}
  // Nothing more is added to this leaf by this backward: once for each leaf that the tape used, also when no gradient
  // reached it (then it may be undefined). Leaves of a recompute segment are complete when the whole segment is.
  virtual void on_complete(const Tape&, const std::shared_ptr<Slot>& /*leaf*/) {}
};

struct TapeOptions {
  bool record = true;     // false: inference, nothing is kept
  bool training = false;  // dropout is active
  bool replay = false;    // runs a recompute segment again: what changes state besides values is already done
  TapeObserver* observer = nullptr;
  std::uint64_t stream = 0;  // where this tape's random streams start (the trainer gives each step its own)
  const gemm::PackedWeights* packed = nullptr;  // weights kept once more for products with few rows (inference)
};

// Records operations as they run and plays them back in reverse. One tape serves one step.
class FOVEA_EXPORT Tape {
 public:
  explicit Tape(Context& context, TapeOptions options = {});
  // A tape for a part of what `outer` does: at its place, seen by its observer.
  Tape(const Tape& outer, TapeOptions options);
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() const { return *context_; }
  bool recording() const { return options_.record; }
  bool training() const { return options_.training; }
  bool replaying() const { return options_.replay; }
  const gemm::PackedWeights* packed() const { return options_.packed; }

  // A number no other operation of this tape has: the Philox counter's upper half of a dropout.
  std::uint64_t next_stream() { return stream_++; }
  std::uint64_t stream() const { return stream_; }
  void set_stream(std::uint64_t stream) { stream_ = stream; }

  // As long as it lives, the tape is at a place below the one it was at before.
  class FOVEA_EXPORT Stay {
   public:
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    friend class Tape;
    Stay(Tape& tape, std::string_view name);

    Tape* tape_;
    PlaceId before_;
    int errors_;  // on their way when it began
  };
  [[nodiscard]] Stay enter(std::string_view name) { return Stay(*this, name); }
  // Runs f at a place. An error that leaves the outermost place gets its path: where it was raised, below all entered.
  template <class F>
  decltype(auto) at(std::string_view name, F&& f) {
    const bool outermost = place_ == base_;
    const Stay stay = enter(name);
    if (!outermost) return f();
    try {
      return f();
    } catch (const Error& error) {
      throw located(error);
    }
  }
  PlaceId place() const { return place_; }
  std::string path(PlaceId place) const;  // "model.layers[1].attention"

  // Records an operation that made `outputs` from `inputs`. Nothing is kept when no input wants a gradient.
  std::vector<Var> record(const Op& op, std::span<const Var> inputs, std::vector<Tensor> outputs,
                          std::vector<Tensor> saved, std::any attributes = {});
  // The same for one output.
  Var record(const Op& op, std::initializer_list<Var> inputs, Tensor output, std::vector<Tensor> saved,
             std::any attributes = {});
  // Something a layer adds to the loss on the way, a scalar: whoever makes the loss collects it.
  void charge(Var penalty) { penalties_.push_back(std::move(penalty)); }
  std::vector<Var> take_penalties() { return std::exchange(penalties_, {}); }

  // What wants a gradient among all that a part which records nothing has read: its recompute node stands for them.
  const std::vector<Var>& used() const { return used_; }

  // Will record() keep anything? Lets an operation skip work that only backward needs.
  bool wants_grad(std::span<const Var> inputs) const;
  bool wants_grad(std::initializer_list<Var> inputs) const { return wants_grad({inputs.begin(), inputs.size()}); }

  // Adds g to the slot's gradient. The first contribution to a non-leaf is taken over without a copy, and copied only
  // when more arrives while another tensor still sees it: one g may go to several slots, but must not be written to.
  void accumulate(const std::shared_ptr<Slot>& slot, Tensor g);
  // The buffer of a slot's gradient for kernels that accumulate themselves (dW = beta dW + ...).
  struct Target {
    Tensor grad;
    bool fresh;  // true: holds nothing yet, overwrite it
  };
  Target target(const std::shared_ptr<Slot>& slot);
  // Memory for a gradient that will be given to accumulate(): uninitialised, and a view with strides where the slot
  // is part of a split. `slot` may be null.
  Tensor room(const std::shared_ptr<Slot>& slot, const Shape& shape, DType dtype) const;

  // Runs every node in reverse from a scalar loss (seed 1) or from a given gradient of `output`; frees each node's
  // saved tensors as it passes. The tape is empty afterwards.
  void backward(const Var& output, Tensor seed = {});
  // The same with several outputs, gradients given for each.
  void backward(std::span<const Var> outputs, std::span<const Tensor> seeds);

  std::size_t size() const { return nodes_.size(); }
  std::size_t saved_bytes() const;
  std::string text() const;  // one line per node: for debuggers and people

 private:
  void play(std::span<const Var> outputs);
  Error located(const Error& error);

  Context* context_;
  TapeOptions options_;
  std::uint64_t stream_;
  std::shared_ptr<PlaceTree> places_;
  PlaceId base_ = 0, place_ = 0;  // where it began; where it is
  PlaceId raised_ = 0;            // where the error was raised that is on its way
  bool part_ = false;             // of another tape
  std::vector<Node> nodes_;
  std::vector<Var> penalties_;
  std::vector<Var> used_;
};

// A piece of a model that can be run again.
class FOVEA_EXPORT Segment {
 public:
  virtual ~Segment() = default;
  virtual std::vector<Var> run(Tape& tape, std::span<const Var> inputs) const = 0;
};

// Runs the segment without recording its inside, keeps only its inputs, and runs it again in backward with the same
// random streams and at the same place.
FOVEA_EXPORT std::vector<Var> recompute(Tape& tape, std::shared_ptr<const Segment> segment,
                                        std::span<const Var> inputs);

}  // namespace fovea
