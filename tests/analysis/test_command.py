"""What the commands of the analyses share: names of checkpoints, and checks before a checkpoint is read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


COMMANDS: dict[str, tuple[Callable[[list[str]], None], str, str]] = {
    "heatmap": (heatmap.main, "FOLDER --path FOLDER/a.pt --sentence 0", "--plot"),
    "locality": (locality.main, "FOLDER --path FOLDER/a.pt", "--plot"),
    "head kinds": (head_kinds.main, "FOLDER --path FOLDER/a.pt --sentence 0", "--plot"),
    "masks": (masks.main, "", "--out"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_plots_need_matplotlib_and_a_known_format(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error comes before a checkpoint is read."""
    for command in (heatmap, locality, head_kinds):
        monkeypatch.setattr(command, "show_progress_alone", lambda: None)
    (tmp_path / "a.pt").write_text("")
    main, words, flag = COMMANDS[name]
    command_line = [word.replace("FOLDER", str(tmp_path)) for word in words.split()]
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(UsageError, match=rf"{flag} needs matplotlib .*pip install 'fairseq_localattn\[plot\]'"):
            main([*command_line, flag, str(tmp_path / "a.png")])
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with pytest.raises(UsageError, match=rf"{flag} .*a\.docx: the name must end in one of .*\.png"):
        main([*command_line, flag, str(tmp_path / "a.docx")])
