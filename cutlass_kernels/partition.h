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

template <int kThreads>
struct PartitionStorage {
  int64_t starts[kThreads +
                 1];  // where each segment of a chunk begins on the line, and the chunk's end
  int64_t warp_sums[kThreads / 32];
};

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

// Segments 0 to count - 1 have cost_of(segment) >= 0 each, stretch_of(cost of all) is this CTA's. Calls
// work(segment, start, stretch) for each segment in it, in order: the segment begins at `start` on the
// line, and `stretch` is what of it is this CTA's. All threads of the CTA call it.
template <int kThreads, class CostOf, class StretchOf, class Work>
CUTE_DEVICE void for_own_stretches(int count, PartitionStorage<kThreads>& storage,
                                   CostOf const& cost_of, StretchOf const& stretch_of,
                                   Work const& work) {
  auto chunk_cost = [&](int base) {
    int const segment = base + static_cast<int>(threadIdx.x);
    return segment < count ? cost_of(segment) : int64_t{0};
  };
  int64_t whole = 0, chunk_total = 0;
  bool const one_chunk = count <= kThreads;  // then one pass will do
  for (int base = 0; base < count && !one_chunk; base += kThreads) {
    exclusive_sum<kThreads>(chunk_cost(base), storage.warp_sums, chunk_total);
    whole += chunk_total;
  }
  Stretch own = stretch_of(whole);

  int64_t chunk_start = 0;
  for (int base = 0; base < count && (chunk_start < own.high || one_chunk); base += kThreads) {
    int64_t const cost = chunk_cost(base);
    int64_t const start =
        chunk_start + exclusive_sum<kThreads>(cost, storage.warp_sums, chunk_total);
    chunk_start += chunk_total;
    if (one_chunk) own = stretch_of(chunk_total);
    storage.starts[threadIdx.x] = start;
    if (threadIdx.x == 0) storage.starts[kThreads] = chunk_start;
    int const first = __syncthreads_count(start + cost <= own.low);
    int const last = __syncthreads_count(start < own.high);
    for (int i = first; i < last; ++i) {
      int64_t const begin = storage.starts[i], end = storage.starts[i + 1];
      if (begin == end) continue;
      work(base + i, begin,
           Stretch{begin < own.low ? own.low : begin, end < own.high ? end : own.high});
    }
    __syncthreads();  // the starts have been read
  }
}
#endif

}  // namespace ragged_attention
