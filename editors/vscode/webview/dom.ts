/** Building DOM elements. Text is never parsed as HTML. */

type Child = Node | string | false | undefined;

interface Attributes {
  readonly id?: string;
  readonly class?: string;
  readonly title?: string;
  readonly role?: string;
  readonly [attribute: `aria-${string}` | `data-${string}`]: string | undefined;
  readonly type?: string;
  readonly tabindex?: string;
  readonly placeholder?: string;
  readonly rows?: string;
  readonly src?: string;
  readonly alt?: string;
  readonly onClick?: (event: MouseEvent) => void;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onClick") element.addEventListener("click", value as (event: Event) => void);
    else if (value !== undefined) element.setAttribute(name, value as string);
  }
  element.append(...children.filter((child) => child !== false && child !== undefined));
  return element;
}

/** An icon of the editor, hidden from screen readers. */
export function icon(name: string, spin = false): HTMLElement {
  return h("span", { class: `codicon codicon-${name}${spin ? " codicon-modifier-spin" : ""}`, "aria-hidden": "true" });
}

/** A button with text. */
export function button(
  text: string,
  onClick: () => void,
  options: { class?: string; icon?: string; title?: string; label?: string } = {},
): HTMLButtonElement {
  const { class: style = "", title, label } = options;
  return h(
    "button",
    {
      type: "button",
      class: `button ${style}`.trim(),
      ...(title && { title }),
      ...(label && { "aria-label": label }),
      onClick,
    },
    options.icon && icon(options.icon),
    text,
  );
}

/** A button with only an icon, and an accessible label. */
export function iconButton(name: string, label: string, onClick: () => void): HTMLButtonElement {
  return h("button", { type: "button", class: "icon-button", title: label, "aria-label": label, onClick }, icon(name));
}

/** Replaces the children of an element. */
export function fill(element: HTMLElement, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child) => child !== false && child !== undefined));
}

/** Puts `wanted` into `parent` in order. Does not move elements that are already in place, so that focus and folds stay. */
export function arrange(parent: HTMLElement, wanted: readonly HTMLElement[]): void {
  const isSame = parent.childNodes.length === wanted.length && wanted.at(-1) === parent.lastChild;
  if (isSame && wanted.every((element, index) => parent.childNodes[index] === element)) return;
  const keep = new Set<Node>(wanted);
  for (const child of [...parent.childNodes]) if (!keep.has(child)) child.remove();
  wanted.forEach((element, index) => {
    if (parent.childNodes[index] !== element) parent.insertBefore(element, parent.childNodes[index] ?? null);
  });
}

/** Sets a text only if it changes. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
