// A minimal client with only vscode-jsonrpc: node client.mjs PACKAGE DEPUTY FOLDER. Prints its observations as JSON.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [home, deputy, folder] = process.argv.slice(2);
const rpc = createRequire(`${home}/package.json`)('vscode-jsonrpc/node');

const server = spawn(deputy, ['serve', '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] });
const ended = new Promise((resolve) => server.on('exit', resolve));
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);
const seen = { asked: [], titles: {}, ends: {}, messages: [] };
let moved = () => {};

connection.onRequest('window/workDoneProgress/create', () => null);
connection.onNotification('$/progress', ({ token, value }) => {
  if (value.kind === 'begin') seen.titles[token] = value.title;
  if (value.kind === 'end') seen.ends[seen.titles[token]] = value.message;
  moved();
});
connection.onRequest('window/showMessageRequest', ({ message, actions }) => {
  seen.asked.push(message);
  const wanted = message.includes('first.txt') ? 'Approve' : 'Deny';
  return actions.find(({ title }) => title === wanted);
});
connection.onNotification('window/showMessage', ({ message }) => {
  seen.messages.push(message);
  moved();
});
connection.listen();

async function until(holds) {
  while (!holds()) await new Promise((resolve) => (moved = resolve));
}

function prompt(text) {
  return connection.sendRequest('workspace/executeCommand', { command: 'deputy.prompt', arguments: [{ text }] });
}

await connection.sendRequest('initialize', {
  processId: process.pid,
  rootUri: pathToFileURL(folder).href,
  capabilities: { window: { workDoneProgress: true } },
});
connection.sendNotification('initialized', {});

await prompt('edit both');
await until(() => seen.messages.length === 1);

await prompt('look around');
const token = () => Object.keys(seen.titles).find((key) => seen.titles[key] === 'general: look for ever');
await until(() => token() && seen.ends['general: look briefly']);
connection.sendNotification('window/workDoneProgress/cancel', { token: token() });
await until(() => seen.messages.length === 2);

await connection.sendRequest('shutdown');
connection.sendNotification('exit');
seen.code = await ended;
console.log(JSON.stringify(seen));
process.exit(0);
