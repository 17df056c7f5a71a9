// Rows for a grid that is as large as the card: every CTA gets one stretch of the packed rows, all
// stretches of about equal cost, in the order of the sequences. So a CTA meets few sequences, and
// each one's keys are loaded once for all its rows there.
#pragma once

#include "../params.h"

namespace ragged_attention {

// The part of a segment that one CTA works on: blocks [begin, end).
struct Share {
  int segment;
  Span span;
  int begin, end;
};

// A block's cost in steps of 16 keys; kBlockOverhead stands for what it costs without any.
constexpr int kBlockOverhead = 3;

CUTE_HOST_DEVICE int block_cost(Span const& span) {
  return span.other_length == 0 ? 1 : (span.other_length + 15) / 16 + kBlockOverhead;
}

// What of a segment lies in the stretch [low, high) of the total cost, if the segment begins at `start`.
CUTE_HOST_DEVICE Share share_of(int segment, Span const& span, int blocks, int64_t start,
                                int64_t low, int64_t high) {
  int64_t const cost = block_cost(span);
  auto first_at = [&](int64_t point) {
    int64_t const index = (point - start + cost - 1) / cost;
    return static_cast<int>(point <= start ? 0 : index < blocks ? index : blocks);
  };
  return {segment, span, first_at(low), first_at(high)};
}

template <int kThreads>
struct PartitionStorage {
  Share shares[kThreads];
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

// Calls work(share) for each share of this CTA, in order. All threads of the CTA call it.
template <int kThreads, class Work>
CUTE_DEVICE void for_own_shares(Cut const& cut, PartitionStorage<kThreads>& storage,
                                Work const& work) {
  int const count = cut.own.count();
  auto cost_of = [&](int s, Span const& span) {
    return s < count ? int64_t{cut.blocks(span)} * block_cost(span) : 0;
  };
  auto span_of = [&](int s) { return s < count ? cut.span(s) : Span{}; };

  int64_t whole = 0, chunk_total = 0;
  for (int base = 0; base < count; base += kThreads) {
    int const s = base + threadIdx.x;
    exclusive_sum<kThreads>(cost_of(s, span_of(s)), storage.warp_sums, chunk_total);
    whole += chunk_total;
  }
  int64_t const low = whole * blockIdx.x / gridDim.x;
  int64_t const high = whole * (blockIdx.x + 1) / gridDim.x;

  int64_t before = 0;  // cost of the chunks of segments gone by
  for (int base = 0; base < count && before < high; base += kThreads) {
    int const s = base + threadIdx.x;
    Span const span = span_of(s);
    int64_t const cost = cost_of(s, span);
    int64_t const start = before + exclusive_sum<kThreads>(cost, storage.warp_sums, chunk_total);
    storage.shares[threadIdx.x] =
        share_of(s, span, s < count ? cut.blocks(span) : 0, start, low, high);
    int const first = __syncthreads_count(start + cost <= low);
    int const last = __syncthreads_count(s < count && start < high);
    for (int i = first; i < last; ++i) {
      if (storage.shares[i].begin < storage.shares[i].end) work(storage.shares[i]);
    }
    before += chunk_total;
    __syncthreads();  // the shares have been read
  }
}
#endif

}  // namespace ragged_attention
