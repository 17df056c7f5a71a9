// What the kernels receive: the problem, its workspace and constants that the host derives once.
#pragma once

#include "api.h"
#include "ragged.h"
#include "score.h"

namespace ragged_attention {

struct KernelParams {
  Problem problem;
  ScoreConstants score;
  float* neg_lse;     // (total_q, heads), log2 units
  float* neg_delta;   // (total_q, heads)
  float* partial_dk;  // (splits, total_k, 160) when splits > 1
  float* partial_dv;  // (splits, total_k, 160) when splits > 1
  int splits;         // parts of the rows whose dk, dv are summed apart

  CUTE_HOST_DEVICE Segments q_segments() const {
    return {problem.cu_q, problem.total_q, problem.batch};
  }
  CUTE_HOST_DEVICE Segments k_segments() const {
    return {problem.cu_k, problem.total_k, problem.batch};
  }
};

// Log2 ALiBi slope of a head, negated; 0 without slopes.
CUTE_HOST_DEVICE float neg_log2_slope(Problem const& p, int sequence, int head) {
  if (!p.slopes) return 0.0f;
  return -kLog2E * p.slopes[sequence * p.slope_batch_stride + head * p.slope_head_stride];
}

// Query token and head of a packed row; moves on by addition, because divisions are dear in a loop.
struct RowCursor {
  int token;
  int head;

  CUTE_HOST_DEVICE RowCursor(int row, int heads) : token(row / heads), head(row - token * heads) {}

  CUTE_HOST_DEVICE void advance(int rows, int heads) {
    for (head += rows; head >= heads; head -= heads) ++token;
  }
};

}  // namespace ragged_attention
