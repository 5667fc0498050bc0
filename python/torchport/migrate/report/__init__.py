"""The report of an evaluation: one self-contained HTML page, the decision first, every number linked to its evidence.

`build.build(folder, lang)` gives the page. `words.toml` holds its texts in both languages, `phrases.toml` the French of
sentences that the evaluator derives from the record.
"""
