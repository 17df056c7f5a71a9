// The score's mathematics, in log2 units, for the host and the device alike.
//
//   t      = tanh(scale * q.k / cap)            (no cap: t = log2(e) * scale * q.k)
//   logit  = gain * t - slope * distance         gain = log2(e) * cap, slope in log2 units
//   p      = exp2(logit - reference)
//   d(cap * t)/dx = 1 - t^2                       (no cap: 1)
#pragma once

#include <cmath>
#include <cstdint>
#include <cute/config.hpp>

namespace ragged_attention {

constexpr float kLog2E = 1.4426950408889634f;

// How a kernel computes t and keeps the exponent in range.
enum class ScoreKind {
  // 0 < cap <= kMaxBoundedCap: tanh.approx (relative error 2^-11), and, since |cap * t| <= cap, a
  // reference that is known before any product is computed.
  kBounded,
  // Any cap or none: tanh to fp32's absolute accuracy, a running maximum.
  kGeneral,
};

// Up to here exp(cap) = 55 times the sum of a row stays far inside fp16's range, and tanh.approx's
// error, cap * 2^-11, stays below one rounding step of a 16-bit logit.
constexpr float kMaxBoundedCap = 4.0f;

// A known reference lies so far (log2 units) above the largest bias: exp(cap t) (1 - t^2) < 9 for caps up to
// kMaxBoundedCap, so that weights of 16 bits stay below 1, and their products with dP in range.
constexpr float kReferenceMargin = 4.0f;

struct ScoreConstants {
  float x_scale;  // t = tanh(x_scale * q.k)
  float gain;     // log2 logit per unit of t
  bool capped;
};

inline ScoreConstants make_score_constants(float scale, float softcap) {
  if (softcap > 0.0f) return {scale / softcap, softcap * kLog2E, true};
  return {scale * kLog2E, 1.0f, false};
}

inline ScoreKind score_kind(float softcap) {
  return softcap > 0.0f && softcap <= kMaxBoundedCap ? ScoreKind::kBounded : ScoreKind::kGeneral;
}

CUTE_HOST_DEVICE float exp2_approx(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

template <ScoreKind kKind>
CUTE_HOST_DEVICE float squash(float dot, ScoreConstants const& score) {
  float const x = score.x_scale * dot;
  if constexpr (kKind == ScoreKind::kBounded) {
#ifdef __CUDA_ARCH__
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(x));
    return t;
#else
    return std::tanh(x);
#endif
  } else {
    if (!score.capped) return x;
#ifdef __CUDA_ARCH__
    // 1 - 2 / (e^2x + 1): absolute error 1e-7, which is what a logit needs; right at both infinities
    return 1.0f - __fdividef(2.0f, exp2_approx(2.0f * kLog2E * x) + 1.0f);
#else
    return std::tanh(x);
#endif
  }
}

// 1 - t^2, times `weight`.
template <ScoreKind kKind>
CUTE_HOST_DEVICE float times_squash_derivative(float weight, float t, ScoreConstants const& score) {
  if (kKind == ScoreKind::kGeneral && !score.capped) return weight;
  return weight * std::fma(-t, t, 1.0f);
}

// exp2(gain * t + neg_slope * |distance| - reference).
//
// kGeneral rounds the logit before it subtracts, so that equal logits cancel exactly however huge.
template <ScoreKind kKind>
CUTE_HOST_DEVICE float probability(float t, float neg_slope, float distance, float neg_reference,
                                   ScoreConstants const& score) {
  float const span = std::fabs(distance);
  if constexpr (kKind == ScoreKind::kBounded) {
    return exp2_approx(std::fma(score.gain, t, std::fma(neg_slope, span, neg_reference)));
  } else {
    return exp2_approx(std::fma(score.gain, t, neg_slope * span) + neg_reference);
  }
}

template <ScoreKind kKind>
CUTE_HOST_DEVICE float logit(float t, float neg_slope, float distance,
                             ScoreConstants const& score) {
  return std::fma(score.gain, t, neg_slope * std::fabs(distance));
}

// -max_j of the bias alone: the reference below which no logit of the row exceeds `gain`.
// Key j is at distance |position - j|, 0 <= j < keys; neg_slope in log2 units.
CUTE_HOST_DEVICE float neg_bias_maximum(float neg_slope, int position, int keys) {
  int const past_left = -position;
  int const past_right = position - (keys - 1);
  int const past = past_left > past_right ? past_left : past_right;
  int const nearest = past > 0 ? past : 0;
  int const to_first = position < 0 ? -position : position;
  int const to_last = past_right < 0 ? -past_right : past_right;
  int const farthest = to_first > to_last ? to_first : to_last;
  return -neg_slope * static_cast<float>(neg_slope <= 0.0f ? nearest : farthest);
}

}  // namespace ragged_attention
