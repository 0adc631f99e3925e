import { execFile, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

/** A running Lapwing, as the tests need it. */
export interface Cluster {
  url: string;
  /** Restarts the gateway behind `url`; absent if the caller gave an address only. */
  restartGateway?: () => Promise<void>;
  /** kill -9 of a router, and its start; absent likewise. */
  killRouter?: () => Promise<void>;
  stop: () => Promise<void>;
}

const run = promisify(execFile);

interface State {
  endpoints: { gateways: { client_url: string }[] };
}

/**
 * `LAPWING_STATE` (+ `LAPWING_DEV`): the state file of a cluster and the program that restarts its parts, as `./dev test`
 * sets them. `LAPWING_TEST_URL`: an address only. `LAPWING_CLUSTER_CMD`: starts a cluster, prints one line of JSON, and
 * ends when its input closes. None of them is an error: this test never passes by not running.
 */
export async function findCluster(): Promise<Cluster> {
  const { LAPWING_STATE: state, LAPWING_DEV: dev, LAPWING_TEST_URL: url, LAPWING_CLUSTER_CMD: command } = process.env;
  if (state) {
    const { endpoints } = JSON.parse(readFileSync(state, "utf8")) as State;
    const address = endpoints.gateways[0]?.client_url;
    if (!address) throw new Error(`no gateway in ${state}`);
    if (!dev) return { url: httpUrl(address), stop: async () => {} };
    const restartGateway = async (): Promise<void> => void (await run(dev, ["process", "restart", "g1"]));
    const killRouter = async (): Promise<void> => {
      await run(dev, ["process", "kill", "r1"]);
      await run(dev, ["process", "start", "r1"]);
    };
    return { url: httpUrl(address), stop: async () => {}, restartGateway, killRouter };
  }
  if (url) return { url: httpUrl(url), stop: async () => {} };
  if (command) return startCluster(command);
  throw new Error("no cluster to test: set LAPWING_STATE, LAPWING_TEST_URL or LAPWING_CLUSTER_CMD, or run ./dev test");
}

async function startCluster(command: string): Promise<Cluster> {
  const child = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`${command}: ended with ${code} before it was ready`)));
  });
  const answer = JSON.parse(line) as { client_url: string; restart_gateway_cmd?: string };
  const restartCommand = answer.restart_gateway_cmd;
  const restart = restartCommand ? { restartGateway: async () => void (await run("sh", ["-c", restartCommand])) } : {};
  const stop = async (): Promise<void> => {
    child.stdin.end();
    await ended;
  };
  return { url: httpUrl(answer.client_url), stop, ...restart };
}

function httpUrl(address: string): string {
  return new URL(address.replace(/^ws/, "http")).origin;
}
