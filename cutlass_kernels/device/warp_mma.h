// The two products of a warp: over features (S, dP) and over tokens (O, dQ, dK, dV).
#pragma once

#include <cutlass/numeric_conversion.h>

#include <cute/tensor.hpp>
#include <type_traits>

#include "shared_tile.h"

namespace ragged_attention {

// How often each tensor-core instruction is issued; more than once only in a timing build, where it
// stands in for a card whose tensor cores are slower. Results are then wrong.
#ifndef RAGGED_ATTENTION_MMA_REPEAT
#define RAGGED_ATTENTION_MMA_REPEAT 1
#endif

template <class Element>
using MmaOp = std::conditional_t<std::is_same_v<Element, half_t>, SM80_16x8x16_F32F16F16F32_TN,
                                 SM80_16x8x16_F32BF16BF16F32_TN>;

// One warp; fragments are ((2,2,2),M,K), ((2,2),N,K), ((2,2),M,N) for A, B, C.
template <class Element>
using WarpMma = TiledMMA<MMA_Atom<MmaOp<Element>>, Layout<Shape<_1, _1, _1>>>;

constexpr int kFeatureSteps = kHeadDim / 16;  // MMA steps of 16 along the features
constexpr int kFeatureTiles = kHeadDim / 8;   // MMA tiles of 8 along the features

template <class Element, int kM, int kN>
CUTE_DEVICE auto make_accumulator() {
  return partition_fragment_C(WarpMma<Element>{}, Shape<Int<kM>, Int<kN>>{});  // ((2,2),M/16,N/8)
}

// Tiles 2n and 2n + 1 of C ((2,2),M,N) += A ((2,2,2),M) B ((2,2),2). A timing build's repetitions of one
// instruction are not neighbours, which would wait for each other.
template <class Element, class A, class B, class C>
CUTE_DEVICE void multiply_add(A const& tCrA, B const& tCrB, C& tCrC, int n) {
  CUTE_UNROLL
  for (int repeat = 0; repeat < RAGGED_ATTENTION_MMA_REPEAT; ++repeat) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      CUTE_UNROLL
      for (int m = 0; m < size<1>(tCrC); ++m) {
        gemm(WarpMma<Element>{}, tCrA(_, m), tCrB(_, half), tCrC(_, m, 2 * n + half));
      }
    }
  }
}

// A warp's own rows, the A operand of products over features: kept in registers ...
template <class Element, int kStrips, int kRows>
struct RegisterOperand {
  decltype(make_tensor<Element>(Shape<Shape<_2, _2, _2>, Int<kStrips>, Int<kFeatureSteps>>{})) rA;

  CUTE_DEVICE explicit RegisterOperand(
      FragmentSource<Element, kRows, Order::kRowsFirst> const& source) {
    CUTE_UNROLL
    for (int step = 0; step < kFeatureSteps; ++step) {
      CUTE_UNROLL
      for (int m = 0; m < kStrips; ++m)
        load_fragment<SM75_U32x4_LDSM_N>(source.at(m, step), rA(_, m, step));
    }
  }
  CUTE_DEVICE auto operator()(int step) const { return rA(_, _, step); }  // ((2,2,2),M)
};

// ... or read from shared memory again for every step.
template <class Element, int kStrips, int kRows>
struct SharedOperand {
  FragmentSource<Element, kRows, Order::kRowsFirst> source;

  CUTE_DEVICE explicit SharedOperand(
      FragmentSource<Element, kRows, Order::kRowsFirst> const& source)
      : source(source) {}
  CUTE_DEVICE auto operator()(int step) const {
    Tensor rA = make_tensor<Element>(Shape<Shape<_2, _2, _2>, Int<kStrips>>{});  // ((2,2,2),M)
    CUTE_UNROLL
    for (int m = 0; m < kStrips; ++m)
      load_fragment<SM75_U32x4_LDSM_N>(source.at(m, step), rA(_, m));
    return rA;
  }
};

template <class Element, int kStrips, int kRows>
using WarpOperand = std::conditional_t<kStrips == 1, RegisterOperand<Element, kStrips, kRows>,
                                       SharedOperand<Element, kStrips, kRows>>;

// One step of C (M,N) += A (M,160) B (N,160)^T: features [16 * step, +16), N tokens of the tile b.
template <class Element, class C, class A, int kRows>
CUTE_DEVICE void feature_step(C& tCrC, A const& tCrA,
                              FragmentSource<Element, kRows, Order::kChunksFirst> const& b,
                              int step) {
  CUTE_UNROLL
  for (int n = 0; n < size<2>(tCrC) / 2; ++n) {
    Tensor tCrB = make_tensor<Element>(Shape<Shape<_2, _2>, _2>{});  // ((2,2),N)
    load_fragment<SM75_U32x4_LDSM_N>(b.at(n, step), tCrB);
    multiply_add<Element>(tCrA, tCrB, tCrC, n);
  }
}

