"""The computation."""

from plain import attention_varlen_feature_full_vjp as plain


def call(arguments):
    return plain(*arguments)
