// dk and dv, by tiles of keys: the rows of q and dout stream past, over all heads.
//
// Warps work in pairs that share their keys. The dV warp does S^T = K Q^T, P^T, dV += P^T dout; its
// partner, the dK warp, does dP^T = V dout^T, dX^T, dK += dX^T Q. Between them goes u = P (1 - t^2).
// So a warp holds one accumulator of keys x 160 and needs only K or only V.
#pragma once

#include "../device/overlap.h"
#include "../device/store.h"
#include "key_traits.h"
#include "row_ring.h"
#include "turns.h"

namespace ragged_attention {

enum class Role { kDV, kDK };

// Starts the copies of this warp's operand: K for a dV warp, V for a dK warp.
template <class T>
CUTE_DEVICE void load_keys(View const& view, int64_t k_begin, Range const& keys,
                           typename T::Element* target, int lane) {
  using Element = typename T::Element;
  int const chunk = lane % 4;
  CUTE_UNROLL
  for (int row = lane / 4; row < T::kPairKeys; row += 8) {
    bool const valid = keys.begin + row < keys.end;
    int64_t const token = k_begin + (valid ? keys.begin + row : 0);
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

// From S^T to P^T and u = P^T (1 - t^2), for the 8-wide tiles 2k and 2k + 1. First key: the thread's.
template <class T, class TensorS, class TensorP>
CUTE_DEVICE void weigh(TensorS const& tSrS, TensorP& tSrP, TensorP& tSrU, int k, float first_key,
                       typename T::Stage const& stage, ScoreConstants const& constants, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < 2; ++n) {
    float2 const neg_lse = column_pair(stage.neg_lse, 2 * k + n, lane);
    float2 const neg_slope = column_pair(stage.neg_slope, 2 * k + n, lane);
    float2 const position = column_pair(stage.position, 2 * k + n, lane);
    CUTE_UNROLL
    for (int i = 0; i < 4 * T::kStrips; ++i) {
      int const e = i % 2, half = i / 2 % 2, m = i / 4;
      float const t = squash<T::kKind>(tSrS(make_coord(e, half), m, 2 * k + n), constants);
      float const distance =
          ((e ? position.y : position.x) - first_key) - static_cast<float>(m * 16 + half * 8);
      float const p = probability<T::kKind>(t, e ? neg_slope.y : neg_slope.x, distance,
                                            e ? neg_lse.y : neg_lse.x, constants);
      tSrP(make_coord(e, half), m, n) = p;
      tSrU(make_coord(e, half), m, n) = times_squash_derivative<T::kKind>(p, t, constants);
    }
  }
}

// dP - delta
template <class T, class TensorS>
CUTE_DEVICE void add_neg_delta(TensorS& tSrdP, typename T::Stage const& stage, int lane) {
  CUTE_UNROLL
  for (int n = 0; n < T::kBlockM / 8; ++n) {
    float2 const neg_delta = column_pair(stage.neg_delta, n, lane);
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        tSrdP(make_coord(0, half), m, n) += neg_delta.x;
        tSrdP(make_coord(1, half), m, n) += neg_delta.y;
      }
    }
  }
}

// The weights' way from the dV warp to the dK warp of a pair, through two buffers in turn.
template <class T>
struct Handover {
  using Element = typename T::Element;

  typename T::SharedStorage& shared;
  int pair;
  RingPosition<2> position;

  CUTE_DEVICE uint64_t* handed() const { return &shared.handed[pair][position.stage()]; }
  CUTE_DEVICE uint64_t* taken() const { return &shared.taken[pair][position.stage()]; }
  CUTE_DEVICE uint4& fragment(int i) const {
    return shared.exchange[pair].weights[position.stage()][i][threadIdx.x % 32];
  }

  CUTE_DEVICE static void init_barriers(typename T::SharedStorage& shared) {
    for (int i = 0; i < 2 * T::kPairs; ++i) {
      mbarrier_init(&shared.handed[i / 2][i % 2], 32);
      mbarrier_init(&shared.taken[i / 2][i % 2], 32);
    }
  }

  CUTE_DEVICE void wait_until_taken() { mbarrier_wait(taken(), position.parity() ^ 1); }

  // The weights of 16 rows: an A operand ((2,2,2),N,1)
  template <class TensorU>
  CUTE_DEVICE void put(TensorU const& tSrU, int k) {
    Tensor const fragments = recast<uint4 const>(tSrU);  // (1,N,1)
    CUTE_UNROLL
    for (int m = 0; m < T::kStrips; ++m) fragment(k * T::kStrips + m) = fragments(m);
  }

  CUTE_DEVICE void hand() {
    mbarrier_arrive(handed());
    position.advance();
  }

