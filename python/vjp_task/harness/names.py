"""What no solver may reach: operators, kernels, packages, and the evaluator's own names."""

import re

# Operators and functions of torch that are attention as a whole, by any of their names.
OPERATOR = re.compile(
    r"scaled_dot_product|flex_attention|flash_attention|efficient_attention|cudnn_attention"
    r"|fused_sdp_choice|multi_head_attention|transformer_encoder_layer_fwd"
    r"|triton_scaled_dot_attention",
    re.IGNORECASE,
)

# What selects or wraps them: `torch.nn.attention`, `torch.backends.cuda.enable_flash_sdp`, ...
SELECTOR = re.compile(
    r"^(sdpa_kernel|SDPBackend|SDPAParams|MultiheadAttention|Transformer\w*"
    r"|(enable_)?\w*_sdp(_enabled)?|can_use_\w+_attention|preferred_fa_impl)$"
)

# Device kernels of such operators, as a profiler names them.
KERNEL = re.compile(
    r"\bpytorch_flash\b|\bflash::|flash_fwd_kernel|flash_bwd_\w*kernel|fmha_|FlashAttn"
    r"|flashinfer|cudnn\S*(sdpa|flash|mha)|pytorch_fmha",
)

# Packages that are attention, or bring it along.
# fmt: off
PACKAGES = frozenset({
    "aiter", "apex", "attn_gym", "bitsandbytes", "cudnn", "deepspeed", "diffusers", "fla",
    "flash_attn", "flash_attn_2_cuda", "flash_attn_3_cuda", "flash_attn_interface", "flash_mla",
    "flashinfer", "jax", "kernels", "liger_kernel", "lightllm", "magi_attention", "mlx", "natten",
    "ring_attention", "sageattention", "sglang", "spas_sage_attn", "tensorrt", "tensorrt_llm",
    "thunderkittens", "tk_kernels", "torch_tensorrt", "transformer_engine", "transformers",
    "unsloth", "vllm", "xformers",
})
# fmt: on
PACKAGE_PATTERN = re.compile(r"attn|attention|fmha", re.IGNORECASE)

# The evaluator: its package, and the files that hold cases, truth or results.
EVALUATOR_PACKAGES = frozenset({"vjp_task", "selfcheck"})
EVALUATOR_FILES = re.compile(
    r"visible_cases|family\.json|experiment_log|vjp_task|selfcheck\.py"
    r"|methods/(baseline|versions)|(^|/)(sealed|verifier|problems)(/|$)"
)


def is_attention_package(name: str, own: frozenset[str] = frozenset()) -> bool:
    """Whether a module's top-level name is an attention package's, and not one of `own`."""
    top = name.partition(".")[0]
    return top not in own and (top in PACKAGES or bool(PACKAGE_PATTERN.search(top)))
