// A comment may say scaled_dot_product_attention.
#include <torch/extension.h>

at::Tensor attend(at::Tensor q) { return at::scaled_dot_product_attention(q, q, q); }
