"""Small corpora of news, headlines, film reviews and agreement, in the raw format and with the names of the real ones.

    python data-prep/mini_corpus.py cnndm FOLDER        (or gigaword, sst, sst2, sst5, imdb, sva, 1bw)

All texts come from a few patterns; label, headline and highlights follow from the text. A corpus has the same files
each time. They are not the official releases: prepare them with --no-checksums where there is that option.
"""

from __future__ import annotations

import csv
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from corpora.mini.files import archive, write

PEOPLE = ("farmer", "teacher", "doctor", "sailor", "judge", "painter", "driver", "nurse")
NAMES = ("Anna Berg", "Omar Khan", "Maria Lopez", "John Smith", "Ivy Chen", "Paul Weber", "Lena Novak", "Sam Okoro")
CITIES = ("Paris", "Cairo", "Lima", "Oslo", "Delhi", "Quito", "Sydney", "Dublin")
DEEDS = (
    ("bought a red boat", "boat"), ("found an old map", "map"), ("built a small school", "school"),
    ("lost a silver ring", "ring"), ("painted the white bridge", "bridge"), ("sold a rare book", "book"),
)  # fmt: skip
REASONS = (
    "The neighbours had asked for it", "It had been a plan for years", "Nobody knew of it before",
    "A letter made it known",
)  # fmt: skip
FILLERS = (
    "The weather was mild for the season.", "Shops stayed open until late at night",
    "A band played in the main square.", 'One visitor said: "I came by train."',
    "Was it the first time? Police did not say.", "Trains ran as usual",
)  # fmt: skip
GOOD, BAD = ("wonderful", "clever", "charming", "moving"), ("terrible", "dull", "clumsy", "silly")
THINGS = ("film", "story", "cast", "music", "plot", "ending")


# CNN/DailyMail


def story(rng: random.Random) -> str:
    """Return a story with its three highlights, which repeat parts of it."""
    name, city, (deed, _) = rng.choice(NAMES), rng.choice(CITIES), rng.choice(DEEDS)
    reason, year, person = rng.choice(REASONS), rng.randint(1990, 2015), rng.choice(PEOPLE)
    lines = [
        f"({city}) -- {name}, a {person}, {deed} in {city} on Monday.",
        f"{reason}, friends of the {person} said",
        *rng.sample(FILLERS, 3),
        f"Mr. {name.split()[1]} lives in {city} since {year}.",
        rng.choice(FILLERS),
    ]
    highlights = (f"{name} {deed} in {city}", f"{reason}.", f"The {person} lives there since {year}")
    return "\n\n".join([*lines, *(f"@highlight\n\n{line}" for line in highlights)]) + "\n"


def cnndm(folder: Path) -> None:
    """Write 301 stories for training, of which one has no text, and 30 for each other split."""
    rng = random.Random("cnndm")
    archives: dict[str, dict[str, bytes]] = {"cnn": {}, "dailymail": {}}
    for split, count in (("train", 301), ("val", 30), ("test", 30)):
        urls = [f"http://www.{('cnn', 'dailymail')[n % 2]}.example/{split}/{n}.html" for n in range(count)]
        for number, url in enumerate(urls):
            text = story(rng)
            if split == "train" and number == 100:
                text = text[text.index("@highlight") :]
            name = hashlib.sha1(url.encode()).hexdigest()
            site = ("cnn", "dailymail")[number % 2]
            archives[site][f"{site}/stories/{name}.story"] = text.encode()
        write(folder / f"all_{split}.txt", urls)
    for name, files in archives.items():
        archive(folder / f"{name}_stories.tgz", files)


# Gigaword


def headline(rng: random.Random, unknown: str) -> tuple[str, str]:
    """Return a first sentence and its headline, in the corpus's tokens."""
    person, city, (deed, thing) = rng.choice(PEOPLE), rng.choice(CITIES).lower(), rng.choice(DEEDS)
    day = rng.choice(("monday", "tuesday", "friday", "sunday"))
    name = rng.choice((*(name.split()[1].lower() for name in NAMES), unknown))
    text = f"a {person} {deed} in {city} for #.## million dollars -lrb- ##,### euros -rrb- , {name} said on {day} ."
    return text, f"{city} {person} {deed.split()[0]} {thing} says {name}"


def gigaword(folder: Path) -> None:
    """Write 600 pairs for training and 60 for each other split, as in sent-summary."""
    rng = random.Random("gigaword")
    files = {
        "train": (600, "train/train.article.txt.gz", "train/train.title.txt.gz"),
        "valid": (60, "train/valid.article.filter.txt", "train/valid.title.filter.txt"),
        "test": (60, "Giga/input.txt", "Giga/task1_ref0.txt"),
    }
    for split, (count, *names) in files.items():
        pairs = [headline(rng, "UNK" if split == "test" else "<unk>") for _ in range(count)]
        for side, name in enumerate(names):
            write(folder / "sumdata" / name, [pair[side] for pair in pairs])


