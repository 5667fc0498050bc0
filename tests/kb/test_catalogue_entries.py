"""The catalogue of CUDA-isms in the knowledge base, and the glossary's references to it."""

from torchport.migrate.catalogue import catalogue
from torchport.migrate.errors import glossary
from torchport.migrate.kb import shipped


def test_every_rule_is_an_entry() -> None:
    entries = {entry.id: entry for entry in shipped.entries()}
    for rule in catalogue().rules:
        entry = entries[f"rule/{rule.id}"]
        assert rule.why in entry.claim
        assert rule.replacement in entry.claim
        assert entry.date == catalogue().sources[rule.source].date.isoformat()


def test_the_glossary_names_rules_that_exist() -> None:
    rules = {rule.id for rule in catalogue().rules}
    for known in glossary():
        assert set(known.rules) <= rules, known.id
