"""Shell commands: analysis of a line of bash (``parse``, ``inner``, ``access``), and execution that leaves no process
behind (``guard``, ``process``, ``background``). The tool that agents call is in ``tool/``."""
