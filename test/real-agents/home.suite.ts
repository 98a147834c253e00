import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { presets } from "../../src/agents/programs/presets.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, runCli, startCli } from "../support/cli.ts";
import { chatgptLogin, type RealAgent, realAgents } from "./agents.ts";
import { startFakeModel } from "./fake-model.ts";
import { processesOf, server, writeFiles } from "./support.ts";

const types = ["acp", "command"] as const;
type Type = (typeof types)[number];
const token = "login-token-0123456789abcdef";
const planted = "planted-words-of-the-user";

/** A folder with a config, a home of a user in which things are planted, and the program. */
interface Place extends Disposable {
  readonly path: string;
  readonly user: string;
  /** Where temporary files go. */
  readonly temporary: string;
  /** Exists when something planted has run. */
  readonly touched: string;
  readonly env: Readonly<Record<string, string>>;
}

interface Setup {
  readonly agent?: object;
  readonly trial?: string;
  /** Traces the files that the program and all that it starts look at. */
  readonly isTraced?: true;
  /** Plants no plug-ins, for which opencode would wait for packages of the network. */
  readonly hasPlugins?: false;
}

function placeFor(agent: RealAgent, type: Type, url: string, setup: Setup = {}): Place {
  const { preset, away, awayArgs, home, login } = agent;
  const config = {
    servers: { everything: server },
    agents: { it: { type, preset, env: away(url), ...setup.agent } },
    workflows: [
      {
        name: "echo",
        steps: [{ user: "Use the echo tool.", expectedState: "Echo: hello" }],
        expectTools: ["echo"],
      },
    ],
    limits: { trial: setup.trial ?? "10m" },
  };
  const folder = folderOf({ "mcp-eval.config.json": config });
  const at = (name: string): string => join(folder.path, name);
  const touch = `echo ran >> ${at("touched")}`;
  const own = { name: "planted", command: "sh", args: ["-c", touch] };
  writeFiles(at("user"), {
    ...home("http://127.0.0.1:9", own),
    ...(usesLogin(agent) ? login(token) : {}),
    ...Object.fromEntries(
      Object.entries(agent.planted(planted, touch, token)).filter(
        ([name]) => setup.hasPlugins !== false || !name.includes("/plugin/"),
      ),
    ),
  });
  mkdirSync(at("temporary"));
  const { command } = type === "acp" ? presets[preset].acp : presets[preset].headless;
  const real = execFileSync("sh", ["-c", `command -v ${command}`], { encoding: "utf8" }).trim();
  const args = type === "command" ? (awayArgs?.(url) ?? []).map((arg) => `'${arg}'`) : [];
  const trace = setup.isTraced ? `strace -f -qq -s 300 -e trace=%file -o ${at("trace")}.$$ ` : "";
  writeFiles(at("node_modules/.bin"), {
    [command]: `#!/bin/sh\nexec ${trace}${real} ${args.join(" ")} "$@"\n`,
  });
  chmodSync(join(at("node_modules/.bin"), command), 0o755);
  return {
    path: folder.path,
    user: at("user"),
    temporary: at("temporary"),
    touched: at("touched"),
    env: { HOME: at("user"), TMPDIR: at("temporary"), PATH: process.env["PATH"] ?? "" },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

/** Gemini CLI asks Google about its login, which is not on loopback. */
function usesLogin({ preset }: RealAgent): boolean {
  return preset !== "gemini";
}

const answering = { tool: "echo", args: { message: "hello" }, words: "The server said: Echo: hello" };
const run = ["run", "--reporter", "json"];

/** Every file below a folder with a hash of what it holds. */
function hashesOf(folder: string): Readonly<Record<string, string>> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const hashOf = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");
  return Object.fromEntries(files.toSorted().map((path) => [path, hashOf(path)]));
}

function tracesOf({ path }: Place): readonly string[] {
  return readdirSync(path)
    .filter((name) => name.startsWith("trace."))
    .map((name) => readFileSync(join(path, name), "utf8"));
}

/** Files and folders that a traced program made, outside of a folder, and that are still there. */
function leftOutside(place: Place): readonly string[] {
  const made = tracesOf(place).flatMap((trace) =>
    [...trace.matchAll(/(?:open(?:at)?|mkdir(?:at)?|rename\w*)\([^\n]*?"(\/[^"\n]+)"(?:, (\S+))?/g)].flatMap(
      ([line, path = ""]) => (/O_CREAT|mkdir|rename/.test(line) ? [path] : []),
    ),
  );
  const isKnown = (path: string): boolean => /^\/(?:dev|proc)\//.test(path) || path.startsWith(place.path);
  return [...new Set(made)].filter((path) => !isKnown(path) && existsSync(path));
}

describe.each(realAgents)("$preset in a home of its own", (agent) => {
  test.each(types)("has nothing of the user but the login, four at once, as %s", async (type) => {
    await using model = await startFakeModel(answering);
    using place = placeFor(agent, type, model.url, { isTraced: true });
    const before = hashesOf(place.user);
    const four = ["--trials", "4", "--concurrency", "4"];
    const { code, stdout, stderr } = await runCli([...run, ...four], { cwd: place.path, env: place.env });
    const { trials } = JSON.parse(stdout) as RunResult;
    expect(code, stdout + stderr).toBe(0);
    expect(trials.map(({ verdict, tools }) => [verdict, tools?.mcpToolCalls])).toEqual(
      Array.from({ length: 4 }, () => ["pass", 1]),
    );
    const sent = model.requests.join("\n");
    expect(sent).not.toContain(planted);
    expect(sent).not.toContain(place.user);
    expect(existsSync(place.touched)).toBe(false);
    expect(hashesOf(place.user)).toEqual(before);
    const traces = tracesOf(place);
    expect(traces.length).toBeGreaterThanOrEqual(4);
    const looked = traces.flatMap((trace) =>
      trace.split("\n").filter((line) => line.includes(`"${place.user}`)),
    );
    expect(looked).toEqual([]);
    expect(leftOutside(place)).toEqual([]);
    expect(readdirSync(place.temporary)).toEqual([]);
    expect(processesOf(place.path)).toEqual([]);
    if (!usesLogin(agent)) return;
    if (agent.sendsToken) expect(sent).toContain(token);
    for (const file of Object.keys(agent.login(token))) expect(traces.join()).toContain(`/${file}"`);
    const kept = Object.keys(hashesOf(join(place.path, ".mcpvals"))).map((path) =>
      readFileSync(path, "utf8"),
    );
    for (const text of [stdout, stderr, ...kept]) {
      expect(text).not.toContain(token);
      // Where Codex says that it does not reach the apps of the user's account.
      expect(text).not.toContain("backend-api/ps/mcp");
    }
  });

  test.each(types)("would have what is planted in the home of the user, as %s", async (type) => {
    await using model = await startFakeModel(answering);
    using place = placeFor(agent, type, model.url, { agent: { home: "user" }, hasPlugins: false });
    await runCli(run, { cwd: place.path, env: place.env });
    const isSent = model.requests.join("\n").includes(planted);
    expect(isSent || existsSync(place.touched)).toBe(true);
  });

  test.each(types)("leaves nothing when its time runs out, as %s", async (type) => {
    await using model = await startFakeModel({ ...answering, onHang: () => undefined });
    using place = placeFor(agent, type, model.url, { trial: "20s" });
    const { stdout } = await runCli(run, { cwd: place.path, env: place.env });
    expect((JSON.parse(stdout) as RunResult).trials.map(({ verdict }) => verdict)).toEqual(["timeout"]);
    expect(readdirSync(place.temporary)).toEqual([]);
    expect(processesOf(place.path)).toEqual([]);
  });

  test.each(types)("leaves nothing after Ctrl-C, as %s", async (type) => {
    let onHang = (): void => undefined;
    const asked = new Promise<void>((resolve) => (onHang = resolve));
    await using model = await startFakeModel({ ...answering, onHang });
    using place = placeFor(agent, type, model.url);
    const running = startCli(run, { cwd: place.path, env: place.env });
    await Promise.race([asked, running.finished]);
    running.child.kill("SIGINT");
    const { stdout } = await running.finished;
    expect((JSON.parse(stdout) as RunResult).verdict).toBe("interrupted");
    expect(readdirSync(place.temporary)).toEqual([]);
    expect(processesOf(place.path)).toEqual([]);
  });
});

function agentOf(preset: RealAgent["preset"]): RealAgent {
  const found = realAgents.find((agent) => agent.preset === preset);
  if (found === undefined) throw new Error(`there is no agent ${preset}`);
  return found;
}

test("codex uses a login with ChatGPT, without its refresh token and its apps", async () => {
  await using model = await startFakeModel(answering);
  using place = placeFor(agentOf("codex"), "command", model.url);
  writeFiles(place.user, chatgptLogin(token));
  const { code, stdout, stderr } = await runCli(run, { cwd: place.path, env: place.env });
  expect(code, stdout + stderr).toBe(0);
  const sent = model.requests.join("\n");
  expect(sent).toContain(`Bearer ${token}`);
  expect(sent).not.toContain("to-refresh");
  const kept = Object.keys(hashesOf(join(place.path, ".mcpvals"))).map((path) => readFileSync(path, "utf8"));
  expect(kept.join("\n")).not.toContain(token);
  // Where Codex would say that it cannot reach the apps of the user's account.
  expect(kept.join("\n")).not.toContain("backend-api/ps/mcp");
});

test("gemini opens the copy of the login with Google", async () => {
  await using model = await startFakeModel(answering);
  using place = placeFor(agentOf("gemini"), "command", model.url, { isTraced: true, trial: "60s" });
  writeFiles(place.user, agentOf("gemini").login(token));
  const { stdout, stderr } = await runCli(run, { cwd: place.path, env: place.env });
  const traces = tracesOf(place).join("\n");
  expect(traces, stdout + stderr).toMatch(/mcpvals-home-[^"]*\/\.gemini\/oauth_creds\.json", O_RDONLY/);
  expect(traces).not.toContain(`"${place.user}`);
});
