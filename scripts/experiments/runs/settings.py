"""What tells trainings apart: the hash of their settings, in the results and in the names of their folders."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from experiments.recipes.recipe import SECTIONS, Recipe

# Flags that change neither the model nor its output. Where the best checkpoint or an average is measured,
# save_interval_updates does: it decides which checkpoints there are.
NOT_SETTINGS = {"log_interval", "save_interval_updates", "keep_interval_updates", "no_epoch_checkpoints", "num_workers"}
# The size of a batch in decoding changes no output.
NOT_DECODING = {"max_tokens", "batch_size", "num_workers"}


def settings_hash(recipe: Recipe, data: str) -> str:
    """Return eight hex digits that change with all that can change a result but architecture and seed.

    These are the recipe's flags, the checkpoints that are measured, the batch and ``data``, the data's fingerprint.
    """
    best, average = recipe.checkpoint == "best", dict(recipe.average)
    ignored = NOT_SETTINGS - {"save_interval_updates"} if best or average else NOT_SETTINGS
    facts: dict[str, Any] = {
        section: {
            key: str(entry.value)
            for key, entry in recipe.section(section).items()
            if key not in (ignored if section == "train" else NOT_DECODING)
        }
        for section in SECTIONS
    }
    facts |= {"checkpoint": recipe.checkpoint, "average": average, "gpus": recipe.gpus, "data": data}
    if recipe.probing == "scratch":  # its encoder is that of no translation model
        facts["probing"] = "scratch"
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
