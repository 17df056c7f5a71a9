// What a row contributes to its scores, and where a warp keeps it.
#pragma once

#include <cute/config.hpp>

namespace ragged_attention {

struct alignas(16) RowScore {
  float neg_slope;      // log2 units
  float position;       // of the query on the key axis
  float neg_reference;  // log2 units: the exponent's reference, then -lse
  float neg_delta;
};

// In shared memory, one 16-byte read each: where registers are short. A thread asks for half 0 or 1, rows
// lane / 4 and lane / 4 + 8, of strip m.
struct SharedRowScores {
  RowScore* rows;  // of this warp
  int lane;

  CUTE_DEVICE RowScore const& get(int m, int half) const {
    return rows[m * 16 + half * 8 + lane / 4];
  }
  // All lanes of the warp; those of a quad bring the same score.
  CUTE_DEVICE void set(int m, int half, RowScore const& score) {
    __syncwarp();
    if (lane % 4 == 0) rows[m * 16 + half * 8 + lane / 4] = score;
    __syncwarp();
  }
};

// In registers, of one strip.
struct RegisterRowScores {
  RowScore rows[2];

  CUTE_DEVICE RowScore const& get(int, int half) const { return rows[half]; }
  CUTE_DEVICE void set(int, int half, RowScore const& score) { rows[half] = score; }
};

}  // namespace ragged_attention
