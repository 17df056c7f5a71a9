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

// How a kernel follows the one before it on the stream.
enum class Start {
  kAfter,    // when that has ended
  kOverlaps  // when all CTAs of that have called let_next_kernel_start; needs compute capability 9.0
};

// Launches on the current device, after raising the kernel's shared-memory limit there where needed.
// Throws std::runtime_error, which begins with `name`, where that fails.
void launch_kernel(void const* kernel, dim3 grid, int threads, size_t shared_memory,
                   KernelParams const& params, Start start, cudaStream_t stream, char const* name);

template <class Kernel>
void launch(Kernel* kernel, dim3 grid, int threads, size_t shared_memory,
            KernelParams const& params, Start start, cudaStream_t stream, char const* name) {
  launch_kernel(reinterpret_cast<void const*>(kernel), grid, threads, shared_memory, params, start,
                stream, name);
}

// Element: cute::half_t or cute::bfloat16_t; TileRow: a row of tiles.h.
template <class Element, class TileRow>
void launch_row_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream);

template <class Element, class TileRow>
void launch_key_kernel(KernelParams const& params, Plan const& plan, cudaStream_t stream);

// Whether the current device can run the compiled kernels.
bool has_device_code();

}  // namespace ragged_attention
