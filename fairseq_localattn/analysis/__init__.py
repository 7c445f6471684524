"""Analyses of trained models, each a command: ``python -m fairseq_localattn.analysis.locality`` and others."""
