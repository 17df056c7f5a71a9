// A CUDA run-time library that launches nothing: it counts, and refuses what a device would refuse.
// `launch` calls the launcher for Python.
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cutlass_kernels/launch.h"

namespace {

constexpr int kMostSharedMemory = 232448;  // bytes a block may have

thread_local int current_device = 0;
std::atomic<int> attribute_calls = 0;
std::atomic<int> launches = 0;
std::atomic<int> overlapping_launches = 0;
std::mutex mutex;
std::map<std::pair<void const*, int>, size_t> limits;  // of a kernel on a device, bytes

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute attribute, int value) {
  ++attribute_calls;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
  if (value > kMostSharedMemory) return cudaErrorInvalidValue;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that calls would overlap
  std::lock_guard lock(mutex);
  limits[{kernel, current_device}] = value;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* kernel, void**) {
  size_t const shared_memory = config->dynamicSmemBytes;
  std::lock_guard lock(mutex);
  auto const found = limits.find({kernel, current_device});
  if (shared_memory > (found == limits.end() ? 48 * 1024 : found->second)) {
    return cudaErrorLaunchOutOfResources;
  }
  ++launches;
  overlapping_launches += config->numAttrs == 1 &&
                          config->attrs->id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                          config->attrs->val.programmaticStreamSerializationAllowed;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "invalid argument" : "too many resources requested";
}

// Launches a kernel, which is only a number, on a device. `message` has room for 200 characters and gets
// the error's, if there is one.
void launch(int device, uintptr_t kernel, unsigned blocks, size_t shared_memory, bool overlaps,
            char* message) {
  current_device = device;
  message[0] = '\0';
  try {
    ragged_attention::launch_kernel(
        reinterpret_cast<void const*>(kernel), dim3(blocks), 256, shared_memory, {},
        overlaps ? ragged_attention::Start::kOverlaps : ragged_attention::Start::kAfter, nullptr,
        "row kernel");
  } catch (std::runtime_error const& error) {
    std::strncpy(message, error.what(), 199);
  }
}

int count_attribute_calls() { return attribute_calls; }

int count_launches() { return launches; }

int count_overlapping_launches() { return overlapping_launches; }

}  // extern "C"
