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
  Element const* source;  // this thread's quarter row of K or V, in the first tile
  Element* target;        // where it goes in stage 0
  int keys;
  RingPosition<T::kStages> position;

  CUTE_DEVICE KeyRing(typename T::SharedStorage& shared, Problem const& problem)
      : shared(shared), problem(problem), keys(shared.tile.keys) {
    int const chunk = threadIdx.x % 4;
    auto& stage = shared.tiles.stages[0];
    source = static_cast<Element const*>(copies_v() ? problem.v.data : problem.k.data) +
             (shared.tile.k_begin + row()) * stride() + chunk * 8;
    int offset = static_cast<int>(
        chunk_address<T::kBlockN>(copies_v() ? stage.v : stage.k, row(), chunk) - stage.k);
    // or the compiler derives them anew at every copy
    asm volatile("" : "+l"(source), "+r"(offset));
    target = stage.k + offset;
  }

  // Derived where they are needed: registers are short.
  CUTE_DEVICE static bool copies_v() { return threadIdx.x >= T::kBlockN * 4; }
  CUTE_DEVICE static int row() { return threadIdx.x / 4 % T::kBlockN; }
  CUTE_DEVICE int64_t stride() const {
    return copies_v() ? problem.v.token_stride : problem.k.token_stride;
  }

  // One thread of the CTA; a CTA barrier has to follow.
  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int stage = 0; stage < T::kStages; ++stage) {
      mbarrier_init(&shared.full[stage], T::kThreads);
      mbarrier_init(&shared.empty[stage], T::kThreads);
    }
  }

  // One thread, when all have passed their last wait.
  CUTE_DEVICE static void invalidate_barriers(typename T::SharedStorage& shared) {
    for (auto& barrier : shared.full) mbarrier_invalidate(&barrier);
    for (auto& barrier : shared.empty) mbarrier_invalidate(&barrier);
  }

  // Keys of a sweep, in whole tiles. Keys are counted on through both sweeps: the tile at `key` of the
  // second is the one at sweep_keys() + key.
  CUTE_DEVICE int sweep_keys() const { return (keys + T::kBlockN - 1) / T::kBlockN * T::kBlockN; }

  // The tile at `key`, of which a thread copies a quarter of one row of K or V.
  CUTE_DEVICE void copy(int key, int stage) {
    key -= key >= sweep_keys() ? sweep_keys() : 0;
    copy_row_async<T::kBlockN>(source + key * stride(), target + stage * kStageElements,
                               key + row() < keys);
    mbarrier_arrive_when_copied(&shared.full[stage]);
  }

  // Stages [begin, end) at the start of sweep 1; all but one have to be filled, which stays free for the
  // slowest warp.
  CUTE_DEVICE void fill(int begin, int end) {
    for (int stage = begin; stage < end; ++stage) {
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
