"""The command ``python -m fairseq_localattn.analysis.probing``."""

from .command import main

if __name__ == "__main__":
    main()
