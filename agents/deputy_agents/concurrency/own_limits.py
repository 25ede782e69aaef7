"""Limits of a process that handles hostile data, set by itself."""


def limit_resources(memory: int, seconds: int) -> None:
    """Limits this process to ``memory`` bytes and ``seconds`` of CPU time, and keeps it from writing files."""
    import resource  # absent on Windows

    for what, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        try:
            resource.setrlimit(what, (limit, limit))
        except (OSError, ValueError):
            continue  # macOS does not limit memory; the caller limits the time
