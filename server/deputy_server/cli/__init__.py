"""The command line. An editor's ``deputy serve`` bypasses it: ``__main__`` calls ``serve`` directly."""
