// mbarriers from sm_80 on. CUTLASS has them from sm_90 on only, hence these lines of PTX.
//
// A ring of shared-memory stages has two barriers a stage: `full` completes when every copying thread's
// cp.async of that stage has landed, `empty` when every consuming thread has read it. Every lane arrives
// by itself: it costs no more than one lane for its warp, and race checkers can follow it. Warps then drift
// apart by up to the depth of the ring, where a CTA barrier would lock them to the slowest.
#pragma once

#include <cstdint>
#include <cute/arch/util.hpp>

namespace ragged_attention {

using cute::cast_smem_ptr_to_uint;

CUTE_DEVICE void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(cast_smem_ptr_to_uint(barrier)),
               "r"(arrivals)
               : "memory");
}

// Before its memory is put to other use, initialising it anew included.
CUTE_DEVICE void mbarrier_invalidate(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(cast_smem_ptr_to_uint(barrier)) : "memory");
}

CUTE_DEVICE void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(
                   cast_smem_ptr_to_uint(barrier))
               : "memory");
}

// Arrives once all cp.async that this thread has issued so far have landed.
CUTE_DEVICE void mbarrier_arrive_when_copied(uint64_t* barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(cast_smem_ptr_to_uint(barrier))
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

// A place in a ring: which stage, and the parity of the stage's current phase. One register for both.
template <int kStages>
struct RingPosition {
  int step = 0;  // within two rounds

  CUTE_DEVICE int stage() const { return step < kStages ? step : step - kStages; }
  CUTE_DEVICE uint32_t parity() const { return step < kStages ? 0 : 1; }
  CUTE_DEVICE void advance() { step = step + 1 == 2 * kStages ? 0 : step + 1; }

  // The place kStages - 1 steps further on, to be refilled: the stage before this one.
  CUTE_DEVICE RingPosition refill() const {
    int const next = step + kStages - 1;
    return {next < 2 * kStages ? next : next - 2 * kStages};
  }
};

}  // namespace ragged_attention
