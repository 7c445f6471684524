"""The engine behind the commands of scripts/: recipes, data, runs, measures, plans and reports."""
