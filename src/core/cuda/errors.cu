#include "core/cuda/errors.h"

#include <string>

#include "fovea/error.h"

namespace fovea::device {
namespace {

enum class Cause { call, program, card };

// After these a card answers every call of this process with the same error.
Cause cause_of(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure: return Cause::program;
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown: return Cause::card;
    default: return Cause::call;
  }
}

std::string megabytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MB"; }

constexpr const char* kLess = "a smaller batch, a shorter length, or --device cpu";

}  // namespace

bool is_lost(cudaError_t status) { return cause_of(status) != Cause::call; }

void refuse_cuda(cudaError_t status, const char* where) {
  const std::string what = std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
  cudaGetLastError();  // so that the next call does not answer with it
  if (status == cudaErrorMemoryAllocation) fail(ErrorCode::out_of_memory, "out of memory", where, kLess);
  switch (cause_of(status)) {
    case Cause::call: fail(ErrorCode::internal, "CUDA: " + what, where, "compute-sanitizer names the first bad call");
    case Cause::program:
      fail(ErrorCode::internal, "the card stopped: " + what, where,
           "start again from what was saved; compute-sanitizer names the first bad access");
    default:
      fail(ErrorCode::internal, "the card was lost: " + what, where,
           "start again from what was saved, on another card or with --device cpu; dmesg tells why (Xid)");
  }
}

void refuse_memory(std::size_t bytes, const char* where) {
  cudaGetLastError();
  std::size_t free = 0, all = 0;
  cudaMemGetInfo(&free, &all);
  fail(ErrorCode::out_of_memory,
       "out of memory: " + megabytes(bytes) + " asked for, " + megabytes(free) + " of " + megabytes(all) + " free",
       where, kLess);
}

}  // namespace fovea::device
