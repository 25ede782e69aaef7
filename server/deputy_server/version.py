"""The version, as a plain constant: looking it up in the installed metadata costs a tenth of the start-up."""

VERSION = "0.1.0"
