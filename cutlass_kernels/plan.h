// What the host decides before it launches, from totals alone.
#pragma once

#include <algorithm>

#include "api.h"
#include "ragged.h"
#include "tiles.h"

namespace ragged_attention {

struct Plan {
  bool resident_rows;  // out and dq with K and V resident in shared memory
  int row_ctas;        // CTAs of the row kernel
  bool short_keys;     // which shape of the tile row dk and dv take
  int splits;          // of each sequence's rows, for dk and dv
  int key_slots;       // CTAs for each split
};

// With at most so many keys a sequence, on average, finer key tiles waste less than they cost.
constexpr int64_t kShortKeys = 256;

// Into how many parts the rows of each sequence go for dk and dv. Where the key tiles fill the card twice
// over it is one. Else there are about eight CTAs for each place on the card, since sequences differ in
// length, and each has enough rows to be worth its start-up.
template <class Shape>
int key_splits(Problem const& p, int multiprocessors) {
  constexpr int64_t kMinRows = 512;
  int64_t const places = int64_t{multiprocessors} * Shape::kCtas;
  int64_t const tiles = std::max<int64_t>(1, p.total_k / Shape::kKeys + p.batch / 2);
  int64_t const rows = p.total_q * p.heads / std::max(1, p.batch);
  if (tiles >= 2 * places) return 1;
  int64_t const wanted = (8 * places + tiles - 1) / tiles;
  return static_cast<int>(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, rows / kMinRows)));
}

template <class TileRow>
Plan make_plan(Problem const& p, int multiprocessors) {
  using Short = typename TileRow::ShortKeys;
  using Long = typename TileRow::LongKeys;
  Plan plan{};
  plan.resident_rows = p.total_k <= int64_t{TileRow::kResidentMeanKeys} * p.batch;
  plan.row_ctas = plan.resident_rows
                      ? multiprocessors
                      : static_cast<int>(slot_bound(p.total_q, p.heads, TileRow::kRows, p.batch));
  plan.short_keys = p.total_k <= kShortKeys * p.batch;
  plan.splits = plan.short_keys ? key_splits<Short>(p, multiprocessors)
                                : key_splits<Long>(p, multiprocessors);
  int const keys = plan.short_keys ? Short::kKeys : Long::kKeys;
  plan.key_slots = static_cast<int>(slot_bound(p.total_k, 1, keys, p.batch));
  return plan;
}

inline Plan make_plan(Problem const& p, Tiles tiles, int multiprocessors) {
  return tiles == Tiles::kSm90 ? make_plan<TilesSm90>(p, multiprocessors)
                               : make_plan<TilesSm86>(p, multiprocessors);
}

}  // namespace ragged_attention
