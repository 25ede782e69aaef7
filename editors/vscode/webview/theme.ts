/** The colours of code. The editor names the theme in the body; the extension reads its colours. */
import type { Palette } from "../src/state/palette.ts";
import type { View } from "./view.ts";

/** Requests the colours of the theme now and whenever it changes. */
export function watchTheme(send: View["send"]): void {
  const request = (): void => {
    const id = document.body.dataset["vscodeThemeId"];
    if (id !== undefined) send({ type: "theme", id });
  };
  new MutationObserver(request).observe(document.body, { attributeFilter: ["data-vscode-theme-id"] });
  request();
}

/** Colours that the palette does not have stay those of the style sheet. */
export function applyPalette(colours: Palette): void {
  const { style } = document.body;
  for (const name of [...style]) if (name.startsWith("--code-")) style.removeProperty(name);
  for (const [kind, colour] of Object.entries(colours)) style.setProperty(`--code-${kind}`, colour);
}
