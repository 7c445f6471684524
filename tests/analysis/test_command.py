"""What the commands of the analyses share: names of checkpoints, and checks before a checkpoint is read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_localattn import __main__ as package
from fairseq_localattn.analysis import head_kinds, masks
from fairseq_localattn.analysis.command import checkpoint_names, wrapped
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.errors import UsageError


def test_checkpoints_have_the_names_of_their_files_where_these_differ() -> None:
    assert checkpoint_names(["a/last.pt", "b/last.pt"], []) == ["a/last.pt", "b/last.pt"]
    assert checkpoint_names(["a/last.pt", "b/best.pt"], []) == ["last.pt", "best.pt"]
    assert checkpoint_names(["a/last.pt", "b/last.pt"], ["one", "other"]) == ["one", "other"]
    with pytest.raises(UsageError, match="two checkpoints are called a"):
        checkpoint_names(["a.pt", "b.pt"], ["a", "a"])


def test_titles_break_between_words() -> None:
    assert wrapped("head 2: sinks(window=4, sinks=1) & alibi", 26) == "head 2:\nsinks(window=4, sinks=1) &\nalibi"
    assert wrapped("runs/a-long_name/checkpoint_last.pt", 18) == "runs/a-long_name/\ncheckpoint_last.pt"
    assert wrapped("indivisible", 4) == "indivisible" and wrapped("", 4) == ""


@pytest.mark.parametrize(
    ("main", "flags"),
    [
        (heatmap.main, "FOLDER --path FOLDER/a.pt --sentence 0 --plot"),
        (locality.main, "FOLDER --path FOLDER/a.pt --plot"),
        (head_kinds.main, "FOLDER --path FOLDER/a.pt --sentence 0 --plot"),
        (masks.main, "--out"),
    ],
)
def test_plots_need_matplotlib_and_a_known_format(
    main: Callable[[list[str]], None], flags: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error comes before a checkpoint is read."""
    (tmp_path / "a.pt").write_text("")
    *words, flag = flags.replace("FOLDER", str(tmp_path)).split()
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(UsageError, match=rf"{flag} needs matplotlib .*pip install 'fairseq_localattn\[plot\]'"):
            main([*words, flag, str(tmp_path / "a.png")])
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with pytest.raises(UsageError, match=rf"{flag} .*a\.docx: the name must end in one of .*\.png"):
        main([*words, flag, str(tmp_path / "a.docx")])


MISTAKES = [
    (package.main, "describe --arch transformer_csam", "there is no such architecture; did you mean 'transformer_csan"),
    (package.main, "describe --arch transformer_csan_tiny --csan-window 4", "encoder layer 1: the window must be odd"),
    (package.main, "describe --arch transformer_hybrid_tiny --localattn-decoder sann", "no mechanism 'sann'; did you"),
    (package.main, "describe --path a.pt --user-dir mien", "--user-dir mien: no such folder"),
    (package.main, "draw locl --out x.png", "⟨here⟩locl.*there is no mechanism 'locl'; did you mean 'local'"),
    (package.main, "draw local --out x.png --length 0", "--length 0: give a number of words from 1 to 30"),
    (package.main, "draw local --out x.png --heads 65", "--heads 65: at most 64 panels"),
    (package.main, "draw '2*local + 2*san' --out x.png --heads 8", "the groups have 4 heads together"),
    (package.main, "draw tree --out x.png", "trees come with the data"),
    (package.main, "draw local --out x.nonsense", "must end in one of"),
    (masks.main, "--out .", "cannot be written"),
    (masks.main, "--out x.png --tree '(S'", "--tree: unbalanced brackets"),
    (masks.main, f"--out x.png --tree '(S {'(NN a)' * 31})'", "has 31 words; give one of at most 30"),
    (head_kinds.main, ". --sentence 0 --path a.pt --path b.pt", "--path: one checkpoint makes a picture; give it once"),
]


@pytest.mark.parametrize(("main", "words", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_mistakes_end_in_one_line(
    main: Callable[[list[str]], None], words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message) as caught:
        main(shlex.split(words))
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
