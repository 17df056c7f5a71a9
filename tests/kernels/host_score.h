// The score's mathematics for Python; every function takes arrays that broadcast.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "cutlass_kernels/params.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;

template <ScoreKind kKind>
void bind_score_kind(py::module_& module) {
  module.def("squash", py::vectorize([](float dot, float scale, float softcap) {
               return squash<kKind>(dot, make_score_constants(scale, softcap));
             }),
             "dot"_a, "scale"_a, "softcap"_a);
  module.def("times_squash_derivative",
             py::vectorize([](float weight, float t, float scale, float softcap) {
               return times_squash_derivative<kKind>(weight, t,
                                                     make_score_constants(scale, softcap));
             }),
             "weight"_a, "t"_a, "scale"_a, "softcap"_a);
  module.def(
      "logit",
      py::vectorize([](float t, float neg_slope, float distance, float scale, float softcap) {
        return logit<kKind>(t, neg_slope, distance, make_score_constants(scale, softcap));
      }),
      "t"_a, "neg_slope"_a, "distance"_a, "scale"_a, "softcap"_a);
  module.def("probability",
             py::vectorize([](float t, float neg_slope, float distance, float neg_reference,
                              float scale, float softcap) {
               return probability<kKind>(t, neg_slope, distance, neg_reference,
                                         make_score_constants(scale, softcap));
             }),
             "t"_a, "neg_slope"_a, "distance"_a, "neg_reference"_a, "scale"_a, "softcap"_a);
}

// (sequences, heads) of neg_log2_slope; `slopes` may have any strides.
inline py::array_t<float> neg_log2_slopes(py::array_t<float> const& slopes) {
  Problem problem{};
  problem.slopes = slopes.data();
  problem.slope_batch_stride = slopes.strides(0) / static_cast<py::ssize_t>(sizeof(float));
  problem.slope_head_stride = slopes.strides(1) / static_cast<py::ssize_t>(sizeof(float));
  py::array_t<float> result({slopes.shape(0), slopes.shape(1)});
  auto values = result.mutable_unchecked<2>();
  for (py::ssize_t sequence = 0; sequence < values.shape(0); ++sequence) {
    for (py::ssize_t head = 0; head < values.shape(1); ++head) {
      values(sequence, head) =
          neg_log2_slope(problem, static_cast<int>(sequence), static_cast<int>(head));
    }
  }
  return result;
}

inline void bind_score(py::module_& module) {
  py::module_ bounded = module.def_submodule("bounded");
  py::module_ general = module.def_submodule("general");
  bind_score_kind<ScoreKind::kBounded>(bounded);
  bind_score_kind<ScoreKind::kGeneral>(general);
  module.attr("max_bounded_cap") = kMaxBoundedCap;
  module.attr("reference_margin") = kReferenceMargin;
  module.def(
      "is_bounded", [](float softcap) { return score_kind(softcap) == ScoreKind::kBounded; },
      "softcap"_a);
  module.def(
      "score_constants",
      [](float scale, float softcap) {
        ScoreConstants const score = make_score_constants(scale, softcap);
        return py::make_tuple(score.x_scale, score.gain, score.capped);
      },
      "scale"_a, "softcap"_a);
  module.def("neg_bias_maximum", py::vectorize([](float neg_slope, int position, int keys) {
               return neg_bias_maximum(neg_slope, position, keys);
             }),
             "neg_slope"_a, "position"_a, "keys"_a);
  module.def("neg_log2_slopes", &neg_log2_slopes, "slopes"_a.noconvert());
  module.def("neg_log2_slope_without_slopes", [] { return neg_log2_slope(Problem{}, 1, 2); });
}

}  // namespace host_tests
