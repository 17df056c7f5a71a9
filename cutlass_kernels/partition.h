// Work for a grid that is as large as the card: all segments' costs form one line, and every CTA gets a
// stretch of it, all of about equal length. So a CTA meets few segments, and none runs much longer than the
// others.
#pragma once

#include <cstdint>
#include <cute/config.hpp>

namespace ragged_attention {

// A part [low, high) of the line of costs.
struct Stretch {
  int64_t low, high;
};

// Stretch `index` of `count` equal ones.
CUTE_HOST_DEVICE Stretch equal_stretch(int64_t whole, int index, int count) {
  return {whole * index / count, whole * (index + 1) / count};
}

#ifdef __CUDACC__
// Sum of `value` over the threads before this one; `total` over all. All threads of the CTA call it.
template <int kThreads>
CUTE_DEVICE int64_t exclusive_sum(int64_t value, int64_t* warp_sums, int64_t& total) {
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t sum = value;
  CUTE_UNROLL
  for (int step = 1; step < 32; step *= 2) {
    int64_t const left = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += left;
  }
  __syncthreads();  // the sums of the call before have been read
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int64_t before = 0;
  total = 0;
  CUTE_UNROLL
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + sum - value;
}
#endif

}  // namespace ragged_attention
