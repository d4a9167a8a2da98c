#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/parallel.h"
#include "gemm/cpu/backend.h"
#include "gemm/cpu/vendor_isa.h"
#include "gemm/cpu/vendor_threads.h"

namespace fovea::gemm {
namespace {

using Tag = dnnl::memory::data_type;

Tag tag_of(DType dtype) { return dtype == DType::bf16 ? Tag::bf16 : Tag::f32; }

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// oneDNN's exceptions in our words.
[[noreturn]] void rethrow(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory)
    fail(ErrorCode::out_of_memory, "oneDNN ran out of memory in a matrix product");
  fail(ErrorCode::internal, "oneDNN refused a matrix product: " + std::string(error.what()));
}

// Everything that decides which primitive serves a product: rank, types and options, then sizes and strides.
class Key {
 public:
  Key(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue) {
    for (std::int64_t value :
         {std::int64_t{c.rank()}, std::int64_t{context.threads()}, code(a.dtype()), code(c.dtype()),
          std::int64_t{epilogue.bias.defined()}, std::int64_t{epilogue.relu}, std::int64_t{epilogue.accumulate}})
      push(value);
    for (const Tensor* t : {&a, &b, &c})
      for (int i = 0; i < t->rank(); ++i) {
        push(t->dim(i));
        push(t->stride(i));
      }
  }
  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): takes the code it makes for ours

 private:
  static std::int64_t code(DType dtype) { return static_cast<std::int64_t>(dtype); }
  void push(std::int64_t value) { values_[count_++] = value; }

  std::size_t count_ = 0;
  std::array<std::int64_t, 7 + 6 * Shape::kMaxRank> values_{};
};

dnnl::memory::desc describe(const Tensor& t) {
  dnnl::memory::dims dims, strides;
  for (int i = 0; i < t.rank(); ++i) {
    dims.push_back(t.dim(i));
    strides.push_back(t.stride(i));
  }
  return {dims, tag_of(t.dtype()), strides};
}

dnnl::primitive_attr attributes(const Epilogue& epilogue) {
  dnnl::post_ops post;
  if (epilogue.accumulate) post.append_sum(1.0f);
#if DNNL_VERSION_MAJOR >= 3
  if (epilogue.relu) post.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  if (epilogue.relu) post.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
  dnnl::primitive_attr attr;
  attr.set_post_ops(post);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // ours: counted, and safe when two threads share a primitive
  return attr;
}

// A compiled product and the layouts it was compiled for.
struct Primitive {
  Primitive(const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue)
      : a(describe(a)), b(describe(b)), c(describe(c)) {
    dnnl::memory::dims dims(static_cast<std::size_t>(c.rank()), 1), strides(dims.size(), c.dim(-1));
    dims.back() = c.dim(-1);
    strides.back() = 1;
    if (epilogue.bias.defined()) bias = {dims, Tag::f32, strides};
    const dnnl::primitive_attr attr = attributes(epilogue);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc desc(engine(), this->a, this->b, bias, this->c, attr);
#else
    const dnnl::matmul::primitive_desc desc({this->a, this->b, bias, this->c}, attr, engine());
#endif
    scratch = desc.scratchpad_desc();
    matmul = dnnl::matmul(desc);
  }

  dnnl::memory::desc a, b, bias, c, scratch;
  dnnl::matmul matmul;
};

