#include "gemm/cuda/lt_product.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/card_memory.h"
#include "tensor/cuda/map.cuh"

namespace fovea::gemm {
namespace {

using namespace device;  // NOLINT

constexpr std::size_t kWorkspace = std::size_t{32} << 20;

void check_lt(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorCode::internal, std::string("cuBLASLt: ") + cublasLtGetStatusString(status), "a matrix product",
       "fovea doctor shows the libraries and the card");
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

// Leading axes, seen as few as the strides allow.
struct Leading {
  std::int64_t size, a, b, c;  // strides in elements
};

std::vector<Leading> leading_axes(const kernels::Product& io) {
  std::vector<Leading> axes;  // innermost first
  for (int i = io.c.rank() - 3; i >= 0; --i) {
    const Leading axis{io.c.dim(i), io.a.stride(i), io.b.stride(i), io.c.stride(i)};
    if (axis.size == 1) continue;
    Leading* inner = axes.empty() ? nullptr : &axes.back();
    if (inner != nullptr && axis.a == inner->size * inner->a && axis.b == inner->size * inner->b &&
        axis.c == inner->size * inner->c)
      inner->size *= axis.size;
    else
      axes.push_back(axis);
  }
  return axes;
}

// What cuBLASLt is asked for: columns first, so that c^T = b^T a^T gives rows.
struct Request {
  std::int64_t m, n, k;  // of c (m, n)
  bool a_transposed, b_transposed;
  std::int64_t a_step, b_step;  // from one dense line to the next
  Leading batch{1, 0, 0, 0};
  DType type, out;
  bool bias, relu, accumulate, tf32;
  std::int64_t alignment;  // bytes, of every matrix

