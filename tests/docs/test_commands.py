"""The commands of README and documentation: each has the options that it is given, and runs as it stands there.

A block that cannot run has `<!-- not run: REASON -->` in the line before it: its options are checked all the same, and
of scripts that have --dry-run the plan. All other blocks of a document run one after the other, in a copy of the
repository in which the quick start has left its data (tiny ones; a training takes some updates).
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from fairseq import options

from corpora.mini.corpus import known_corpora
from fairseq_localattn.__main__ import COMMANDS, WITHOUT_FAIRSEQ
from support.cli import BIN, environment
from support.documents import DOCUMENTS, Block, blocks, commands, shell_blocks
from support.paths import ROOT

# Programs of others, whose options are not checked.
FOREIGN = frozenset(
    "cat cd command cp ct2-fairseq-converter cut curl echo export fairseq-hydra-train git grep head ls mkdir mkdocs mv"
    " paste pip pre-commit sacrebleu sbatch sed source tail tee tensorboard torchrun wandb wc".split()
)
# What add-a-variant.md tells its reader to write, a variant and a word; tests/docs/test_add_a_variant.py runs them.
EXAMPLES = re.compile("dilated|slope")
# Documents whose commands leave what those of others take.
FIRST = ("README.md", "docs/papers/diffwin.md", "docs/papers/mgsa.md")
HOW = "; a block that cannot run has <!-- not run: REASON --> in the line before it"

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def commands_of(path: Path) -> list[tuple[Block, list[str]]]:
    return [(block, words) for block in shell_blocks(path) for words in commands(block.text)]


def fairseq_unknown(program: str, words: list[str]) -> list[str]:
    """Return the words of a fairseq command that its parser, with the plugin's tasks and models, does not know."""
    make = {
        "train": options.get_training_parser, "generate": options.get_generation_parser,
        "interactive": options.get_interactive_generation_parser, "preprocess": options.get_preprocessing_parser,
        "validate": options.get_validation_parser, "eval-lm": options.get_eval_lm_parser,
    }  # fmt: skip
    if "--user-dir" in words:
        at = words.index("--user-dir")
        words = words[:at] + words[at + 2 :]
    if program == "train" and "--arch" not in words:  # left out, as in "fairseq-train DATA ..."
        words = [*words, "--arch", "transformer"]
    _, unknown = options.parse_args_and_arch(make[program](), words, parse_known=True)
    return [word for word in unknown if word.startswith("--")]


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
    if name == ("-m", "fairseq_localattn") and rest and rest[0] in COMMANDS:
        name = ("-m", f"fairseq_localattn.{WITHOUT_FAIRSEQ.get(rest[0], 'analysis')}.{rest[0]}")
    if program.startswith("fairseq-"):
        return fairseq_unknown(program.removeprefix("fairseq-"), rest)
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
    for block, words in commands_of(path):
        if EXAMPLES.search(" ".join(words)):
            continue
        try:
            unknown = unknown_options(words)
        except (LookupError, SystemExit) as error:
            pytest.fail(f"{block}: {' '.join(words)}: {error}{HOW}")
        assert not unknown, f"{block}: {words[0]} has no {', '.join(unknown)}"


def test_generation_counts_words() -> None:
    """Without these flags the BLEU that fairseq-generate prints counts subwords."""
    generating = [words for path in DOCUMENTS for _, words in commands_of(path) if words[0] == "fairseq-generate"]
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
    text = "\n".join(block.text for path in DOCUMENTS for block in shell_blocks(path))
    found = set(re.findall(r"^(\w+)=(\$\([^)]*\)|\S+)\s*(?:#.*)?$", text, re.M))
    names = Counter(name for name, _ in found)
    assert names["DATA"] == 1 and [each for each in found if names[each[0]] > 1] == []


class Checkout:
    """A copy of the repository after the quick start, and a virtual environment whose programs start in no time."""

    def __init__(self, root: Path) -> None:
        self.root, self.programs, self.ran = root, root / ".venv/bin", set[str]()
        for name in ("fairseq_localattn", "scripts", "data-prep", "configs", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.programs.mkdir(parents=True)
        (self.programs / "activate").touch()
        path = (str(self.programs), str(BIN), os.environ["PATH"])
        self.environment = environment() | {
            "PATH": os.pathsep.join(path), "LOCALATTN_VENV": ".venv", "LOCALATTN_DOWNLOADS": "",
            "PYTHONPATH": os.pathsep.join(str(root / name) for name in ("", "scripts", "data-prep")),
            "SST_DIR": str(root / "sst"), "MPLBACKEND": "Agg",
        }  # fmt: skip

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
    made, pipe = Checkout(tmp_path_factory.mktemp("checkout")), subprocess.PIPE
    warm = [sys.executable, "-P", str(ROOT / "tests/support/warm.py"), str(made.programs)]
    with subprocess.Popen(warm, cwd=made.root, env=made.environment, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        made.prepare()
        yield made  # the server ends when its stdin is closed


RUNNABLE = [path for path in DOCUMENTS if any(not block.excuse for block in shell_blocks(path))]


@pytest.mark.slow
@pytest.mark.parametrize("document", [str(path.relative_to(ROOT)) for path in RUNNABLE])
def test_every_command_runs_as_it_stands(checkout: Checkout, document: str) -> None:
    for name in (*FIRST, document):
        checkout.run(name)


@pytest.mark.slow
def test_commands_of_hours_print_their_plan(checkout: Checkout) -> None:
    plans: dict[str, Block] = {}  # each once
    for block, words in itertools.chain(*map(commands_of, DOCUMENTS)):
        script = words[1] if words[0] == "python" else words[0]
        if block.excuse and re.fullmatch(r"scripts/(\w+/\w+\.sh|table\.py)", script) and "dilated" not in words:
            text = " ".join(word for word in words if word != "--dry-run")
            plans.setdefault(text.replace("HOST:PORT", "localhost:29500"), block)
    assert len(plans) > 4
    for text, block in plans.items():
        done = checkout.shell(f"{text} --dry-run")
        assert done.returncode == 0 and " --arch " in done.stdout, f"{block}: {text}: {done.stderr[-1500:]}"


@pytest.mark.slow
def test_python_blocks_run(checkout: Checkout) -> None:
    """Blocks with a title are files, which tests/docs/test_add_a_variant.py writes and tests."""
    for name in FIRST:
        checkout.run(name)
    for path in DOCUMENTS:
        chosen = [each for each in blocks(path) if each.language == "python" and not each.title and not each.excuse]
        if chosen:
            (checkout.root / "page.py").write_text("\n".join(each.text for each in chosen), encoding="utf-8")
            done = checkout.shell("python page.py")
            assert done.returncode == 0, f"{path.name}: {done.stderr[-1500:]}{HOW}"
