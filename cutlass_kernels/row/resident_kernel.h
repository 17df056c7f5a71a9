// out and dq where key sequences are short: K and V stay in shared memory for all rows of a sequence.
//
// The same two sweeps as in row_kernel.h. Warps need no barrier among each other while the keys fit:
// each goes from block to block of 16 rows, and the rows that its next sweep needs arrive in registers during
// this one. Sweep 1 leaves the weights P (1 - t^2) to sweep 2 for as many keys as there is room for beside
// them in shared memory; for the others sweep 2 computes S again. Rows of sequences whose keys do not fit
// are streamed, as in row_kernel.h.
#pragma once

#include "resident_traits.h"
#include "row_io.h"
#include "row_kernel.h"
#include "row_softmax.h"

namespace ragged_attention {

// Loads K and V of `steps` x 16 keys; CTA barriers before and after are the caller's.
template <class T>
CUTE_DEVICE void load_keys(Problem const& p, typename T::SharedStorage& shared, int steps) {
  using Element = typename T::Element;
  constexpr int kBlocks = kHeadDim / 32;
  Tile const& tile = shared.share.tile;
  for (int i = threadIdx.x; i < steps * kBlocks * 16; i += T::kThreads) {
    int const row = i % 16, block = i / 16 % kBlocks, step = i / (16 * kBlocks);
    int const key = step * 16 + row;
    bool const valid = key < tile.keys;
    int64_t const token = tile.k_begin + (valid ? key : 0);
    auto source = [&](View const& view) {
      return static_cast<Element const*>(view.data) + token * view.token_stride;
    };
    copy_in_quad_order(source(p.k), shared.resident.keys(step).k, row, block, valid);
    copy_in_quad_order(source(p.v), shared.resident.keys(step).v, row, block, valid);
  }
}

// Starts the copies of the sequence's slopes.
CUTE_DEVICE void copy_slopes(Problem const& p, int sequence, float* slopes, int threads) {
  for (int head = threadIdx.x; head < p.heads; head += threads) {
    if (p.slopes) {
      SM80_CP_ASYNC_CACHEALWAYS<float>::copy(
          p.slopes[sequence * p.slope_batch_stride + head * p.slope_head_stride], slopes[head]);
    } else {
      slopes[head] = 0.0f;
    }
  }
  cp_async_fence();
}

// A lane's ldmatrix sources in the keys.
template <class T>
struct KeySources {
  typename T::FeatureSource features;
  typename T::TokenSource tokens;

  CUTE_DEVICE KeySources(typename T::SharedStorage const& shared, int lane)
      : features(shared.resident.keys(0).k, lane), tokens(shared.resident.keys(0).k, lane) {}

  CUTE_DEVICE static int k(int step) {
    return step * int(sizeof(typename T::KeyStep) / sizeof(typename T::Element));
  }
  CUTE_DEVICE static int v(int step) { return k(step) + T::kBlockN * kHeadDim; }
};

// Both sweeps go by steps of 16 keys that overlap: the product over tokens of one runs between those over
// features of the next, so that the long chain of these does not stop the tensor cores.

// Sweep 1, from the last step to the first: O += P V; the last `weighed` steps leave their weights.
template <class T, bool kAllWeighed, class TensorO>
CUTE_DEVICE void sweep_forward(RowSoftmax<T>& softmax, typename T::Operand const& q, TensorO& tOrO,
                               typename T::SharedStorage& shared, KeySources<T> const& keys,
                               int steps, int weighed) {
  using Element = typename T::Element;
  Tensor tOrP = make_operand<Element, T::kWarpRows, T::kBlockN>();  // ((2,2,2),M,1)
  auto multiply = [&](int step, int d) {
    token_step<Element>(tOrO, tOrP, keys.tokens.shifted(keys.v(step)), 0, d);
  };
  auto next = [&](int step, auto weigh, auto may_end, auto between) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,2)
    clear(tSrS);
    multiply_over_features<Element>(tSrS, q, keys.features.shifted(keys.k(step)), between);
    int const key = step * T::kBlockN;
    if constexpr (weigh) {
      Tensor tSrW = make_fragment_like(tSrS);
      tOrP = softmax.template probabilities_and_weights<may_end>(tSrS, tSrW, key);
      shared.resident.weights(steps)[step * T::kThreads] =
          recast<uint4 const>(pack_operand<Element>(tSrW))(0);
    } else {
      tOrP = softmax.template probabilities<may_end>(tSrS, tOrO, key);
    }
  };
  int step = steps - 1;
  auto between = [&](int d) { multiply(step + 1, d); };
  next(step, bool_constant<T::kWeigh>{}, true_type{}, Nothing{});
  --step;
  if constexpr (T::kWeigh) {
    for (int const last = kAllWeighed ? 0 : steps - weighed; step >= last; --step) {
      next(step, true_type{}, false_type{}, between);
    }
  }
  if constexpr (!kAllWeighed) {
    for (; step >= 0; --step) next(step, false_type{}, false_type{}, between);
  }
  CUTE_UNROLL
  for (int d = 0; d < kFeatureSteps; ++d) multiply(0, d);
}

