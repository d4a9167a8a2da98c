#pragma once

#include <map>
#include <vector>

#include "fovea/tensor.h"

namespace fovea::gemm {

// Weights and biases in the narrower type of a model's activations. On a card all are converted by one kernel when the
// first is asked for, which costs a small model less than a kernel for each of them in every product.
class NarrowedWeights {
 public:
  // While it lives, products of this thread find what it has. `parameters` must not change before that.
  explicit NarrowedWeights(std::vector<Tensor> parameters);
  ~NarrowedWeights();
  NarrowedWeights(const NarrowedWeights&) = delete;
  NarrowedWeights& operator=(const NarrowedWeights&) = delete;

  // A parameter in another type; undefined: it is converted where it is needed.
  static Tensor find(const Context& context, const Tensor& parameter, DType dtype);

 private:
  void convert(const Context& context, DType dtype);

  std::vector<Tensor> parameters_;
  std::map<const void*, Tensor> narrow_;
  bool converted_ = false;
  NarrowedWeights* before_;
};

}  // namespace fovea::gemm
