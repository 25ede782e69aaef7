"""Shell commands: what a line of bash would run (``parse``, ``inner``, ``access``), and running it so that nothing of
it is left behind (``guard``, ``process``, ``background``).
"""
