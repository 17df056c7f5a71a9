// The stream of K and V tiles that all warps of a row CTA read, once in each of the two sweeps.
#pragma once

#include "../params.h"
#include "row_traits.h"

namespace ragged_attention {

template <class T>
struct KeyRing {
  using Element = typename T::Element;
  static constexpr int kStageElements = sizeof(typename T::Stage) / sizeof(Element);

  typename T::SharedStorage& shared;
  Problem const& problem;
  RingPosition<T::kStages> position;

  CUTE_DEVICE KeyRing(typename T::SharedStorage& shared, Problem const& problem)
      : shared(shared), problem(problem) {}

  // One thread of the CTA; a CTA barrier has to follow.
  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      mbarrier_init(&shared.full[stage], T::kThreads);
      mbarrier_init(&shared.empty[stage], T::kThreads);
    }
  }

  // Keys of a sweep, in whole tiles. Keys are counted on through both sweeps: the tile at `key` of the
  // second is the one at sweep_keys() + key.
  CUTE_DEVICE int sweep_keys() const {
    return (shared.tile.keys + T::kBlockN - 1) / T::kBlockN * T::kBlockN;
  }

  // A thread copies a quarter of one row of K or V, and derives all it needs anew: registers are short.
  CUTE_DEVICE void copy(int key, int stage_index) {
    Tile const& tile = shared.tile;
    auto& stage = shared.tiles.stages[stage_index];
    bool const is_v = threadIdx.x >= T::kBlockN * 4;
    int const chunk = threadIdx.x % 4, row = threadIdx.x / 4 % T::kBlockN;
    key += row - (key >= sweep_keys() ? sweep_keys() : 0);
    bool const valid = key < tile.keys;
    View const& view = is_v ? problem.v : problem.k;
    int64_t const token = tile.k_begin + (valid ? key : 0);
    copy_row_async<T::kBlockN>(
        static_cast<Element const*>(view.data) + token * view.token_stride + chunk * 8,
        chunk_address<T::kBlockN>(is_v ? stage.v : stage.k, row, chunk), valid);
    mbarrier_arrive_when_copied(&shared.full[stage_index]);
  }

  // All stages but one, which stays free for the slowest warp.
  CUTE_DEVICE void fill() {
    for (int stage = 0; stage < T::kStages - 1; ++stage) {
      if (stage * T::kBlockN < 2 * sweep_keys()) copy(stage * T::kBlockN, stage);
    }
  }

  // Waits for the next tile; its offset in elements from stage 0.
  CUTE_DEVICE int acquire() const {
    mbarrier_wait(&shared.full[position.stage()], position.parity());
    return position.stage() * kStageElements;
  }

  // This thread has read the tile at `key`; refills the stage that all threads have left by now, or soon.
  CUTE_DEVICE void release(int key) {
    mbarrier_arrive(&shared.empty[position.stage()]);
    key += (T::kStages - 1) * T::kBlockN;
    if (key < 2 * sweep_keys()) {
      auto const refill = position.refill();
      mbarrier_wait(&shared.empty[refill.stage()], refill.parity() ^ 1);
      copy(key, refill.stage());
    }
    position.advance();
  }
};

}  // namespace ragged_attention
