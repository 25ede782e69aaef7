// Formats the Lua files of the repository: `node format.mjs`. With --check, lists files that are not formatted.
import { readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import * as stylua from '@johnnymorganz/stylua';

// The formatter consumes its configuration.
function config() {
  const made = stylua.Config.new();
  made.syntax = stylua.LuaVersion.LuaJIT;
  made.column_width = 120;
  made.indent_type = stylua.IndentType.Spaces;
  made.indent_width = 2;
  made.quote_style = stylua.QuoteStyle.AutoPreferSingle;
  return made;
}

const check = process.argv.includes('--check');
const root = new URL('../../', import.meta.url).pathname;
const files = execFileSync('git', ['ls-files', '*.lua'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
for (const file of files) {
  const text = readFileSync(root + file, 'utf8');
  const formatted = stylua.formatCode(text, config(), undefined, stylua.OutputVerification.Full);
  if (text === formatted) continue;
  if (check) process.exitCode = 1;
  else writeFileSync(root + file, formatted);
  console.log(`${check ? 'not formatted' : 'formatted'}: ${file}`);
}
