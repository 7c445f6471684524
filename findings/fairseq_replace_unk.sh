#!/usr/bin/env bash
# fairseq-interactive --replace-unk without the file of a dictionary.
#
# Guess: unknown words are replaced by the source words to which they attend, as the help says.
# So:    the flag alone stands for the text "@@ ", which is read as the name of a file: FileNotFoundError. fairseq-generate
#        asks for data in raw text besides. An empty value, --replace-unk "", gives the empty dictionary that is meant.
# In:    fairseq-fixed 0.12.3.1, fairseq/dataclass/configs.py, GenerationConfig.replace_unk (argparse_const);
#        fairseq/utils.py, load_align_dict
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "['--replace-unk']  '@@ '  FileNotFoundError
['--replace-unk', '']  ''  {}"
from fairseq import options, utils

for flags in (["--replace-unk"], ["--replace-unk", ""]):
    value = options.get_interactive_generation_parser().parse_args(flags).replace_unk
    try:
        found = utils.load_align_dict(value)
    except FileNotFoundError as error:
        found = type(error).__name__
    print(flags, repr(value), found, sep="  ")
PYTHON
