// Splits add to the sums of a key tile one after the other, so that results repeat bit for bit.
//
// A split waits only for CTAs with a lower index, which have started before it.
#pragma once

#include <cute/config.hpp>

namespace ragged_attention {

// All threads of the CTA: returns once `turn` is this split's, and sees what came before.
CUTE_DEVICE void wait_for_turn(int const* turn, int split) {
  if (threadIdx.x == 0) {
    int current;
    do {
      asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(current) : "l"(turn) : "memory");
    } while (current != split);
  }
  __syncthreads();
}

// All threads of the CTA: what they have written is there for the split whose turn is next.
CUTE_DEVICE void pass_turn(int* turn, int next) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
  }
}

}  // namespace ragged_attention
