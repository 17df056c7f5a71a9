// What the kernels receive: the problem, its workspace and constants that the host derives once.
#pragma once

#include "api.h"
#include "ragged.h"
#include "score.h"
#include "tiles.h"

namespace ragged_attention {

// Division by the number of heads, as a multiplication.
struct HeadsDivisor {
  int heads;
  uint32_t reciprocal;  // floor(2^32 / heads) + 1; unused for one head

  HeadsDivisor() = default;
  CUTE_HOST_DEVICE explicit HeadsDivisor(int heads)
      : heads(heads), reciprocal(static_cast<uint32_t>((uint64_t{1} << 32) / heads + 1)) {}

  // floor(row / heads) for 0 <= row < 2^31 - 128: the product is at most one too large.
  CUTE_HOST_DEVICE int divide(int row) const {
    if (heads == 1) return row;
    int const quotient =
        static_cast<int>((uint64_t{reciprocal} * static_cast<uint32_t>(row)) >> 32);
    return quotient * heads > row ? quotient - 1 : quotient;
  }
};

// Query token and head of a packed row.
struct RowCursor {
  int token;
  int head;

  RowCursor() = default;
  CUTE_HOST_DEVICE RowCursor(int row, HeadsDivisor const& by)
      : token(by.divide(row)), head(row - token * by.heads) {}

  // Moves on by `step`: an addition, where `row + n` would need a division.
  CUTE_HOST_DEVICE void advance(RowCursor const& step, int heads) {
    token += step.token;
    head += step.head;
    if (head >= heads) {
      head -= heads;
      ++token;
    }
  }
};

struct KernelParams {
  Problem problem;
  ScoreConstants score;
  float* neg_lse;    // (total_q, heads), log2 units
  float* neg_delta;  // (total_q, heads)
  HeadsDivisor by_heads;
  RowCursor row_step;   // 8 rows further
  RowCursor copy_step;  // half of kKeyRows rows further
  RowCursor key_step;   // kKeyRows rows further
  int key_ctas;  // of the key kernel: one for each key slot, or, with turns, as many as fit the card
  float* sum_dk;  // (total_k, 160) so far, of tiles that CTAs share
  float* sum_dv;  // (total_k, 160) so far
  int* turns;  // whose turn it is to add to a tile's sums, for each warp; null: no tile is shared
  int turn_count;

  CUTE_HOST_DEVICE Segments q_segments() const {
    return {problem.cu_q, problem.total_q, problem.batch};
  }
  CUTE_HOST_DEVICE Segments k_segments() const {
    return {problem.cu_k, problem.total_k, problem.batch};
  }
  CUTE_HOST_DEVICE Cut row_cut(int block) const {
    return {q_segments(), k_segments(), /*own_is_q=*/true, problem.heads, block};
  }
  CUTE_HOST_DEVICE Cut key_cut(int block) const {
    return {k_segments(), q_segments(), /*own_is_q=*/false, /*items_per_token=*/1, block};
  }
};

// Log2 ALiBi slope of a head, negated; 0 without slopes.
CUTE_HOST_DEVICE float neg_log2_slope(Problem const& p, int sequence, int head) {
  if (!p.slopes) return 0.0f;
  return -kLog2E * p.slopes[sequence * p.slope_batch_stride + head * p.slope_head_stride];
}

}  // namespace ragged_attention
