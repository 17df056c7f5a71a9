// Rows for a grid that is as large as the card: every CTA gets one stretch of the packed rows, so that each
// sequence's keys are loaded once for all its rows there.
#pragma once

#include "../params.h"
#include "../partition.h"

namespace ragged_attention {

// Shared memory of resident rows, in bytes: for keys, and beside them for weights of sweep 1.
struct StepRoom {
  int all;
  int keys, weights;  // of a step of 16 keys

  // How many of `steps` have their weights kept.
  CUTE_HOST_DEVICE constexpr int weighed(int steps) const {
    int const fitting = (all - steps * keys) / weights;
    return fitting < 0 ? 0 : fitting < steps ? fitting : steps;
  }
};

// What a block of 16 rows costs, in quarters of the cheapest step of 16 keys; as measured.
struct BlockCosts {
  int resident_keys;  // up to so many, keys stay in shared memory
  StepRoom room;

  CUTE_HOST_DEVICE int64_t of(Span const& span) const {
    int const keys = span.other_length;
    if (keys == 0) return 4;
    auto steps = [&](int step) { return (keys + step - 1) / step; };
    if (keys <= resident_keys) return 12 + 5 * steps(16) - room.weighed(steps(16));
    return 28 + int64_t{10} * steps(32);  // streamed
  }
};

// A part of a sequence's rows.
struct Share {
  Tile tile;       // its block has no meaning
  int begin, end;  // blocks of rows
};

// Which share is next. It lies in shared memory, since registers are short while a CTA works on a share.
template <int kThreads>
struct RowPartition {
  // where the segments of a chunk begin on the line, and the chunk's end
  int64_t starts[kThreads + 1];
  int64_t warp_sums[kThreads / 32];
  Stretch own;     // of this CTA
  int chunk;       // its first segment
  int next, last;  // those of its segments that are still to come

  CUTE_DEVICE void start() {
    if (threadIdx.x != 0) return;
    chunk = -kThreads;
    next = last = 0;
    starts[kThreads] = 0;
  }
};

#ifdef __CUDACC__
// The first chunk of segments, or the one after that of `partition`; false if the stretch ends before.
template <int kThreads>
CUTE_DEVICE bool find_chunk(Cut const& cut, BlockCosts const& costs,
                            RowPartition<kThreads>& partition) {
  int const count = cut.own.count();
  auto chunk_cost = [&](int chunk) {
    int const segment = chunk + static_cast<int>(threadIdx.x);
    if (segment >= count) return int64_t{0};
    Span const span = cut.span(segment);
    return cut.blocks(span) * costs.of(span);
  };
  int const chunk = partition.chunk + kThreads;
  int64_t const chunk_start = partition.starts[kThreads];
  if (chunk >= count || (chunk > 0 && chunk_start >= partition.own.high)) return false;
  int64_t const cost = chunk_cost(chunk);
  int64_t chunk_total;
  int64_t const start =
      chunk_start + exclusive_sum<kThreads>(cost, partition.warp_sums, chunk_total);
  if (chunk == 0) {
    int64_t whole = chunk_total, total;
    for (int other = kThreads; other < count; other += kThreads) {
      exclusive_sum<kThreads>(chunk_cost(other), partition.warp_sums, total);
      whole += total;
    }
    if (threadIdx.x == 0) partition.own = equal_stretch(whole, blockIdx.x, gridDim.x);
    __syncthreads();
  }
  partition.starts[threadIdx.x] = start;
  int const next = __syncthreads_count(start + cost <= partition.own.low);
  int const last = __syncthreads_count(start < partition.own.high);
  if (threadIdx.x == 0) {
    partition.starts[kThreads] = chunk_start + chunk_total;
    partition.chunk = chunk;
    partition.next = next;
    partition.last = last;
  }
  __syncthreads();
  return true;
}

// The next share of this CTA; false if there is none. All threads of the CTA call it, after start() has been.
template <int kThreads>
CUTE_DEVICE bool find_share(Cut const& cut, BlockCosts const& costs,
                            RowPartition<kThreads>& partition, Share& share) {
  __syncthreads();  // all have left the share before
  while (true) {
    while (partition.next >= partition.last) {
      if (!find_chunk<kThreads>(cut, costs, partition)) return false;
    }
    int const index = partition.next;
    __syncthreads();  // all have read it
    if (threadIdx.x == 0) {
      int const segment = partition.chunk + index;
      Span const span = cut.span(segment);
      int64_t const start = partition.starts[index], end = partition.starts[index + 1];
      int64_t const cost = costs.of(span);
      // the first block that begins at or after `point` of the line
      auto block_at = [&](int64_t point) {
        return static_cast<int>(((point < end ? point : end) - start + cost - 1) / cost);
      };
      share.tile = cut.tile(segment, 0, span);
      share.begin = block_at(start < partition.own.low ? partition.own.low : start);
      share.end = block_at(partition.own.high);
      partition.next = index + 1;
    }
    __syncthreads();
    if (share.begin < share.end) return true;
  }
}
#endif

}  // namespace ragged_attention
