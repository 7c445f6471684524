"""Models, built through fairseq's argument parser as fairseq-train builds them, and batches for them."""

from __future__ import annotations

import copy
import io
import shlex
from functools import cache, lru_cache
from itertools import accumulate, cycle, islice, pairwise
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary, data_utils
from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderModel, FairseqLanguageModel, build_model
from fairseq.modules import MultiheadAttention
from omegaconf import OmegaConf
from torch import Tensor, nn

import fairseq_localattn  # noqa: F401  (registers the architectures)
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.placement import SITES
from fairseq_localattn.models.architectures import localattn_architectures
from support.device import on_device, place

ARCHITECTURES = sorted(localattn_architectures("translation"))
LANGUAGE_MODELS = sorted(localattn_architectures("language_modeling"))
CLASSIFIERS = sorted(localattn_architectures("sentence_prediction"))
# Small enough to train in a test. A new variant's `_tiny` architecture joins every suite by being registered.
TINY = [name for name in ARCHITECTURES if name.endswith("_tiny")]


def _cases(lines: dict[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return architecture and flags by name, of lines such as "mma --mma-window 3"; what is in quotes is one word."""
    words = {name: shlex.split(line) for name, line in lines.items()}
    return {name: (f"transformer_{arch}_tiny", flags) for name, (arch, *flags) in words.items()}


def _man(order: str) -> str:
    return f"man --man-encoder-order {order} --man-decoder-order {order}"


def _diffwin(encoder: str, decoder: str) -> str:
    return f"diffwin --diffwin-encoder {encoder} --diffwin-decoder {decoder} --diffwin-cross mw"


def _everywhere(prefix: str) -> str:
    return " ".join(f"--{prefix}-{site}-layers all" for site in SITES)


LOCALNESS = _everywhere("localness")
DIFFWINS_LOCALNESS = "--localness-width 5 --localness-source input --localness-hidden linear"
# Options of the variants that the contract is tested for beside their defaults.
PLACEMENTS = {
    "mma-decoder": "mma --mma-decoder-layers all",
    "mma-no-positions": "mma --mma-no-encoder-positions",
    "csan-decoder": "csan --csan-decoder-layers all --csan-window 3",
    "man-static": f"{_man('sman,san,ffn')} --man-static-width 2",
    "man-static-sqrt": f"{_man('sman,san,ffn')} --man-static-width sqrt",
    "man-c1": _man("ffn,san,ffn"),
    "man-c4-post-norm": f"{_man('san,dman,ffn')} --man-post-norm",
    "man-after-ffn": f"{_man('san,ffn,ffn,dman')} --man-head-activation gelu",
    "man-encoder-only": "man --man-decoder-layers none --man-head-activation relu",
    "man-checkpointed": "man --checkpoint-activations",
    "diffwin-cross-mw": f"{_diffwin('none', 'none')} --diffwin-cross-form token",
    "diffwin-segments": f"{_diffwin('mw', 'mw')} --diffwin-encoder-form segment --diffwin-segment-size 3",
    "diffwin-renormalised": f"{_diffwin('mw', 'mw')} --diffwin-renormalise --diffwin-cross-layers 2",
    "diffwin-all-layers": f"diffwin {_everywhere('diffwin')}",
    "mgsa-ngram-max": "mgsa_ngram --mgsa-composition max --mgsa-encoder-layers all",
    "mgsa-ngram-lstm": "mgsa_ngram --mgsa-composition lstm --mgsa-interaction onlstm --mgsa-heads word,2,3,9",
    "mgsa-ngram-heads": "mgsa_ngram --mgsa-heads 3:1,1:3 --encoder-normalize-before",
    "mgsa-tags": "mgsa --mgsa-tags --mgsa-chunk 4",
    "mgsa-max-lstm": "mgsa --mgsa-composition max --mgsa-interaction lstm --mgsa-tags",
    "mgsa-lstm": "mgsa --mgsa-composition lstm --mgsa-interaction none --mgsa-heads word:2,3:2",
    "mgsa-checkpointed": "mgsa --checkpoint-activations --mgsa-encoder-layers all --mgsa-tags",
    "relpos-own-keys": "relpos --relpos-heads own --relpos-no-values",
    "localness-all": f"localness {LOCALNESS}",
    "localness-keys": f"localness {LOCALNESS} --localness-width keys",
    "localness-diffwin": f"localness {LOCALNESS} {DIFFWINS_LOCALNESS}",
    "localness-luong": f"local_hard {LOCALNESS} --localness-width 2 --localness-cut --localness-product",
    "neighbor-query": "neighbor --localness-width query --localness-heads 2",
    "blocksan-roots": "blocksan --blocksan-length 0 --encoder-normalize-before",
    "qanet-full": "qanet --qanet-form full --qanet-kernel 3 --qanet-convs 2",
    "hybrid-heads": "hybrid --localattn-encoder '2*csan(window=3, head_span=1) + 1*dman + 1*global' "
    "--localattn-decoder '2*local(window=2) + 2*sinks(window=2)' --localattn-cross 2*aw+2*mw",
    "hybrid-joint": "hybrid --localattn-encoder 'local(window=2) & alibi & rope' "
    "--localattn-decoder 'shaw & dman & backward' --localattn-cross 'gauss & aw(segment_size=2)'",
    "hybrid-groups-of-joint": "hybrid --localattn-encoder '2*(t5 & mw & local) + 2*(rope & sman)' "
    "--localattn-decoder '1*(shaw & mw) + 3*(gauss & t5)'",
    "hybrid-sublayers": "hybrid --encoder-normalize-before --decoder-normalize-before "
    "--localattn-encoder '1: conv(kernel=3) > dman > 2*block + 2*san > ffn; 2: ffn > forward > ffn > shaw > ffn' "
    "--localattn-decoder '1: backward > cross > csan(window=3) > ffn; 2: cross > san > conv > rope & alibi > ffn' "
    "--localattn-cross '2: gauss(width=3)'",
    "hybrid-phrases": "hybrid --localattn-encoder '1: ngram > dman; 2: san > ngram(interaction=none) > ffn' "
    "--localattn-decoder '2*san(activation=relu) + 2*t5'",
    "hybrid-trees": "hybrid --localattn-encoder tree(composition=max) "
    "--localattn-decoder 'sman(boundary=none, activation=gelu)'",
}
CASES = {**{name: (name, []) for name in TINY}, **_cases(PLACEMENTS)}

# Language models and classifiers.
LM_CASES = {
    **{name: (name, []) for name in LANGUAGE_MODELS if name.endswith("_tiny")},
    **_cases(
        {
            "lm-aw": "lm_diffwin --diffwin-decoder aw --diffwin-decoder-layers all",
            "lm-hybrid": "lm_hybrid --localattn-decoder "
            "'1: 2*local(window=2) + 2*(dman & rope); 2: conv > mw > shaw & alibi'",
            "lm-renormalised": "lm_diffwin --diffwin-renormalise",
        }
    ),
}
CLASSIFIER_CASES = {
    **{name: (name, []) for name in CLASSIFIERS if name.endswith("_tiny")},
    **_cases(
        {
            "classifier-hybrid": "hybrid_classifier --localattn-encoder "
            "'1: 2*csan(window=3, head_span=1) + 2*(aw & alibi); 2: dman > conv > 2*block + 2*forward'",
            "classifier-mw": "diffwin_classifier --diffwin-encoder mw",
            "classifier-segments": "diffwin_classifier --diffwin-encoder-form segment --diffwin-segment-size 3 "
            "--diffwin-encoder-layers all",
            "classifier-localness-diffwin": f"localness_classifier {DIFFWINS_LOCALNESS}",
        }
    ),
}
EVERY = {**CASES, **LM_CASES, **CLASSIFIER_CASES}
CLASSES = 3
HEAD = "sentence_classification_head"  # the criterion's default


@lru_cache(maxsize=1)
def dictionary() -> Dictionary:
    words = Dictionary()
    for n in range(40):
        words.add_symbol(f"w{n}")
    return words


LEVELS = 3  # levels of a tree that phrases are taken from


@lru_cache(maxsize=1)
def tags() -> Dictionary:
    """Return the tags of phrases, for models with tag supervision."""
    found = Dictionary()
    for tag in ("NP", "VP", "PP", "NN", "VB"):
        found.add_symbol(tag)
    return found


def placed_nowhere(arch: str) -> list[str]:
    """Return the flags that leave ordinary attention at every site."""
    model = ARCH_MODEL_REGISTRY[arch]
    if model.prefix == "localattn":
        return [word for site in model.sites for word in (f"--localattn-{site}", "san")]
    return [word for site in model.sites for word in (f"--{model.prefix}-{site}-layers", "none")]


def parse(arch: str, flags: tuple[str, ...] | list[str] = ()) -> Any:
    """Return the namespace that fairseq-train would have; parsed once for each combination, and copied."""
    return copy.deepcopy(_parse(arch, tuple(flags)))


def task_of(arch: str) -> str:
    """Return the task for an architecture: with phrases of trees where the model needs them."""
    needs = getattr(parse(arch), "mgsa_partition", "ngram") == "syntactic"
    return ARCH_MODEL_REGISTRY[arch].phrase_task if needs else "translation"


@cache
def _parse(arch: str, flags: tuple[str, ...]) -> Any:
    parser = options.get_training_parser()
    model = ARCH_MODEL_REGISTRY[arch]
    task = ["--task", getattr(model, "phrase_task", "translation")]
    if issubclass(model, FairseqLanguageModel):
        task = ["--task", "language_modeling"]
    elif issubclass(model, FairseqEncoderModel):
        task = ["--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", str(CLASSES)]
    args = options.parse_args_and_arch(parser, ["data", *task, "--arch", arch, *flags])
    OmegaConf.create(vars(args))  # values that fairseq's configuration cannot hold fail here
    return args


def build(arch: str, flags: tuple[str, ...] | list[str] = (), seed: int = 1, share: bool = True, **more: Any) -> Any:
    """Return a model with random weights from ``seed``, for the dictionary of 44 symbols; a classifier has 3 classes.

    ``share`` ties the embeddings; ``more`` are attributes to set in the parsed arguments.
    """
    kind = ARCH_MODEL_REGISTRY[arch]
    classifier, lm = issubclass(kind, FairseqEncoderModel), issubclass(kind, FairseqLanguageModel)
    tied = "--share-decoder-input-output-embed" if lm else "--share-all-embeddings"
    args = parse(arch, [*flags, *([tied] if share and not classifier else [])])
    vars(args).update(({"max_positions": 512} if classifier else {}) | more)
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    task.tag_dictionary, task.phrase_levels = tags(), LEVELS
    torch.manual_seed(seed)
    model = build_model(args, task) if lm or classifier else kind.build_model(args, task)
    if classifier:
        model.register_classification_head(HEAD, num_classes=CLASSES)
    return model


def case(name: str, **kwargs: Any) -> Any:
    """Return the model of one of :data:`EVERY`, in evaluation mode, on the device and in the precision of the suite."""
    return place(build(*EVERY[name], **kwargs).eval())


def sentences(lengths: list[int], seed: int = 0) -> list[Tensor]:
    """Return random sentences of these lengths, the end-of-sentence symbol included."""
    generator = torch.Generator().manual_seed(seed)
    words = dictionary()
    eos = torch.tensor([words.eos()])
    random = [torch.randint(words.nspecial, len(words), (n - 1,), generator=generator) for n in lengths]
    return [on_device(torch.cat([tokens, eos])) for tokens in random]


def pad(tokens: list[Tensor], left: bool, to: int | None = None) -> Tensor:
    """Return sentences as one batch B×T, padded to the longest one or to ``to``."""
    return data_utils.collate_tokens(tokens, dictionary().pad(), left_pad=left, pad_to_length=to)


def shifted(target: Tensor) -> Tensor:
    """Return the decoder's input for right-padded targets: the end-of-sentence symbol moves to the front."""
    out = target.roll(1, dims=1)
    out[:, 0] = dictionary().eos()
    return out.masked_fill(target.eq(dictionary().pad()), dictionary().pad())


def batch(source: list[int], target: list[int], left: bool = True) -> dict[str, Any]:
    """Return net_input and target of random sentence pairs, padded as by fairseq's translation task (source: left)."""
    src, tgt = pad(sentences(source), left), pad(sentences(target, seed=1), False)
    net_input = {"src_tokens": src, "src_lengths": on_device(torch.tensor(source)), "prev_output_tokens": shifted(tgt)}
    return {"net_input": net_input, "target": tgt, "ntokens": sum(target), "id": on_device(torch.arange(len(source)))}


def batch_for(model: nn.Module, source: list[int], target: list[int], left: bool = True) -> dict[str, Any]:
    """Return a batch for a model of any kind: a language model reads the targets, a classifier the sources."""
    sample = batch(source, target, left)
    if isinstance(model, FairseqLanguageModel):
        return {**sample, "net_input": {"src_tokens": sample["net_input"]["prev_output_tokens"]}}
    if isinstance(model, FairseqEncoderModel):
        del sample["net_input"]["prev_output_tokens"]
        sample["net_input"] |= {"features_only": True, "classification_head_name": HEAD}
        return {**sample, "target": on_device(torch.arange(len(source)) % CLASSES), "ntokens": len(source)}
    return sample


def phrases_of(src_tokens: Tensor) -> Tensor:
    """Return lengths B×K×P of phrases, by the number of words alone; phrases of a level lie within those before."""
    real = src_tokens.ne(dictionary().pad()).sum(dim=1).tolist()
    rows = []
    for words in (max(n - 1, 0) for n in real):
        ends = [end for end in accumulate(islice(cycle((2, 1, 3, 1)), words)) if end < words]
        finest = [end - start for start, end in pairwise([0, *ends, words]) if end]
        middle = [sum(finest[i : i + 2]) for i in range(0, len(finest), 2)]
        rows.append([[sum(part) for part in (finest[:4], finest[4:]) if part], middle, finest])
    for row, n in zip(rows, real, strict=True):
        for level in row:
            level.extend([1] if n else [])  # the end-of-sentence symbol
    count = max(len(level) for row in rows for level in row) or 1
    padded = [[level + [0] * (count - len(level)) for level in row] for row in rows]
    return torch.tensor(padded, device=src_tokens.device)


def with_phrases(model: Any, net_input: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs of a model, with phrases of the source added where it needs them."""
    if not getattr(getattr(model, "encoder", None), "needs_phrases", False) or "src_phrases" in net_input:
        return net_input
    return {**net_input, "src_phrases": phrases_of(net_input["src_tokens"])}


def encode(model: Any, net_input: dict[str, Any]) -> dict[str, Any]:
    return model.encoder.forward_torchscript(with_phrases(model, net_input))


def decode_by_word(model: Any, sample: dict[str, Any]) -> Tensor:
    """Return the logits of the targets B×T×V word by word, with the rows reordered on the way and put back.

    Four sentences; from the fifth word on the decoding state and the encoder's output are in another order.
    """
    lm, net_input = not hasattr(model, "encoder"), sample["net_input"]
    tokens = net_input["src_tokens" if lm else "prev_output_tokens"]
    steps, state, order = [], {}, on_device(torch.arange(4))  # type: ignore[var-annotated]
    with torch.no_grad():
        encoder_out = None if lm else encode(model, net_input)
        for t in range(tokens.size(1)):
            if t == 4:
                order = on_device(torch.tensor([2, 0, 3, 1]))
                model.decoder.reorder_incremental_state_scripting(state, order)
                encoder_out = None if lm else model.encoder.reorder_encoder_out(encoder_out, order)
            step, _ = model.decoder(tokens[order, : t + 1], encoder_out=encoder_out, incremental_state=state)
            steps.append(step[order.argsort()])
    return torch.cat(steps, dim=1)


def loss(model: nn.Module, sample: dict[str, Any]) -> Tensor:
    """Return the summed cross-entropy of the targets, plus that of the last tag with tag supervision."""
    logits, extra = model(**with_phrases(model, sample["net_input"]))
    tag_loss = sum(layer.log_softmax(-1)[..., -1].float().mean() for layer in (extra or {}).get("tag_logits") or [])
    unread = dictionary().pad() if logits.dim() == 3 else -100
    return -tag_loss + torch.nn.functional.cross_entropy(
        logits.float().flatten(0, -2), sample["target"].flatten(), ignore_index=unread, reduction="sum"
    )


def enlarge(model: nn.Module, factor: float) -> None:
    """Multiply the inputs of every attention by ``factor``, and divide its outputs by it."""

    def before(module: nn.Module, args: tuple, kwargs: dict) -> tuple:
        given = {key: kwargs[key] * factor for key in ("query", "key", "value") if kwargs.get(key) is not None}
        return tuple(x * factor for x in args), {**kwargs, **given}

    def after(module: nn.Module, args: tuple, output: tuple) -> tuple:
        return output[0] / factor, output[1]

    attentions = [module for module in model.modules() if isinstance(module, (LocalAttention, MultiheadAttention))]
    assert attentions
    for attention in attentions:
        attention.register_forward_pre_hook(before, with_kwargs=True)
        attention.register_forward_hook(after)


def assert_gradients(model: nn.Module) -> None:
    """Assert that every parameter has a finite gradient, and one that is not 0."""
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
        # A key's bias adds the same to all the logits of an ordinary head, which the softmax ignores: zero by right.
        if not key.endswith("k_proj.bias"):
            assert parameter.grad.abs().max() > 0, key


def load_saved(model: nn.Module, source: nn.Module) -> None:
    """Load the weights of ``source`` into a model, strictly, as they are read from a file."""
    buffer = io.BytesIO()
    torch.save(source.state_dict(), buffer)
    buffer.seek(0)
    model.load_state_dict(torch.load(buffer, weights_only=True), strict=True)