// Sweep 2, from the first step to the last: dQ += dX K, with S computed anew, and then, q having gone, with
// the weights of sweep 1.
template <class T, bool kAllWeighed, class TensorQ, class AfterQ>
CUTE_DEVICE void sweep_backward(RowSoftmax<T> const& softmax, typename T::Operand const& q,
                                typename T::Operand const& dout, TensorQ& tQrdQ,
                                typename T::SharedStorage& shared, KeySources<T> const& keys,
                                int steps, int weighed, AfterQ const& after_q) {
  using Element = typename T::Element;
  Tensor tQrdX = make_operand<Element, T::kWarpRows, T::kBlockN>();  // ((2,2,2),M,1)
  auto multiply = [&](int step, int d) {
    token_step<Element>(tQrdQ, tQrdX, keys.tokens.shifted(keys.k(step)), 0, d);
  };
  auto anew = [&](int step, auto between) {
    Tensor tSrS = make_accumulator<Element, T::kWarpRows, T::kBlockN>();   // ((2,2),M,2)
    Tensor tSrdP = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,2)
    clear(tSrS);
    softmax.start_at_neg_delta(tSrdP);
    auto const v = keys.features.shifted(keys.v(step));
    multiply_over_features<Element>(tSrS, q, keys.features.shifted(keys.k(step)), [&](int d) {
      feature_step<Element>(tSrdP, dout(d), v, d);
      between(d);
    });
    int const key = step * T::kBlockN;
    softmax.weigh(tSrS, key, 0, 1);
    if constexpr (!T::kWeigh) softmax.mask_keys(tSrS, key);
    CUTE_UNROLL
    for (int i = 0; i < size(tSrS); ++i) tSrdP(i) *= tSrS(i);
    pack_operand(tSrdP, tQrdX);
  };
  auto kept = [&](int step, auto between) {
    Tensor tSrdP = make_accumulator<Element, T::kWarpRows, T::kBlockN>();  // ((2,2),M,2)
    softmax.start_at_neg_delta(tSrdP);
    multiply_over_features<Element>(tSrdP, dout, keys.features.shifted(keys.v(step)), between);
    Tensor tSrW = make_operand<Element, T::kWarpRows, T::kBlockN>();  // ((2,2,2),M,1)
    recast<uint4>(tSrW)(0) = shared.resident.weights(steps)[step * T::kThreads];
    scale_by_operand<Element>(tSrdP, tSrW);
    pack_operand(tSrdP, tQrdX);
  };
  int step = 0;
  auto between = [&](int d) { multiply(step - 1, d); };
  if constexpr (!kAllWeighed) {
    anew(0, Nothing{});
    for (step = 1; step < steps - weighed; ++step) anew(step, between);
  }
  after_q();
  if constexpr (kAllWeighed) {
    kept(0, Nothing{});
    step = 1;
  }
  if constexpr (T::kWeigh) {
    for (; step < steps; ++step) kept(step, between);
  }
  CUTE_UNROLL
  for (int d = 0; d < kFeatureSteps; ++d) multiply(steps - 1, d);
}