// Keeps compiled products: looking one up in oneDNN's own cache costs 3.4 us a call, compiling a new shape 200 us.
class Primitives {
 public:
  std::shared_ptr<const Primitive> get(const Key& key, const Tensor& a, const Tensor& b, const Tensor& c,
                                       const Epilogue& epilogue) {
    const std::lock_guard lock(mutex_);
    if (const auto it = kept_.find(key); it != kept_.end()) return it->second;
    if (kept_.size() >= kMost) kept_.clear();
    return kept_.emplace(key, std::make_shared<Primitive>(a, b, c, epilogue)).first->second;
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Primitive>> kept_;
};

void run_matmul(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c, const Epilogue& epilogue) {
  static Primitives primitives;
  const auto primitive = primitives.get(Key(context, a, b, c, epilogue), a, b, c, epilogue);
  const auto scratch_bytes = static_cast<std::int64_t>(primitive->scratch.get_size());
  const Tensor scratch = Tensor::empty(context, {scratch_bytes}, DType::u8, Lifetime::scratch);
  const auto wrap = [](const dnnl::memory::desc& desc, const Tensor& t) {
    return dnnl::memory(desc, engine(), t.raw());
  };
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, wrap(primitive->a, a)},
                                                  {DNNL_ARG_WEIGHTS, wrap(primitive->b, b)},
                                                  {DNNL_ARG_DST, wrap(primitive->c, c)},
                                                  {DNNL_ARG_SCRATCHPAD, wrap(primitive->scratch, scratch)}};
  if (epilogue.bias.defined()) arguments.emplace(DNNL_ARG_BIAS, wrap(primitive->bias, epilogue.bias));
  dnnl::stream stream(engine());
  primitive->matmul.execute(stream, arguments);
  stream.wait();
}

std::int64_t leading(const Tensor& t) { return is_transposed(t) ? t.stride(1) : t.stride(0); }

void run_sgemm(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  const dnnl_status_t status = dnnl_sgemm(is_transposed(a) ? 'T' : 'N', is_transposed(b) ? 'T' : 'N', c.dim(0),
                                          c.dim(1), a.dim(1), 1.0f, a.data<float>(), leading(a), b.data<float>(),
                                          leading(b), accumulate ? 1.0f : 0.0f, c.data<float>(), c.dim(1));
  if (status != dnnl_success) fail(ErrorCode::internal, "oneDNN refused an sgemm of shape " + c.shape().text());
}

// dW += X^T dY in f32 over 16384 rows: sgemm takes 620 us for 64 x 64, matmul 744; for wide results (64 x 192) matmul
// is ahead with 1814 against 2044.
bool prefers_sgemm(const Tensor& a, const Tensor& c, const Epilogue& epilogue) {
  return a.dtype() == DType::f32 && a.rank() == 2 && is_transposed(a) && c.dim(1) < 2 * c.dim(0) &&
         !epilogue.bias.defined() && !epilogue.relu;
}

// Several matrices in f32.
bool is_batch(const Tensor& a, const Tensor& c, const Epilogue& epilogue) {
  return a.rank() > 2 && a.dtype() == DType::f32 && c.numel() > c.dim(-1) * c.dim(-2) && !epilogue.bias.defined() &&
         !epilogue.relu;
}

// Matrix i of a batch.
Tensor matrix(const Tensor& t, std::int64_t i) {
  Tensor out = t;
  while (out.rank() > 2) {
    std::int64_t inner = 1;
    for (int axis = 1; axis < out.rank() - 2; ++axis) inner *= out.dim(axis);
    out = out.select(0, i / inner);
    i %= inner;
  }
  return out;
}

// Each matrix by one thread: its sums over k are not divided, and the bits are the same at any number of threads.
void run_batch(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  parallel_for(context, c.numel() / (c.dim(-1) * c.dim(-2)),
               [&](std::int64_t i) { run_sgemm(matrix(a, i), matrix(b, i), matrix(c, i), accumulate); });
}

}  // namespace

void multiply_onednn(const Context& context, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Epilogue& epilogue) {
  limit_vendor();
  const VendorThreads threads(context.threads());
  const SignalPause pause;  // threads that oneDNN starts have it from here
  try {
    if (is_batch(a, c, epilogue))
      run_batch(context, a, b, c, epilogue.accumulate);
    else if (prefers_sgemm(a, c, epilogue))
      run_sgemm(a, b, c, epilogue.accumulate);
    else
      run_matmul(context, a, b, c, epilogue);
  } catch (const dnnl::error& error) {
    rethrow(error);
  }
}

}  // namespace fovea::gemm
