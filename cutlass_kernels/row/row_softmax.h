// Between the products of the row kernel: scores to probabilities, and to the weights of dX.
#pragma once

#include <cfloat>

#include "../device/warp_mma.h"
#include "../ragged.h"
#include "../score.h"
#include "row_score.h"

namespace ragged_attention {

// A warp's softmax over its rows. A thread holds columns 2t, 2t+1 of each 8-wide tile, in rows g and
// g + 8 of each strip (g = lane / 4, t = lane % 4); `half` tells the two rows apart.
template <class T>
struct RowSoftmax {
  using Element = typename T::Element;
  static constexpr bool kRunningMaximum = T::kKind == ScoreKind::kGeneral;
  static constexpr int kTiles = T::kBlockN / 8;  // 8-wide tiles of a block of keys

  ScoreConstants constants;
  typename T::Scores scores;  // of this warp's rows
  Tile const& tile;
  int lane;
  float sum[T::kStrips][2];                            // of this thread's columns
  float maximum[kRunningMaximum ? T::kStrips : 1][2];  // of the whole row, log2 units

  CUTE_DEVICE RowSoftmax(ScoreConstants const& constants, typename T::Scores const& scores,
                         Tile const& tile, int lane)
      : constants(constants), scores(scores), tile(tile), lane(lane) {
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) sum[m][0] = sum[m][1] = 0.0f;
    CUTE_UNROLL
    for (int m = 0; m < (kRunningMaximum ? T::kStrips : 1); ++m) {
      maximum[m][0] = maximum[m][1] = -FLT_MAX;
    }
  }

  CUTE_DEVICE int row(int m, int half) const { return m * 16 + half * 8 + lane / 4; }
  CUTE_DEVICE RowScore const& score(int m, int half) const { return scores.get(m, half); }

  // Distance of a row at `position` to column (n, e) of the block that begins at `key`.
  CUTE_DEVICE float distance(float position, int key, int n, int e) const {
    return (position - static_cast<float>(key + 2 * (lane & 3))) - static_cast<float>(8 * n + e);
  }
  CUTE_DEVICE bool beyond_keys(int key, int n, int e) const {
    return key + 8 * n + 2 * (lane & 3) + e >= tile.keys;
  }

