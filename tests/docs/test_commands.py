"""The commands of README and documentation: each has the options that it is given, and runs as it stands there.

A block that cannot run has `<!-- not run: REASON -->` in the line before it: its options are checked all the same, and
of scripts that have --dry-run the plan. All other blocks of a document run one after the other, in a copy of the
repository in which the quick start has left its data (tiny ones; a training takes some updates).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from corpora.mini.corpus import known_corpora
from support.documents import DOCUMENTS, Block, blocks, commands, shell_blocks
from support.paths import ROOT

# Programs of others, whose options are not checked.
FOREIGN = frozenset(
    "cat cd command cp ct2-fairseq-converter cut curl echo export fairseq-hydra-train git grep head ls mkdir mkdocs mv"
    " paste pip pre-commit sacrebleu sbatch sed source tail tee tensorboard torchrun wandb wc".split()
)
# What add-a-variant.md tells its reader to write, a variant and a word; tests/docs/test_add_a_variant.py runs them.
EXAMPLES = ("dilated", "slope")
# Documents whose commands leave what those of others take.
FIRST = ("README.md", "docs/papers/diffwin.md", "docs/papers/mgsa.md")
HOW = "; a block that cannot run has <!-- not run: REASON --> in the line before it"

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


# The options


def fairseq_unknown(program: str, words: list[str]) -> list[str]:
    """Return the words of a fairseq command that its parser, with the plugin's tasks and models, does not know."""
    from fairseq import options

    import fairseq_localattn  # noqa: F401

    make = {
        "train": options.get_training_parser, "generate": options.get_generation_parser,
        "interactive": options.get_interactive_generation_parser, "preprocess": options.get_preprocessing_parser,
        "validate": options.get_validation_parser, "eval-lm": options.get_eval_lm_parser,
    }  # fmt: skip
    task = {"eval-lm": "language_modeling"}.get(program)
    parser = make[program](**({"default_task": task} if task else {}))
    if "--user-dir" in words:
        at = words.index("--user-dir")
        words = words[:at] + words[at + 2 :]
    if program == "train" and "--arch" not in words:  # left out, as in "fairseq-train DATA ..."
        words = [*words, "--arch", "transformer"]
    _, unknown = options.parse_args_and_arch(parser, words, parse_known=True)
    return unknown


@functools.cache
def help_of(*program: str) -> str:
    """Return what a program prints for --help: a shell script, a Python file, or a module after "-m"."""
    if program[0].endswith(".sh"):
        if re.fullmatch(r"scripts/\w+/\w+\.sh", program[0]):  # a table's door
            return help_of(f"scripts/{'figure' if '/fig' in program[0] else 'table'}.py")
        done = subprocess.run(["bash", program[0], "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr
    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [program[-1], "--help"]), contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit), warnings.catch_warnings(),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        if program[0] == "-m":
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(ROOT / program[0]), run_name="__main__")
    return printed.getvalue()


def unknown_options(words: list[str]) -> list[str]:
    """Return the options of a command that its program does not have. Raises LookupError for an unknown program."""
    program, rest = words[0], words[1:]
    if program in ("bash", "python", "python3"):
        count = 2 if rest[:1] == ["-m"] else 1
        name, rest = tuple(rest[:count]), rest[count:]
    else:
        name = (program,)
    if program == "torchrun" and "OUTPUT" in rest:  # torchrun … "$(command -v fairseq-train)" …
        return unknown_options(["fairseq-train", *rest[rest.index("OUTPUT") + 1 :]])
    if program in FOREIGN or name == ("-m", "pytest"):
        return []
    if name == ("-m", "fairseq_localattn") and rest[:1] == ["describe"] and "--arch" in rest:  # fairseq-train's
        return fairseq_unknown("train", ["DATA", *rest[1:]])
    if name == ("-m", "fairseq_localattn") and rest[:1] in (["describe"], ["draw"]):
        name = ("-m", f"fairseq_localattn.analysis.{rest[0]}")
    if name == ("-m", "fairseq_localattn") and rest[:1] in (["translate"], ["export"]):
        name = ("-m", f"fairseq_localattn.inference.{rest[0]}")
    if program.startswith("fairseq-"):
        return [word for word in fairseq_unknown(program.removeprefix("fairseq-"), rest) if word.startswith("--")]
    if not (name[0] == "-m" or (ROOT / name[0]).is_file()):
        raise LookupError(f"no check knows the program {program}: add it to FOREIGN in {Path(__file__).name}")
    if name[0] == "scripts/test.sh":  # its arguments are pytest's
        return []
    known = set(re.findall(r"--[a-z][\w-]*", help_of(*name)))
    given = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
    if name == ("-m", "fairseq_localattn.analysis.probing"):  # takes fairseq-train's as well
        given = {word for word in given if not word.startswith("--mgsa")}
    return sorted(given - known - {"--help"})