  static constexpr std::size_t kValues = 18;
  auto values() const {
    return std::array<std::int64_t, kValues>{m,
                                             n,
                                             k,
                                             a_transposed,
                                             b_transposed,
                                             a_step,
                                             b_step,
                                             batch.size,
                                             batch.a,
                                             batch.b,
                                             batch.c,
                                             static_cast<std::int64_t>(type),
                                             static_cast<std::int64_t>(out),
                                             bias,
                                             relu,
                                             accumulate,
                                             tf32,
                                             alignment};
  }
};

bool is_transposed(const Tensor& t) { return t.stride(-1) != 1 || t.stride(-2) < t.dim(-1); }

std::int64_t alignment_of(const kernels::Product& io, const std::vector<Leading>& axes) {
  constexpr std::int64_t kMost = 256;
  auto all = static_cast<std::uint64_t>(kMost);
  const auto a_size = size_of(io.a.dtype()), c_size = size_of(io.c.dtype());
  for (const Tensor* t : {&io.a, &io.b, &io.c}) all |= reinterpret_cast<std::uintptr_t>(t->raw());
  for (const Leading& axis : axes)
    all |= static_cast<std::uint64_t>(axis.a | axis.b) * a_size | static_cast<std::uint64_t>(axis.c) * c_size;
  return static_cast<std::int64_t>(all & (~all + 1));  // the lowest bit
}

Request request_for(const Context& context, const kernels::Product& io, const std::vector<Leading>& axes) {
  const bool fused = io.a.dtype() != DType::f64;
  Request r{};
  r.m = io.c.dim(-2), r.n = io.c.dim(-1), r.k = io.a.dim(-1);
  r.a_transposed = is_transposed(io.a), r.b_transposed = is_transposed(io.b);
  r.a_step = std::max(io.a.stride(r.a_transposed ? -1 : -2), r.a_transposed ? r.m : r.k);
  r.b_step = std::max(io.b.stride(r.b_transposed ? -1 : -2), r.b_transposed ? r.k : r.n);
  r.batch = axes.empty() ? Leading{1, 0, 0, 0} : axes.front();
  r.type = io.a.dtype(), r.out = io.c.dtype();
  r.bias = fused && io.epilogue.bias.defined(), r.relu = fused && io.epilogue.relu;
  r.accumulate = io.epilogue.accumulate, r.tf32 = context.tf32() && r.type == DType::f32;
  r.alignment = alignment_of(io, axes);
  return r;
}

// A product that cuBLASLt has chosen its kernel for.
class Plan {
 public:
  Plan(cublasLtHandle_t handle, const Request& r) : alpha_(r.type == DType::f64), accumulate_(r.accumulate) {
    const bool f64 = r.type == DType::f64;
    const cublasComputeType_t compute = f64      ? CUBLAS_COMPUTE_64F
                                        : r.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
    check_lt(cublasLtMatmulDescCreate(&product_, compute, f64 ? CUDA_R_64F : CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, r.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, r.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const cublasLtEpilogue_t epilogue = r.bias ? (r.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                                               : (r.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    b_ = layout({r.type, r.b_transposed ? r.k : r.n, r.b_transposed ? r.n : r.k, r.b_step}, r.batch.size, r.batch.b);
    a_ = layout({r.type, r.a_transposed ? r.m : r.k, r.a_transposed ? r.k : r.m, r.a_step}, r.batch.size, r.batch.a);
    c_ = layout({r.out, r.n, r.m, r.n}, r.batch.size, r.batch.c);
    choose(handle, r);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(product_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  bool found() const { return found_; }
  std::size_t workspace() const { return choice_.workspaceSize; }

  struct Operands {
    const void *a, *b;
    void* c;
    const void* bias;
    void* workspace;
    cudaStream_t stream;
  };
  void run(cublasLtHandle_t handle, const Operands& x) {
    if (x.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    const float one = 1.0f, before = accumulate_ ? 1.0f : 0.0f;
    const double wide_one = 1.0, wide_before = before;
    const void* alpha = alpha_ ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = alpha_ ? static_cast<const void*>(&wide_before) : &before;
    check_lt(cublasLtMatmul(handle, product_, alpha, x.b, b_, x.a, a_, beta, x.c, c_, x.c, c_, &choice_.algo,
                            x.workspace, choice_.workspaceSize, x.stream));
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof(value)));
  }
  struct Extent {
    DType dtype;
    std::int64_t rows, columns, step;
  };
  static cublasLtMatrixLayout_t layout(const Extent& x, std::int64_t batch, std::int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    check_lt(cublasLtMatrixLayoutCreate(&made, type_of(x.dtype), static_cast<std::uint64_t>(x.rows),
                                        static_cast<std::uint64_t>(x.columns), x.step));
    const auto count = static_cast<std::int32_t>(batch);
    check_lt(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
    check_lt(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
    return made;
  }
  // Parts of a sum are joined in order and in f32, or there are none.
  void choose(cublasLtHandle_t handle, const Request& r) {
    cublasLtMatmulPreference_t wishes = nullptr;
    check_lt(cublasLtMatmulPreferenceCreate(&wishes));
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_lt(cublasLtMatmulPreferenceSetAttribute(wishes, attribute, &value, sizeof(value)));
    };
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto alignment = static_cast<std::uint32_t>(r.alignment);
    for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      wish(attribute, alignment);
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, product_, b_, a_, c_, c_, wishes, 1, &choice_, &count);
    cublasLtMatmulPreferenceDestroy(wishes);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_lt(status);
    found_ = status == CUBLAS_STATUS_SUCCESS && count > 0;
  }

  bool alpha_, accumulate_, found_ = false;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_{};
};

// The handle of a card and the plans made so far, for as long as the program runs.
struct Library {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  std::map<std::array<std::int64_t, Request::kValues>, std::unique_ptr<Plan>> plans;

  Library() { check_lt(cublasLtCreate(&handle)); }
  Plan& plan_for(const Request& request) {
    std::unique_ptr<Plan>& plan = plans[request.values()];
    if (plan == nullptr) plan = std::make_unique<Plan>(handle, request);
    return *plan;
  }
};

Library& library_of(int card) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<int, std::unique_ptr<Library>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Library>& library = (*libraries)[card];
  if (library == nullptr) library = std::make_unique<Library>();
  return *library;
}

struct Finish {
  bool relu;
  template <class R>
  __device__ R operator()(R c, R bias) const {
    const R sum = c + bias;
    return relu && sum < 0 ? R(0) : sum;
  }
};

void finish(const Context& context, const kernels::Product& io) {
  if (!io.epilogue.bias.defined() && !io.epilogue.relu) return;
  if (io.c.dtype() == DType::f64)
    map<double>(context, Finish{io.epilogue.relu}, io.c, io.c, io.epilogue.bias);
  else
    map<float>(context, Finish{io.epilogue.relu}, io.c, io.c, io.epilogue.bias);
}

// f(a, b, c) with pointers for every index of all leading axes but the batch.
template <class F>
void for_outer(const kernels::Product& io, const std::vector<Leading>& axes, const F& f) {
  const auto a_size = static_cast<std::int64_t>(size_of(io.a.dtype())),
             c_size = static_cast<std::int64_t>(size_of(io.c.dtype()));
  std::int64_t count = 1;
  for (std::size_t i = 1; i < axes.size(); ++i) count *= axes[i].size;
  for (std::int64_t item = 0; item < count; ++item) {
    std::int64_t rest = item, a = 0, b = 0, c = 0;
    for (std::size_t i = 1; i < axes.size(); rest /= axes[i++].size) {
      const std::int64_t at = rest % axes[i].size;
      a += at * axes[i].a, b += at * axes[i].b, c += at * axes[i].c;
    }
    f(static_cast<const std::byte*>(io.a.raw()) + a * a_size, static_cast<const std::byte*>(io.b.raw()) + b * a_size,
      static_cast<std::byte*>(io.c.raw()) + c * c_size);
  }
}

// Does everything, rows included, begin at a whole 16 bytes?
bool is_aligned(const Request& r) {
  constexpr std::int64_t kPiece = 16;
  const auto size = static_cast<std::int64_t>(size_of(r.type)), out_size = static_cast<std::int64_t>(size_of(r.out));
  return (r.alignment | r.a_step * size | r.b_step * size | r.n * out_size) % kPiece == 0;
}

bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

}  // namespace

void multiply_lt(const Context& context, const kernels::Product& io) {
  std::vector<Leading> axes = leading_axes(io);
  if (!axes.empty())
    std::iter_swap(axes.begin(), std::max_element(axes.begin(), axes.end(),
                                                  [](const Leading& x, const Leading& y) { return x.size < y.size; }));
  const bool fused = io.a.dtype() != DType::f64;
  const Request request = request_for(context, io, axes);
  // For odd rows cuBLASLt rounds the sum before it adds the bias, and a ReLU then takes the wrong side.
  if (is_narrow(request.out) && (request.bias || request.relu) && !is_aligned(request)) {
    const Tensor wide = Tensor::empty(context, io.c.shape(), DType::f32, Lifetime::scratch);
    multiply_lt(context, {io.a, io.b, wide, io.epilogue});
    return io.c.copy_from(wide);
  }
  const CardMemory& card = card_memory(*context.memory());
  Library& library = library_of(card.index());
  const std::lock_guard lock(library.mutex);
  Plan& plan = library.plan_for(request);
  if (!plan.found())
    fail(ErrorCode::unsupported, "cuBLASLt has no kernel for " + io.a.shape().text() + " by " + io.b.shape().text(),
         "a matrix product", "another dtype, or sizes that are multiples of 8");
  const Tensor bias = fused && io.epilogue.bias.defined() ? io.epilogue.bias.to(context, io.c.dtype()) : Tensor();
  const DeviceScratch workspace(launch_of(context), plan.workspace());
  for_outer(io, axes, [&](const void* a, const void* b, void* c) {
    plan.run(library.handle, {a, b, c, bias.raw(), workspace.data(), card.stream()});
  });
  if (!fused) finish(context, io);
}

}  // namespace fovea::gemm

namespace fovea {

template <>
std::string kernels::product_library<Device::cuda>() {
  const std::size_t version = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace fovea
