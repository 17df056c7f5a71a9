#include "cutlass_kernels/api.h"
#include "ragged_attention_build_config.h"

namespace ragged_attention {

BuildInfo build_info() {
  return {RAGGED_ATTENTION_COMPILER,
          RAGGED_ATTENTION_ARCHS,
          RAGGED_ATTENTION_CUTLASS,
          RAGGED_ATTENTION_COMMIT,
          {86, 90}};
}

}  // namespace ragged_attention
