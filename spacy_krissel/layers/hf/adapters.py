"""Low-rank adapters: trained instead of a transformer's own weights, and merged into them when saved."""

from typing import Any

import torch

from ...errors import Errors, KrisselError

ADAPTER = "default"


def add_adapters(transformer: torch.nn.Module, rank: int) -> None:
    """Freeze the transformer and add LoRA adapters of `rank` to all linear layers except the pooler's.

    They start at zero, so vectors stay the same. A transformer with adapters keeps them. In BERT-base, rank 7 trains
    1 % and rank 87 13 % of the parameters, as in SapBERT's two adapter variants (whose adapters, of Pfeiffer et al.,
    remain separate layers).

    Raises KrisselError K412 without the library `peft`.
    """
    if any(hasattr(module, "base_layer") for module in transformer.modules()):
        return
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise KrisselError(Errors.K412) from error
    # `lora_alpha` equal to the rank: adapters are added unscaled.
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=_linear_layers(transformer))
    inject_adapter_in_model(config, transformer, adapter_name=ADAPTER)


def whole_state(transformer: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights under their names without adapters, with the adapters merged."""
    state = transformer.state_dict()
    for name, layer in transformer.named_modules():
        base: Any = getattr(layer, "base_layer", None)
        if base is None:
            continue
        for key in [key for key in state if key.startswith(f"{name}.")]:
            del state[key]
        added = dict(base.state_dict())
        added["weight"] = added["weight"] + layer.get_delta_weight(ADAPTER)  # type: ignore[operator]
        state.update({f"{name}.{key}": tensor for key, tensor in added.items()})
    return state


def _linear_layers(transformer: torch.nn.Module) -> list[str]:
    return [
        name
        for name, module in transformer.named_modules()
        if isinstance(module, torch.nn.Linear) and "pooler" not in name
    ]