  // The weights as pack_operand left them: ((2,2,2),N,M/2)
  CUTE_DEVICE auto take() {
    Tensor weights = make_operand<Element, T::kPairKeys, T::kBlockM>();
    Tensor fragments = recast<uint4>(weights);  // (1,N,M/2)
    mbarrier_wait(handed(), position.parity());
    CUTE_UNROLL
    for (int i = 0; i < T::kFragments; ++i) {
      fragments(i) = fragment(i);
    }
    mbarrier_arrive(taken());
    position.advance();
    return weights;
  }
};

// One thread, when all have passed their last wait.
template <class T>
CUTE_DEVICE void invalidate_barriers(typename T::SharedStorage& shared) {
  for (auto& barrier : shared.full) mbarrier_invalidate(&barrier);
  for (auto& barrier : shared.empty) mbarrier_invalidate(&barrier);
  for (int i = 0; i < 2 * T::kPairs; ++i) {
    mbarrier_invalidate(&shared.handed[i / 2][i % 2]);
    mbarrier_invalidate(&shared.taken[i / 2][i % 2]);
  }
}

// dk and dv of the part's keys, kBlockN at most, from its rows; CTAs with others of the tile's rows take
// turns.
template <class T>
CUTE_DEVICE void key_tile(KernelParams const& params, typename T::SharedStorage& shared,
                          KeyPart const& part) {
  using Element = typename T::Element;
  Problem const& p = params.problem;
  Tile const& tile = part.tile;
  int const thread = opaque_thread_index();
  int const lane = thread % 32;
  int const warp = __shfl_sync(~0u, thread / 32, 0);  // tells the compiler it is uniform
  Role const role = warp < T::kPairs ? Role::kDV : Role::kDK;
  int const pair = warp % T::kPairs;
  int const pair_key = part.keys.begin + pair * T::kPairKeys;

  if (threadIdx.x == 0) {
    RowRing<T>::init_barriers(shared);
    Handover<T>::init_barriers(shared);
  }
  auto& own = shared.tiles.operands[pair];
  auto* const own_tile = role == Role::kDV ? own.k : own.v;
  load_keys<T>(role == Role::kDV ? p.k : p.v, tile.k_begin, {pair_key, part.keys.end}, own_tile,
               lane);
  for (int head = threadIdx.x; head < p.heads; head += T::kThreads) {
    shared.neg_slopes[head] = tile.queries > 0 ? neg_log2_slope(p, tile.sequence, head) : 0.0f;
  }
  __syncthreads();
  wait_for_kernel_before();  // lse, delta and turns
  RowRing<T> ring(shared, params, tile, part.rows.begin);
  if constexpr (T::kRingReusesOperands) {
    cp_async_wait<0>();
  } else {
    ring.fill(part.rows.end - part.rows.begin);
    cp_async_fence();
    cp_async_wait<1>();  // K and V, but not the ring
  }
  __syncwarp();
  typename T::Operand const keys(typename T::OwnSource(own_tile, lane));  // (N,160)
  if constexpr (T::kRingReusesOperands) {
    __syncthreads();
    ring.fill(part.rows.end - part.rows.begin);
  }

  // both products' B operands: q and dout for a dV warp, dout and q for a dK warp
  auto& first = shared.tiles.stages[0];
  auto const sB_features = [&] {
    auto* const tile = role == Role::kDV ? first.q : first.dout;
    typename T::FeatureSource const source(tile, lane);
    if constexpr (T::kStrips == 1) return source.kept(tile);
    return source;
  }();
  typename T::TokenSource const sB_tokens(role == Role::kDV ? first.dout : first.q, lane);
  Handover<T> handover{shared, pair};

  Tensor tKrdK = make_accumulator<Element, T::kPairKeys, kHeadDim>();  // or dV: ((2,2),N,20)
  clear(tKrdK);
  auto add_rows = [&](int index) {
    Tensor tSrS = make_accumulator<Element, T::kPairKeys, T::kBlockM>();  // or dP^T: ((2,2),N,M)
    auto const& stage = shared.tiles.stages[index];
    int const offset = index * static_cast<int>(sizeof(typename T::Stage) / sizeof(Element));
    clear(tSrS);
    multiply_over_features<Element>(tSrS, keys, sB_features.shifted(offset));
    Tensor tKrP = make_operand<Element, T::kPairKeys, T::kBlockM>();  // or dX^T: ((2,2,2),N,M/2)
    if (role == Role::kDV) {
      float const first_key = static_cast<float>(pair_key + lane / 4);
      handover.wait_until_taken();
      CUTE_UNROLL
      for (int k = 0; k < T::kBlockM / 16; ++k) {
        Tensor tSrP = make_accumulator<Element, T::kPairKeys, 16>();  // ((2,2),N,2)
        Tensor tSrU = make_accumulator<Element, T::kPairKeys, 16>();  // ((2,2),N,2)
        weigh<T>(tSrS, tSrP, tSrU, k, first_key, stage, params.score, lane);
        pack_operand(tSrP,
                     local_tile(tKrP, OperandShape<T::kPairKeys, 16>{}, make_coord(_0{}, _0{}, k)));
        handover.put(pack_operand<Element>(tSrU), k);
      }
      handover.hand();
    } else {
      add_neg_delta<T>(tSrS, stage, lane);
      scale_by_operand<Element>(tSrS, handover.take());
      pack_operand(tSrS, tKrP);
    }
    multiply_over_tokens<Element>(tKrdK, tKrP, sB_tokens.shifted(offset));
  };
  bool const idle = T::kPairsMayIdle && pair * T::kPairKeys >= part.computed_keys;
  for (int left = part.rows.end - part.rows.begin; left > 0; left -= T::kBlockM) {
    int const index = ring.acquire();
    if (!idle) add_rows(index);
    ring.release(left);
  }

  Turn const turn = part.turn;
  int* const counter = params.turns + part.slot * T::kWarps + warp;
  float const factor = role == Role::kDV ? 1.0f : p.scale;
  auto* const sums = role == Role::kDV ? params.sum_dv : params.sum_dk;
  auto* const out = static_cast<Element*>(role == Role::kDV ? p.dv : p.dk);
  // Calls store(strip, half, where this thread's key begins in an array of keys, whether there is one).
  auto for_keys = [&](auto store) {
    CUTE_UNROLL
    for (int i = 0; i < 2 * T::kStrips; ++i) {
      int const key = pair_key + i * 8 + lane / 4;
      store(i / 2, i % 2, (tile.k_begin + key) * kHeadDim, key < part.keys.end);
    }
  };
  if (!turn.is_first()) wait_for_turn(counter, turn.index, lane);
  if (turn.is_last()) {
    if (!turn.is_first()) {
      for_keys([&](int m, int half, int64_t begin, bool valid) {
        if (valid) add_sums(tKrdK, m, half, sums + begin, lane);
      });
    }
    return for_keys([&](int m, int half, int64_t begin, bool valid) {
      store_row(tKrdK, m, half, factor, out + begin, valid, lane);
    });
  }
  for_keys([&](int m, int half, int64_t begin, bool valid) {
    if (!valid) return;
    if (turn.is_first()) {
      store_sums<false>(tKrdK, m, half, sums + begin, lane);
    } else {
      store_sums<true>(tKrdK, m, half, sums + begin, lane);
    }
  });
  pass_turn(counter, turn.index + 1, lane);
}

