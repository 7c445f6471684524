"""Start of a training: on one GPU or by torchrun on several, on one machine or more, with the recipe's batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.recipes.nodes import RecipeError
from experiments.recipes.recipe import Recipe
from experiments.system.checkout import ROOT

WORKER = ROOT / "scripts" / "train_worker.py"
PRECISIONS = ("fp32", "fp16", "bf16")
FUSED = "localattn_adam"  # computes on GPUs what fairseq's adam does; either continues the checkpoints of the other
# Least tokens (with batch_size: sentences) of a step for which a further GPU is taken by default: with fewer its time
# goes into starting kernels and exchanging gradients. The papers' smallest recipe of one GPU has as many.
FILLING = {"max_tokens": 4096, "batch_size": 32}


@dataclass(frozen=True)
class Launch:
    """Where one training runs.

    Args:
        gpus: processes on each machine.
        nodes: machines.
        rendezvous: HOST:PORT where the torchrun of each machine meets the others.
        srun: start torchrun on all nodes of the SLURM job; else only on this machine.
        precision: of ``PRECISIONS``.
        cpu: train on the CPU.
        devices: GPUs of this machine that the training may use; None: those of the environment.
        max_tokens: most tokens (with batch_size: sentences) that a GPU holds; None: the recipe's.
        threads: of a training on a CPU; None: the recipe's.
        fit: take no more of the GPUs than a recipe's batch fills.
        alone: no other training shares its cores or its GPUs; only then its steps a second are recorded.
    """

    gpus: int = 1
    nodes: int = 1
    rendezvous: str = ""
    srun: bool = False
    precision: str = "fp32"
    cpu: bool = False
    devices: tuple[str, ...] | None = None
    max_tokens: int | None = None
    threads: int | None = None
    fit: bool = False
    alone: bool = True

    @property
    def world(self) -> int:
        """Number of processes on all machines."""
        return self.gpus * self.nodes

    def environment(self, train: bool = True) -> dict[str, str]:
        """Return the variables that name the GPUs: all of them for a training, one for other steps, none on a CPU."""
        if self.cpu:
            return {"CUDA_VISIBLE_DEVICES": ""}
        gpus = (self.devices or ())[: None if train else 1]
        return {} if self.devices is None else {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}

    def on(self, gpus: int) -> Launch:
        """Return this launch on the first of its GPUs."""
        return replace(self, gpus=gpus, devices=None if self.devices is None else self.devices[:gpus])

    def fitted(self, recipe: Recipe) -> Launch:
        """Return this launch on as many GPUs as the recipe's batch fills, where ``fit`` asks for it."""
        if not self.fit or recipe.lead:
            return self
        key = batch_key(recipe)
        least = min(FILLING[key], self.max_tokens or FILLING[key])
        return self.on(max(1, min(self.gpus, paper_batch(recipe) // (least * self.nodes))))

    def command(self, errors: Path) -> list[str]:
        """Return the command up to the arguments of fairseq-train; torchrun records errors in the folder ``errors``."""
        if self.world == 1:
            return [sys.executable, "-m", "fairseq_cli.train"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(self.gpus)]
        torchrun += ["--log-dir", str(errors)]
        if self.nodes == 1:
            return [*torchrun, "--standalone", str(WORKER)]
        nodes = str(self.nodes)
        each = ["srun", "--nodes", nodes, "--ntasks", nodes, "--ntasks-per-node", "1", "--kill-on-bad-exit=1"]
        meet = ["--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.rendezvous]
        return [*(each if self.srun else []), *torchrun, *meet, str(WORKER)]

    def adapt(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the flags of this machine: precision, device, optimizer, and the same effective batch.

        CUDA graphs are off unless the recipe asks for them: they change which sentences are in a batch.
        gpus × max_tokens × update_freq is that of the recipe, rounded down to whole tokens a process. Raises
        RecipeError where the batch is smaller than the number of processes.
        """
        flags: dict[str, object] = {"distributed_world_size": 1} if self.world == 1 else {}
        if self.cpu:
            flags["cpu"] = True
        else:
            flags |= {self.precision: True} if self.precision != "fp32" else {}
            flags |= {"optimizer": FUSED} if recipe.flag("train", "optimizer") == "adam" else {}
            flags |= {"localattn_graphs": 0} if "localattn_graphs" not in recipe.train and _is_own(recipe) else {}
        key, (size, update_freq) = batch_key(recipe), batch_of(recipe, self)
        flags |= {"update_freq": [update_freq], key: size}
        if size < recipe.flag("train", key):
            # fairseq rounds the sentences of a batch down to a multiple of 8, which is much of a small batch.
            flags["required_batch_size_multiple"] = 1
        recipe = recipe.with_flags("train", flags, f"{recipe.where}: on {self.world} process(es)")
        for section in ("generate", "eval_lm"):
            if recipe.section(section):
                own: dict[str, object] = {"cpu": True} if self.cpu else {}
                # fairseq-eval-lm would give each GPU a part of the test set.
                own |= {"distributed_world_size": 1} if section == "eval_lm" else {}
                recipe = recipe.with_flags(section, own, f"{recipe.where}: {section} on this machine")
        return recipe if self.threads is None else replace(recipe, threads=self.threads)


def batch_of(recipe: Recipe, launch: Launch) -> tuple[int, int]:
    """Return the batch of one process and step on this machine, in ``batch_key``, and update_freq.

    Raises RecipeError where the recipe has no size, or a batch below the number of processes.
    """
    key, total = batch_key(recipe), paper_batch(recipe)
    size = int(recipe.flag("train", key))
    if launch.world > total:
        unit = "tokens" if key == "max_tokens" else "sentences"
        raise RecipeError(f"{recipe.where}: {launch.world} processes, but a batch has {total} {unit}")
    update_freq = max(1, -(-total // (launch.world * (launch.max_tokens or size))))
    return total // (launch.world * update_freq), update_freq


def batch_key(recipe: Recipe) -> str:
    """Return the flag that has the size of a recipe's batch: max_tokens, or batch_size."""
    return "max_tokens" if recipe.flag("train", "max_tokens") is not None else "batch_size"


def _is_own(recipe: Recipe) -> bool:
    from fairseq_localattn.models.architectures import localattn_architectures  # here, as the import takes seconds

    return recipe.architecture in localattn_architectures()


def paper_batch(recipe: Recipe) -> int:
    """Return the effective batch of the recipe: gpus × max_tokens (or batch_size) × update_freq.

    Raises RecipeError where the recipe has no size.
    """
    size = recipe.flag("train", batch_key(recipe))
    if not isinstance(size, int):
        raise RecipeError(f"{recipe.where}: train needs max_tokens (or batch_size): they make the effective batch")
    freq = recipe.flag("train", "update_freq", [1])
    freq = freq[0] if isinstance(freq, list) else freq
    return recipe.gpus * size * int(freq)


def best_precision(capabilities: Sequence[tuple[int, int]]) -> str:
    """Return the precision for GPUs of these compute capabilities: bf16 from 8.0 (A100), fp16 from 7.0 (V100)."""
    least = min(capabilities, default=(0, 0))
    return "bf16" if least >= (8, 0) else "fp16" if least >= (7, 0) else "fp32"
