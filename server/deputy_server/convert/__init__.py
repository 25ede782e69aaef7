"""Conversion between the core's values and the wire, one module per resource. Stored events and wire messages change
for different reasons, so the conversion is written by hand."""
