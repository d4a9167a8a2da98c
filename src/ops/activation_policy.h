#pragma once

#include "fovea/ops.h"
#include "policy/activation.h"

namespace fovea {

// Calls f.template operator()<Policy>() with the policy of an activation.
template <class F>
decltype(auto) visit_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::identity: return f.template operator()<policy::Identity>();
    case Activation::relu: return f.template operator()<policy::Relu>();
    case Activation::gelu: return f.template operator()<policy::Gelu>();
    case Activation::gelu_tanh: return f.template operator()<policy::GeluTanh>();
    case Activation::silu: return f.template operator()<policy::Silu>();
    case Activation::elu: return f.template operator()<policy::Elu>();
    case Activation::elu_plus_one: return f.template operator()<policy::EluPlusOne>();
    case Activation::tanh: return f.template operator()<policy::Tanh>();
    case Activation::sigmoid: return f.template operator()<policy::Sigmoid>();
    case Activation::gelu_quick: return f.template operator()<policy::GeluQuick>();
    case Activation::relu_squared: return f.template operator()<policy::ReluSquared>();
    case Activation::swish: return f.template operator()<policy::Silu>();
  }
  fail(ErrorCode::usage, "unknown activation");
}

// Does backward need the output (true) or the input (false)?
inline bool slope_from_output(Activation activation) {
  return visit_activation(activation, []<class P>() { return P::kFromOutput; });
}

}  // namespace fovea
