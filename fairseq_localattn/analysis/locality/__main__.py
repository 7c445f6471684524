"""The command ``python -m fairseq_localattn.analysis.locality``."""

from .command import main

if __name__ == "__main__":
    main()
