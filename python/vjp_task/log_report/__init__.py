"""The report on the experiment log: a page and its charts."""
