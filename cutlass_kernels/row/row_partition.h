// Rows for a grid that is as large as the card: every CTA gets one stretch of the packed rows, so that each
// sequence's keys are loaded once for all its rows there.
#pragma once

#include "../params.h"
#include "../partition.h"

namespace ragged_attention {

// How a block's cost grows with its keys, in quarters of the cheapest step of 16 keys.
struct BlockCosts {
  int weighed_keys;   // up to so many, sweep 2 has its weights from sweep 1
  int resident_keys;  // up to so many, keys stay in shared memory

  CUTE_HOST_DEVICE int64_t of(Span const& span) const {
    constexpr int kWeighed = 4, kResident = 5, kByPanels = 8;  // a step
    constexpr int kBlock = 12;
    int const keys = span.other_length;
    if (keys == 0) return kWeighed;
    int const step = keys <= weighed_keys    ? kWeighed
                     : keys <= resident_keys ? kResident
                                             : kByPanels;
    return int64_t{step} * ((keys + 15) / 16) + kBlock;
  }
};

// The part of a segment that one CTA works on: blocks [begin, end).
struct Share {
  int segment;
  Span span;
  int begin, end;
};

#ifdef __CUDACC__
// Calls work(share) for each share of this CTA, in order. All threads of the CTA call it.
template <int kThreads, class Work>
CUTE_DEVICE void for_own_shares(Cut const& cut, BlockCosts const& costs,
                                PartitionStorage<kThreads>& storage, Work const& work) {
  for_own_stretches<kThreads>(
      cut.own.count(), storage,
      [&](int segment) {
        Span const span = cut.span(segment);
        return cut.blocks(span) * costs.of(span);
      },
      [](int64_t whole) { return equal_stretch(whole, blockIdx.x, gridDim.x); },
      [&](int segment, int64_t start, Stretch const& stretch) {
        Span const span = cut.span(segment);
        int64_t const cost = costs.of(span);
        auto first_at = [&](int64_t point) {
          return static_cast<int>((point - start + cost - 1) / cost);
        };
        Share const share{segment, span, first_at(stretch.low), first_at(stretch.high)};
        if (share.begin < share.end) work(share);
      });
}
#endif

}  // namespace ragged_attention
