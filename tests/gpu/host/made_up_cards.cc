#include "gpu/host/made_up_cards.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <utility>

namespace fovea::testing {
namespace {

constexpr std::size_t kUsualShared = 48 << 10;

cudaError_t g_last = cudaSuccess;

std::map<const void*, std::string>& names() {
  static auto* const all = new std::map<const void*, std::string>;  // filled before main
  return *all;
}
// What kernels may have of shared memory, by card.
std::map<std::pair<const void*, int>, std::size_t>& allowed() {
  static auto* const all = new std::map<std::pair<const void*, int>, std::size_t>;
  return *all;
}
std::map<void*, std::size_t>& blocks() {
  static auto* const all = new std::map<void*, std::size_t>;
  return *all;
}
struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
} g_configuration;

Machine& machine() { return Machine::instance(); }
const MadeUpCard& card() { return machine().cards.at(static_cast<std::size_t>(machine().current)); }

cudaError_t say(cudaError_t status) {
  if (machine().lost != cudaSuccess) status = machine().lost;
  if (status != cudaSuccess) g_last = status;
  return status;
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string readable = status == 0 ? text : name;
  std::free(text);
  return readable;
}

bool fits(const KernelLaunch& launch, const void* kernel) {
  const auto found = allowed().find({kernel, machine().current});
  const std::size_t most = found == allowed().end() ? kUsualShared : found->second;
  const std::size_t threads = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
  return launch.grid.x > 0 && launch.grid.y > 0 && launch.grid.z > 0 && launch.grid.x <= 0x7fffffffU &&
         launch.grid.y <= 65535 && launch.grid.z <= 65535 && threads > 0 && threads <= 1024 && launch.block.z <= 64 &&
         launch.shared <= most;
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared) {
  const KernelLaunch asked{names()[kernel], grid, block, shared};
  if (!fits(asked, kernel)) return say(cudaErrorInvalidConfiguration);
  if (machine().lost == cudaSuccess) machine().launches.push_back(asked);
  return say(cudaSuccess);
}

cudaError_t allocate(void** data, std::size_t bytes) {
  *data = nullptr;
  if (bytes > machine().free) return say(cudaErrorMemoryAllocation);
  if (machine().lost != cudaSuccess) return say(cudaSuccess);
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  blocks()[*data] = bytes;
  machine().free -= bytes;
  return cudaSuccess;
}

cudaError_t release(void* data) {
  if (const auto found = blocks().find(data); found != blocks().end()) {
    machine().free += found->second;
    blocks().erase(found);
    std::free(data);
  }
  return say(cudaSuccess);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes) {
  if (machine().lost == cudaSuccess && bytes > 0) std::memcpy(to, from, bytes);
  return say(cudaSuccess);
}

template <class T>
T made_up_handle() {
  static char one;
  return reinterpret_cast<T>(&one);
}

// Those that were made and not destroyed; a handle is never used again.
std::set<cudaStream_t>& streams() {
  static auto* const all = new std::set<cudaStream_t>;
  return *all;
}

cudaError_t on(cudaStream_t stream, const char* call) {
  const bool standard = stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  if (standard || streams().contains(stream)) return say(cudaSuccess);
  machine().on_gone_streams.emplace_back(call);
  return say(cudaErrorInvalidResourceHandle);
}

}  // namespace

Machine& Machine::instance() {
  static auto* const one = new Machine;
  return *one;
}

void Machine::reset() {
  *this = Machine();
  g_last = cudaSuccess;
}

std::vector<std::string> Machine::kernels() const {
  std::vector<std::string> names;
  for (const KernelLaunch& launch : launches) names.push_back(launch.kernel);
  return names;
}

}  // namespace fovea::testing

using namespace fovea::testing;  // NOLINT

// What nvcc calls for every source and every launch.
extern "C" {
void** __cudaRegisterFatBinary(void*) { return made_up_handle<void**>(); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* device, ...) {
  names()[host] = readable(device);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  g_configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = g_configuration.grid;
  *block = g_configuration.block;
  *shared = g_configuration.shared;
  *static_cast<cudaStream_t*>(stream) = g_configuration.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, std::size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, shared);
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void**, std::size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  return launch(kernel, config->gridDim, config->blockDim, config->dynamicSmemBytes);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                   unsigned) {
  *blocks = 1;
  return say(cudaSuccess);
}

// Cards.
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().status == cudaSuccess ? static_cast<int>(machine().cards.size()) : 0;
  return say(machine().status);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  const MadeUpCard& asked = machine().cards.at(static_cast<std::size_t>(index));
  *properties = {};
  std::strncpy(properties->name, asked.name, sizeof(properties->name) - 1);
  properties->major = asked.major;
  properties->minor = asked.minor;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = std::size_t{1} << 37;
  return say(cudaSuccess);
}
cudaError_t cudaSetDevice(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= machine().cards.size()) return say(cudaErrorInvalidDevice);
  machine().current = index;
  return say(cudaSuccess);
}
cudaError_t cudaGetDevice(int* index) {
  *index = machine().current;
  return say(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  const MadeUpCard& asked = machine().cards.at(static_cast<std::size_t>(index));
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = asked.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = asked.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(asked.shared); break;
    default: return say(cudaErrorInvalidValue);
  }
  return say(cudaSuccess);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = card().major * 10 + card().minor;
  return say(card().major < 8 ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > card().shared)
    return say(cudaErrorInvalidValue);
  allowed()[{kernel, machine().current}] = static_cast<std::size_t>(value);
  return say(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  ++machine().waits;
  return say(cudaSuccess);
}

// Memory.
cudaError_t cudaMalloc(void** data, std::size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t status = on(stream, __func__);
  return status == cudaSuccess ? allocate(data, bytes) : status;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return say(cudaSuccess);
}
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  on(stream, __func__);
  return release(data);
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return say(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = machine().free;
  *all = std::size_t{1} << 37;
  return say(cudaSuccess);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) { return copy(to, from, bytes); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return copy(to, from, bytes);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (machine().lost == cudaSuccess) std::memset(to, value, bytes);
  return say(cudaSuccess);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = made_up_handle<cudaMemPool_t>();
  return say(cudaSuccess);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return say(cudaSuccess); }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  *static_cast<std::uint64_t*>(value) = 0;
  return say(cudaSuccess);
}

// Order.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static std::deque<char> handles;
  *stream = reinterpret_cast<cudaStream_t>(&handles.emplace_back());
  streams().insert(*stream);
  return say(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = on(stream, __func__);
  streams().erase(stream);
  return status;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return on(stream, __func__); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) { return on(stream, __func__); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = made_up_handle<cudaEvent_t>();
  return say(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return say(cudaSuccess); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) { return on(stream, __func__); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return say(cudaSuccess); }

// Recordings.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  machine().captures = true;
  return say(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  machine().captures = false;
  *graph = made_up_handle<cudaGraph_t>();
  return say(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t, unsigned long long) {
  *ready = made_up_handle<cudaGraphExec_t>();
  return say(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return say(cudaSuccess); }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return say(cudaSuccess); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return say(cudaSuccess); }

// Errors.
cudaError_t cudaGetLastError() {
  const cudaError_t last = std::exchange(g_last, cudaSuccess);
  return machine().lost != cudaSuccess ? machine().lost : last;
}
cudaError_t cudaPeekAtLastError() { return machine().lost != cudaSuccess ? machine().lost : g_last; }
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorOther";
}
const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "an error";
}
}
