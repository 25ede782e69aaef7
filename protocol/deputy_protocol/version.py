"""The version of Deputy, stated here alone: package, extension, plugin and documentation take it from this file.

A constant, because reading it from the installed metadata takes a tenth of the startup time.
"""

VERSION = "0.1.0"
