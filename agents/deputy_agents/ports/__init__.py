"""What the core needs from its surroundings, as small protocols with their values. Adapters in ``model/``, ``store/``
and the front ends implement them; nothing here does any work."""
