// Keys for a grid that is as large as the card, where key tiles are too few to fill it: the line of costs
// goes through tile after tile and, within a tile, through its rows; every CTA gets one stretch, and goes
// through it part by part. CTAs that share a tile add to its sums in turn.
#pragma once

#include "../params.h"
#include "../partition.h"

namespace ragged_attention {

// A CTA's place among those that share a tile.
struct Turn {
  int index, count;

  CUTE_HOST_DEVICE bool is_first() const { return index == 0; }
  CUTE_HOST_DEVICE bool is_last() const { return index + 1 == count; }
};

// What a tile costs besides, in row blocks.
constexpr int kTileRowBlocks = 3;

// CTAs with fewer row blocks of whole tiles would mostly wait for their turn.
constexpr int64_t kLeastRowBlocks = 12;

// One segment on the line.
struct KeyLine {
  int keys;
  int block;  // keys of a whole tile
  int row_blocks;
  KeyCosts costs;

  CUTE_HOST_DEVICE KeyLine(Span const& span, int heads, int block, KeyCosts const& costs)
      : keys(span.own_length),
        block(block),
        row_blocks(
            static_cast<int>((int64_t{span.other_length} * heads + kKeyRows - 1) / kKeyRows)),
        costs(costs) {}

  CUTE_HOST_DEVICE int tiles() const { return (keys + block - 1) / block; }
  CUTE_HOST_DEVICE int keys_of(int tile) const {
    int const left = keys - tile * block;
    return left < block ? left : block;
  }
  CUTE_HOST_DEVICE int64_t tile_cost(int tile) const {
    return (int64_t{row_blocks} + kTileRowBlocks) * costs.row_block(keys_of(tile));
  }
  CUTE_HOST_DEVICE int64_t cost() const {
    return keys == 0 ? 0 : (tiles() - 1) * tile_cost(0) + tile_cost(tiles() - 1);
  }
  // The tile at `point` from the segment's start, and where a tile begins.
  CUTE_HOST_DEVICE int tile_at(int64_t point) const {
    int64_t const tile = point / tile_cost(0);
    return tile < tiles() ? static_cast<int>(tile) : tiles() - 1;
  }
  CUTE_HOST_DEVICE int64_t tile_start(int tile) const {
    return tile == 0 ? 0 : tile * tile_cost(0);
  }

  // The first row block that begins at or after `point` from the tile's start.
  CUTE_HOST_DEVICE int row_block_at(int tile, int64_t point) const {
    int const each = costs.row_block(keys_of(tile)), before = kTileRowBlocks * each;
    int64_t const index = (point - before + each - 1) / each;
    return point <= before ? 0 : index < row_blocks ? static_cast<int>(index) : row_blocks;
  }
};

// How the line is shared: a CTA waits only for those launched before it, so the line's last stretch is
// that of CTA 0.
struct KeyShares {
  int64_t whole;
  int ctas;  // with a stretch

  CUTE_HOST_DEVICE KeyShares(int64_t whole, int64_t least, int grid) : whole(whole) {
    int64_t const most = whole / least;
    ctas = most < 1 ? 1 : most < grid ? static_cast<int>(most) : grid;
  }
  CUTE_HOST_DEVICE Stretch stretch(int cta) const {
    return cta < ctas ? equal_stretch(whole, ctas - 1 - cta, ctas) : Stretch{whole, whole};
  }
  // The CTA in whose stretch `point` lies.
  CUTE_HOST_DEVICE int cta_at(int64_t point) const {
    return ctas - static_cast<int>(((point + 1) * ctas + whole - 1) / whole);
  }
  CUTE_HOST_DEVICE Turn turn(int cta, int64_t tile_begin, int64_t tile_end) const {
    int const first = cta_at(tile_end - 1);
    return {cta - first, cta_at(tile_begin) - first + 1};
  }
};

// What a CTA works on at a time: some rows of a tile.
struct KeyPart {
  Tile tile;
  RowRange rows;
  Turn turn;
  int slot;  // of the tile, for its counter of turns
};

#ifdef __CUDACC__
// The next part of this CTA's stretch, from `position` on the line, which then moves behind it; negative
// at first. False if there is none. All threads of the CTA call it; part and position lie in shared memory.
template <int kThreads>
CUTE_DEVICE bool find_key_part(Cut const& cut, int heads, KeyCosts const& costs, int64_t* warp_sums,
                               int64_t& position, KeyPart& part) {
  int const count = cut.own.count();
  auto line_of = [&](int segment) { return KeyLine(cut.span(segment), heads, cut.block, costs); };
  // Calls visit(segment, start, cost) for this thread's segments; returns the cost of all.
  auto scan = [&](auto visit) {
    int64_t chunk_start = 0, chunk_total = 0;
    for (int base = 0; base < count; base += kThreads, chunk_start += chunk_total) {
      int const segment = base + static_cast<int>(threadIdx.x);
      int64_t const cost = segment < count ? line_of(segment).cost() : 0;
      int64_t const before = exclusive_sum<kThreads>(cost, warp_sums, chunk_total);
      visit(segment, chunk_start + before, cost);
    }
    return chunk_start;
  };
  int64_t first_start = 0, first_cost = 0;  // of this thread's first segment
  KeyShares const shares(scan([&](int segment, int64_t start, int64_t cost) {
                           if (segment >= kThreads) return;
                           first_start = start;
                           first_cost = cost;
                         }),
                         kLeastRowBlocks * costs.row_block(cut.block), gridDim.x);
  Stretch const own = shares.stretch(blockIdx.x);
  int64_t const low = position < 0 ? own.low : position;
  if (low >= own.high) return false;
  __syncthreads();  // all have read the position
  auto find = [&](int segment, int64_t start, int64_t cost) {
    if (low < start || start + cost <= low) return;
    KeyLine const line = line_of(segment);
    int const tile = line.tile_at(low - start);
    int64_t const begin = start + line.tile_start(tile), end = begin + line.tile_cost(tile);
    position = end < own.high ? end : own.high;
    part.tile = cut.tile(segment, tile, cut.span(segment));
    auto row_at = [&](int64_t point) {
      int const row = line.row_block_at(tile, point - begin) * kKeyRows;
      int const rows = part.tile.queries * heads;
      return row < rows ? row : rows;
    };
    part.rows = {row_at(low), row_at(position)};
    part.turn = shares.turn(blockIdx.x, begin, end);
    part.slot = static_cast<int>(first_slot(cut.own, segment, 1, cut.block)) + tile;
  };
  if (count <= kThreads) {
    find(static_cast<int>(threadIdx.x), first_start, first_cost);
  } else {
    scan(find);
  }
  __syncthreads();
  return true;
}
#endif

}  // namespace ragged_attention
