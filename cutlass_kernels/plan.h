// What the host decides before it launches, from totals alone.
#pragma once

#include "api.h"
#include "ragged.h"
#include "tiles.h"

namespace ragged_attention {

struct Plan {
  bool resident_rows;  // out and dq with K and V resident in shared memory
  int row_ctas;        // CTAs of the row kernel
  bool short_keys;     // which shape of the tile row dk and dv take
  bool shared_keys;    // CTAs of the key kernel share tiles; else each has one slot
  int key_slots;
  int key_ctas;
};

// With at most so many keys a sequence, on average, finer key tiles waste less than they cost.
constexpr int64_t kShortKeys = 96;

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
  int const keys = plan.short_keys ? Short::kKeys : Long::kKeys;
  int const places = multiprocessors * (plan.short_keys ? Short::kCtas : Long::kCtas);
  // Sums of shared tiles cost memory and time, which a grid of many whole tiles, the longest first, spares.
  plan.shared_keys = p.total_k / keys + p.batch / 2 < 2 * places;
  plan.key_slots = static_cast<int>(slot_bound(p.total_k, 1, keys, p.batch));
  plan.key_ctas = plan.shared_keys ? places : plan.key_slots;
  return plan;
}

inline Plan make_plan(Problem const& p, Tiles tiles, int multiprocessors) {
  return tiles == Tiles::kSm90 ? make_plan<TilesSm90>(p, multiprocessors)
                               : make_plan<TilesSm86>(p, multiprocessors);
}

}  // namespace ragged_attention
