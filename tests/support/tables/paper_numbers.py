"""What the tables of the five papers report, copied from the papers; the rows of configs/ are held to it.

A block has the beginning of the rows' names, the metrics of its columns, and a line a row: the rest of its name and the
numbers, parameters in millions, `-` where the table has none.
"""

from __future__ import annotations

PROBING = "voice tense tss spc pos probing_avg"
LOCALITY = " ".join(f"w{w}_layer{layer}" for w in (1, 2, 4) for layer in (1, 3, 6))
NIST = "MT03/multi_bleu MT04/multi_bleu MT05/multi_bleu MT06/multi_bleu average/multi_bleu"
BLOCKS: list[tuple[str, str, str]] = [
    # Fan et al. 2021
    ("man/table1_iwslt14_", "tokenised_bleu parameters", """
        transformer  34.4 36
        man          36.3 37
        man_full     36.3 37
    """),
    ("man/table1_wmt14_", "compound_bleu parameters", """
        base_transformer  27.3  62
        base_man          29.1  63
        big_transformer   28.4 213
        big_man           30.4 215
    """),
    ("man/table2_", "rouge1 rouge2 rougeL rouge_avg", """
        cnndm_lead3           40.42 17.62 36.67 31.57
        cnndm_transformer     39.50 16.06 36.63 30.73
        cnndm_man             40.98 18.29 37.88 32.38
        gigaword_transformer  37.57 18.90 34.69 30.38
        gigaword_man          38.28 19.46 35.46 31.06
    """),
    ("man/table3_", "tokenised_bleu", """
        c1_ffn_san_ffn    35.51
        c2_san_san_ffn    35.66
        c3_dman_dman_ffn  35.86
        c4_san_dman_ffn   35.91
        c5_dman_san_ffn   36.35
    """),
    ("man/table4_", "tokenised_bleu", """
        transformer  34.40
        sman1        35.52
        sman2        35.55
        dman         36.35
    """),
    ("man/table4_", "", """
        sman2_valid_b2
        sman2_valid_b4
        sman2_valid_b6
        sman2_valid_b8
    """),
    ("man/table5_", LOCALITY, """
        transformer  12.80 40.39 45.55  18.73 45.62 52.72  30.38 55.17 62.77
        man          76.58 60.43 60.86  86.17 75.56 73.89  95.09 86.20 85.58
    """),
    # Nguyen et al. 2020
    ("diffwin/table1_en_", "tokenised_bleu parameters", """
        de_transformer  27.46 63
        de_shaw         27.56 63
        de_yang         27.62 63
        de_enc_dec      28.11 68
        de_cross        28.13 65
        de_all          28.25 73
        fr_transformer  39.21 63
        fr_shaw         39.37 63
        fr_yang         39.47 63
        fr_enc_dec      40.24 68
        fr_cross        40.06 65
        fr_all          40.32 73
    """),
    ("diffwin/table2_", "tokenised_bleu", """
        transformer       27.46
        aw_enc_full       27.77
        aw_enc_partial    27.90
        mw_enc_full       27.25
        mw_enc_partial    27.40
        aw_dec_full       27.73
        aw_dec_partial    27.85
        mw_dec_full       27.88
        mw_dec_partial    28.04
        aw_cross_full     27.78
        aw_cross_partial  27.97
        mw_cross_full     27.58
        mw_cross_partial  27.79
    """),
    ("diffwin/table3_", "tokenised_bleu", """
        cross_token      27.97
        cross_segment    28.13
        enc_dec_token    28.11
        enc_dec_segment  27.91
    """),
    ("diffwin/table4_", "parameters steps_per_second tokenised_bleu", """
        transformer  63 1.20 27.46
        yang         63 1.07 27.62
        7_layers     69 1.05 27.74
        8_layers     75 0.99 27.89
        all          73 1.04 28.25
    """),
    ("diffwin/table5_", "accuracy", """
        sst_transformer   79.36
        sst_shaw          79.73
        sst_yang          79.24
        sst_mw            79.70
        sst_aw            82.13
        imdb_transformer  83.65
        imdb_shaw          84.61
        imdb_yang          84.13
        imdb_mw           85.09
        imdb_aw           87.98
        sva_transformer   94.48
        sva_shaw          95.27
        sva_yang          95.00
        sva_mw            95.95
        sva_aw            96.19
    """),
    ("diffwin/table6_", "perplexity", """
        transformer  46.37
        shaw         46.13
        mw           44.00
        mw_renormalised  -
        aw           44.95
    """),
    # Yang et al. 2019
    ("csan/table1_", "parameters steps_per_second tokenised_bleu", """
        transformer     88.0 1.28 27.31
        bi_direct       88.0 1.28 27.58
        rel_pos         88.1 1.17 27.63
        neighbor        88.4 1.22 27.60
        neighbor_query     -    -     -
        local_hard      88.4 1.22 27.73
        local_soft      88.8 1.19 27.81
        block           94.0 0.95 27.59
        cnns           130.6 0.74 27.70
        1d           88.0 1.28 27.86
        2d           88.0 1.22 28.18
    """),
    ("csan/table2_", "steps_per_second tokenised_bleu", """
        base_en_de_transformer  1.28 27.31
        base_en_de_2d           1.22 28.18
        base_zh_en_transformer  1.21 24.13
        base_zh_en_2d           1.16 24.80
        base_ja_en_transformer  1.33 28.10
        base_ja_en_2d           1.28 28.50
        big_en_de_transformer   0.61 28.58
        big_en_de_2d            0.50 28.74
        big_zh_en_transformer   0.58 24.56
        big_zh_en_2d            0.48 25.01
        big_ja_en_transformer   0.65 28.41
        big_ja_en_2d            0.55 28.73
    """),
    ("csan/fig2_", "", """
        transformer
        1d_window_1
        1d_window_3
        1d_window_5
        1d_window_7
        1d_window_9
        1d_window_11
        1d_window_13
        1d_window_15
        2d_heads_1
        2d_heads_3
        2d_heads_5
        2d_heads_7
    """),
    ("csan/fig3_", "", """
        transformer
        1d
        2d
    """),
    # Cui et al. 2019
    ("mma/table1_", "parameters sacrebleu", """
        en_ja_transformer  71 33.58
        en_ja_mma          71 34.39
        ja_en_transformer  71 23.24
        ja_en_mma          71 24.16
    """),
    ("mma/table2_", "tokenised_bleu", """
        transformer  34.46
        mma          35.41
    """),
    ("mma/table3_de_en_", "tokenised_bleu", """
        transformer               34.46
        transformer_no_positions  16.55
        mma                       35.41
        mma_no_positions          34.66
    """),
    ("mma/table3_ja_en_", "sacrebleu", """
        transformer               23.24
        transformer_no_positions  12.83
        mma                       24.16
        mma_no_positions          23.80
    """),
    ("mma/table4_", "tokenised_bleu", """
        transformer  34.46
        local        35.05
        forward      34.83
        backward     35.13
        mma          35.41
    """),
    ("mma/table5_", "tokenised_bleu", """
        transformer  34.46
        w1           35.41
        w2           35.31
        w3           35.35
        w4           35.22
    """),
    ("mma/fig2_", "", """
        transformer
        mma
    """),
    # Hao et al. 2019
    ("mgsa/table1_", "parameters steps_per_second tokenised_bleu", """
        none  88.0 1.28 27.31
        max   88.0 1.27 27.56
        sans  90.4 1.26 27.69
        lstm  96.1 1.14 27.58
    """),
    ("mgsa/table2_", "parameters steps_per_second tokenised_bleu", """
        layers_1_6  90.4 1.26 27.69
        layers_1_3  89.2 1.27 27.74
        layers_1    88.4 1.28 27.83
    """),
    ("mgsa/table3_", "parameters steps_per_second tokenised_bleu", """
        transformer     88.0 1.28 27.31
        ngram           88.4 1.28 27.83
        syntactic       88.4 1.24 28.01
        syntactic_tags  88.4 1.23 28.07
        lstm            89.5 1.20 28.14
        onlstm          89.9 1.19 28.28
    """),
    ("mgsa/table4_", "parameters tokenised_bleu", """
        base_en_de_transformer   88.0 27.31
        base_en_de_mgsa          89.9 28.28
        big_en_de_transformer   264.1 28.58
        big_en_de_mgsa          271.5 29.01
    """),
    ("mgsa/table4_", f"parameters {NIST}", """
        base_zh_en_transformer   73.4 41.88 44.48 42.21 41.93 42.60
        base_zh_en_mgsa          75.3 43.98 45.60 44.28 44.00 44.46
        big_zh_en_transformer   234.8 45.30 46.49 45.21 44.87 45.47
        big_zh_en_mgsa          242.2 45.76 46.81 45.77 46.48 46.21
    """),
    ("mgsa/fig2_", "", """
        transformer
        ngram
        syntactic
        interaction
    """),
    ("mgsa/table5_", PROBING, """
        pretrained_base         73.38 73.73 72.72 92.81 93.73 81.27
        pretrained_ngram        73.06 72.83 72.11 96.42 96.34 82.15
        pretrained_syntactic    73.37 73.62 75.60 96.72 96.68 83.19
        pretrained_interaction  73.20 74.78 75.24 96.78 96.56 83.31
        scratch_base            83.46 85.39 83.44 96.35 96.12 88.95
        scratch_ngram           83.55 85.62 85.21 96.23 96.17 89.36
        scratch_syntactic       84.70 87.52 97.42 96.95 96.24 92.57
        scratch_interaction     86.45 87.65 99.07 96.99 96.40 93.31
    """),
]  # fmt: skip