@every_document
def test_every_option_is_one_of_its_program(path: Path) -> None:
    for block in shell_blocks(path):
        for words in commands(block.text):
            if any(example in word for example in EXAMPLES for word in words):
                continue
            try:
                unknown = unknown_options(words)
            except (LookupError, SystemExit) as error:
                pytest.fail(f"{block}: {' '.join(words)}: {error}{HOW}")
            assert not unknown, f"{block}: {words[0]} has no {', '.join(unknown)}"


def test_generation_counts_words() -> None:
    """Without these flags the BLEU that fairseq-generate prints counts subwords."""
    found = [words for path in DOCUMENTS for block in shell_blocks(path) for words in commands(block.text)]
    generating = [words for words in found if words[0] == "fairseq-generate"]
    assert len(generating) > 3
    assert [words for words in generating if not {"--remove-bpe", "--scoring"} & {*words}] == []


@pytest.mark.parametrize(
    "command",
    [
        "fairseq-train DATA --user-dir fairseq_localattn --arch transformer_csan_tiny --csan-widow 3 --cpu",
        "fairseq-interactive DATA --path model.pt --bpe sentencepiece --bpe-codes codes",
        "python scripts/score.py OUTPUT --references FILE",
        "bash data-prep/prepare_parallel.sh OUT --source de --codes 200",
        'torchrun --nproc_per_node 4 "$(command -v fairseq-train)" DATA --arch transformer_mma --bf61',
    ],
)
def test_wrong_options_are_found(command: str) -> None:
    assert len(unknown_options([*commands(command)][-1])) == 1
    with pytest.raises(LookupError, match="no check knows the program scripts/nothing.sh"):
        unknown_options(["scripts/nothing.sh"])


def test_what_is_not_run_says_why() -> None:
    """A comment that is not in the line before a block would be read by nobody."""
    for path in DOCUMENTS:
        excuses = len(re.findall(r"^<!-- not run:", path.read_text("utf-8"), re.M))
        assert sum(bool(block.excuse) for block in blocks(path)) == excuses, path


def test_a_variable_has_one_meaning_in_all_documents() -> None:
    """Readers stay in one shell: a page's variable must not be another page's with another value."""
    found: dict[str, set[str]] = {}
    for path in DOCUMENTS:
        for block in shell_blocks(path):
            for name, value in re.findall(r"^(\w+)=(\$\([^)]*\)|\S+)\s*(?:#.*)?$", block.text, re.M):
                found.setdefault(name, set()).add(value)
    assert "DATA" in found and {name: values for name, values in found.items() if len(values) > 1} == {}


# The runs


