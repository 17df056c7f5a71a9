// mbarriers from sm_80 on. CUTLASS has them from sm_90 on only, hence these lines of PTX.
//
// A ring of shared-memory stages has two barriers a stage: `full` completes when every copying thread's
// cp.async of that stage has landed, `empty` when every consuming warp has read it. Warps then drift
// apart by up to the depth of the ring, where a CTA barrier would lock them to the slowest.
#pragma once

#include <cute/arch/util.hpp>

#include <cstdint>

namespace ragged_attention {

using cute::cast_smem_ptr_to_uint;

CUTE_DEVICE void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(cast_smem_ptr_to_uint(barrier)),
               "r"(arrivals)
               : "memory");
}

CUTE_DEVICE void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                   cast_smem_ptr_to_uint(barrier))
               : "memory");
}

// Arrives once all cp.async that this thread has issued so far have landed.
CUTE_DEVICE void mbarrier_arrive_when_copied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                   cast_smem_ptr_to_uint(barrier))
               : "memory");
}

// Waits for the completion of the phase of this parity.
CUTE_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t const address = cast_smem_ptr_to_uint(barrier);
  uint32_t done;
  do {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
#endif
  } while (!done);
}

// A reader's place in a ring: which stage, and the parity of its current phase.
template <int kStages>
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;

  CUTE_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // The place that kStages - 1 steps further on has to be filled: the stage before this one.
  CUTE_DEVICE RingPosition refill() const {
    return stage == 0 ? RingPosition{kStages - 1, parity} : RingPosition{stage - 1, parity ^ 1};
  }
};

}  // namespace ragged_attention
