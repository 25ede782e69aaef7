// A client based on the official library. Reads steps as one line of JSON from standard input, runs them against the
// command in its arguments, and prints all messages in both directions and the result of each step.
//
// A step is {request: method, params} or {notify: method, params}. "$session" is the id returned by the first
// session/new, "$child" the first announced sub-agent. {on: kind} before a step waits for an update of that kind.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import * as stable from "@agentclientprotocol/sdk";
import * as unstable from "@agentclientprotocol/sdk/unstable";

const input = createInterface({ input: process.stdin });
const { value } = await input[Symbol.asyncIterator]().next();
const { capabilities, answer, steps, files } = JSON.parse(value);
const acp = capabilities.subagents ? unstable : stable;

const log = [];
const known = {};
const waiting = [];

function note(from, message) {
  log.push({ from, message });
}

function seen(update) {
  if (update.sessionUpdate === "subagent_update") known.child ??= update.sessionId;
  for (const wait of waiting.filter((one) => one.kind === update.sessionUpdate)) wait.resolve();
}

function updateOf(kind) {
  return new Promise((resolve) => waiting.push({ kind, resolve }));
}

/** Replaces the placeholders by ids. */
function filled(params) {
  return JSON.parse(JSON.stringify(params), (_key, value) =>
    typeof value === "string" && value.startsWith("$") ? (known[value.slice(1)] ?? value) : value,
  );
}

function choice(params) {
  const option = params.options.find((one) => one.kind === answer);
  return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
}

/** Wraps a stream of the library and logs its messages. */
function watched(stream) {
  const tap = (from) => new TransformStream({
    transform(message, controller) {
      note(from, message);
      controller.enqueue(message);
    },
  });
  const out = tap("client");
  out.readable.pipeTo(stream.writable).catch(() => {});
  return { writable: out.writable, readable: stream.readable.pipeThrough(tap("agent")) };
}

const [command, ...options] = process.argv.slice(2);
const agent = spawn(command, options, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.on("exit", (code) => resolve(code)));
const stream = watched(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));

const updates = [];
const requests = [];
const app = acp
  .client({ name: "deputy-tests" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    updates.push(params);
    seen(params.update);
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    requests.push(params);
    return choice(params);
  })
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => {
    const content = files?.[params.path];
    if (content === undefined) throw acp.RequestError.resourceNotFound(params.path);
    return { content };
  })
  .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
    files[params.path] = params.content;
    return {};
  });

const results = [];
await app.connectWith(stream, async (connection) => {
  results.push(await connection.request("initialize", { protocolVersion: 1, clientCapabilities: capabilities }));
  let running;
  for (const step of steps) {
    if (step.on) await updateOf(step.on);
    if (step.notify) await connection.notify(step.notify, filled(step.params));
    if (step.request) {
      const made = connection.request(step.request, filled(step.params)).catch((error) => ({ error: String(error) }));
      if (step.background) {
        running = made;
        continue;
      }
      const result = await made;
      known.session ??= result.sessionId;
      results.push(result);
    }
    if (step.end) results.push(await running);
  }
});
agent.stdin.end();
const code = await exited;
console.log(JSON.stringify({ log, updates, requests, results, files, code }));
process.exit(0);