# Classification


def opinion(rng: random.Random, good: bool) -> list[str]:
    """Return the words of a short judgement; "hardly" negates its adjective."""
    turned = rng.random() < 0.25
    adjective = rng.choice(GOOD if good != turned else BAD)
    return ["the", rng.choice(THINGS), "is", "hardly" if turned else "rather", adjective, "."]


def tree(rng: random.Random, label: int) -> str:
    """Return a judgement as a tree of the Stanford treebank; 0 and 4 begin with "truly", 2 is neutral."""
    words = ["the", rng.choice(THINGS), "has", "an", "hour", "."] if label == 2 else opinion(rng, label > 2)
    if label in (0, 4):
        words.insert(0, "truly")
    text = f"(2 {words[-1]})"
    for word in words[-2::-1]:
        inner = 2 if label == 2 else 3 if label > 2 else 1
        text = f"({inner} (2 {word}) {text})"
    return f"({label}{text[2:]}"


def sst(folder: Path) -> None:
    """Write 400, 60 and 60 trees, with the five labels in turn."""
    rng = random.Random("sst")
    for name, count in (("train", 400), ("dev", 60), ("test", 60)):
        write(folder / f"{name}.txt", [tree(rng, number % 5) for number in range(count)])


def imdb(folder: Path) -> None:
    """Write 150 reviews of each kind for training and 30 for the test, to be prepared with --valid 30."""
    rng = random.Random("imdb")
    for split, count in (("train", 150), ("test", 30)):
        for kind in ("pos", "neg"):
            place = folder / "aclImdb" / split / kind
            place.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                sentences = (" ".join(opinion(rng, kind == "pos")) for _ in range(rng.randint(2, 4)))
                points = rng.randint(7, 10) if kind == "pos" else rng.randint(1, 4)
                text = "<br /><br />".join(sentence.capitalize().replace(" .", ".") for sentence in sentences)
                (place / f"{number}_{points}.txt").write_text(text)


COLUMNS = (
    "sentence orig_sentence pos_sentence subj verb subj_pos has_rel has_nsubj verb_pos subj_index verb_index "
    "n_intervening last_intervening n_diff_intervening distance max_depth all_nouns nouns_up_to_verb"
).split()  # of the authors' rnnagr/utils.py


def agreement(rng: random.Random) -> dict[str, object]:
    """Return a row of the table: the verb agrees with the first noun, and a second one is between the two."""
    plural, other = rng.random() < 0.4, rng.random() < 0.5
    first, second = rng.choice(PEOPLE), rng.choice(THINGS)
    words = ["the", f"{first}s" if plural else first, rng.choice(("near", "of", "behind")), "the"]
    words += [f"{second}s" if other else second, rng.choice(("are", "were") if plural else ("is", "was")), "here", "."]
    return dict.fromkeys(COLUMNS, "_") | {
        "sentence": " ".join(words), "orig_sentence": " ".join(words), "verb_pos": "VBP" if plural else "VBZ",
        "verb": words[5], "subj": words[1], "subj_index": 2, "verb_index": 6,
    }  # fmt: skip


def sva(folder: Path) -> None:
    """Write 3,000 rows, of which 270 become training text and 30 validation text."""
    rng = random.Random("sva")
    with (folder / "agr_50_mostcommon_10K.tsv").open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, COLUMNS, delimiter="\t")
        table.writeheader()
        table.writerows(agreement(rng) for _ in range(3000))


# Language model


def news_sentences(rng: random.Random) -> Iterator[str]:
    """Yield sentences without end."""
    while True:
        person, (deed, _) = rng.choice(PEOPLE), rng.choice(DEEDS)
        yield f"{rng.choice(('The', 'A', 'This'))} {person} {deed} in {rng.choice(CITIES)} ."


def one_billion(folder: Path) -> None:
    """Write the 99 training files with four sentences each, and two of the held-out files with 30."""
    rng = random.Random("1bw")
    sentences = news_sentences(rng)
    release = folder / "1-billion-word-language-modeling-benchmark-r13output"
    files = [("training", f"news.en-{number:05d}-of-00100", 4) for number in range(1, 100)]
    files += [("heldout", f"news.en.heldout-{number:05d}-of-00050", 30) for number in range(2)]
    for kind, name, count in files:
        write(release / f"{kind}-monolingual.tokenized.shuffled" / name, [next(sentences) for _ in range(count)])


CORPORA: dict[str, Callable[[Path], None]] = {
    "cnndm": cnndm,
    "gigaword": gigaword,
    **dict.fromkeys(("sst", "sst2", "sst5"), sst),
    "imdb": imdb,
    "sva": sva,
    "1bw": one_billion,
}