class Checkout:
    """A copy of the repository after the quick start, and a virtual environment whose programs start in no time."""

    def __init__(self, root: Path) -> None:
        self.root, self.ran = root, set[str]()
        for name in ("fairseq_localattn", "scripts", "data-prep", "configs", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        programs = root / ".venv/bin"
        programs.mkdir(parents=True)
        (programs / "activate").touch()
        path = (str(programs), str(Path(sys.executable).parent), os.environ["PATH"])
        self.environment = {
            **os.environ, "PATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": os.pathsep.join(str(root / name) for name in ("", "scripts", "data-prep")),
            "LOCALATTN_VENV": ".venv", "LOCALATTN_DOWNLOADS": "", "SST_DIR": str(root / "sst"), "MPLBACKEND": "Agg",
        }  # fmt: skip
        warm = [sys.executable, "-P", str(ROOT / "tests/support/warm.py"), str(programs)]
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(warm, cwd=root, env=self.environment, stdin=pipe, stdout=pipe, text=True)
        assert self.server.stdout is not None and self.server.stdout.readline() == "ready\n"

    def shell(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run a script of bash, which ends at the first command that fails."""
        script = f"set -e -o pipefail\n{text}"
        return subprocess.run(
            ["bash", "-c", script], cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=300
        )

    def prepare(self) -> None:
        """Make what the documents say is there: the quick start's data and models, trees, somebody's own text."""
        known_corpora()["sst"](self.root / "sst")
        known_corpora()["probing"](self.root)
        done = self.shell(
            """
            toy="--train 60 --valid 10 --test 10 --bpe 100 --workers 1"
            data-prep/prepare_toy.sh runs/quickstart/data/toy.tiny $toy --trees en
            cp -r runs/quickstart/data/toy.tiny runs/captions
            mkdir -p my/text && cp runs/captions/tok/*.en my/text
            cp runs/captions/bpe/test.en source.bpe && cp runs/captions/raw/test.en.tree source.tree
            for name in train valid test; do head -n 60 $name.mrg | gzip >$name.mrg.gz; done
            mv valid.mrg.gz dev.mrg.gz
            data="runs/captions/bin --user-dir fairseq_localattn --cpu -s de -t en"
            for model in mma_small diffwin_small localattn_small; do
              fairseq-train $data --arch transformer_$model --share-all-embeddings --max-tokens 1000 --optimizer adam \\
                  --save-dir runs/$model --no-epoch-checkpoints
            done
            cp runs/diffwin_small/checkpoint_last.pt DIFFWIN.pt && cp runs/localattn_small/checkpoint_last.pt PLAIN.pt
            mkdir -p runs/quickstart/transformer_mma_small.tiny/checkpoints && cp runs/captions/raw/test.en REFERENCE
            cp runs/mma_small/checkpoint_last.pt runs/quickstart/transformer_mma_small.tiny/checkpoints
            fairseq-generate $data --path runs/mma_small/checkpoint_last.pt \\
                | tee OUTPUT OTHER SEED1 SEED2 OTHER1 OTHER2 \\
                >runs/quickstart/transformer_mma_small.tiny/generate-test.txt
            """
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def run(self, document: str) -> None:
        """Run the blocks of a document, once."""
        if document in self.ran:
            return
        self.ran.add(document)
        chosen = [block for block in shell_blocks(ROOT / document) if not block.excuse]
        done = self.shell("\n".join(f"echo '== {block}' >&2\n{block.text}" for block in chosen))
        if done.returncode:
            place = re.findall(r"^== (.*)$", done.stderr, re.M)[-1]
            said = (done.stdout[-1500:] + done.stderr.split(f"== {place}\n")[-1][-1500:]).strip()
            pytest.fail(f"{place}: a command of this block fails{HOW}:\n{said}")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Iterator[Checkout]:
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    try:
        made.prepare()
        yield made
    finally:
        made.server.kill()
        made.server.wait()


def runnable() -> list[str]:
    """Return the documents with commands to run, those of FIRST before the others."""
    found = [path for path in DOCUMENTS if any(not block.excuse for block in shell_blocks(path))]
    names = [str(path.relative_to(ROOT)) for path in found]
    return sorted(names, key=lambda name: (name not in FIRST, names.index(name)))


@pytest.mark.slow
@pytest.mark.xdist_group("commands")
@pytest.mark.parametrize("document", runnable())
def test_every_command_runs_as_it_stands(checkout: Checkout, document: str) -> None:
    for name in (*FIRST, document):
        checkout.run(name)


def plans() -> list[tuple[Block, str]]:
    """Return the commands that are not run and have --dry-run, each once."""
    found: dict[str, Block] = {}
    for path in DOCUMENTS:
        for block in shell_blocks(path):
            for words in commands(block.text) if block.excuse else ():
                script = words[1] if words[0] == "python" else words[0]
                if re.fullmatch(r"scripts/(\w+/\w+\.sh|table\.py)", script) and EXAMPLES[0] not in words:
                    text = " ".join(word for word in words if word != "--dry-run")
                    found.setdefault(text.replace("HOST:PORT", "localhost:29500"), block)
    return [(block, text) for text, block in found.items()]


@pytest.mark.slow
@pytest.mark.xdist_group("commands")
def test_commands_of_hours_print_their_plan(checkout: Checkout) -> None:
    assert len(plans()) > 4
    for block, text in plans():
        done = checkout.shell(f"{text} --dry-run")
        assert done.returncode == 0 and " --arch " in done.stdout, f"{block}: {text}: {done.stderr[-1500:]}"


@pytest.mark.slow
@pytest.mark.xdist_group("commands")
def test_python_blocks_run(checkout: Checkout) -> None:
    """Blocks with a title are files, which tests/docs/test_add_a_variant.py writes and tests."""
    for name in FIRST:
        checkout.run(name)
    for path in DOCUMENTS:
        chosen = [
            block for block in blocks(path) if block.language == "python" and not block.title and not block.excuse
        ]
        if chosen:
            (checkout.root / "page.py").write_text("\n".join(block.text for block in chosen), encoding="utf-8")
            done = checkout.shell("python page.py")
            assert done.returncode == 0, f"{path.name}: {done.stderr[-1500:]}{HOW}"
