"""What the core needs from its environment, as small protocols with their values. Adapters in ``model/``, ``store/``
and the front ends implement them; apart from the registry of attached editors, nothing here has behavior."""