def _numbers() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for beginning, columns, lines in BLOCKS:
        metrics = columns.split()
        for line in filter(str.strip, lines.splitlines()):
            name, *cells = line.split()
            row = {metric: float(cell) for metric, cell in zip(metrics, cells, strict=True) if cell != "-"}
            if "parameters" in row:
                row["parameters"] = round(row["parameters"] * 1e6)
            assert beginning + name not in found
            found[beginning + name] = row
    return found


# 'man/table1_iwslt14_man' → metric → number.
NUMBERS = _numbers()

# Systems that a paper quotes from others, in its order: table → lines of numbers as they stand there, LABEL's beginning
# before them. Columns are those of the rows; '-' where the table has none.
QUOTED = {
    "man/table1": """
        IWSLT14 De-En: Dynamic Conv                  35.2   -
        WMT14 En-De base: Convolutional Transformer  28.2  88
        WMT14 En-De base: Weighted Transformer       28.4  65
        WMT14 En-De base: Local Transformer          28.5  89
        WMT14 En-De base: Relative Transformer       26.8   -
        WMT14 En-De big: Convolutional Transformer   28.7   -
        WMT14 En-De big: Weighted Transformer        28.9 213
        WMT14 En-De big: Local Transformer           29.2 268
        WMT14 En-De big: Relative Transformer        29.2   -
        WMT14 En-De big: Scaling NMT                 29.3 213
        WMT14 En-De big: Dynamic Conv                29.7 213
    """,
    "man/table2": """
        CNN/DM: PTGEN+Coverage  39.53 17.28 36.38 31.06
        CNN/DM: Dynamic Conv    39.84 16.25 36.73 30.94
    """,
    "mma/table2": """
        Variational Attention  33.30
        Pervasive Attention    34.18
        Multi-Hop Attention    35.13
        Dynamic Convolution    35.20
        RNMT, fine-tuned       35.27
    """,
    "mgsa/table4": """
        En-De: Vaswani et al.  28.4 213
        Zh-En: Zhang et al.    40.74 40.45 42.76 40.09 39.67
    """,
}
