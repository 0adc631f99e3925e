/** The demo's own endpoints of the gateway. */
async function ask<T>(path: string, body?: object): Promise<T> {
  const init = body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(path, init);
  const answer = (await response.json().catch(() => undefined)) as (T & { error?: { message?: string; trace_id?: string } }) | undefined;
  if (response.ok && answer) return answer;
  const { message = response.statusText, trace_id: trace } = answer?.error ?? {};
  throw new Error(`${path}: ${response.status} ${message}${trace ? ` (trace ${trace})` : ""}`);
}

export async function token(user: string): Promise<string> {
  return (await ask<{ token: string }>(`/demo/token?user=${encodeURIComponent(user)}`)).token;
}

export async function ensureP2p(a: string, b: string): Promise<string> {
  return (await ask<{ conversation: string }>("/demo/p2p", { users: [a, b] })).conversation;
}

export async function ensureGroup(name: string, members: string[]): Promise<string> {
  return (await ask<{ conversation: string }>("/demo/group", { name, members })).conversation;
}
