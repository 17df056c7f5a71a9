// Features in quad order, for tiles that are written once and read often.
//
// Each block of 32 features, a row of four 16-byte chunks of four 4-byte words, is transposed as a 4 x 4
// matrix of words. Lane t of a quad then holds, in all fragments and accumulators of the block, just the
// features 8t to 8t + 7: its part of a row comes from global memory, and goes there, in 16-byte pieces,
// without shared memory or shuffles. Products over features are the same in any order that both operands
// share; products over tokens leave their results in the order of their B operand.
#pragma once

#include "warp_mma.h"

namespace ragged_attention {

// Block `block` of a row from global memory to a shared tile of 16 tokens; zeros if it is not valid,
// because 0 * NaN is NaN.
template <class Element>
CUTE_DEVICE void copy_in_quad_order(Element const* source, Element* tile, int row, int block,
                                    bool valid) {
  uint32_t words[4][4];  // (chunk, word)
  CUTE_UNROLL
  for (int chunk = 0; chunk < 4; ++chunk) {
    auto const* const from = reinterpret_cast<uint4 const*>(source + block * 32 + chunk * 8);
    uint4 const loaded = valid ? __ldg(from) : uint4{};
    words[chunk][0] = loaded.x;
    words[chunk][1] = loaded.y;
    words[chunk][2] = loaded.z;
    words[chunk][3] = loaded.w;
  }
  CUTE_UNROLL
  for (int word = 0; word < 4; ++word) {
    *reinterpret_cast<uint4*>(tile + TileLayout<16>{}(row, block * 32 + word * 8)) =
        make_uint4(words[0][word], words[1][word], words[2][word], words[3][word]);
  }
}

// A warp's 16 rows, the A operand of products over features, straight from global memory.
template <class Element>
struct QuadOrderOperand {
  decltype(make_tensor<Element>(Shape<Shape<_2, _2, _2>, _1, Int<kFeatureSteps>>{})) rA;

  // Half 0 or 1 of the fragments: row lane / 4 or lane / 4 + 8.
  CUTE_DEVICE void load(int half, Element const* row, int lane) {
    Tensor words = recast<uint32_t>(rA);  // ((1,2,2),1,10)
    CUTE_UNROLL
    for (int block = 0; block < kHeadDim / 32; ++block) {
      uint4 const chunk = __ldg(reinterpret_cast<uint4 const*>(row + block * 32 + lane % 4 * 8));
      words(make_coord(0, half, 0), 0, 2 * block) = chunk.x;
      words(make_coord(0, half, 1), 0, 2 * block) = chunk.y;
      words(make_coord(0, half, 0), 0, 2 * block + 1) = chunk.z;
      words(make_coord(0, half, 1), 0, 2 * block + 1) = chunk.w;
    }
  }
  // After both loads. Fragments take their registers from two loads; unless something is done to them
  // that the compiler cannot see through, it moves them together anew before every product.
  CUTE_DEVICE void settle() {
    unsigned const zero = blockIdx.y;
    Tensor words = recast<uint32_t>(rA);
    CUTE_UNROLL
    for (int i = 0; i < size(words); ++i) words(i) ^= zero;
  }
  CUTE_DEVICE auto operator()(int step) const { return rA(_, _, step); }  // ((2,2,2),1)
};

// Rounds one row of accumulators tCrC ((2,2),1,20), times `factor`, to 16 bits and writes it.
template <class Element, class Engine, class L>
CUTE_DEVICE void store_in_quad_order(Tensor<Engine, L> const& tCrC, int half, float factor,
                                     Element* row, int lane) {
  auto const word = [&](int n) {
    return pack<Element>(tCrC(make_coord(0, half), 0, n) * factor,
                         tCrC(make_coord(1, half), 0, n) * factor);
  };
  CUTE_UNROLL
  for (int block = 0; block < kHeadDim / 32; ++block) {
    *reinterpret_cast<uint4*>(row + block * 32 + lane % 4 * 8) =
        make_uint4(word(4 * block), word(4 * block + 1), word(4 * block + 2), word(4 * block + 3));
  }
}

}  // namespace ragged_attention
