// What the row kernels read and write: rows of q and dout, what a row brings to its scores, results.
#pragma once

#include "../device/overlap.h"
#include "../device/store.h"
#include "../params.h"
#include "row_score.h"

namespace ragged_attention {

// What every row kernel does first: the key kernel may start, and its turns begin at 0.
CUTE_DEVICE void prepare_key_kernel(KernelParams const& params, int threads) {
  let_next_kernel_start();
  if (!params.turns) return;
  for (int i = blockIdx.x * threads + threadIdx.x; i < params.turn_count;
       i += gridDim.x * threads) {
    params.turns[i] = 0;
  }
}

// Rows without a key: out = dq = 0.
CUTE_DEVICE void store_zero_rows(Problem const& p, int64_t packed_row, int rows, int threads) {
  int64_t const begin = packed_row * kHeadDim / 8;
  for (int i = threadIdx.x; i < rows * (kHeadDim / 8); i += threads) {
    static_cast<uint4*>(p.out)[begin + i] = uint4{};
    static_cast<uint4*>(p.dq)[begin + i] = uint4{};
  }
}

// Starts the copies of a warp's rows of q or dout: `rows` rows from `first_row` of the sequence on.
template <class T>
CUTE_DEVICE void copy_rows(KernelParams const& params, View const& view, Tile const& tile,
                           int first_row, int rows, typename T::Element* target, int lane) {
  int const chunk = lane % 4;
  RowCursor cursor(first_row + lane / 4, params.by_heads);
  CUTE_UNROLL
  for (int i = 0; i < T::kWarpRows / 8;
       ++i, cursor.advance(params.row_step, params.by_heads.heads)) {
    int const row = i * 8 + lane / 4;
    bool const valid = row < rows;
    int64_t const token = tile.q_begin + (valid ? cursor.token : 0);
    int const head = valid ? cursor.head : 0;
    auto const* const source = static_cast<typename T::Element const*>(view.data) +
                               token * view.token_stride + head * view.head_stride;
    copy_row_async<T::kWarpRows>(source + chunk * 8,
                                 chunk_address<T::kWarpRows>(target, row, chunk), valid);
  }
}

CUTE_DEVICE RowScore make_row_score(Tile const& tile, int token, float neg_slope) {
  int const position = token + tile.shift();
  float const neg_reference = neg_bias_maximum(neg_slope, position, tile.keys) - kReferenceMargin;
  return {neg_slope, static_cast<float>(position), neg_reference, 0.0f};
}

// The RowScores of the same rows; a warp barrier has to follow.
template <class T>
CUTE_DEVICE void fill_scores(KernelParams const& params, Tile const& tile, int first_row, int rows,
                             RowScore* scores, int lane) {
  if (lane >= T::kWarpRows) return;
  RowCursor const row(first_row + lane, params.by_heads);
  float const neg_slope =
      lane < rows ? neg_log2_slope(params.problem, tile.sequence, row.head) : 0.0f;
  scores[lane] = make_row_score(tile, row.token, neg_slope);
}

// What the key kernel needs of a row, written by one lane of its quad.
CUTE_DEVICE void store_statistics(KernelParams const& params, RowScore const& score,
                                  int64_t packed_row, bool valid, int lane) {
  if (!valid || lane % 4 != 0) return;
  params.neg_lse[packed_row] = score.neg_reference;
  params.neg_delta[packed_row] = score.neg_delta;
}

}  // namespace ragged_attention
