// dk and dv, by tiles of keys: the rows of q and dout stream past, over all heads.
//
// Warps work in pairs that share their keys. The dV warp does S^T = K Q^T, P^T, dV += P^T dout; its
// partner, the dK warp, does dP^T = V dout^T, dX^T, dK += dX^T Q. Between them goes u = P (1 - t^2).
// So a warp holds one accumulator of keys x 160 and needs only K or only V.
#pragma once

#include "../device/store.h"
#include "key_traits.h"
#include "row_ring.h"

namespace ragged_attention {

enum class Role { kDV, kDK };

// The rows whose contribution split `split` of `splits` sums: [begin, end) of the sequence's rows.
struct RowRange {
  int begin, end;
};
CUTE_HOST_DEVICE RowRange split_rows(int rows, int split, int splits, int block) {
  int const blocks = (rows + block - 1) / block;
  int const share = (blocks + splits - 1) / splits * block;
  int const begin = share * split < rows ? share * split : rows;
  return {begin, begin + share < rows ? begin + share : rows};
}

// Starts the copies of this warp's operand: K for a dV warp, V for a dK warp.
template <class T>
CUTE_DEVICE void load_keys(View const& view, Tile const& tile, int first_key,
                           typename T::Element* target, int lane) {
  using Element = typename T::Element;
  int const chunk = lane % 4;
  CUTE_UNROLL
  for (int row = lane / 4; row < T::kPairKeys; row += 8) {
    bool const valid = first_key + row < tile.keys;
    int64_t const token = tile.k_begin + (valid ? first_key + row : 0);
    copy_row_async<T::kPairKeys>(
        static_cast<Element const*>(view.data) + token * view.token_stride + chunk * 8,
        chunk_address<T::kPairKeys>(target, row, chunk), valid);
  }
  cp_async_fence();
}

// What a thread needs of its two columns (rows of the problem) of the 8-wide tile n.
template <class Array>
CUTE_DEVICE float2 column_pair(Array const& values, int n, int lane) {
  return *reinterpret_cast<float2 const*>(values + 8 * n + 2 * (lane % 4));
}

// S^T to P^T, and u = P^T (1 - t^2) in place of S^T. The thread's first key is `key`.
template <class T, class TensorS>
CUTE_DEVICE auto probabilities(TensorS& tSrS, typename T::Stage const& stage,
                               ScoreConstants const& constants, float key, int lane) {
  using Element = typename T::Element;
  Tensor tSrP = make_accumulator<Element, T::kPairKeys, T::kBlockM>();  // ((2,2),N,M)
  CUTE_UNROLL
  for (int n = 0; n < T::kBlockM / 8; ++n) {
    float2 const neg_lse = column_pair(stage.neg_lse, n, lane);
    float2 const neg_slope = column_pair(stage.neg_slope, n, lane);
    float2 const position = column_pair(stage.position, n, lane);
    CUTE_UNROLL
    for (int i = 0; i < 4 * T::kStrips; ++i) {
      int const e = i % 2, half = i / 2 % 2, m = i / 4;
      float& s = tSrS(make_coord(e, half), m, n);
      float const t = squash<T::kKind>(s, constants);
      float const distance =
          ((e ? position.y : position.x) - key) - static_cast<float>(m * 16 + half * 8);
      float const p = probability<T::kKind>(t, e ? neg_slope.y : neg_slope.x, distance,
                                            e ? neg_lse.y : neg_lse.x, constants);
      tSrP(make_coord(e, half), m, n) = p;
      s = times_squash_derivative<T::kKind>(p, t, constants);
    }
  }
  return pack_operand<Element>(tSrP);
}

template <class T, class TensorS>
CUTE_DEVICE void start_at_neg_delta(TensorS& tSrdP, typename T::Stage const& stage, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < T::kBlockM / 8; ++n) {
    float2 const neg_delta = column_pair(stage.neg_delta, n, lane);
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        tSrdP(make_coord(0, half), m, n) = neg_delta.x;
        tSrdP(make_coord(1, half), m, n) = neg_delta.y;
      }
    }
  }
}

// The weights' way from the dV warp to the dK warp of a pair, through two buffers in turn.
template <class T>
struct Handover {
  using Element = typename T::Element;

  typename T::Exchange& exchange;
  uint64_t* handed;
  uint64_t* taken;
  int lane;
  RingPosition<2> position;

  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int i = 0; i < 2 * T::kPairs; ++i) {
      mbarrier_init(&shared.handed[i / 2][i % 2], 1);
      mbarrier_init(&shared.taken[i / 2][i % 2], 1);
    }
  }

  // tSrW: ((2,2),N,M) in fp32
  template <class TensorW>
  CUTE_DEVICE void hand(TensorW const& tSrW) {
    Tensor const weights = pack_operand<Element>(tSrW);       // ((2,2,2),N,M/2)
    Tensor const fragments = recast<uint4 const>(weights);  // (1,N,M/2)
    mbarrier_wait(&taken[position.stage], position.parity ^ 1);
    CUTE_UNROLL
    for (int i = 0; i < T::kFragments; ++i) {
      exchange.weights[position.stage][i][lane] = fragments(i);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&handed[position.stage]);
    position.advance();
  }

  // The weights as pack_operand left them: ((2,2,2),N,M/2)
  CUTE_DEVICE auto take() {
    Tensor weights = make_tensor<Element>(
        Shape<Shape<_2, _2, _2>, Int<T::kStrips>, Int<T::kBlockM / 16>>{});
    Tensor fragments = recast<uint4>(weights);  // (1,N,M/2)
    mbarrier_wait(&handed[position.stage], position.parity);
    CUTE_UNROLL
    for (int i = 0; i < T::kFragments; ++i) {
      fragments(i) = exchange.weights[position.stage][i][lane];
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&taken[position.stage]);
    position.advance();
    return weights;
  }
};

