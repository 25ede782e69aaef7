"""The version. A constant, because reading it from the installed metadata takes a tenth of the startup time."""

VERSION = "0.1.0"
