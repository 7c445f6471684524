"""Helpers of the tests of fairseq_localattn.inference."""
