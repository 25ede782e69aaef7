/** Which versions of extension and server fit together. */

const VERSION = /^deputy (\d+\.\d+\.\d+\S*)/;

/** The version in the output of `deputy --version`; undefined if the command is another program. */
export function versionIn(output: string): string | undefined {
  return VERSION.exec(output)?.[1];
}

/** Whether a server has the interface of an extension of version `wanted`, as semantic versions promise it. */
export function fits(server: string, wanted: string): boolean {
  const [one, other] = [partsOf(server), partsOf(wanted)];
  const fixed = other[0] === 0 ? 2 : 1;
  for (const [index, part] of other.entries()) {
    const own = one[index] ?? 0;
    if (own !== part) return index >= fixed && own > part;
  }
  return true;
}

function partsOf(version: string): readonly number[] {
  return version.split(".").map((part) => Number.parseInt(part, 10));
}