// One step of C (M,160) += A (M,K) B (K,160): tokens [16 * k, +16) of the tile b, features [16 * d, +16).
template <class Element, class C, class A, int kRows>
CUTE_DEVICE void token_step(C& tCrC, A const& tCrA,
                            FragmentSource<Element, kRows, Order::kRowsFirst> const& b, int k,
                            int d) {
  Tensor tCrB = make_tensor<Element>(Shape<Shape<_2, _2>, _2>{});  // ((2,2),N)
  load_fragment<SM75_U16x8_LDSM_T>(b.at(k, d), tCrB);
  multiply_add<Element>(tCrA(_, _, k), tCrB, tCrC, d);
}

struct Nothing {
  CUTE_DEVICE void operator()(int) const {}
};

// C (M,N) += A (M,160) B (N,160)^T. `between(step)` runs after each step, so that other work fills the
// gaps between tensor instructions.
template <class Element, class C, class A, int kRows, class Between = Nothing>
CUTE_DEVICE void multiply_over_features(
    C& tCrC, A const& a, FragmentSource<Element, kRows, Order::kChunksFirst> const& b,
    Between between = {}) {
  CUTE_UNROLL
  for (int step = 0; step < kFeatureSteps; ++step) {
    feature_step<Element>(tCrC, a(step), b, step);
    between(step);
  }
}

// C (M,160) += A (M,K) B (K,160); A as accumulators left it, packed to 16 bits.
template <class Element, class C, class A, int kRows>
CUTE_DEVICE void multiply_over_tokens(C& tCrC, A const& tCrA,
                                      FragmentSource<Element, kRows, Order::kRowsFirst> const& b) {
  CUTE_UNROLL
  for (int k = 0; k < size<2>(tCrA); ++k) {
    CUTE_UNROLL
    for (int d = 0; d < kFeatureSteps; ++d) token_step<Element>(tCrC, tCrA, b, k, d);
  }
}

// Two fp32 to a register of two 16-bit values, rounded to nearest even.
template <class Element>
CUTE_DEVICE uint32_t pack(float low, float high) {
  cutlass::Array<float, 2> const pair{low, high};
  auto const rounded = cutlass::NumericArrayConverter<Element, float, 2>::convert(pair);
  return reinterpret_cast<uint32_t const&>(rounded);
}

template <class Element>
CUTE_DEVICE float2 unpack(uint32_t pair) {
  auto const& wide = cutlass::NumericArrayConverter<float, Element, 2>::convert(
      reinterpret_cast<cutlass::Array<Element, 2> const&>(pair));
  return {wide[0], wide[1]};
}

template <int kM, int kK>
using OperandShape = Shape<Shape<_2, _2, _2>, Int<kM / 16>, Int<kK / 16>>;  // ((2,2,2),M,K)

template <class Element, int kM, int kK>
CUTE_DEVICE auto make_operand() {
  return make_tensor<Element>(OperandShape<kM, kK>{});
}

// Rounds accumulators ((2,2),M,N) to 16 bits, into an A operand ((2,2,2),M,N/2): what a thread holds of
// C is what it needs of A.
template <class EngineC, class LC, class Operand>
CUTE_DEVICE void pack_operand(Tensor<EngineC, LC> const& tCrC, Operand&& tCrA) {
  using Element = typename std::remove_reference_t<Operand>::value_type;
  Tensor pairs = recast<uint32_t>(tCrA);  // ((1,2,2),M,N/2)
  CUTE_UNROLL
  for (int n = 0; n < size<2>(LC{}); ++n) {
    CUTE_UNROLL
    for (int m = 0; m < size<1>(LC{}); ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        pairs(make_coord(0, half, n % 2), m, n / 2) =
            pack<Element>(tCrC(make_coord(0, half), m, n), tCrC(make_coord(1, half), m, n));
      }
    }
  }
}

template <class Element, class Engine, class L>
CUTE_DEVICE auto pack_operand(Tensor<Engine, L> const& tCrC) {
  Tensor tCrA = make_operand<Element, 16 * size<1>(L{}), 8 * size<2>(L{})>();
  pack_operand(tCrC, tCrA);
  return tCrA;
}

// C *= D, where D is 16-bit: an A operand as pack_operand left it.
template <class Element, class EngineC, class LC, class EngineA, class LA>
CUTE_DEVICE void scale_by_operand(Tensor<EngineC, LC>& tCrC, Tensor<EngineA, LA> const& tCrA) {
  Tensor pairs = recast<uint32_t const>(tCrA);  // ((1,2,2),M,N/2)
  CUTE_UNROLL
  for (int n = 0; n < size<2>(LC{}); ++n) {
    CUTE_UNROLL
    for (int m = 0; m < size<1>(LC{}); ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float2 const factor = unpack<Element>(pairs(make_coord(0, half, n % 2), m, n / 2));
        tCrC(make_coord(0, half), m, n) *= factor.x;
        tCrC(make_coord(1, half), m, n) *= factor.y;
      }
    }
  }
}

}  // namespace ragged_attention
