#pragma once

#include "fovea/tensor.h"

// Square matrices x, y (count, p, p) and numbers r (count, p) for their rows; dense, f32 or f64.
namespace fovea::kernels {

// y = alpha I + beta x.
struct ShiftedIdentity {
  double alpha, beta;
  Tensor x, y;
};
template <Device>
void shifted_identity(const Context& context, const ShiftedIdentity& io);

// y += factor x.
struct AddScaled {
  double factor;
  Tensor x, y;
};
template <Device>
void add_scaled(const Context& context, const AddScaled& io);

// z, which is A^T, is divided by the largest column sum of its A, or of all of them.
struct InverseStart {
  bool one_start;
  Tensor a, z;
};
template <Device>
void inverse_start(const Context& context, const InverseStart& io);
// da += its gradient. dz is given transposed.
struct InverseStartVjp {
  bool one_start;
  Tensor a, dz, da;
};
template <Device>
void inverse_start_backward(const Context& context, const InverseStartVjp& io);

// y_ij = r_i x_ij r_j.
struct Balance {
  Tensor x, r, y;
};
template <Device>
void balance(const Context& context, const Balance& io);
// dr_i += sum over j of (g_ij x_ij + g_ji x_ji) r_j.
struct BalanceVjp {
  Tensor g, x, r, dr;
};
template <Device>
void balance_backward(const Context& context, const BalanceVjp& io);

// r = 1 / sqrt(row sum of x).
struct RootSums {
  Tensor x, r;
};
template <Device>
void root_sums(const Context& context, const RootSums& io);
// dx_ij += -r_i^3 dr_i / 2.
struct RootSumsVjp {
  Tensor r, dr, dx;
};
template <Device>
void root_sums_backward(const Context& context, const RootSumsVjp& io);

}  // namespace fovea::kernels
