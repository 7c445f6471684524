"""Preparation of IWSLT14 and WMT14 from small archives, compared with their recipes in a few lines."""

from __future__ import annotations

import gzip
import html
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from corpora.mini.files import sgm, write
from support.corpora.prep import SPLITS, assert_in_subwords, assert_refused, encoded, lines_of, prepare, prepare_until
from support.corpora.preparations import prepared, unpacked

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")  # of IWSLT14


def member(archive: Path, name: str) -> list[str]:
    """Return the lines of text of a file in an archive."""
    with tarfile.open(archive) as tar:
        packed = tar.extractfile(name)
        assert packed is not None
        content = packed.read()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().split("\n")[:-1]
    if name.endswith((".sgm", ".xml")):
        return [re.sub(r"<seg id=\"\d+\">\s*|\s*</seg>\s*", "", line) for line in lines if "<seg id" in line]
    return lines


def iwslt_text(path: Path, lang: str) -> dict[str, list[str]]:
    """Return the text of IWSLT14 by split, before validation text is taken out."""
    archive = path / "de-en.tgz"
    train = member(archive, f"de-en/train.tags.de-en.{lang}")
    tests = [member(archive, f"de-en/IWSLT14.{name}.de-en.{lang}.xml") for name in TESTS]
    kept = [line for line in train if not re.search("<url>|<talkid>|<keywords>", line)]
    return {"train": [re.sub("</?(title|description)>", "", line) for line in kept], "test": sum(tests, [])}


def wmt_text(path: Path, lang: str, other: str) -> dict[str, list[str]]:
    """Return the text of WMT14 by split; other: de or fr."""
    prefixes = {"europarl-v7": f"training/europarl-v7.{other}-en", "commoncrawl": f"commoncrawl.{other}-en"}
    if other == "fr":
        prefixes["un"] = "un/undoc.2000.fr-en"
    prefixes["nc-v9"] = f"training/news-commentary-v9.{other}-en"
    train = [member(path / f"training-parallel-{name}.tgz", f"{prefix}.{lang}") for name, prefix in prefixes.items()]
    if other == "fr":
        train.append(member(path / "training-giga-fren.tar", f"giga-fren.release2.fixed.{lang}.gz"))
    kind = "src" if lang == "en" else "ref"
    return {
        "train": sum(train, []),
        "valid": member(path / "dev.tgz", f"dev/newstest2013.{lang}"),
        "test": member(path / "test-full.tgz", f"test-full/newstest2014-{other}en-{kind}.{lang}.sgm"),
    }


