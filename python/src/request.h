#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.h"
#include "engine.h"
#include "fovea/attention.h"

namespace fovea::python {

namespace nb = nanobind;

// One call of attention as Python gave it: arrays turned into tensors, everything else into options.
struct Request {
  Var q, k, v;
  AttentionOptions options;
  int bias_rank = 4;  // axes that the caller's bias had
  bool training = false;
  std::uint64_t stream = 0;               // where its random numbers begin: made of the seed
  bool heads_first = false;               // arrays are (b, h, n, d)
  Kind kind = Kind::numpy;                // of the arrays that go back
  Home home{{}, borrowed_memory(), "q"};  // of every array

  std::shared_ptr<Context> context(std::int64_t cached_keys = 0) const;
  Tensor tensor(nb::handle array, const char* name) const { return tensor_from(array, name, home); }
  nb::object array(const Tensor& x) const { return array_from(x, kind, home.place); }
  // (b, n, h, ...) <-> the caller's order; a view.
  Tensor turned(const Tensor& x) const { return heads_first && x.defined() ? x.transpose(1, 2) : x; }
  // From here on the tape keeps what the gradients of every floating input need.
  void want_gradients();
  // The options with bias and weights in the wide type that the engine asks for.
  AttentionOptions resolved(Tape& tape) const;
  // By argument: q, k, v, and bias, diagonal_bias, initial_state, input and weights where they were given.
  nb::dict gradients(const Context& context) const;
};

Request read_request(nb::handle q, nb::handle k, nb::handle v, const nb::dict& options);

// Refuses a gradient that does not fit the value.
void check_like(const Tensor& gradient, const Var& value, const char* name);

}  // namespace fovea::python
