// The stream of q and dout tiles, with what their rows bring to the scores, past a CTA's keys.
#pragma once

#include "../params.h"
#include "key_traits.h"

namespace ragged_attention {

template <class T>
struct RowRing {
  using Element = typename T::Element;

  typename T::SharedStorage& shared;
  KernelParams const& params;
  Tile const& tile;
  RowCursor cursor;  // token and head of this thread's row of the next tile to copy
  RingPosition<T::kStages> position;

  CUTE_DEVICE RowRing(typename T::SharedStorage& shared, KernelParams const& params,
                      Tile const& tile, int first_row)
      : shared(shared),
        params(params),
        tile(tile),
        cursor(first_row + (copier() < 0 ? 0 : copier() / 4), params.by_heads) {}

  // This thread's index among the copying threads, or negative.
  CUTE_DEVICE static int copier() {
    return static_cast<int>(threadIdx.x) - (T::kThreads - T::kCopyThreads);
  }

  // One thread of the CTA; a CTA barrier has to follow.
  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      // one arrival by each thread's copies, one more for each row whose rest a thread stores
      mbarrier_init(&shared.full[stage], T::kCopyThreads + T::kBlockM);
      mbarrier_init(&shared.empty[stage], T::kThreads);
    }
  }

  // The next tile; `left` rows are left from its first on.
  CUTE_DEVICE void copy_next(int stage_index, int left) {
    RowCursor row_cursor = cursor;
    CUTE_UNROLL
    for (int i = 0; i < T::kCopyRows; ++i) {
      copy_row(stage_index, left, row_cursor, copier() / 4 + i * (T::kCopyThreads / 4));
      if (i + 1 < T::kCopyRows) row_cursor.advance(params.copy_step, params.by_heads.heads);
    }
    mbarrier_arrive_when_copied(&shared.full[stage_index]);
    cursor.advance(params.key_step, params.by_heads.heads);
  }

  // Row `row` of the tile, at `at` in the sequence.
  CUTE_DEVICE void copy_row(int stage_index, int left, RowCursor const& at, int row) {
    Problem const& p = params.problem;
    auto& stage = shared.tiles.stages[stage_index];
    int const chunk = copier() % 4;
    bool const valid = row < left;
    int64_t const token = tile.q_begin + (valid ? at.token : 0);
    int const head = valid ? at.head : 0;
    auto source = [&](View const& view) {
      return static_cast<Element const*>(view.data) + token * view.token_stride +
             head * view.head_stride + chunk * 8;
    };
    copy_row_async<T::kBlockM>(source(p.q), chunk_address<T::kBlockM>(stage.q, row, chunk), valid);
    copy_row_async<T::kBlockM>(source(p.dout), chunk_address<T::kBlockM>(stage.dout, row, chunk),
                               valid);
    if (chunk != 0) return;
    using CopyFloat = SM80_CP_ASYNC_CACHEALWAYS<float>;
    if (valid) {
      int64_t const packed = token * p.heads + head;
      CopyFloat::copy(params.neg_lse[packed], stage.neg_lse[row]);
      CopyFloat::copy(params.neg_delta[packed], stage.neg_delta[row]);
    } else {
      stage.neg_lse[row] = -INFINITY;  // exp2(-inf) = 0: a row that is not there weighs nothing
      stage.neg_delta[row] = 0.0f;
    }
    stage.neg_slope[row] = shared.neg_slopes[head];
    stage.position[row] = static_cast<float>(at.token + tile.shift());
    mbarrier_arrive(&shared.full[stage_index]);
  }

  // All stages but one, which stays free for the slowest warp.
  CUTE_DEVICE void fill(int left) {
    if (copier() < 0) return;
    for (int stage = 0; stage < T::kStages - 1 && left > 0; ++stage, left -= T::kBlockM) {
      copy_next(stage, left);
    }
  }

  // Waits for the next tile; the index of its stage.
  CUTE_DEVICE int acquire() const {
    mbarrier_wait(&shared.full[position.stage()], position.parity());
    return position.stage();
  }

  // This thread has read the tile, from whose first row on `left` rows were left; the copying warps refill
  // the stage that all have left, or soon will.
  CUTE_DEVICE void release(int left) {
    mbarrier_arrive(&shared.empty[position.stage()]);
    left -= (T::kStages - 1) * T::kBlockM;
    if (copier() >= 0 && left > 0) {
      auto const refill = position.refill();
      mbarrier_wait(&shared.empty[refill.stage()], refill.parity() ^ 1);
      copy_next(refill.stage(), left);
    }
    position.advance();
  }
};

}  // namespace ragged_attention
