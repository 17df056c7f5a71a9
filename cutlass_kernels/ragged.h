// Ragged lengths: the one place that reads cu_q and cu_k.
//
// Work is handed out in slots, one CTA each; a grid is sized from the totals and the batch alone, and a
// CTA finds its block from cu itself, without a copy to the host. Up to kMaxSortedSegments the slots
// go to the segments with the costliest blocks first, so that the last CTAs to run are short. Beyond,
// segment s begins at slot
//   floor(boundary(s) * items_per_token / block) + s,
// which leaves each at least as many slots as it has blocks, and a search finds it without prefix sums.
// A slot past its segment's last block, or past all blocks, has nothing to do.
//
// Segments are the sequences, and before and after them the spare tokens outside [cu[0], cu[batch]],
// which belong to no sequence. Lengths that do not describe the tensors are clamped to them.
#pragma once

#include <cstdint>
#include <cute/config.hpp>

namespace ragged_attention {

// The token axis of q or of k, cut into batch + 2 segments.
struct Segments {
  int32_t const* cu;  // (batch + 1)
  int64_t total;      // tokens
  int batch;

  CUTE_HOST_DEVICE int count() const { return batch + 2; }

  // First token of segment s; s = count() gives the end.
  CUTE_HOST_DEVICE int64_t boundary(int s) const {
    // read in any case: a load that waits for no branch overlaps the next
    int64_t const read = cu[s == 0 ? 0 : s > batch ? batch : s - 1];
    int64_t const token = s == 0 ? 0 : s == count() ? total : read;
    return token < 0 ? 0 : token > total ? total : token;
  }
  CUTE_HOST_DEVICE int64_t length(int s) const {
    int64_t const tokens = boundary(s + 1) - boundary(s);
    return tokens > 0 ? tokens : 0;
  }
  CUTE_HOST_DEVICE bool is_sequence(int s) const { return s > 0 && s <= batch; }
};

// Slots that cover `total` tokens of `items_per_token` items each in blocks of `block` items.
CUTE_HOST_DEVICE int64_t slot_bound(int64_t total, int items_per_token, int block, int batch) {
  return total * items_per_token / block + batch + 2;
}

CUTE_HOST_DEVICE int64_t first_slot(Segments const& segments, int s, int items_per_token,
                                    int block) {
  return segments.boundary(s) * items_per_token / block + s;
}

// The last segment that begins at or before `slot`. Each round narrows the range 32-fold, one probe a
// lane, so that 1,000 sequences take two loads' latency. All lanes of a warp call it together.
CUTE_HOST_DEVICE int find_segment(Segments const& segments, int64_t slot, int items_per_token,
                                  int block) {
  int low = 0;
  int span = segments.count();  // the answer is in [low, low + span)
  while (span > 1) {
    int const step = (span + 31) / 32;
    auto begins_by_slot = [&](int lane) {
      int const s = low + lane * step;
      return lane * step < span && first_slot(segments, s, items_per_token, block) <= slot;
    };
#ifdef __CUDA_ARCH__
    unsigned const ballot = __ballot_sync(0xffffffffu, begins_by_slot(threadIdx.x & 31));
    int const last = 31 - __clz(ballot | 1u);
#else
    int last = 0;
    for (int lane = 1; lane < 32; ++lane) last = begins_by_slot(lane) ? lane : last;
#endif
    low += last * step;
    span = span - last * step < step ? span - last * step : step;
  }
  return low;
}

// One block of a segment, and the lengths that go with it.
struct Tile {
  int sequence;     // index into cu and slopes; meaningless without keys or without queries
  int block;        // index of the block within the segment
  int64_t q_begin;  // first token of q
  int64_t k_begin;  // first token of k
  int queries;      // tokens of q
  int keys;         // tokens of k

  // Query i stands at key position i + shift: ALiBi's distance is |i + shift - j|.
  CUTE_HOST_DEVICE int shift() const { return keys - queries; }
};

// Rows or keys [begin, end) of a sequence.
struct Range {
  int begin, end;
};

// A segment on the two token axes: the one a kernel cuts (own), and the other.
struct Span {
  int own_begin, own_length;      // tokens
  int other_begin, other_length;  // tokens; none beside spare tokens
};

// How a kernel cuts its work: along one of the two token axes, into blocks of `block` items.
struct Cut {
  Segments own, other;
  bool own_is_q;
  int items_per_token;
  int block;

  CUTE_HOST_DEVICE Span span(int s) const {
    bool const paired = own.is_sequence(s);
    return {static_cast<int>(own.boundary(s)), static_cast<int>(own.length(s)),
            paired ? static_cast<int>(other.boundary(s)) : 0,
            paired ? static_cast<int>(other.length(s)) : 0};
  }
  CUTE_HOST_DEVICE int blocks(Span const& span) const {
    return static_cast<int>((int64_t{span.own_length} * items_per_token + block - 1) / block);
  }
  CUTE_HOST_DEVICE Tile tile(int s, int index, Span const& span) const {
    return own_is_q
               ? Tile{s - 1,           index,
                      span.own_begin,  span.other_begin,
                      span.own_length, span.other_length}
               : Tile{s - 1,          index, span.other_begin, span.own_begin, span.other_length,
                      span.own_length};
  }
};

constexpr int kMaxSortedSegments = 256;

struct alignas(8) SegmentWork {
  int blocks;
  int cost;  // of each block
};

// The first slot of segment s when the costliest segments come first, equal ones in their order.
CUTE_HOST_DEVICE int sorted_first_slot(SegmentWork const* work, int count, int s) {
  int const cost = work[s].cost;
  int slot = 0;
  CUTE_UNROLL
  for (int i = 0; i < count; ++i) {
    SegmentWork const other = work[i];  // one load, and no branch: a CTA waits for this loop
    slot += other.cost + (i < s) > cost ? other.blocks : 0;
  }
  return slot;
}

// What a CTA needs in shared memory to find its tile.
struct TileSearch {
  SegmentWork work[kMaxSortedSegments];
  Span spans[kMaxSortedSegments];
};

#ifdef __CUDACC__
// The tile at `slot`, left in shared memory; without queries and keys if there is none.
// All threads of the CTA call it.
template <int kThreads>
CUTE_DEVICE void find_tile(Cut const& cut, int slot, TileSearch& search, Tile& tile) {
  int const count = cut.own.count();
  if (threadIdx.x == 0) tile = Tile{};
  if (count > kMaxSortedSegments) {
    __syncthreads();
    int const s = find_segment(cut.own, slot, cut.items_per_token, cut.block);
    int64_t const first = first_slot(cut.own, s, cut.items_per_token, cut.block);
    if (threadIdx.x == 0) tile = cut.tile(s, static_cast<int>(slot - first), cut.span(s));
  } else {
    for (int s = threadIdx.x; s < count; s += kThreads) {
      search.spans[s] = cut.span(s);
      search.work[s] = {cut.blocks(search.spans[s]), search.spans[s].other_length};
    }
    __syncthreads();
    for (int s = threadIdx.x; s < count; s += kThreads) {
      int const index = slot - sorted_first_slot(search.work, count, s);
      if (0 <= index && index < search.work[s].blocks) {
        tile = cut.tile(s, index, search.spans[s]);
      }
    }
  }
  __syncthreads();
}
#endif

}  // namespace ragged_attention
