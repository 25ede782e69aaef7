"""The command line for people. An editor's ``deputy serve`` bypasses it: ``__main__`` calls ``serve`` directly."""
