"""Commands of a shell, run in processes that are forked from one which has imported torch and fairseq.

    python tests/support/warm.py FOLDER

writes FOLDER/{python,python3,fairseq-train,…}: programs that behave as those of this interpreter, without the seconds
of the imports. They hand their arguments, folder, environment and open files to this process, which forks for each;
modules are found by this process's PYTHONPATH. The plugin is not imported before a command asks for it. Arguments of
SHORTER are appended, so that a training of a document takes a second.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

FAIRSEQ = ("preprocess", "train", "generate", "interactive", "validate", "eval-lm", "score", "hydra-train")
PROGRAMS = ("python", "python3", "sacremoses", "subword-nmt", "sacrebleu", *(f"fairseq-{name}" for name in FAIRSEQ))
SHORT = ["--max-len-a", "0", "--max-len-b", "8"]
SHORTER = {
    "fairseq-train": ["--max-update", "10", "--num-workers", "0"],
    "fairseq-hydra-train": ["optimization.max_update=10", "dataset.num_workers=0"],
    "fairseq-generate": SHORT,
    "fairseq-interactive": SHORT,
    "fairseq_localattn.analysis.probing": ["--epochs", "1"],
}
CLIENT = """#!{python} -ISE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
text = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
server.sendall(text)
sys.exit(int.from_bytes(server.recv(1) or b"\\1", "big"))
"""


def run(argv: list[str], folder: str, environment: dict[str, str], files: list[int]) -> int:
    """Run a command in this process, and return its exit status."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
    name, words = os.path.basename(argv[0]), argv[1:]
    try:
        if not name.startswith("python"):
            (script,) = importlib.metadata.entry_points(group="console_scripts", name=name)
            sys.argv = [argv[0], *words, *SHORTER.get(name, [])]
            return _status(script.load()())
        while words and words[0] in ("-W", "-u"):
            words = words[2 if words[0] == "-W" else 1 :]
        if words[:1] == ["-m"]:
            sys.argv = [words[1], *words[2:], *SHORTER.get(words[1], [])]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[:1] == ["-c"]:
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as stop:
        return _status(stop.code)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _status(code: object) -> int:
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(code is not None)


def serve(folder: Path) -> None:
    """Write the programs, and run what they ask for, for ever."""
    import fairseq.models
    import fairseq.tasks
    import fairseq.trainer  # noqa: F401
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401
    import torch

    torch.set_num_threads(1)
    assert "fairseq_localattn" not in sys.modules, "the plugin must be imported by the command itself"
    listener = socket.socket(socket.AF_UNIX)
    address = str(folder / "warm.socket")
    listener.bind(address)
    listener.listen(64)
    for name in PROGRAMS:
        path = folder / name
        path.write_text(CLIENT.format(python=sys.executable, address=address))
        path.chmod(0o755)
    print("ready", flush=True)
    caller = os.dup(0)  # sys.stdin has a lock, which a fork in this moment would keep for ever
    threading.Thread(target=lambda: os.read(caller, 1) or os._exit(0), daemon=True).start()  # ends with its caller
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _answer(connection: socket.socket) -> None:
    """Run one command in a process of its own, and send its exit status; end with it, or when its caller is killed."""
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += connection.recv(1 << 16)
    argv, folder, environment = json.loads(text)
    os.setpgid(0, 0)

    def end_with_the_caller() -> None:
        if not connection.recv(1):
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_the_caller, daemon=True).start()
    status = run(argv, folder, environment, files)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    connection.sendall((status & 255).to_bytes(1, "big"))
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
