"""Options of ``make soak``, read before the tests remove them from the environment."""

import os

MINUTES = float(os.environ.get("DEPUTY_SOAK_MINUTES", "30"))
"""How long the tests with many sub-agents run."""
SEED = int(os.environ.get("DEPUTY_SOAK_SEED", "1000"))
"""The first seed. All randomness of a test comes from its seed, except for the speed of the machine."""
