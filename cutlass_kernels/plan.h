// What the host decides before it launches, from totals alone.
#pragma once

#include <algorithm>
#include <type_traits>

#include "api.h"
#include "ragged.h"
#include "tiles.h"

namespace ragged_attention {

struct Plan {
  bool resident_rows;  // out and dq with K and V resident in shared memory
  int row_ctas;        // CTAs of the row kernel
  bool short_keys;     // dk and dv by the finer key tiles
  bool shared_keys;    // CTAs of the key kernel share tiles; else each has one slot
  bool keys_overlap;   // the key kernel starts before the row kernel has ended
  int key_ctas;
  int turn_count;  // counters of turns, one for each warp of each slot
};

// With at most so many keys a sequence, on average, finer key tiles waste less than they cost, if there are
// enough of them to fill the card.
constexpr int64_t kShortKeys = 96;

// Whole tiles are not shared where they fill the card so many times.
constexpr int kWaves = 2;
constexpr int kWavesWithSmallSums = 4;

// Heads times queries to a key from which on the sums of dk and dv, fp32, take a tenth of q's bytes at most.
constexpr int64_t kSumsOfQ = 40;

template <class TileRow>
Plan make_plan(Problem const& p, Device const& device) {
  using Short = typename TileRow::ShortKeys;
  using Long = typename TileRow::LongKeys;
  int const multiprocessors = device.multiprocessors;
  Plan plan{};
  plan.resident_rows = p.total_k <= int64_t{TileRow::kResidentMeanKeys} * p.batch;
  // Half of the warps of a resident CTA have a block of 16 rows each where there are few: the key kernel may
  // then start on the other multiprocessors.
  int64_t const blocks = slot_bound(p.total_q, p.heads, 16, p.batch);
  plan.row_ctas = static_cast<int>(
      plan.resident_rows
          ? std::min<int64_t>(multiprocessors, blocks / (TileRow::kResidentWarps / 2) + 1)
          : slot_bound(p.total_q, p.heads, TileRow::kRows, p.batch));
  // Sums of shared tiles cost memory and time, which a grid of many whole tiles, the longest first, spares. That
  // grid's last wave of CTAs is seldom full, which counts for more where waves are few.
  auto fills_card = [&](int keys, int ctas, int waves) {
    return p.total_k / keys + p.batch / 2 >= int64_t{waves} * ctas * multiprocessors;
  };
  plan.short_keys = !std::is_same_v<Short, Long> && p.total_k <= kShortKeys * p.batch &&
                    fills_card(Short::kKeys, Short::kCtas, kWaves);
  bool const sums_are_small = kSumsOfQ * p.total_k <= p.total_q * p.heads;
  plan.shared_keys = !plan.short_keys && !fills_card(Long::kKeys, Long::kCtas,
                                                     sums_are_small ? kWavesWithSmallSums : kWaves);
  int const keys = plan.short_keys ? Short::kKeys : Long::kKeys;
  plan.keys_overlap = device.major >= 9;
  int const slots = static_cast<int>(slot_bound(p.total_k, 1, keys, p.batch));
  plan.key_ctas = plan.shared_keys ? multiprocessors * Long::kCtas : slots;
  plan.turn_count = plan.shared_keys ? slots * 2 * Long::kPairs : 0;
  return plan;
}

inline Plan make_plan(Problem const& p, Tiles tiles, Device const& device) {
  return tiles == Tiles::kSm90 ? make_plan<TilesSm90>(p, device) : make_plan<TilesSm86>(p, device);
}

}  // namespace ragged_attention
