"""The phrase memory of MG-SA: partitions of a sentence, composition of words into phrases, recurrent networks."""
