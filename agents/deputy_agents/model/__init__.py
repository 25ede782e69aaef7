"""Implementations of :class:`deputy_agents.ports.model.Model`: providers of models, an offline model, recordings and
a scripted model for tests. Retries and compaction belong to ``run/``."""
