// From accumulators to global memory.
#pragma once

#include "warp_mma.h"

namespace ragged_attention {

// Transposes 4 registers over the 4 lanes of a quad: lane i's register j becomes lane j's register i.
CUTE_DEVICE void transpose_in_quad(uint32_t (&r)[4], int lane) {
  bool const odd = lane & 1;
  uint32_t const a = __shfl_xor_sync(~0u, odd ? r[0] : r[1], 1);
  uint32_t const b = __shfl_xor_sync(~0u, odd ? r[2] : r[3], 1);
  (odd ? r[0] : r[1]) = a;
  (odd ? r[2] : r[3]) = b;
  bool const high = lane & 2;
  uint32_t const c = __shfl_xor_sync(~0u, high ? r[0] : r[2], 2);
  uint32_t const d = __shfl_xor_sync(~0u, high ? r[1] : r[3], 2);
  (high ? r[0] : r[2]) = c;
  (high ? r[1] : r[3]) = d;
}

// Rounds one row of accumulators, times `factor`, to 16 bits and writes it in 16-byte pieces.
// A quad of lanes holds the row: half 0 or 1 of strip m of tCrC ((2,2),M,20).
template <class Element, class Engine, class L>
CUTE_DEVICE void store_row(Tensor<Engine, L> const& tCrC, int m, int half, float factor,
                           Element* row, bool valid, int lane) {
  CUTE_UNROLL
  for (int block = 0; block < kFeatureTiles / 4; ++block) {
    uint32_t r[4];
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) {
      r[i] = pack<Element>(tCrC(make_coord(0, half), m, block * 4 + i) * factor,
                           tCrC(make_coord(1, half), m, block * 4 + i) * factor);
    }
    transpose_in_quad(r, lane);
    if (valid) {
      *reinterpret_cast<uint4*>(row + block * 32 + (lane & 3) * 8) =
          make_uint4(r[0], r[1], r[2], r[3]);
    }
  }
}

// Adds a row of fp32 sums to the accumulators; laid out as in store_row.
template <class Engine, class L>
CUTE_DEVICE void add_sums(Tensor<Engine, L>& tCrC, int m, int half, float const* row, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < kFeatureTiles; ++n) {
    float2 const sum = *reinterpret_cast<float2 const*>(row + n * 8 + (lane & 3) * 2);
    tCrC(make_coord(0, half), m, n) += sum.x;
    tCrC(make_coord(1, half), m, n) += sum.y;
  }
}

// Adds to a pair of sums in global memory, without waiting for them.
CUTE_DEVICE void add_to_pair(float* sums, float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(sums), "f"(x), "f"(y) : "memory");
#elif defined(__CUDA_ARCH__)
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums), "f"(x) : "memory");
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums + 1), "f"(y) : "memory");
#else
  sums[0] += x;
  sums[1] += y;
#endif
}

// Makes a row of accumulators the fp32 sums, or adds it to them.
template <bool kAdd, class Engine, class L>
CUTE_DEVICE void store_sums(Tensor<Engine, L> const& tCrC, int m, int half, float* row, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < kFeatureTiles; ++n) {
    float* const sums = row + n * 8 + (lane & 3) * 2;
    float const x = tCrC(make_coord(0, half), m, n), y = tCrC(make_coord(1, half), m, n);
    if constexpr (kAdd) {
      add_to_pair(sums, x, y);
    } else {
      *reinterpret_cast<float2*>(sums) = make_float2(x, y);
    }
  }
}

}  // namespace ragged_attention
