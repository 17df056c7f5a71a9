#include "cutlass_kernels/api.h"
#include "ragged_attention_build_config.h"

namespace ragged_attention {

BuildInfo build_info() {
  BuildInfo info{RAGGED_ATTENTION_COMPILER,
                 RAGGED_ATTENTION_ARCHS,
                 RAGGED_ATTENTION_CUTLASS,
                 RAGGED_ATTENTION_COMMIT,
                 {86, 90}};
#ifdef RAGGED_ATTENTION_MMA_REPEAT
  info.mma_repeat = RAGGED_ATTENTION_MMA_REPEAT;
#endif
  return info;
}

}  // namespace ragged_attention
