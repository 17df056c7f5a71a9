// The smallest library behind api.h: builds in seconds, to test the build itself.
#include <stdexcept>

#include "cutlass_kernels/api.h"

#ifndef RAGGED_ATTENTION_MMA_REPEAT
#define RAGGED_ATTENTION_MMA_REPEAT 1
#endif

namespace ragged_attention {

__global__ void set_first(float* out) {
  __shared__ float values[32 * RAGGED_ATTENTION_MMA_REPEAT];  // its size is what a test looks at
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[31 - threadIdx.x];
}

#ifdef WITH_SPILLS
__global__ void __launch_bounds__(1024, 2) spilling_kernel(float* data, int rounds) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = data[i * 1024 + threadIdx.x];
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 64; ++i) values[i] = values[i] * values[(i + 1) % 64] + data[r];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) data[i * 1024 + threadIdx.x] = values[i];
}
#endif

Device query_device(int index) {
  cudaDeviceProp card;
  cudaError_t const status = cudaGetDeviceProperties(&card, index);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return {card.name,
          index,
          card.major,
          card.minor,
          card.multiProcessorCount,
          static_cast<int>(card.sharedMemPerBlockOptin),
          true};
}

Tiles choose_tiles(Device const&) { return Tiles::kSm86; }

void check_tiles(Tiles, Device const&) {}

size_t workspace_bytes(int64_t, int64_t, int, int, Tiles, Device const&) { return 256; }

double measure_mma_rate(Device const&, float) { return 1e12; }

void run_full_vjp(Problem const& problem, Tiles, Device const&, cudaStream_t stream) {
  set_first<<<1, 32, 0, stream>>>(static_cast<float*>(problem.workspace));
}

}  // namespace ragged_attention
