"""Conversion between core values and wire types, one module per resource: ``x_to_wire`` and ``x_from_wire``. Stored
events and wire messages change for different reasons, so the conversions are written by hand."""
