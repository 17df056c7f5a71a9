// The launchers of the kernels; each .cu file beside a kernel instantiates one for one dtype.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "params.h"
#include "plan.h"
#include "tiles.h"

namespace ragged_attention {

inline void check_cuda(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not report this one again
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Raises the block's shared-memory limit where needed and launches.
template <class Kernel>
void launch(Kernel* kernel, dim3 grid, int threads, size_t shared_memory,
            KernelParams const& params, cudaStream_t stream, char const* name) {
  if (grid.x == 0) return;
  if (shared_memory > 48 * 1024) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_memory)),
               name);
  }
  void* arguments[] = {const_cast<KernelParams*>(&params)};
  check_cuda(cudaLaunchKernel(kernel, grid, dim3(threads), arguments, shared_memory, stream), name);
}

// Element: cute::half_t or cute::bfloat16_t; TileRow: a row of tiles.h.
template <class Element, class TileRow>
void launch_row_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream);

template <class Element, class TileRow>
void launch_key_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream);

// Whether the current device can run the compiled kernels.
bool has_device_code();

}  // namespace ragged_attention
