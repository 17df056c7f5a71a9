// CTAs that share a key tile add to its sums one after the other, each warp to those of its own keys, so that
// results repeat bit for bit.
//
// A CTA waits only for CTAs with a lower index, which have started before it.
#pragma once

#include <cute/config.hpp>

namespace ragged_attention {

// All lanes of a warp: returns once the counter is at this warp's turn, and sees what came before.
CUTE_DEVICE void wait_for_turn(int const* counter, int turn, int lane) {
  if (lane == 0) {
    int current;
    do {
      asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(current) : "l"(counter) : "memory");
    } while (current != turn);
  }
  __syncwarp();
}

// All lanes of a warp: what they have written is there for the one whose turn is next.
CUTE_DEVICE void pass_turn(int* counter, int next, int lane) {
  __syncwarp();
  if (lane == 0) {
    asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(counter), "r"(next) : "memory");
  }
}

}  // namespace ragged_attention
