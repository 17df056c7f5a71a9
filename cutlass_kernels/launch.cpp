// Launches a kernel on the current device.
#include "launch.h"

#include <map>
#include <mutex>
#include <utility>

namespace ragged_attention {

namespace {

// Raises a kernel's shared-memory limit on the current device where it is still lower: once, so that
// later calls only launch.
void allow_shared_memory(void const* kernel, int bytes, char const* name) {
  static std::mutex mutex;
  static std::map<std::pair<void const*, int>, int> limits;  // of a kernel on a device, bytes
  int device;
  check_cuda(cudaGetDevice(&device), name);
  std::lock_guard lock(mutex);
  int& limit = limits[{kernel, device}];
  if (bytes <= limit) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             name);
  limit = bytes;
}

}  // namespace

void launch_kernel(void const* kernel, dim3 grid, int threads, size_t shared_memory,
                   KernelParams const& params, Start start, cudaStream_t stream, char const* name) {
  if (grid.x == 0) return;
  if (shared_memory > 48 * 1024) {
    allow_shared_memory(kernel, static_cast<int>(shared_memory), name);
  }
  cudaLaunchAttribute overlaps;
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_memory;
  config.stream = stream;
  config.attrs = &overlaps;
  config.numAttrs = start == Start::kOverlaps ? 1 : 0;
  void* arguments[] = {const_cast<KernelParams*>(&params)};
  check_cuda(cudaLaunchKernelExC(&config, kernel, arguments), name);
}

}  // namespace ragged_attention
