"""The norms and activations of transformers' models: `pip install transformers`."""

from __future__ import annotations

from pathlib import Path

from fuzz import Capabilities, Contract, PythonKernel

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "modules.py"
_FLOATS = ("f32", "f16", "bf16")
_NORM = Capabilities(dtypes=_FLOATS, strides="any", needs=("weight",), params=())
# Llama's and T5's norms round what is normalised to the dtype of their input, and then multiply by the weight.
_ROUNDS = Contract(points={"h": "input"})
# It is torch's gelu, and what that does with large numbers is kept as torch's.
_GELU = Contract(algorithm={"y": ("formula", "half last")}, nonfinite="overflow")


def _kernel(title: str, op: str, contract: Contract, able: Capabilities, **options: str) -> PythonKernel:
    return PythonKernel(
        f"transformers-{title}", op, _SOURCE, "torch", contract, able, devices=("cpu",), packages=("transformers",),
        options=tuple(options.items()),
    )  # fmt: skip


KERNELS = (
    *(_kernel(model, "rms_norm", _ROUNDS, _NORM, model=model) for model in ("llama", "t5")),
    *(
        _kernel(
            name.replace("_", "-"), op, _GELU if op == "gelu" else Contract(), Capabilities(strides="any"), name=name
        )
        for name, op in {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}.items()
    ),
)
