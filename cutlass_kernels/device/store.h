// From accumulators to global memory.
#pragma once

#include "warp_mma.h"

namespace ragged_attention {

// Rounds one row of accumulators, times `factor`, to 16 bits and writes it in 8-byte pieces.
// A quad of lanes holds the row: half 0 or 1 of strip m of tCrC ((2,2),M,20). Neighbours swap a pair of
// values of two 8-wide tiles, so that the quad fills whole 32-byte sectors.
template <class Element, class Engine, class L>
CUTE_DEVICE void store_row(Tensor<Engine, L> const& tCrC, int m, int half, float factor,
                           Element* row, bool valid, int lane) {
  bool const odd = lane & 1;
  Element* const target = row + (lane & 1) * 8 + (lane & 2) * 2;
  CUTE_UNROLL
  for (int n = 0; n < kFeatureTiles; n += 2) {
    auto pair = [&](int tile) {
      return pack<Element>(tCrC(make_coord(0, half), m, tile) * factor,
                           tCrC(make_coord(1, half), m, tile) * factor);
    };
    uint32_t const first = pair(n), second = pair(n + 1);
    uint32_t const received = __shfl_xor_sync(~0u, odd ? first : second, 1);
    if (valid) {
      *reinterpret_cast<uint2*>(target + n * 8) =
          odd ? make_uint2(received, second) : make_uint2(first, received);
    }
  }
}

// Adds a row of fp32 sums to the accumulators; laid out as in store_row.
template <class Engine, class L>
CUTE_DEVICE void add_row(Tensor<Engine, L>& tCrC, int m, int half, float const* row, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < kFeatureTiles; ++n) {
    float2 const sum = *reinterpret_cast<float2 const*>(row + n * 8 + (lane & 3) * 2);
    tCrC(make_coord(0, half), m, n) += sum.x;
    tCrC(make_coord(1, half), m, n) += sum.y;
  }
}

// Writes a row of accumulators as fp32 sums.
template <class Engine, class L>
CUTE_DEVICE void store_sums(Tensor<Engine, L> const& tCrC, int m, int half, float* row, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < kFeatureTiles; ++n) {
    *reinterpret_cast<float2*>(row + n * 8 + (lane & 3) * 2) =
        make_float2(tCrC(make_coord(0, half), m, n), tCrC(make_coord(1, half), m, n));
  }
}

}  // namespace ragged_attention
