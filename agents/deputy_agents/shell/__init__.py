"""Shell commands: what a line of bash would run (``parse``, ``inner``, ``access``), and running it so that no process
is left behind (``guard``, ``process``, ``background``). The tool that agents call is in ``tool/``."""
