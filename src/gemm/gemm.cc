#include "gemm/gemm.h"

#include "core/visit_device.h"
#include "fovea/zones.h"
#include "gemm/gemm_kernels.h"

namespace fovea::gemm {
namespace {

Shape product_shape(const Tensor& a, const Tensor& b) {
  const bool shared = b.rank() == 2;
  bool fits = a.rank() >= 2 && (shared || a.rank() == b.rank()) && a.dim(-1) == b.dim(-2);
  for (int i = 0; fits && !shared && i < a.rank() - 2; ++i) fits = a.dim(i) == b.dim(i);
  if (!fits)
    fail(ErrorCode::shape, "cannot multiply " + a.shape().text() + " by " + b.shape().text(), {},
         "(..., m, k) by (..., k, n) or by (k, n)");
  return a.shape().with(-1, b.dim(-1));
}

void check(const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue) {
  const Shape shape = product_shape(a, b);
  if (c.shape() != shape || !c.is_contiguous())
    fail(ErrorCode::internal, "product of shape " + shape.text() + " into " + c.shape().text());
  if (epilogue.bias.defined() && epilogue.bias.shape() != Shape{shape.dim(-1)})
    fail(ErrorCode::shape, "bias of shape " + epilogue.bias.shape().text() + " for a product of shape " + shape.text());
}

}  // namespace

void multiply(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue) {
  check(a, b, c, epilogue);
  if (c.numel() == 0) return;
  const ZoneTimer timer(context.zones(), Zone::gemm);
  const kernels::Product io{a, b, c, epilogue};
  visit_device(context, io, [&]<Device D>() { kernels::multiply<D>(context, io); });
}

Tensor multiply(const Context& context, const Tensor& a, const Tensor& b, const Epilogue& epilogue) {
  const Tensor c = Tensor::empty(context, product_shape(a, b), a.dtype());
  multiply(context, a, b, c, epilogue);
  return c;
}

}  // namespace fovea::gemm
