/** The colours that a colour theme gives to code, for tokens of the highlighter. */

/** Scopes of a kind of token, best first. Colour themes have rules for scopes, where `string` also means `string.quoted`. */
const SCOPES = {
  comment: ["comment"],
  keyword: ["keyword.control", "keyword", "storage.type", "storage"],
  string: ["string.quoted", "string"],
  number: ["constant.numeric", "constant"],
  literal: ["constant.language", "constant"],
  title: ["entity.name.function", "support.function", "entity.name"],
  type: ["entity.name.type", "entity.name.class", "support.class", "support.type", "entity.name"],
  variable: ["variable.other", "variable"],
  property: ["variable.other.property", "support.type.property-name", "variable"],
  tag: ["entity.name.tag", "entity.name"],
  attribute: ["entity.other.attribute-name"],
} as const;

export type Kind = keyof typeof SCOPES;
export type Palette = Readonly<Partial<Record<Kind, string>>>;

/** A rule of a theme file; later rules win over earlier ones of the same scope. */
export interface TokenRule {
  readonly scope?: string | readonly string[];
  readonly settings?: { readonly foreground?: string };
}

const COLOUR = /^#[0-9a-f]{3,8}$/i;

export function paletteFrom(rules: readonly TokenRule[]): Palette {
  const colours = new Map<string, string>();
  for (const { scope = [], settings } of rules) {
    const foreground = settings?.foreground ?? "";
    if (!COLOUR.test(foreground)) continue;
    const selectors = typeof scope === "string" ? scope.split(",") : scope;
    for (const selector of selectors) colours.set(selector.trim(), foreground);
  }
  const found = Object.entries(SCOPES).map(([kind, scopes]) => [kind, colourOf(colours, scopes)] as const);
  return Object.fromEntries(found.filter(([, colour]) => colour !== undefined));
}

/** The colour of the first scope that has one, by itself or by a shorter scope. */
function colourOf(colours: ReadonlyMap<string, string>, scopes: readonly string[]): string | undefined {
  for (const scope of scopes) {
    for (let part = scope; part; part = part.slice(0, Math.max(0, part.lastIndexOf(".")))) {
      const colour = colours.get(part);
      if (colour !== undefined) return colour;
    }
  }
  return undefined;
}
