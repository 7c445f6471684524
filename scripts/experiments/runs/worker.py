"""Run one process of a fairseq training that torchrun starts.

    torchrun --nproc-per-node N scripts/train_worker.py DATA … (arguments of fairseq-train)

torchrun's variables become flags of fairseq, which reads the variables only where it sees GPUs, and trains on each
machine by itself where it sees one GPU on each of several. A worker dies with torchrun, which leaves its workers
running when it is killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from torch import distributed
from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from experiments.system.processes import die_with_parent


def worker_argv(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the arguments with the place of this process among the others; only the first writes the log file.

    Raises KeyError where torchrun's variables are missing.
    """
    rank = environment["RANK"]
    places = {
        "--distributed-init-method": "env://",
        "--distributed-world-size": environment["WORLD_SIZE"],
        "--distributed-rank": rank,
        "--device-id": environment["LOCAL_RANK"],
    }
    if "--cpu" in argv:
        places |= {"--distributed-backend": "gloo", "--ddp-backend": "legacy_ddp"}
    own = list(argv)
    if rank != "0" and "--log-file" in own:
        at = own.index("--log-file")
        del own[at : at + 2]
    return [*own, *(word for pair in places.items() for word in pair), "--distributed-no-spawn"]


def main() -> int:
    try:
        sys.argv[1:] = worker_argv(sys.argv[1:], os.environ)
    except KeyError as missing:
        print(f"train_worker: error: ${missing.args[0]} is not set: start it with torchrun", file=sys.stderr)
        return 2
    die_with_parent()
    if os.getppid() == 1:  # torchrun was killed before that
        return 1
    errors = get_error_handler()
    errors.initialize()
    try:
        train()
    except Exception as error:  # UsageError as well, which torch's own record() leaves out as a SystemExit
        from fairseq_localattn.compat.peers import PeerLostError

        if not isinstance(error, PeerLostError):  # what has happened is told by the process that was lost
            errors.record_exception(error)
        raise
    return 0


def train() -> None:
    """Train, and end the exchange with the other processes, which fairseq leaves open.

    Where a thread of gloo still holds a finished exchange as the interpreter ends, the process aborts.
    """
    from fairseq_cli.train import cli_main  # first of fairseq's, or its log loses its format

    cli_main()
    if distributed.is_initialized():
        distributed.destroy_process_group()
