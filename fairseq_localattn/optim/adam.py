"""Optimizer ``localattn_adam``: fairseq's Adam in a dozen operations a step, by torch's multi-tensor and fused kernels.

fairseq's ``adam`` launches about ten kernels for each parameter. The update is the same, and so are the states:
checkpoints of one are continued by the other, in every precision.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from fairseq import optim
from fairseq.optim import adam as theirs
from fairseq.optim import fp16_optimizer
from torch import Tensor

from ..errors import UsageError

NAME = "localattn_adam"


class Adam(torch.optim.Optimizer):
    """fairseq's Adam: decoupled weight decay, and ε added before the second moment is corrected for its bias.

    Parameters in half precision have moments in fp32, and are updated by way of a copy in fp32, as in fairseq.
    """

    supports_memory_efficient_fp16 = True
    supports_flat_params = True
    supports_step_with_scale = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": False}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, scale: float | Tensor = 1.0) -> Any:
        """Update the parameters by their gradients divided by ``scale``, which is read on their device.

        The gradients may be overwritten.
        """
        loss = None if closure is None else closure()
        for group in self.param_groups:
            alike = defaultdict(list)  # one call of the kernel takes tensors of one device, dtype and number of steps
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self._state_of(parameter)
                    state["step"] += 1
                    alike[parameter.device, parameter.dtype, state["step"]].append(parameter)
            for (_, _, steps), parameters in alike.items():
                self._update(group, parameters, steps, scale)
        return loss

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        """Return the state of a parameter, with moments in fp32 (fp64 of fp64) on its device."""
        state = self.state[parameter]
        dtype = torch.float64 if parameter.dtype == torch.float64 else torch.float32
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter, dtype=dtype) for _ in range(2))
        elif state["exp_avg"].dtype != dtype or state["exp_avg"].device != parameter.device:
            for name in ("exp_avg", "exp_avg_sq"):  # a loaded state has been cast to the parameter's precision
                state[name] = state[name].to(parameter.device, dtype)
        return state

    def _update(self, group: dict[str, Any], parameters: list[Tensor], steps: int, scale: float | Tensor) -> None:
        """Update parameters of one device, dtype and number of steps."""
        means, squares = ([self.state[each][name] for each in parameters] for name in ("exp_avg", "exp_avg_sq"))
        # The kernel reads all tensors in the order of memory, so they need one layout.
        gradients = [_laid_out_as(each, each.grad) for each in parameters]
        wide, device = parameters, parameters[0].device
        if means[0].dtype != parameters[0].dtype:
            wide, gradients = (_copied(tensors, means) for tensors in (parameters, gradients))
        beta1, beta2 = group["betas"]
        torch._fused_adamw_(
            wide,
            gradients,
            means,
            squares,
            [],
            [torch.full((), float(steps), device=device)] * len(wide),
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"] / math.sqrt(1 - beta2**steps),  # torch adds ε after the correction
            amsgrad=False,
            maximize=False,
            grad_scale=_on(device, scale),
        )
        if wide is not parameters:
            torch._foreach_copy_(parameters, wide)


def _laid_out_as(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    """Return the gradient with the strides of its parameter."""
    assert gradient is not None
    if gradient.is_sparse:
        raise RuntimeError(f"{NAME} takes no sparse gradients: give --optimizer adam, or a dense embedding")
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)


def _on(device: torch.device, scale: float | Tensor) -> Tensor | None:
    """Return a factor as a tensor in fp32 on a device, without a copy from the host; None for 1."""
    if isinstance(scale, Tensor):
        return scale.to(device, torch.float32)
    return None if scale == 1 else torch.full((), scale, device=device)


def _copied(tensors: list[Tensor], like: list[Tensor]) -> list[Tensor]:
    """Return copies with the precision of other tensors."""
    copies = [torch.empty_like(each) for each in like]
    torch._foreach_copy_(copies, tensors)
    return copies


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float, aggregate: Callable[..., Any] | None) -> Tensor:
    """Return the norm of all gradients, and clip them to ``max_norm`` if that is above 0, as fairseq does."""
    parameters = list(parameters)
    gradients = [each.grad for each in parameters if each.grad is not None]
    if not gradients:
        return parameters[0].new_zeros(()) if parameters else torch.tensor(0.0)
    norm, *others = torch._foreach_norm(gradients, 2, dtype=torch.float32)
    if others:
        norm = torch.linalg.vector_norm(torch.stack([norm, *(each.to(norm.device) for each in others)]))
    norm = norm if aggregate is None else aggregate(norm)
    if max_norm > 0:
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_(max=1))
    return norm


@optim.register_optimizer(NAME, dataclass=theirs.FairseqAdamConfig)
class FairseqAdam(theirs.FairseqAdam):
    """fairseq's optimizer with :class:`Adam`.

    The class has the name of fairseq's, because checkpoints contain it and fairseq compares it when it resumes.
    """

    def __init__(self, cfg: theirs.FairseqAdamConfig, params: Iterable[Any]) -> None:
        optim.FairseqOptimizer.__init__(self, cfg)
        if cfg.fp16_adam_stats:
            raise UsageError(f"--fp16-adam-stats: --optimizer {NAME} has its states in fp32: leave it out")
        self._optimizer = Adam(params, **self.optimizer_config)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[..., Any] | None = None) -> Tensor:
        """Return the norm of the gradients, and clip them to ``max_norm`` if that is above 0."""
        return clip_grad_norm(self.params, max_norm, aggregate_norm_fn)


class FP16Optimizer(fp16_optimizer.FP16Optimizer):
    """fairseq's optimizer of parameters in half precision, which copies all of them at once.

    The class has the name of fairseq's, which checkpoints contain.
    """

    _needs_sync: bool

    @classmethod
    def build_optimizer(cls, cfg: Any, params: list[Tensor], **kwargs: Any) -> fp16_optimizer.FP16Optimizer:
        """Return this optimizer where :data:`NAME` is asked for, and fairseq's elsewhere."""
        if cfg.optimizer._name != NAME:
            return fp16_optimizer.FP16Optimizer.build_optimizer(cfg, params, **kwargs)
        return super().build_optimizer(cfg, params, **kwargs)

    def _masters(self, gradients: bool = False) -> list[Tensor]:
        """Return the parameters in fp32, or their gradients, each in the shape of the parameter in half precision."""
        flat = self.fp32_params.values() if self.has_flat_params else self.fp32_params
        tensors = [each.grad if gradients else each.data for each in flat]
        if not self.has_flat_params:
            return tensors
        (whole,) = tensors
        pieces = whole.split([each.numel() for each in self.fp16_params])
        return [piece.view_as(each) for piece, each in zip(pieces, self.fp16_params, strict=True)]

    def _sync_fp16_grads_to_fp32(self) -> None:
        if not self._needs_sync:
            return
        if not self.has_flat_params:
            for master in self.fp32_params:
                master.grad = torch.empty_like(master)
        masters: list[Tensor] = []
        gradients: list[Tensor] = []
        for master, parameter in zip(self._masters(gradients=True), self.fp16_params, strict=True):
            if parameter.grad is None:
                master.zero_()
            else:
                masters.append(master)
                gradients.append(parameter.grad)
        if masters:
            torch._foreach_copy_(masters, gradients)
        self._needs_sync = False

    def _sync_fp32_params_to_fp16(self) -> None:
        torch._foreach_copy_([each.data for each in self.fp16_params], self._masters())

    def zero_grad(self) -> None:
        """Clear the gradients."""
        if not self.has_flat_params:
            for master in self.fp32_params:
                master.grad = None
        self._multiply_factor = 1.0  # fairseq resets it only where the loss is scaled
        super().zero_grad()


optim.FP16Optimizer = FP16Optimizer
