"""The knowledge base: what was found, changed, measured and decided, each entry with its source and date.

`entry.py` is what an entry is, `redact.py` what is taken out of it, `store.py` the SQLite file, `shipped.py` the
entries that come with TorchPort (derived from the data files of the other parts), `ingest.py` the entries that a result
file gives.
"""

from torchport.migrate.kb.entry import KINDS, Entry
from torchport.migrate.kb.store import Store, default_path

__all__ = ["KINDS", "Entry", "Store", "default_path"]