// One part, by a tile as wide as is left of the keys.
template <class T>
CUTE_DEVICE void key_part(KernelParams const& params) {
  auto& shared =
      shared_storage<typename T::SharedStorage>();  // anew, to free its registers between
  auto run = [&](auto traits, auto& storage) {
    using Width = decltype(traits);
    key_tile<Width>(params, storage, shared.part);
    __syncthreads();
    if (threadIdx.x == 0) invalidate_barriers<Width>(storage);
    __syncthreads();
  };
  if constexpr (T::kHasNarrow) {
    if (shared.part.computed_keys <= T::Narrow::kBlockN) {
      return run(typename T::Narrow{}, shared.narrow);
    }
  }
  run(typename T::Wide{}, shared.wide);
}

// The next part for this CTA, left in shared memory; false if there is none.
template <class T>
CUTE_DEVICE bool next_part(KernelParams const& params, bool is_first) {
  auto& shared =
      shared_storage<typename T::SharedStorage>();  // anew, to free its registers between
  Cut const cut = params.key_cut(T::kBlockN);
  int const heads = params.problem.heads;
  if (params.turns) {
    KeyPartition<T::kThreads> const partition{cut, heads, T::tiling(), shared.partition};
    if (is_first) partition.find_place(shared.place);
    return partition.find_part(shared.place, shared.part);
  }
  // a whole tile for each CTA; the grid is an upper bound
  if (!is_first) return false;
  Tile& tile = shared.part.tile;
  find_tile<T::kThreads>(cut, blockIdx.x, shared.search, tile);
  if (threadIdx.x == 0) {
    int const begin = tile.block * T::kBlockN;
    shared.part.keys = {begin, min(begin + T::kBlockN, tile.keys)};
    shared.part.computed_keys = shared.part.keys.end - begin;
    shared.part.rows = {0, tile.queries * heads};
    shared.part.turn = {0, 1};
  }
  __syncthreads();
  return shared.part.computed_keys > 0;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kCtas)
    key_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) {
    for (bool is_first = true; next_part<T>(params, is_first); is_first = false) {
      key_part<T>(params);
    }
    wait_for_kernel_before();
  }
}

}  // namespace ragged_attention