// The blocks of one share, warps in turn.
template <class T, bool kAllWeighed>
CUTE_DEVICE void resident_blocks(KernelParams const& params) {
  using Element = typename T::Element;
  auto& shared =
      shared_storage<typename T::SharedStorage>();  // anew, so that it is known as shared
  Problem const& p = params.problem;
  // read from shared memory where it is needed: registers are short in between
  Tile const& tile = shared.share.tile;
  int const thread = opaque_thread_index(), warp = thread / 32, lane = thread % 32;
  Share const& share = shared.share;
  auto steps = [&] { return (tile.keys + T::kBlockN - 1) / T::kBlockN; };
  auto weighed = [&] { return T::room().weighed(steps()); };
  // Rows past the last are the last one again, and are not stored.
  auto row_at = [&](int block, int half) {
    int const row = block * T::kWarpRows + half * 8 + lane / 4;
    return RowCursor(min(row, tile.queries * p.heads - 1), params.by_heads);
  };
  auto load = [&](View const& view, int block, typename T::Operand& operand) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      RowCursor const at = row_at(block, half);
      operand.load(half,
                   static_cast<Element const*>(view.data) +
                       (tile.q_begin + at.token) * view.token_stride + at.head * view.head_stride,
                   lane);
    }
  };
  // Calls store(half, packed row) for this thread's rows.
  auto for_rows = [&](int block, auto store) {
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      int const row = block * T::kWarpRows + half * 8 + lane / 4;
      if (row < tile.queries * p.heads) {
        store(half, tile.q_begin * int64_t{p.heads} + row);
      }
    }
  };

  copy_slopes(p, tile.sequence, shared.resident.slopes, T::kThreads);
  typename T::Operand q, dout;  // (M,160)
  load(p.q, share.begin + warp, q);
  load_keys<T>(p, shared, steps());
  cp_async_wait<0>();  // the slopes
  __syncthreads();
  KeySources<T> const keys(shared, lane);
  for (int block = share.begin + warp; block < share.end; block += T::kWarps) {
    q.settle();
    load(p.dout, block, dout);
    RegisterRowScores scores;
    CUTE_UNROLL
    for (int half = 0; half < 2; ++half) {
      RowCursor const at = row_at(block, half);
      scores.rows[half] = make_row_score(tile, at.token, -kLog2E * shared.resident.slopes[at.head]);
    }
    RowSoftmax<T> softmax(params.score, scores, tile, lane);

    Tensor tOrO = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
    clear(tOrO);
    sweep_forward<T, kAllWeighed>(softmax, q, tOrO, shared, keys, steps(), weighed());
    dout.settle();
    softmax.finish(tOrO, dout);
    for_rows(block, [&](int half, int64_t row) {
      store_in_quad_order(tOrO, half, softmax.inverse_sum(0, half),
                          static_cast<Element*>(p.out) + row * kHeadDim, lane);
      store_statistics(params, softmax.score(0, half), row, true, lane);
    });

    Tensor tQrdQ = make_accumulator<Element, T::kWarpRows, kHeadDim>();  // ((2,2),M,20)
    clear(tQrdQ);
    // weights of sweep 1, and such as are to match them, are not divided by the sum yet
    if constexpr (T::kWeigh) {
      CUTE_UNROLL
      for (int half = 0; half < 2; ++half) {
        softmax.scores.rows[half].neg_reference = scores.rows[half].neg_reference;
      }
    }
    sweep_backward<T, kAllWeighed>(softmax, q, dout, tQrdQ, shared, keys, steps(), weighed(),
                                   [&] { load(p.q, block + T::kWarps, q); });
    for_rows(block, [&](int half, int64_t row) {
      float const factor = T::kWeigh ? p.scale * softmax.inverse_sum(0, half) : p.scale;
      store_in_quad_order(tQrdQ, half, factor, static_cast<Element*>(p.dq) + row * kHeadDim, lane);
    });
  }
}

// The share's rows, whose keys do not fit, as in row_kernel.h.
template <class T>
CUTE_DEVICE void streamed_rows(KernelParams const& params) {
  using Streamed = typename T::Streamed;
  auto& shared =
      shared_storage<typename T::SharedStorage>();  // anew, so that it is known as shared
  auto& streamed = shared.streamed;
  auto const& share = shared.share;
  auto end = [&] {
    return min(share.tile.queries * params.problem.heads, share.end * T::kWarpRows);
  };
  if (threadIdx.x == 0) {
    streamed.tile = share.tile;
    streamed.rows.end = share.begin * T::kWarpRows;
  }
  __syncthreads();
  while (streamed.rows.end < end()) {
    __syncthreads();  // all have seen it
    if (threadIdx.x == 0) {
      int const begin = streamed.rows.end;
      streamed.rows = {begin, min(begin + Streamed::kBlockM, end())};
    }
    __syncthreads();
    stream_rows<Streamed>(params, streamed, opaque_thread_index());
    __syncthreads();
    if (threadIdx.x == 0) KeyRing<Streamed>::invalidate_barriers(streamed);
  }
}

template <class T>
CUTE_DEVICE void share_rows(KernelParams const& params) {
  Problem const& p = params.problem;
  auto const& shared = shared_storage<typename T::SharedStorage>();
  Share const& share = shared.share;
  Tile const& tile = share.tile;
  if (tile.keys == 0) {
    int const begin = share.begin * T::kWarpRows;
    int const end = min(tile.queries * p.heads, share.end * T::kWarpRows);
    return store_zero_rows(p, tile.q_begin * int64_t{p.heads} + begin, end - begin, T::kThreads);
  }
  if (tile.keys > T::kResidentKeys) return streamed_rows<T>(params);
  int const steps = (tile.keys + T::kBlockN - 1) / T::kBlockN;
  if constexpr (T::kWeigh) {
    if (T::room().weighed(steps) == steps) return resident_blocks<T, true>(params);
  }
  resident_blocks<T, false>(params);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    resident_row_kernel(__grid_constant__ KernelParams const params) {
  if constexpr (T::kCompiled) {
    auto& shared = shared_storage<typename T::SharedStorage>();
    prepare_key_kernel(params, T::kThreads);
    shared.partition.start();
    while (find_share<T::kThreads>(params.row_cut(T::kWarpRows), T::block_costs(), shared.partition,
                                   shared.share)) {
      share_rows<T>(params);
    }
  }
}

}  // namespace ragged_attention
