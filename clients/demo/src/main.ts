import type { Subprotocol } from "../../typescript/src/index.js";
import * as api from "./api.js";
import { el, icon } from "./dom.js";
import { Pane } from "./pane.js";

const parameters = new URLSearchParams(location.search);
const GROUP = parameters.get("group") ?? "lounge";

function users(): { shown: string[]; all: string[] } {
  const user = parameters.get("user");
  if (user) {
    const peer = parameters.get("peer") ?? (user === "alice" ? "bob" : "alice");
    return { shown: [user], all: [user, peer] };
  }
  const both = [parameters.get("left") ?? "alice", parameters.get("right") ?? "bob"];
  return { shown: both, all: both };
}

async function retry<T>(attempt: () => Promise<T>, status: HTMLElement): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      status.textContent = `The server is not ready yet – ${String(error)}`;
      await new Promise((resolve) => setTimeout(resolve, Math.min(1_000 * 2 ** failures, 30_000)));
    }
  }
}

function protocolSwitch(panes: Pane[], chosen: Subprotocol): HTMLElement {
  const fieldset = el("fieldset", { class: "segments" }, el("legend", { class: "hidden", textContent: "Encoding" }));
  const choices: [Subprotocol, string][] = [
    ["lapwing.v1.proto", "Binary"],
    ["lapwing.v1.json", "JSON"],
  ];
  for (const [value, label] of choices) {
    const radio = el("input", { type: "radio", name: "protocol", value, checked: value === chosen });
    radio.addEventListener("change", () => panes.forEach((pane) => void pane.use(value)));
    fieldset.append(el("label", {}, radio, el("span", { textContent: label })));
  }
  return fieldset;
}

function themeSwitch(): HTMLElement {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset["theme"] = localStorage.getItem("theme") ?? system;
  return el(
    "button",
    {
      class: "round",
      type: "button",
      title: "Light or dark",
      aria: { label: "Light or dark" },
      onclick: () => {
        root.dataset["theme"] = root.dataset["theme"] === "dark" ? "light" : "dark";
        localStorage.setItem("theme", root.dataset["theme"]);
      },
    },
    icon("theme"),
  );
}

async function start(): Promise<void> {
  const { shown, all } = users();
  const [a = "alice", b = "bob"] = all;
  const bar = document.querySelector("#controls") as HTMLElement;
  const main = document.querySelector("main") as HTMLElement;
  const status = el("p", { class: "starting", textContent: "Starting…", aria: { role: "status" } });
  bar.append(themeSwitch());
  main.append(status);
  const p2p = await retry(() => api.ensureP2p(a, b), status);
  const group = await retry(() => api.ensureGroup(GROUP, all), status);
  const subprotocol: Subprotocol = parameters.get("protocol") === "json" ? "lapwing.v1.json" : "lapwing.v1.proto";
  const panes = shown.map((user) => {
    const peer = user === a ? b : a;
    return new Pane(user, [{ conversation: p2p, title: peer, group: false }, { conversation: group, title: GROUP, group: true }], subprotocol);
  });
  for (const user of shown.length > 1 ? [...shown].reverse() : []) {
    const peer = user === a ? b : a;
    const link = el("a", { href: `/?${new URLSearchParams({ user, peer, group: GROUP }).toString()}`, target: "_blank", rel: "noopener", title: `Open ${user} in a tab` });
    link.append(icon("open"), user);
    bar.prepend(link);
  }
  bar.prepend(protocolSwitch(panes, subprotocol));
  main.replaceChildren(...panes.map(({ element }) => element));
  main.dataset["panes"] = String(panes.length);
  panes.forEach((pane) => pane.start());
}

void start();
