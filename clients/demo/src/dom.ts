type Props<K extends keyof HTMLElementTagNameMap> = Partial<Omit<HTMLElementTagNameMap[K], "style" | "dataset">> & {
  class?: string;
  data?: Record<string, string>;
  aria?: Record<string, string>;
};

/** Builds an element. No markup is ever parsed from text, so messages stay text. */
export function el<K extends keyof HTMLElementTagNameMap>(name: K, props: Props<K> = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const { class: className, data, aria, ...rest } = props;
  const element = document.createElement(name);
  if (className) element.className = className;
  Object.assign(element, rest);
  Object.assign(element.dataset, data);
  for (const [key, value] of Object.entries(aria ?? {})) element.setAttribute(key === "role" ? key : `aria-${key}`, value);
  element.append(...children);
  return element;
}

const PATHS = {
  clock: "M8 4.5V8l2.3 1.6M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  tick: "M3.5 8.5l3 3 6-7",
  ticks: "M1 8.6l3 3 6-7M7.4 10.9l.9.7 6-7",
  alert: "M8 4.8v4M8 11.2v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  question: "M6.2 6.3a1.9 1.9 0 1 1 2.6 1.8c-.6.3-.8.6-.8 1.2M8 11.3v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  send: "M2.5 8L13.5 2.8 9.8 13.4 7.6 8.9 2.5 8zM7.6 8.9l2.3-2.3",
  down: "M8 3v9M4 8.5l4 4 4-4",
  theme: "M8 13.5a5.5 5.5 0 1 0 0-11v11zM8 13.5a5.5 5.5 0 0 1 0-11",
  open: "M6.5 3.5h-3v9h9v-3M9 3h4v4M12.8 3.2L7.5 8.5",
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGSVGElement {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A stable colour of a name. */
export function hue(name: string): number {
  return [...name].reduce((sum, char) => (sum * 31 + (char.codePointAt(0) ?? 0)) % 360, 7);
}

export function avatar(name: string): HTMLElement {
  const element = el("span", { class: "avatar", aria: { hidden: "true" } }, (name[0] ?? "?").toUpperCase());
  element.style.setProperty("--hue", String(hue(name)));
  return element;
}