def tokens_of(texts: dict[str, dict[str, list[str]]], wmt: bool = True) -> dict[str, dict[str, list[str]]]:
    """Return Moses tokens by language and split as fairseq's recipes make them: in test sets ’ becomes ' first.

    Those of WMT are normalised, but for test sets, and have dashes split; those of IWSLT are lower-cased.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for lang, splits in texts.items():
        normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        tokenizer, found[lang] = MosesTokenizer(lang), {}
        for split, lines in splits.items():
            if split == "test":
                lines = [line.replace("’", "'") for line in lines]
            elif wmt:
                lines = [normalizer.normalize(line + "\n") for line in lines]
            tokens = [tokenizer.tokenize(x, aggressive_dash_splits=wmt, return_str=True, escape=True) for x in lines]
            found[lang][split] = tokens if wmt else [line.lower() for line in tokens]
    return found


def kept(one: list[str], two: list[str], most: int, ratio: float) -> list[int]:
    """Return the places of the pairs that clean-corpus-n.perl keeps."""
    counts = [sorted((len(a.split()), len(b.split()))) for a, b in zip(one, two, strict=True)]
    return [place for place, (a, b) in enumerate(counts) if 1 <= a and b <= most and b <= ratio * a]


def assert_texts(out: Path, folder: str, lang: str, texts: dict[str, list[str]]) -> None:
    """Assert that a step has these lines of a language."""
    for split in SPLITS:
        assert lines_of(out / folder / f"{split}.{lang}") == texts[split], (folder, split, lang)


CLEANED = {  # languages, most tokens, ratio, every n-th pair that is held out, published numbers
    "iwslt14": ("de", "en", 175, 1.5, 23, ("7,283", "6,750")),
    "wmt14_en_de": ("en", "de", 80, 9, 0, ("3,000", "3,003")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CLEANED])
def test_cleaned_by_tokens_as_the_recipe_does(name, done):
    one, two, most, ratio, every, published = CLEANED[name]
    texts = {lang: iwslt_text(done.source, lang) if every else wmt_text(done.source, lang, "de") for lang in (one, two)}
    tokens = tokens_of(texts, wmt=not every)
    clean = kept(tokens[one]["train"], tokens[two]["train"], most, ratio)
    assert 0 < len(clean) < len(tokens[one]["train"])
    for texts_or_tokens, folder in ((texts, "raw"), (tokens, "tok")):
        for lang, found in texts_or_tokens.items():
            chosen = [found["train"][place] for place in clean]
            if every:
                found["valid"] = chosen[every - 1 :: every]
                del chosen[every - 1 :: every]
            assert_texts(done.out, folder, lang, found | {"train": chosen})
    assert_in_subwords(done.out, one, two)
    for split, count in zip(("valid", "test"), published, strict=True):
        assert f"{split}: {len(texts[one][split])} pairs (published: {count})" in done.said
    assert sorted(path.name for path in done.out.iterdir()) == [".lock", "bin", "bpe", "options.txt", "raw", "tok"]


@prepared("wmt14_en_fr")
def test_wmt14_en_fr_is_divided_before_it_is_cleaned_by_subwords(done):
    texts = {lang: wmt_text(done.source, lang, "fr") for lang in ("en", "fr")}
    for text in texts.values():
        text["valid"] = text["train"][24::25]
        text["train"] = [line for number, line in enumerate(text["train"], 1) if number % 25]
    tokens, codes = tokens_of(texts), done.out / "bpe/codes"
    bpe = {lang: {split: encoded(codes, tokens[lang][split]) for split in SPLITS} for lang in tokens}
    for split in ("train", "valid"):
        clean = kept(bpe["en"][split], bpe["fr"][split], 250, 1.5)
        assert 0 < len(clean) < len(bpe["en"][split])
        for lang in ("en", "fr"):
            for found in (texts, tokens, bpe):
                found[lang][split] = [found[lang][split][place] for place in clean]
    for folder, found in (("raw", texts), ("tok", tokens)):
        for lang in ("en", "fr"):
            assert_texts(done.out, folder, lang, found[lang])
    assert "’" in "".join(texts["fr"]["test"]) and "’" not in "".join(tokens["fr"]["test"])
    assert_in_subwords(done.out, "en", "fr")
    assert f"valid: {len(texts['en']['valid'])} pairs" in done.said


@prepared("toy")
def test_codes_are_those_of_subword_nmt_on_the_whole_text(done):
    out = done.out
    both = b"".join((out / f"tok/train.{lang}").read_bytes() for lang in ("de", "en"))
    command = [sys.executable, "-W", "ignore", "-m", "subword_nmt.learn_bpe", "-s", "60"]
    codes = subprocess.run(command, input=both, capture_output=True, check=True).stdout
    assert (out / "bpe/codes").read_bytes() == codes


@prepared("wmt14_en_de")
def test_other_news_commentaries_of_wmt14(done, tmp_path):
    for year, version in (("wmt16", "v11"), ("wmt17", "v12")):
        said = prepare_until("text", "wmt14_en_de", tmp_path / year, *done.arguments(), "--data", year)
        assert f"news-commentary-{version}.de-en.en: 300 pairs" in said


@prepared("wmt14_en_fr")
def test_wmt14_en_fr_with_newstest2013(done, tmp_path):
    prepare_until("text", "wmt14_en_fr", tmp_path, *done.arguments(), "--valid", "newstest2013")
    for lang in ("en", "fr"):
        assert_texts(tmp_path, "text", lang, wmt_text(done.source, lang, "fr"))


@prepared("wmt14_en_de")
def test_dictionaries_of_each_language_and_trees(done, tmp_path):
    """The folder trees/ of the corpus has a tree for every pair that is kept."""
    from fairseq.data import Dictionary

    out = shutil.copytree(done.out, tmp_path / "out")
    shutil.rmtree(out / "bin")
    text = (out / "options.txt").read_text()
    (out / "options.txt").write_text(text.replace("separate=0", "separate=1"))
    with_trees = done.prepare(out, "--separate-dictionaries", "--trees", "en")
    assert with_trees.returncode == 0, with_trees.stderr
    assert "1,425 sentences, 0 without a tree" in with_trees.stdout
    assert (out / "bin/train.en-de.en.phrases.bin").exists()
    for lang in ("en", "de"):
        words = {word for line in lines_of(out / f"bpe/train.{lang}") for word in line.split()}
        found = Dictionary.load(str(out / f"bin/dict.{lang}.txt"))
        assert {word for word in found.symbols[found.nspecial :] if not word.startswith("madeupword")} == words


@prepared("iwslt14")
def test_iwslt14_from_unpacked_files_with_the_test_sets_of_mma(done, tmp_path):
    source, folder, out = done.source, tmp_path / "source", tmp_path / "out"
    unpacked(source, folder)
    options = ("--local", folder, "--bpe", 80, "--test", "mma")
    assert_refused(prepare("iwslt14", out, *options), "needs IWSLT15.TED.tst2013.de-en.{de,en}.xml of IWSLT15")
    for lang in ("de", "en"):
        texts = iwslt_text(source, lang)
        write(folder / f"IWSLT15.TED.tst2013.de-en.{lang}.xml", sgm("refset", [('docid="1"', texts["test"][:7])]))
        plain = folder / f"de-en/train.tags.de-en.{lang}"
        write(plain.with_name(f"{plain.name}.gz"), lines_of(plain))
        plain.unlink()
    prepare_until("text", "iwslt14", out, *options)
    assert lines_of(out / "text/test.en") == texts["test"][:20] + texts["test"][40:] + texts["test"][:7]
    assert lines_of(out / "text/train.en") == texts["train"]


@prepared("iwslt14")
def test_iwslt14_that_is_tokenised(done, tmp_path):
    tok = done.out / "tok"
    prepare_until("raw", "iwslt14", tmp_path, "--tokenised", "--local", tok, "--bpe", 60)
    for path in tok.iterdir():
        assert (tmp_path / "tok" / path.name).read_bytes() == path.read_bytes()
        raw, tokens = ((folder / path.name).read_text("utf-8") for folder in (tmp_path / "raw", tok))
        assert raw.count(" ") < tokens.count(" ") and raw.replace(" ", "") == html.unescape(tokens.replace(" ", ""))


@prepared("wmt14_en_de")
def test_google_prepared_wmt16_is_taken_as_it_is(done, tmp_path):
    """Subwords, tokens and text of the archive, and one dictionary of at most 32,768 words, as in fairseq's recipe."""
    local, out = done.source, tmp_path / "out"
    options = ["--local", local, "--data", "google"]
    refused = prepare("wmt14_en_de", tmp_path / "checked", *options)
    assert_refused(refused, "wmt16_en_de.tar.gz is not the official file", "expected checksum md5:874ab6bb")
    prepare_until("bpe", "wmt14_en_de", out, *options, "--no-checksums")
    made = prepare("wmt14_en_de", out, *options, "--no-checksums")
    assert made.returncode == 0 and made.stdout.endswith(f"ready: {out}/bin\n"), made.stderr
    assert "test: 60 pairs (published: 3,003)" in made.stdout and not (out / "download/unpacked").exists()
    names = {"train": "train.tok.clean", "valid": "newstest2013.tok", "test": "newstest2014.tok"}
    archive = local / "wmt16_en_de.tar.gz"
    for lang in ("en", "de"):
        pieces = {split: member(archive, f"{name}.bpe.32000.{lang}") for split, name in names.items()}
        assert any("@@ " in line for line in pieces["train"])
        assert_texts(out, "bpe", lang, pieces)
        assert_texts(out, "tok", lang, {split: [x.replace("@@ ", "") for x in pieces[split]] for split in pieces})
        assert lines_of(out / f"raw/test.{lang}") == member(archive, f"newstest2014.{lang}")
    assert_in_subwords(out, "en", "de")
    assert (out / "bin/dict.en.txt").read_bytes() == (out / "bin/dict.de.txt").read_bytes()
    log = (out / "bin/preprocess.log").read_text()
    assert all(f"{option}=32768" in log for option in ("nwordssrc", "nwordstgt")) and "joined_dictionary=True" in log