  // Overwrites S by P, unnormalised, adds it to the sums and returns it as an A operand. Without
  // kMayEnd the keys reach past the block, and the test is spared.
  template <bool kMayEnd, class TensorS, class TensorO>
  CUTE_DEVICE auto probabilities(TensorS& tSrS, TensorO& tOrO, int key) {
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        if constexpr (kRunningMaximum) {
          rescale<kMayEnd>(tSrS, tOrO, m, half, key);
        } else {
          exponentiate(tSrS, m, half, key, [](auto...) {});
        }
      }
    }
    return mask_and_sum<kMayEnd>(tSrS, key);
  }

  // The same of a known reference, with the weights P (1 - t^2) beside.
  template <bool kMayEnd, class TensorS>
  CUTE_DEVICE auto probabilities_and_weights(TensorS& tSrS, TensorS& tSrW, int key) {
    static_assert(!kRunningMaximum, "a later maximum would rescale the weights");
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        exponentiate(tSrS, m, half, key, [&](float p, float t, auto const& at, int n) {
          tSrW(at, m, n) = times_squash_derivative<T::kKind>(p, t, constants);
        });
      }
    }
    if constexpr (kMayEnd) mask_keys(tSrW, key);
    return mask_and_sum<kMayEnd>(tSrS, key);
  }

  // S to P against the known reference; calls also(p, t, coordinate, tile) for each.
  template <class TensorS, class Also>
  CUTE_DEVICE void exponentiate(TensorS& tSrS, int m, int half, int key, Also const& also) const {
    RowScore const row = score(m, half);
    CUTE_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      auto const at = make_coord(i % 2, half);
      float& s = tSrS(at, m, i / 2);
      float const t = squash<T::kKind>(s, constants);
      s = probability<T::kKind>(t, row.neg_slope, distance(row.position, key, i / 2, i % 2),
                                row.neg_reference, constants);
      also(s, t, at, i / 2);
    }
  }

  template <bool kMayEnd, class TensorS>
  CUTE_DEVICE auto mask_and_sum(TensorS& tSrS, int key) {
    if constexpr (kMayEnd) mask_keys(tSrS, key);
    Tensor const tOrP = pack_operand<Element>(tSrS);
    add_to_sums(tOrP);
    return tOrP;
  }

  // Adds up P as it was rounded: O and its divisor then err alike, and one key alone gives v exactly.
  template <class TensorP>
  CUTE_DEVICE void add_to_sums(TensorP const& tOrP) {
    Tensor pairs = recast<uint32_t const>(tOrP);  // ((1,2,2),M,N/2)
    CUTE_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      CUTE_UNROLL
      for (int m = 0; m < T::kStrips; ++m) {
        CUTE_UNROLL
        for (int half = 0; half < 2; ++half) {
          float2 const p = unpack<Element>(pairs(make_coord(0, half, n % 2), m, n / 2));
          sum[m][half] += p.x + p.y;
        }
      }
    }
  }

  // S to P against the running maximum, which may rise: then what came before shrinks.
  template <bool kMayEnd, class TensorS, class TensorO>
  CUTE_DEVICE void rescale(TensorS& tSrS, TensorO& tOrO, int m, int half, int key) {
    RowScore const row = score(m, half);
    float highest = maximum[m][half];
    CUTE_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      float& s = tSrS(make_coord(i % 2, half), m, i / 2);
      s = logit<T::kKind>(squash<T::kKind>(s, constants), row.neg_slope,
                          distance(row.position, key, i / 2, i % 2), constants);
      if (!kMayEnd || !beyond_keys(key, i / 2, i % 2)) highest = fmaxf(highest, s);
    }
    highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
    float const shrink = exp2_approx(maximum[m][half] - highest);
    maximum[m][half] = highest;
    sum[m][half] *= shrink;
    CUTE_UNROLL
    for (int i = 0; i < 2 * kFeatureTiles; ++i) {
      tOrO(make_coord(i % 2, half), m, i / 2) *= shrink;
    }
    CUTE_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      float& s = tSrS(make_coord(i % 2, half), m, i / 2);
      s = exp2_approx(s - highest);
    }
  }

  template <class TensorS>
  CUTE_DEVICE void mask_keys(TensorS& tSrS, int key) const {
    if (key + T::kBlockN <= tile.keys) return;
    CUTE_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      if (!beyond_keys(key, i / 2, i % 2)) continue;
      CUTE_UNROLL
      for (int m = 0; m < T::kStrips; ++m) {
        tSrS(make_coord(i % 2, 0), m, i / 2) = 0.0f;
        tSrS(make_coord(i % 2, 1), m, i / 2) = 0.0f;
      }
    }
  }

  // After sweep 1: whole sums, delta = dout . O / sum, and -lse as the reference from here on.
  template <class TensorO, class Operand>
  CUTE_DEVICE void finish(TensorO const& tOrO, Operand const& dout) {
    float delta[T::kStrips][2] = {};
    CUTE_UNROLL
    for (int step = 0; step < kFeatureSteps; ++step) {
      auto const tOrdO = dout(step);  // ((2,2,2),M)
      CUTE_UNROLL
      for (int m = 0; m < T::kStrips; ++m) {
        CUTE_UNROLL
        for (int half = 0; half < 2; ++half) {
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) {
            delta[m][half] += static_cast<float>(tOrdO(make_coord(i % 2, half, i / 2), m)) *
                              tOrO(make_coord(i % 2, half), m, 2 * step + i / 2);
          }
        }
      }
    }
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        sum[m][half] = quad_sum(sum[m][half]);
        float const neg_delta = -quad_sum(delta[m][half]) * inverse_sum(m, half);
        RowScore row = score(m, half);
        row.neg_reference =
            (kRunningMaximum ? -maximum[m][half] : row.neg_reference) - __log2f(sum[m][half]);
        row.neg_delta = neg_delta;
        scores.set(m, half, row);
      }
    }
  }

  CUTE_DEVICE static float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
  }

  // Without the exact division's slow path, whose call would cost registers.
  CUTE_DEVICE float inverse_sum(int m, int half) const { return __fdividef(1.0f, sum[m][half]); }

  // dP counted from -delta saves the subtraction in dX = w (dP - delta).
  template <class TensorP>
  CUTE_DEVICE void start_at_neg_delta(TensorP& tSrdP) const {
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const neg_delta = score(m, half).neg_delta;
        CUTE_UNROLL
        for (int i = 0; i < 2 * kTiles; ++i) {
          tSrdP(make_coord(i % 2, half), m, i / 2) = neg_delta;
        }
      }
    }
  }

  // Overwrites part `part` of `parts` of S by w = P (1 - t^2); past the keys by 0 once all is done.
  template <class TensorS>
  CUTE_DEVICE void weigh(TensorS& tSrS, int key, int part, int parts) const {
    constexpr int kValues = T::kStrips * 4 * kTiles;
    CUTE_UNROLL
    for (int v = 0; v < kValues; ++v) {
      if (v * parts / kValues != part) continue;
      int const e = v % 2, n = v / 2 % kTiles, half = v / (2 * kTiles) % 2, m = v / (4 * kTiles);
      RowScore const row = score(m, half);
      float& s = tSrS(make_coord(e, half), m, n);
      float const t = squash<T::kKind>(s, constants);
      s = times_squash_derivative<T::kKind>(
          probability<T::kKind>(t, row.neg_slope, distance(row.position, key, n, e),
                                row.neg_reference, constants),
          t, constants);
    }
  }
};

}  // namespace ragged_attention
