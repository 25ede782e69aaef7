/** What the chat shows while there is no server: the cause, and one main button. */
import type { Phase, SetupState } from "./machine.ts";

export interface Card {
  readonly icon: string;
  readonly title: string;
  readonly text: string;
  /** Steps done and steps in all, while an installation runs. */
  readonly progress?: { readonly done: number; readonly of: number };
  /** The first one is the main one. */
  readonly buttons: readonly CardButton[];
}

export interface CardButton {
  readonly text: string;
  readonly act: "install" | "cancelInstall" | "check" | "serverSettings" | "showLog";
}

/** What a card states about this window. */
export interface Place {
  /** The version of the extension and of its server. */
  readonly version: string;
  /** Name of the remote machine's kind, such as `ssh-remote`; undefined if the files are on the user's machine. */
  readonly remote: string | undefined;
  /** The user's folder, shown as `~`. */
  readonly home: string;
}

const OPEN_SETTINGS: CardButton = { text: "Open Settings", act: "serverSettings" };
const CHECK: CardButton = { text: "Check Again", act: "check" };
const SHOW_LOG: CardButton = { text: "Show Log", act: "showLog" };

/** By phase; none if there is nothing to say. */
const CARDS: Readonly<Record<Phase, ((state: SetupState, place: Place) => Card) | undefined>> = {
  checking: undefined,
  ready: undefined,
  missing: (state, place) => ({
    icon: "cloud-download",
    title: "Install Deputy's server",
    text: `Agents run in a server, which is not installed yet. ${downloadOf(state, place)}`,
    buttons: [{ text: "Install Server", act: "install" }, OPEN_SETTINGS],
  }),
  no_python: (state, place) => ({
    icon: "cloud-download",
    title: "Install Python and Deputy's server",
    text: `Deputy needs Python 3.11 or newer with venv, and none was found. ${downloadOf(state, place)}`,
    buttons: [{ text: "Download and Install", act: "install" }, CHECK, OPEN_SETTINGS],
  }),
  wrong_version: (state, place) => ({
    icon: "versions",
    title: `Install the server for version ${place.version}`,
    text: `${state.other?.path ?? ""} has version ${state.other?.version ?? ""}, which does not fit. It is not changed. ${downloadOf(state, place)}`,
    buttons: [{ text: `Install Server ${place.version}`, act: "install" }, CHECK, OPEN_SETTINGS],
  }),
  wrong_setting: ({ message = "" }) => ({
    icon: "settings-gear",
    title: "Deputy's server was not found",
    text: message,
    buttons: [OPEN_SETTINGS, CHECK],
  }),
  installing: ({ step }) => ({
    icon: "sync",
    title: "Installing Deputy's server",
    text: step ? `Step ${step.step} of ${step.of}: ${step.text}` : "Preparing the installation",
    progress: { done: step ? step.step - 1 : 0, of: step?.of ?? 1 },
    buttons: [{ text: "Cancel", act: "cancelInstall" }, SHOW_LOG],
  }),
  failed: ({ message = "", tool }) => ({
    icon: "error",
    title: "Deputy's server is not installed",
    text: message,
    buttons: [{ text: tool ? "Try Again" : "Download uv and Try Again", act: "install" }, SHOW_LOG, OPEN_SETTINGS],
  }),
};

export function cardOf(state: SetupState, place: Place): Card | undefined {
  return CARDS[state.phase]?.(state, place);
}

/** What is downloaded, from where and to where: the user's consent is to this sentence. */
export function downloadOf({ tool }: Pick<SetupState, "tool">, { remote, home }: Omit<Place, "version">): string {
  const to = `into a folder of this extension${remote ? " on the remote machine" : ""}. Nothing else is changed.`;
  if (!tool) return `This downloads uv from astral.sh, and with it Python and the server's packages, ${to}`;
  const path = tool.path.startsWith(`${home}/`) ? `~${tool.path.slice(home.length)}` : tool.path;
  return `This downloads its packages from the Python package index with ${path}, ${to}`;
}
