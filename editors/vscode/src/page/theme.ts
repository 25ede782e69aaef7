/** Reads the colours of code from the file of a colour theme, because webviews only get the colours of the window. */
import { parse } from "jsonc-parser";
import * as vscode from "vscode";

import { type Palette, paletteFrom, type TokenRule } from "../state/palette.ts";

interface Contribution {
  readonly id?: string;
  readonly label: string;
  readonly path: string;
}

interface ThemeFile {
  readonly include?: string;
  /** Rules, or the path of a file in another format, which is not read. */
  readonly tokenColors?: readonly TokenRule[] | string;
}

/** Maximum number of files that include each other. */
const MAX_INCLUDES = 8;

/** The colours of a theme by its id; empty if its file is not on this machine. */
export async function paletteOf(id: string): Promise<Palette> {
  for (const { extensionUri, packageJSON } of vscode.extensions.all) {
    const { contributes } = packageJSON as { contributes?: { themes?: readonly Contribution[] } };
    const theme = contributes?.themes?.find((one) => one.id === id || one.label === id);
    if (theme) return paletteFrom(await rulesOf(vscode.Uri.joinPath(extensionUri, theme.path), MAX_INCLUDES));
  }
  return {};
}

async function rulesOf(uri: vscode.Uri, includes: number): Promise<readonly TokenRule[]> {
  const text = new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
  const { include, tokenColors = [] } = (parse(text, [], { allowTrailingComma: true }) ?? {}) as ThemeFile;
  const base = include && includes > 0 ? await rulesOf(vscode.Uri.joinPath(uri, "..", include), includes - 1) : [];
  return typeof tokenColors === "string" ? base : [...base, ...tokenColors];
}
