"""The scripted model in the tests of language servers: it calls the tool in the prompt and returns its result."""

import json

from tests.support.model_replies import Json, Play, call, calls, say


def script(body: Json, _: int) -> Play:
    match body["messages"]:
        case [_]:
            return calls(call("read_file", path="loop.py"))
        case [prompt, _, _]:
            name, _, input = prompt["content"][0]["text"].partition(" ")
            return calls(call(name, **json.loads(input)))
        case messages:
            return say(f"result: {messages[-1]['content'][-1]['content']}")
