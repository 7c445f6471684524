"""From the words of a sentence to vectors of its phrases: partitions, composition, recurrent networks."""
