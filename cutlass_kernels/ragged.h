// Ragged lengths: the one place that reads cu_q and cu_k.
//
// Work is handed out in slots, one CTA each. Segment s begins at slot
//   floor(boundary(s) * items_per_token / block) + s,
// which leaves every segment at least as many slots as it has blocks. So a grid can be sized from the
// totals and the batch alone, and a CTA finds its block by a search over cu itself: no prefix sums, no
// copy to the host. A slot past its segment's last block has nothing to do.
//
// Segments are the sequences, and before and after them the spare tokens outside [cu[0], cu[batch]],
// which belong to no sequence. Lengths that do not describe the tensors are clamped to them.
#pragma once

#include <cute/config.hpp>

#include <cstdint>

namespace ragged_attention {

// The token axis of q or of k, cut into batch + 2 segments.
struct Segments {
  int32_t const* cu;  // (batch + 1)
  int64_t total;      // tokens
  int batch;

  CUTE_HOST_DEVICE int count() const { return batch + 2; }

  // First token of segment s; s = count() gives the end.
  CUTE_HOST_DEVICE int64_t boundary(int s) const {
    if (s == 0) return 0;
    if (s == count()) return total;
    int64_t const token = cu[s - 1];
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

CUTE_HOST_DEVICE int64_t first_slot(Segments const& segments, int s, int items_per_token, int block) {
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

// Block `block_index` of one segment and the lengths that go with it.
struct Tile {
  int sequence;        // index into cu and slopes; meaningless when the other side is empty
  int64_t q_begin;     // first token of q
  int64_t k_begin;     // first token of k
  int queries;         // tokens of q
  int keys;            // tokens of k
  int block;           // index of the block within the segment

  // Query i stands at key position i + shift: ALiBi's distance is |i + shift - j|.
  CUTE_HOST_DEVICE int shift() const { return keys - queries; }
};

// The tile at `slot`, cut along q. Rows past the sequences have no keys.
CUTE_HOST_DEVICE Tile find_tile(Segments const& own, Segments const& other, bool own_is_q,
                                int64_t slot, int items_per_token, int block) {
  int const s = find_segment(own, slot, items_per_token, block);
  int64_t const own_begin = own.boundary(s);
  int const own_length = static_cast<int>(own.length(s));
  int64_t const other_begin = own.is_sequence(s) ? other.boundary(s) : 0;
  int const other_length = own.is_sequence(s) ? static_cast<int>(other.length(s)) : 0;
  int const index = static_cast<int>(slot - first_slot(own, s, items_per_token, block));
  return own_is_q ? Tile{s - 1, own_begin, other_begin, own_length, other_length, index}
                  : Tile{s - 1, other_begin, own_begin, other_length, own_length, index};
}

}  // namespace ragged_attention
