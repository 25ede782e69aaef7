"""Reading from the web, within bounds."""
