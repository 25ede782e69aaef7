"""Coverage-guided fuzzing of a connection, with atheris, which is not among the requirements:

    pip install atheris
    python -m tests.fuzz tests/fuzz/corpus -max_total_time=600

Put inputs worth keeping into ``corpus``; an ordinary test feeds them again.
"""

import logging
import sys

import atheris

with atheris.instrument_imports(include=["deputy_server"]):
    from tests.fuzz.target import Runner

logging.disable()
atheris.Setup(sys.argv, Runner())
atheris.Fuzz()
