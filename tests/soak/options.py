"""Options of ``make soak``, read before the tests remove them from the environment."""

import os
import random

MINUTES = float(os.environ.get("DEPUTY_SOAK_MINUTES", "30"))
"""How long the tests with many sub-agents run."""
SEED = int(os.environ.get("DEPUTY_SOAK_SEED", "1000"))
"""The first seed. All randomness of a test comes from its seed, except for the speed of the machine."""
FUZZ_MINUTES = float(os.environ.get("DEPUTY_SOAK_FUZZ_MINUTES", "10"))
"""How long each fuzzer of shell lines runs."""
FUZZ_SEED = int(os.environ.get("DEPUTY_SOAK_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
"""The seed of these fuzzers. With that of a summary, the same lines are tried again."""