template <class T>
CUTE_DEVICE void key_cta(KernelParams const& params) {
  using Element = typename T::Element;
  extern __shared__ char shared_memory[];
  auto& shared = *reinterpret_cast<typename T::SharedStorage*>(shared_memory);
  Problem const& p = params.problem;
  int const lane = threadIdx.x % 32;
  int const warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // tells the compiler it is uniform
  Role const role = warp < T::kPairs ? Role::kDV : Role::kDK;
  int const pair = warp % T::kPairs;

  Tile const tile = find_tile(params.k_segments(), params.q_segments(), /*own_is_q=*/false,
                              blockIdx.x, /*items_per_token=*/1, T::kBlockN);
  int const pair_key = tile.block * T::kBlockN + pair * T::kPairKeys;
  if (tile.block * T::kBlockN >= tile.keys) return;  // the grid is an upper bound
  RowRange const rows = split_rows(tile.queries * p.heads, blockIdx.y, params.splits, T::kBlockM);

  auto& own = shared.tiles.operands[pair];
  auto* const own_tile = role == Role::kDV ? own.k : own.v;
  load_keys<T>(role == Role::kDV ? p.k : p.v, tile, pair_key, own_tile, lane);
  for (int head = threadIdx.x; head < p.heads; head += T::kThreads) {
    shared.neg_slopes[head] = rows.end > 0 ? neg_log2_slope(p, tile.sequence, head) : 0.0f;
  }
  if (threadIdx.x == 0) {
    RowRing<T>::init_barriers(shared);
    Handover<T>::init_barriers(shared);
  }
  RowRing<T> ring(shared, params, tile, rows.begin, rows.end,
                  static_cast<int>(threadIdx.x) - T::kPairs * 32);
  if constexpr (!T::kRingReusesOperands) {
    __syncthreads();
    ring.fill();
    cp_async_fence();
    cp_async_wait<1>();  // K and V, but not the ring
  } else {
    cp_async_wait<0>();
  }
  __syncwarp();
  typename T::Operand const keys(typename T::OwnSource(own_tile, lane));  // (N,160)
  if constexpr (T::kRingReusesOperands) {
    __syncthreads();
    ring.fill();
  }

  // both products' B operands: q and dout for a dV warp, dout and q for a dK warp
  auto& first = shared.tiles.stages[0];
  typename T::FeatureSource const sB_features(role == Role::kDV ? first.q : first.dout, lane);
  typename T::TokenSource const sB_tokens(role == Role::kDV ? first.dout : first.q, lane);
  Handover<T> handover{shared.exchange[pair], shared.handed[pair], shared.taken[pair], lane};
  float const first_key = static_cast<float>(pair_key + lane / 4);

  Tensor tKrdK = make_accumulator<Element, T::kPairKeys, kHeadDim>();  // or dV: ((2,2),N,20)
  clear(tKrdK);
  for (int row = rows.begin; row < rows.end; row += T::kBlockM) {
    Tensor tSrS = make_accumulator<Element, T::kPairKeys, T::kBlockM>();  // or dP^T: ((2,2),N,M)
    int const index = ring.acquire();
    auto const& stage = shared.tiles.stages[index];
    int const offset = index * static_cast<int>(sizeof(typename T::Stage) / sizeof(Element));
    if (role == Role::kDV) {
      clear(tSrS);
    } else {
      start_at_neg_delta<T>(tSrS, stage, lane);
    }
    multiply_over_features<Element>(tSrS, keys, sB_features.shifted(offset));
    auto tSrP = make_tensor<Element>(
        Shape<Shape<_2, _2, _2>, Int<T::kStrips>, Int<T::kBlockM / 16>>{});  // or dX^T
    if (role == Role::kDV) {
      tSrP = probabilities<T>(tSrS, stage, params.score, first_key, lane);
      handover.hand(tSrS);
    } else {
      scale_by_operand<Element>(tSrS, handover.take());
      tSrP = pack_operand<Element>(tSrS);
    }
    multiply_over_tokens<Element>(tKrdK, tSrP, sB_tokens.shifted(offset));
    ring.release();
  }

  float const factor = role == Role::kDV ? 1.0f : p.scale;
  CUTE_UNROLL
  for (int i = 0; i < 2 * T::kStrips; ++i) {
    int const key = pair_key + i * 8 + lane / 4;
    bool const valid = key < tile.keys;
    int64_t const token = tile.k_begin + key;
    if (params.splits == 1) {
      auto* const out = static_cast<Element*>(role == Role::kDV ? p.dv : p.dk);
      store_row(tKrdK, i / 2, i % 2, factor, out + token * kHeadDim, valid, lane);
    } else {
      auto* const out = role == Role::kDV ? params.partial_dv : params.partial_dk;
      store_row_fp32(tKrdK, i / 2, i % 2, factor,
                     out + (blockIdx.y * p.total_k + token) * kHeadDim, valid, lane);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    key_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) key_cta<T>(params);
}

}  // namespace ragged_attention
